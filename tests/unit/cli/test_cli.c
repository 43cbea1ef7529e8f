/* The pure parts of the command line: targets, flags, bodies, what is shown. */
#include "cli/body.h"
#include "cli/cli.h"
#include "cli/show.h"
#include "cli/topic.h"
#include "cli/url.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdlib.h>
#include <time.h>

/* ---- url ---- */

CLAIM(escapes_reserved_characters_of_a_url)
{
    struct buffer url;
    buffer_init(&url, CLI_URL_BYTES_MAX);
    buffer_append_text(&url, "/v1");
    cli_url_add_segment(&url, "a/b?c#d e%~");
    cli_url_add_query(&url, "error", "exit 3&x=1+\xc3\xa9");
    cli_url_add_query(&url, "delay", NULL);
    cli_url_add_query_number(&url, "max", 10);
    buffer_append_byte(&url, '\0');
    assert_string_equal(url.at, "/v1/a%2Fb%3Fc%23d%20e%25~?error=exit%203%26x%3D1%2B%C3%A9&max=10");
    buffer_fini(&url);
}

/* ---- flags ---- */

struct given {
    const char *delay;
    bool yes;
    uint64_t max;
    struct cli_list meta;
};

static int parse(struct given *given, struct cli_args *args, bool takes_command, char **argv)
{
    const struct cli_flag flags[] = {
        {"delay", CLI_TEXT, &given->delay, "TIME", ""},
        {"yes", CLI_SWITCH, &given->yes, NULL, ""},
        {"max", CLI_COUNT, &given->max, "N", ""},
        {"meta", CLI_LIST, &given->meta, "NAME=VALUE", ""},
        {0},
    };
    const struct cli_syntax syntax = {.usage = "x TOPIC",
                                      .about = "",
                                      .flags = flags,
                                      .least = 1,
                                      .most = 2,
                                      .takes_command = takes_command};
    int argc = 0;
    memset(given, 0, sizeof *given);
    while (argv[argc])
        argc++;
    return cli_parse(argc, argv, &syntax, args);
}

#define ARGV(...) ((char *[]){(char *)"x", __VA_ARGS__, NULL})

CLAIM(reads_flags_between_arguments)
{
    static struct given given;
    static struct cli_args args;
    char delay[] = "--delay", five[] = "5s", topic[] = "orders", max[] = "--max=7", yes[] = "--yes",
         id[] = "17", a[] = "--meta=a=1", b[] = "--meta=b=2", json[] = "--json";
    unsetenv("TARRY_URL");
    assert_int_equal(
        parse(&given, &args, false, ARGV(delay, five, topic, max, yes, a, id, b, json)), -1);
    assert_string_equal(given.delay, "5s");
    assert_true(given.yes && args.json);
    assert_int_equal(given.max, 7);
    assert_int_equal(given.meta.count, 2);
    assert_string_equal(given.meta.at[1], "b=2");
    assert_int_equal(args.list.count, 2);
    assert_string_equal(args.list.at[1], "17");
    assert_string_equal(args.url, CLI_URL_DEFAULT);
}

CLAIM(the_server_is_the_flag_else_the_variable)
{
    static struct given given;
    static struct cli_args args;
    char topic[] = "t", url[] = "--url=http://b";
    setenv("TARRY_URL", "http://a", 1);
    assert_int_equal(parse(&given, &args, false, ARGV(topic)), -1);
    assert_string_equal(args.url, "http://a");
    assert_int_equal(parse(&given, &args, false, ARGV(topic, url)), -1);
    assert_string_equal(args.url, "http://b");
    unsetenv("TARRY_URL");
}

CLAIM(arguments_after_two_dashes_are_not_options)
{
    static struct given given;
    static struct cli_args args;
    char topic[] = "t", dashes[] = "--", odd[] = "--odd", command[] = "sh";
    assert_int_equal(parse(&given, &args, true, ARGV(topic, dashes, command, odd)), -1);
    assert_string_equal(args.command[0], "sh");
    assert_string_equal(args.command[1], "--odd");
    assert_int_equal(parse(&given, &args, false, ARGV(dashes, odd)), -1);
    assert_string_equal(args.list.at[0], "--odd");
}

