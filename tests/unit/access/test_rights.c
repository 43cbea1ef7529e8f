#include "access/rights.h"

#include "unit/cases.h"

#include <string.h>

static void scopes_are_words_each_at_most_once(void **state)
{
    static const struct {
        const char *text;
        unsigned scopes;
    } rows[] = {
        {"push", ACCESS_PUSH},
        {"consume,push", ACCESS_PUSH | ACCESS_CONSUME},
        {"push,consume,read,admin", ACCESS_SCOPES_ALL},
        {"", 0},
        {",", 0},
        {"push,", 0},
        {",push", 0},
        {"push,push", 0},
        {"push, read", 0},
        {"Push", 0},
        {"pus", 0},
        {"pushy", 0},
        {"*", 0},
        {"all", 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].text, access_scopes_parse(slice_of(rows[i].text)) == rows[i].scopes);
}

static void scopes_survive_writing_and_reading(void **state)
{
    (void)state;
    for (unsigned scopes = 1; scopes <= ACCESS_SCOPES_ALL; scopes++) {
        char text[ACCESS_SCOPES_TEXT_BYTES];
        access_scopes_emit(scopes, text);
        CASE_HOLDS(text, access_scopes_parse(slice_of(text)) == scopes);
    }
}

static void patterns_are_topics_or_their_beginnings(void **state)
{
    static const struct {
        const char *text;
        bool is_valid;
    } rows[] = {
        {"orders", true},   {"orders-*", true}, {"*", true},    {"orders-*,mail", true},
        {"a_B.c-9", true},  {"", false},        {",", false},   {"orders,", false},
        {",orders", false}, {"a*b", false},     {"*-a", false}, {"**", false},
        {".a", false},      {".*", false},      {"a b", false}, {"a/b*", true},
        {"a:b", false},     {"a?", false},      {"a\n", false}, {"ä", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].text,
                   access_topics_are_valid(slice_of(rows[i].text)) == rows[i].is_valid);
    assert_false(access_topics_are_valid(slice_make("a\0b", 3)));
}

static void a_pattern_covers_only_matching_topics(void **state)
{
    static const struct {
        const char *patterns, *topic;
        bool matches;
    } rows[] = {
        {"orders", "orders", true},
        {"orders", "order", false},
        {"orders", "orders-eu", false},
        {"orders", "Orders", false},
        {"orders-*", "orders-eu", true},
        {"orders-*", "orders-", true},
        {"orders-*", "orders", false},
        {"orders-*", "ordersx", false},
        {"orders-*", "x-orders-eu", false},
        {"orders-*,mail", "mail", true},
        {"orders-*,mail", "mailbox", false},
        {"orders-*,mail", "orders-,mail", true}, /* no topic is called so */
        {"mail,orders", "mail,orders", false},
        {"a,b,*", "zzz", true},
        {"*", "zzz", true},
        {"*", "", true},
        {"orders-*", "", false},
        {"", "orders", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].topic, access_topics_match(slice_of(rows[i].patterns),
                                                      slice_of(rows[i].topic)) == rows[i].matches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scopes_are_words_each_at_most_once),
        cmocka_unit_test(scopes_survive_writing_and_reading),
        cmocka_unit_test(patterns_are_topics_or_their_beginnings),
        cmocka_unit_test(a_pattern_covers_only_matching_topics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
