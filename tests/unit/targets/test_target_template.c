#include "targets/template.h"

#include "targets/target.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <string.h>

static const char meta[] =
    "kind\0new\0path\0a/../b\0dots\0..\0dot\0.\0odd-1\0\xc3\xbc =&?#%\0empty\0\0";

static struct job a_job(void)
{
    return (struct job){.topic = slice_of("orders.new"),
                        .id = slice_of("A/1?x"),
                        .group = slice_of("acme/eu"),
                        .meta = slice_make(meta, sizeof meta - 1)};
}

CLAIM(fields_are_filled_in)
{
    static const struct {
        const char *text, *plain, *url; /* NULL: refused */
        const char *sentence;
    } rows[] = {
        {"", "", "", "nothing"},
        {"plain", "plain", "plain", "no field"},
        {"{topic}", "orders.new", "orders.new", "a topic"},
        {"{id}", "A/1?x", "A%2F1%3Fx", "an id, which cannot begin a query"},
        {"{group}", "acme/eu", "acme%2Feu", "a group"},
        {"{meta.kind}", "new", "new", "a meta"},
        {"{meta.none}", "", "", "a meta that is not there"},
        {"{meta.empty}", "", "", "a meta that is empty"},
        {"{topic}{id}{meta.kind}", "orders.newA/1?xnew", "orders.newA%2F1%3Fxnew", "side by side"},
        {"/a/{topic}?k={meta.odd-1}&x", "/a/orders.new?k=\xc3\xbc =&?#%&x",
         "/a/orders.new?k=%C3%BC%20%3D%26%3F%23%25&x", "what is filled in cannot add a parameter"},
        {"{{topic}}", "{topic}", "%7Btopic%7D", "write braces as"},
        {"{{{topic}}}", "{orders.new}", "%7Borders.new%7D", "braces around a field"},
        {"{{}}", "{}", "%7B%7D", "nothing but braces"},
        {"https://h/{meta.dots}", "https://h/..", NULL, "a way up at the end"},
        {"/{meta.dots}/x", "/../x", NULL, "a way up in between"},
        {"/{meta.dot}/x", "/./x", NULL, "a way nowhere"},
        {"/{meta.dot}{meta.dot}/x", "/../x", NULL, "a way up in two pieces"},
        {"/.{meta.dot}/x", "/../x", NULL, "a way up, half of it ours"},
        {"/{meta.none}../x", "/../x", NULL, "a way up of our own"},
        {"/{meta.path}", "/a/../b", NULL, "a way up for who decodes before it looks"},
        {"/x{meta.dots}/y", "/x../y", "/x../y", "dots behind a letter"},
        {"/{meta.dots}x/y", "/..x/y", "/..x/y", "dots before a letter"},
        {"/{meta.dots}./y", "/.../y", "/.../y", "three dots"},
        {"/{meta.dots};a=b/y", "/..;a=b/y", NULL, "a way up with a parameter, as Java has it"},
        {"/x?p={meta.dots}", "/x?p=..", "/x?p=..", "dots in a query"},
        {"/x?p=/{meta.dots}/", "/x?p=/../", "/x?p=/../", "dots in a path in a query"},
        {"/{meta.path}?u=a://b", "/a/../b?u=a://b", NULL, "a way up before a URL in the query"},
        {"https://h/x?u=a://b/../c", "https://h/x?u=a://b/../c", "https://h/x?u=a://b/../c",
         "a URL in the query"},
    };
    struct job job = a_job();
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int escape = TEMPLATE_PLAIN; escape <= TEMPLATE_URL; escape++) {
            const char *wanted = escape == TEMPLATE_URL ? rows[i].url : rows[i].plain;
            char error[TARGET_ERROR_BYTES];
            struct buffer out;
            buffer_init(&out, 1024);
            buffer_append_text(&out, "before ");
            CASE_HOLDS(rows[i].sentence, template_check(slice_of(rows[i].text), error));
            bool is_filled = template_fill(slice_of(rows[i].text), &job,
                                           (enum template_escape)escape, 500, &out);
            CASE_HOLDS(rows[i].sentence, is_filled == (wanted != NULL));
            struct slice filled = slice_make(out.at + 7, out.len - 7);
            if (!slice_is(filled, wanted ? wanted : ""))
                fail_msg("%s: '%.*s'", rows[i].sentence, (int)filled.len, filled.at);
            buffer_fini(&out);
        }
}