CLAIM(refuses_wrong_command_lines)
{
    static struct given given;
    static struct cli_args args;
    char topic[] = "t", unknown[] = "--dely", bare[] = "--max", word[] = "--max=x",
         yes[] = "--yes=1", dash[] = "-x", dashes[] = "--";
    assert_int_equal(parse(&given, &args, false, ARGV(topic, unknown)), CLI_USAGE);
    assert_int_equal(parse(&given, &args, false, ARGV(topic, bare)), CLI_USAGE);
    assert_int_equal(parse(&given, &args, false, ARGV(topic, word)), CLI_USAGE);
    assert_int_equal(parse(&given, &args, false, ARGV(topic, yes)), CLI_USAGE);
    assert_int_equal(parse(&given, &args, false, ARGV(topic, dash)), CLI_USAGE);
    assert_int_equal(parse(&given, &args, false, ARGV(topic, topic, topic)), CLI_USAGE);
    assert_int_equal(parse(&given, &args, false, ARGV(dashes)), CLI_USAGE);
    assert_int_equal(parse(&given, &args, true, ARGV(topic, dashes)), CLI_USAGE);
}

/* ---- bodies ---- */

CLAIM(guesses_the_content_type_of_a_body)
{
    assert_string_equal(body_guess_type(slice_of("{\"a\":1}")), "application/json");
    assert_string_equal(body_guess_type(slice_of("[1]")), "application/json");
    assert_string_equal(body_guess_type(slice_of("17")), "text/plain; charset=utf-8");
    assert_string_equal(body_guess_type(slice_of("{\"a\":")), "text/plain; charset=utf-8");
    assert_string_equal(body_guess_type(slice_make("\xff\x00", 2)), "application/octet-stream");
}

/* ---- show ---- */

CLAIM(shows_no_control_bytes)
{
    char out[SHOW_CELL_BYTES];
    json_t *text = json_string("a\x1b[31m\x7f\xc2\x9b\xc3\xa9");
    assert_string_equal(show_text(text, out), "a?[31m??\xc3\xa9");
    json_decref(text);
    text = json_string("a\xe2\x80\xae"
                       "b\xe2\x80\xa8"
                       "c\xe2\x80\x8f"
                       "d\xd8\x9c"
                       "e\xe2\x81\xa9"
                       "\xe2\x82\xac");
    assert_string_equal(show_text(text, out), "a?b?c?d?e?\xe2\x82\xac");
    json_decref(text);
    assert_string_equal(show_text(NULL, out), "");
}

/* The output is the same JSON. */
CLAIM(json_for_programs_holds_nothing_that_a_terminal_obeys)
{
    char *written;
    size_t len;
    FILE *out = open_memstream(&written, &len);
    json_t *value =
        json_pack("{s:s}", "id\xe2\x80\x8e", "a\x1b\x7f\xc2\x9b\xe2\x80\xae\xe2\x81\xa6\xc3\xa9");
    assert_true(show_json(value, out));
    assert_true(show_json_text(slice_of("{\"a\":\n \"\xd8\x9c\x7f\"}"), out));
    assert_int_equal(fclose(out), 0);
    assert_string_equal(written,
                        "{\"id\\u200e\":\"a\\u001B\\u007f\\u009b\\u202e\\u2066\xc3\xa9\"}\n"
                        "{\"a\":\n \"\\u061c\\u007f\"}");
    json_decref(value);
    free(written);
}

