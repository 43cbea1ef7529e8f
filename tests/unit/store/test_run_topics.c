/* The names of a run's topics: each once, and what is stored of them is whole or refused. */
#include "store/run_private.h"
#include "unit/claim.h"

#include <errno.h>
#include <stdio.h>

enum { MANY = 1000 };

static struct slice name_of(unsigned number, char text[16])
{
    return slice_make(text, (size_t)snprintf(text, 16, "topic-%u", number));
}

CLAIM(names_keep_the_number_they_were_given)
{
    struct run_topics topics, again;
    uint32_t number;
    char text[16];

    run_topics_init(&topics);
    run_topics_init(&again);
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t i = 0; i < MANY; i++) {
            assert_int_equal(run_topics_add(&topics, name_of(i, text), &number), 0);
            assert_int_equal(number, i);
        }
    assert_int_equal(run_topics_parse(&again, buffer_slice(&topics.names), MANY), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(run_topics_find(&again, name_of(i, text)), i);
        assert_true(slice_equals(run_topics_name(&again, i), name_of(i, text)));
    }
    assert_int_equal(run_topics_find(&again, slice_of("nobody")), UINT32_MAX);
    run_topics_fini(&topics);
    run_topics_fini(&again);
}

CLAIM(stored_topics_are_whole_or_rejected)
{
    static const struct {
        const char *bytes;
        size_t len;
        uint32_t count;
        int result;
    } tries[] = {
        {"\1a\1b", 4, 2, 0},         {"\1a\1b", 4, 1, -EBADMSG}, /* something follows */
        {"\1a\1b", 4, 3, -EBADMSG},                              /* one is missing */
        {"\1a\2b", 4, 2, -EBADMSG},                              /* the last is cut off */
        {"\1a\1a", 4, 2, -EBADMSG},                              /* twice the same */
        {"\1a\377", 3, 2, -EBADMSG},                             /* a length and nothing else */
        {"", 0, 1, -EBADMSG},        {"", 0, 0, 0},
    };

    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        struct run_topics topics;

        run_topics_init(&topics);
        assert_int_equal(
            run_topics_parse(&topics, slice_make(tries[i].bytes, tries[i].len), tries[i].count),
            tries[i].result);
        run_topics_fini(&topics);
    }
}

CLAIMS_MAIN(NULL, NULL)