CLAIM(faults_are_named_with_their_place)
{
    static const struct {
        const char *text, *has_text;
    } rows[] = {
        {"{", "bad field '{' at byte 0, use {topic}, {id}, {group} or {meta.NAME}"},
        {"a{topic", "bad field '{topic' at byte 1"},
        {"}", "bad field '}' at byte 0"},
        {"a}b", "bad field '}' at byte 1"},
        {"{topic}}", "bad field '}' at byte 7"},
        {"{}", "bad field '{}' at byte 0"},
        {"{Topic}", "bad field '{Topic}'"},
        {"{ topic}", "bad field '{ topic}'"},
        {"{body}", "bad field '{body}'"},
        {"{meta}", "bad field '{meta}'"},
        {"{meta.}", "bad field '{meta.}'"},
        {"{meta.Kind}", "bad field '{meta.Kind}'"},
        {"{meta.a_b}", "bad field '{meta.a_b}'"},
        {"{meta.a.b}", "bad field '{meta.a.b}'"},
        {"x{id}\n", "control character at byte 5"},
        {"\r", "control character at byte 0"},
        {"\t", "control character at byte 0"},
        {"\x7f", "control character at byte 0"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char error[TARGET_ERROR_BYTES] = "";
        CASE_HOLDS(rows[i].text, !template_check(slice_of(rows[i].text), error));
        if (!strstr(error, rows[i].has_text))
            fail_msg("'%s': '%s' does not say '%s'", rows[i].text, error, rows[i].has_text);
    }
}

static const char *dot_fault(struct slice name)
{
    return memchr(name.at, '.', name.len) ? "it has a dot" : NULL;
}

CLAIM(a_name_is_checked_with_values_of_one_letter)
{
    static const char *const good[] = {NULL, "", "x", "{topic}/{meta.kind}", "{{{id}}}"};
    static const char *const bad[] = {".", "{topic}.x", "{{.}}", "x.{meta.kind}"};
    char error[TARGET_ERROR_BYTES] = "";
    for (size_t i = 0; i < COUNT_OF(good); i++)
        CASE_HOLDS(good[i] ? good[i] : "none",
                   template_check_name(good[i], "place", dot_fault, error));
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CASE_HOLDS(bad[i], !template_check_name(bad[i], "place", dot_fault, error));
        assert_string_equal(error, "bad 'place', it has a dot");
    }
    assert_false(template_check_name("{ids}", "place", dot_fault, error));
    assert_non_null(strstr(error, "bad field '{ids}'"));
}

CLAIM(names_of_meta_have_their_limit)
{
    char error[TARGET_ERROR_BYTES], text[128], name[80];
    memset(name, 'n', sizeof name);
    for (int len = 64; len <= 65; len++) {
        snprintf(text, sizeof text, "{meta.%.*s}", len, name);
        assert_int_equal(template_check(slice_of(text), error), len == 64);
    }
}

CLAIM(a_result_has_its_limit)
{
    struct job job = a_job();
    struct buffer out;
    buffer_init(&out, 100);
    assert_true(template_fill(slice_of("x{topic}"), &job, TEMPLATE_PLAIN, 11, &out));
    assert_int_equal(out.len, 11);
    assert_false(template_fill(slice_of("x{topic}"), &job, TEMPLATE_PLAIN, 10, &out));
    assert_int_equal(out.len, 11);
    assert_true(template_fill(slice_of("{id}"), &job, TEMPLATE_URL, 9, &out));
    assert_false(template_fill(slice_of("{id}"), &job, TEMPLATE_URL, 8, &out));
    buffer_fini(&out);
}

CLAIM(a_text_without_braces_needs_no_filling)
{
    assert_false(template_has_fields(slice_of("")));
    assert_false(template_has_fields((struct slice){0}));
    assert_false(template_has_fields(slice_of("/a/b?c")));
    assert_true(template_has_fields(slice_of("/{id}")));
    assert_true(template_has_fields(slice_of("{{")));
    assert_true(template_has_fields(slice_of("}}")));
}

/* Whatever an id holds, it stays within its segment. */
CLAIM(an_id_adds_no_segment_and_no_parameter)
{
    struct random random = seed_random("an_id_adds_no_segment_and_no_parameter");
    for (int round = 0; round < 20000; round++) {
        char id[16];
        size_t len = 1 + random_below(&random, sizeof id - 1), slashes = 0;
        for (size_t i = 0; i < len; i++) {
            static const char often[] = "./\\%?#&;:@2eEfF";
            id[i] = random_below(&random, 2) ? often[random_below(&random, sizeof often - 1)]
                                             : (char)(0x21 + random_below(&random, 0x5e));
        }
        struct job job = {.topic = slice_of("t"), .id = slice_make(id, len)};
        struct buffer out;
        buffer_init(&out, 1024);
        if (template_fill(slice_of("/in/{id}/end"), &job, TEMPLATE_URL, 500, &out)) {
            for (size_t i = 0; i < out.len; i++)
                slashes += out.at[i] == '/';
            assert_int_equal(slashes, 3);
            for (size_t i = 0; i < out.len; i++)
                assert_null(strchr("?#\\;:@&", out.at[i]));
            assert_false(memmem(out.at, out.len, "/../", 4) || memmem(out.at, out.len, "/./", 3));
        }
        buffer_fini(&out);
    }
}

CLAIMS_MAIN(NULL, NULL)
