/* Lines of the protocol, and priorities: what they are read as, and what is refused. */
#include "beanstalk/command.h"
#include "beanstalk/job_view.h"
#include "unit/claim.h"

#include <stdlib.h>
#include <string.h>

static bool parse(const char *line, struct beanstalk_command *out)
{
    return beanstalk_command_parse(slice_of(line), out);
}

CLAIM(a_put_has_four_numbers)
{
    struct beanstalk_command put;
    assert_true(parse("put 4294967295 2  3 4", &put));
    assert_int_equal(put.verb, BEANSTALK_PUT);
    assert_true(put.priority == UINT32_MAX && put.delay_s == 2 && put.ttr_s == 3 && put.bytes == 4);
    assert_false(put.has_rest);
    assert_true(parse("put 1 2 3 4 5", &put) && put.has_rest);
    assert_false(parse("put 1 2 3", &put));
    assert_false(parse("put 1 -2 3 4", &put));
    assert_false(parse("put 4294967296 2 3 4", &put));
}

CLAIM(http_and_tls_are_recognised_as_other_protocols)
{
    static const struct {
        const char *line;
        bool is_foreign;
    } rows[] = {
        {"GET / HTTP/1.1", true},
        {"PATCH / HTTP/1.1", true},
        {"frob x HTTP/1.0", true},
        {"PRI * HTTP/2.0", true},
        {"DELETE /", true},
        {"PURGE /a/b", true},
        {"Host: a", true},
        {"host:a", true},
        {"HOST:", true},
        {"\x16\x03\x01", true},
        {"\x16", true},
        {"", false},
        {"hos", false},
        {"PUT 0 0 0 0", false},
        {"GET", false},
        {"delete /", false},
        {"peek-ready", false},
        {" /", false},
        {"xHTTP/1.1", false},
        {"HTTP/1.1", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (beanstalk_line_is_foreign(slice_of(rows[i].line)) != rows[i].is_foreign)
            fail_msg("%s", rows[i].line);
}

CLAIM(the_longer_of_two_verbs_that_begin_alike_is_meant)
{
    static const struct {
        const char *line;
        enum beanstalk_verb verb;
    } rows[] = {
        {"peek 1", BEANSTALK_PEEK},
        {"peek-ready", BEANSTALK_PEEK_READY},
        {"peek-delayed", BEANSTALK_PEEK_DELAYED},
        {"peek-buried", BEANSTALK_PEEK_BURIED},
        {"reserve", BEANSTALK_RESERVE},
        {"reserve-with-timeout 1", BEANSTALK_RESERVE_WITH_TIMEOUT},
        {"reserve-job 1", BEANSTALK_RESERVE_JOB},
        {"kick 1", BEANSTALK_KICK},
        {"kick-job 1", BEANSTALK_KICK_JOB},
        {"stats", BEANSTALK_STATS},
        {"stats-job 1", BEANSTALK_STATS_JOB},
        {"stats-tube a", BEANSTALK_STATS_TUBE},
        {"list-tubes", BEANSTALK_LIST_TUBES},
        {"list-tube-used", BEANSTALK_LIST_TUBE_USED},
        {"list-tubes-watched", BEANSTALK_LIST_TUBES_WATCHED},
        {"peek", BEANSTALK_UNKNOWN},
        {"", BEANSTALK_UNKNOWN},
    };
    struct beanstalk_command command;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(parse(rows[i].line, &command));
        assert_int_equal(command.verb, rows[i].verb);
    }
}

CLAIM(extra_words_are_rejected)
{
    static const char *const bad[] = {"reserve ",    "quit x",       "delete 1 ",
                                      "kick 1x",     "use a b",      "bury 1",
                                      "release 1 2", "touch",        "use -a",
                                      "use ",        "use .a",       "watch \xc3\xa4",
                                      "pause-tube",  "pause-tube a", "peek x",
                                      "delete -1",   "stats-job ",   "delete 18446744073709551616"};
    struct beanstalk_command command;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (parse(bad[i], &command) && command.verb != BEANSTALK_UNKNOWN)
            fail_msg("taken: '%s'", bad[i]);
}

CLAIM(a_zero_byte_is_in_no_command)
{
    struct beanstalk_command command;
    assert_false(beanstalk_command_parse(slice_make("use a\0b", 7), &command));
}

CLAIM(a_name_has_1_to_200_bytes)
{
    char name[202];
    memset(name, 'a', sizeof name);
    assert_false(beanstalk_tube_is_valid(slice_make(name, 0)));
    assert_true(beanstalk_tube_is_valid(slice_make(name, 200)));
    assert_false(beanstalk_tube_is_valid(slice_make(name, 201)));
    assert_true(beanstalk_tube_is_valid(slice_of("a-+/;.$_()Z9")));
}

CLAIM(priorities_keep_their_order)
{
    uint16_t last = 0;
    for (uint64_t priority = 0; priority <= UINT32_MAX; priority += 1 + priority / 3000) {
        uint16_t packed = beanstalk_priority_pack((uint32_t)priority);
        assert_true(packed >= last);
        assert_true(priority >= 4096 || packed == priority);
        uint32_t least = beanstalk_priority_unpack(packed);
        assert_true(least <= priority && priority - least <= priority / 2048);
        assert_int_equal(beanstalk_priority_pack(least), packed);
        last = packed;
    }
    assert_true(beanstalk_priority_pack(UINT32_MAX) >= last);
    assert_true(beanstalk_priority_unpack(UINT16_MAX) == UINT32_MAX);
}

CLAIMS_MAIN(NULL, NULL)