CLAIM(shows_times_in_the_zone_of_the_user)
{
    char out[SHOW_CELL_BYTES];
    setenv("TZ", "UTC-2", 1);
    tzset();
    json_t *time = json_string("2026-11-20T09:00:00.120Z");
    assert_string_equal(show_time(time, out), "2026-11-20 11:00:00.120+02:00");
    json_decref(time);
    setenv("TZ", "UTC", 1);
    tzset();
}

CLAIM(cuts_long_bodies_between_characters)
{
    char out[SHOW_CELL_BYTES];
    json_t *job = json_pack("{s:s}", "body", "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
    assert_string_equal(show_body(job, 5, out), "\xc3\xa9\xc3\xa9...");
    assert_string_equal(show_body(job, 6, out), "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
    json_decref(job);
    job = json_pack("{s:s}", "body_base64", "aGk=");
    assert_string_equal(show_body(job, 60, out), "(2 bytes)");
    json_decref(job);
}

CLAIM(shows_the_steps_of_an_encoded_body_in_place_of_its_bytes)
{
    char out[SHOW_CELL_BYTES];
    json_t *job = json_pack("{s:s, s:s}", "body_base64", "aGk=", "content_type",
                            "application/vnd.tarry.encoded; steps=gzip+aes-gcm; key=claim-check");
    assert_string_equal(show_body(job, 60, out), "(compressed, encrypted, 2 bytes)");
    json_decref(job);
    job = json_pack("{s:s, s:s}", "body", "0123456789abcdef0123456789abcdef", "content_type",
                    "application/vnd.tarry.encoded; steps=claim-check");
    assert_string_equal(show_body(job, 60, out), "(stored elsewhere)");
    json_decref(job);
}

/* ---- settings ---- */

CLAIM(settings_become_json)
{
    static const struct {
        const char *sentence, *texts[3], *json;
    } rows[] = {
        {"a text", {"backoff=exp:1s..10m"}, "{\"backoff\":\"exp:1s..10m\"}"},
        {"a number", {"max_attempts=5"}, "{\"max_attempts\":5}"},
        {"a flag", {"dead_letter_expired=true"}, "{\"dead_letter_expired\":true}"},
        {"nothing takes away", {"ttl="}, "{\"ttl\":null}"},
        {"into an object",
         {"deliver.to=https://a/?b=c", "deliver.sign=false"},
         "{\"deliver\":{\"to\":\"https://a/?b=c\",\"sign\":false}}"},
        {"deeper",
         {"dead_letter.keep.age=30d", "dead_letter.keep.count=7"},
         "{\"dead_letter\":{\"keep\":{\"age\":\"30d\",\"count\":7}}}"},
        {"an array",
         {"deliver.dead_on=[410,\"400-404\"]"},
         "{\"deliver\":{\"dead_on\":[410,\"400-404\"]}}"},
        {"a number that is meant as text", {"deliver.key=\"5\""}, "{\"deliver\":{\"key\":\"5\"}}"},
        {"almost JSON",
         {"deliver.routing_key={topic}.x"},
         "{\"deliver\":{\"routing_key\":\"{topic}.x\"}}"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        json_t *settings = json_object();
        for (size_t j = 0; j < 3 && rows[i].texts[j]; j++)
            CASE_HOLDS(rows[i].sentence, settings_add(settings, rows[i].texts[j]) == CLI_OK);
        char *text = json_dumps(settings, JSON_COMPACT);
        CASE_HOLDS(rows[i].sentence, strcmp(text, rows[i].json) == 0);
        free(text);
        json_decref(settings);
    }
}

CLAIM(nulls_are_dropped_at_any_depth)
{
    json_t *settings =
        json_loads("{\"a\":null,\"b\":{\"c\":null,\"d\":{\"e\":null,\"f\":[null]}}}", 0, NULL);
    settings_drop_nulls(settings);
    char *text = json_dumps(settings, JSON_COMPACT);
    assert_string_equal(text, "{\"b\":{\"d\":{\"f\":[null]}}}");
    free(text);
    json_decref(settings);
}

CLAIMS_MAIN(NULL, NULL)
