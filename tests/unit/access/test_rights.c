#include "access/rights.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <string.h>

CLAIM(scopes_are_words_each_at_most_once)
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
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].text, access_scopes_parse(slice_of(rows[i].text)) == rows[i].scopes);
}

CLAIM(scopes_survive_writing_and_reading)
{
    for (unsigned scopes = 1; scopes <= ACCESS_SCOPES_ALL; scopes++) {
        char text[ACCESS_SCOPES_TEXT_BYTES];
        access_scopes_emit(scopes, text);
        CASE_HOLDS(text, access_scopes_parse(slice_of(text)) == scopes);
    }
}

CLAIM(patterns_are_topics_or_their_beginnings)
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
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].text,
                   access_topics_are_valid(slice_of(rows[i].text)) == rows[i].is_valid);
    assert_false(access_topics_are_valid(slice_make("a\0b", 3)));
}

CLAIM(a_pattern_covers_only_matching_topics)
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
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].topic, access_topics_match(slice_of(rows[i].patterns),
                                                      slice_of(rows[i].topic)) == rows[i].matches);
}

CLAIMS_MAIN(NULL, NULL)
