#include "api/batch.h"
#include "api/settings.h"
#include "http/problem.h"
#include "http/query.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>

struct parsed {
    struct http_query query;
    struct buffer scratch, meta;
    struct http_request request;
    struct http_fault fault;
    bool good;
};

/* `headers`: lines of NAME: VALUE ended by CR LF each. */
static void parse(struct parsed *parsed, const char *query, const char *headers,
                  http_options allowed)
{
    static char head[4096];
    int len =
        snprintf(head, sizeof head, "GET /x?%s HTTP/1.1\r\nHost: a\r\n%s\r\n", query, headers);
    memset(parsed, 0, sizeof *parsed);
    buffer_init(&parsed->scratch, 1 << 16);
    buffer_init(&parsed->meta, JOB_META_BYTES_MAX);
    assert_non_null(buffer_reserve(&parsed->scratch, sizeof head));
    parsed->query.meta = &parsed->meta;
    assert_true(
        http_request_parse(slice_make(head, (size_t)len), &parsed->request, &parsed->fault));
    parsed->good = http_query_parse(&parsed->request, allowed, &parsed->query, &parsed->scratch,
                                    &parsed->fault);
}

static void done(struct parsed *parsed)
{
    buffer_fini(&parsed->scratch);
    buffer_fini(&parsed->meta);
}

CLAIM(refusals_have_their_code)
{
    static const struct {
        const char *sentence, *query, *headers, *code, *detail;
    } rows[] = {
        {"nothing", "", "", NULL, NULL},
        {"all of a push",
         "delay=30m&priority=5&ttl=1h&lease_for=10s&max_attempts=3&backoff=exp:1s..10m&"
         "on_conflict=keep",
         "", NULL, NULL},
        {"headers instead", "", "Tarry-Delay: 30m\r\nTARRY-LEASE-FOR: 10s\r\n", NULL, NULL},
        {"both ways, different options", "delay=1s", "Tarry-Ttl: 1h\r\n", NULL, NULL},
        {"empty pairs between &", "&&delay=1s&", "", NULL, NULL},
        {"an escaped name", "d%65lay=1s", "", NULL, NULL},
        {"twice in the query", "delay=1s&delay=1s", "", "option_twice", "delay"},
        {"twice in the headers", "", "Tarry-Delay: 1s\r\ntarry-delay: 1s\r\n", "option_twice",
         "delay"},
        {"in query and header", "delay=1s", "Tarry-Delay: 1s\r\n", "option_twice", "delay"},
        {"delay and at", "delay=1s&at=2000000000000", "", "option_clash", "at"},
        {"delay and at, each its way", "delay=1s", "Tarry-At: 2000000000000\r\n", "option_clash",
         "at"},
        {"an unknown option, with its neighbour", "dealy=1s", "", "unknown_option", "'delay'"},
        {"an unknown header", "", "Tarry-Delai: 1s\r\n", "unknown_option", "'delay'"},
        {"an option of other calls", "wait=1s", "", "unknown_option", "wait"},
        {"names know their case", "Delay=1s", "", "unknown_option", "Delay"},
        {"no value", "delay", "", "bad_option", "delay"},
        {"an empty value", "delay=", "", "bad_option", "delay"},
        {"no duration", "delay=soon", "", "bad_option", "soon"},
        {"a delay above ten years", "delay=3654d", "", "bad_option", "10 years"},
        {"a delay of ten years", "delay=3653d", "", NULL, NULL},
        {"a sign", "delay=-1", "", "bad_option", "delay"},
        {"+ is no blank", "delay=+1", "", "bad_option", "+1"},
        {"priority above", "priority=65536", "", "bad_option", "65535"},
        {"priority at its limit", "priority=65535", "", NULL, NULL},
        {"priority 0", "priority=0", "", NULL, NULL},
        {"lease_for too short", "lease_for=99ms", "", "bad_option", "lease_for"},
        {"lease_for at its least", "lease_for=100ms", "", NULL, NULL},
        {"lease_for at its most", "lease_for=24h", "", NULL, NULL},
        {"lease_for too long", "lease_for=86400001ms", "", "bad_option", "24h"},
        {"no attempts", "max_attempts=0", "", "bad_option", "max_attempts"},
        {"too many attempts", "max_attempts=10001", "", "bad_option", "max_attempts"},
        {"no ttl", "ttl=0", "", "bad_option", "ttl"},
        {"a backoff that is none", "backoff=1s", "", "bad_option", "fixed:10s"},
        {"a backoff of 16 waits",
         "backoff=list:1s,2s,3s,4s,5s,6s,7s,8s,9s,10s,11s,12s,13s,14s,15s,30d", "", NULL, NULL},
        {"a backoff of 17 waits",
         "backoff=list:1s,2s,3s,4s,5s,6s,7s,8s,9s,10s,11s,12s,13s,14s,15s,16s,17s", "",
         "bad_option", "up to 16"},
        {"a backoff of no wait", "backoff=list:", "", "bad_option", "list:10s,1m,1h"},
        {"a wait without a unit", "backoff=list:10s,60", "", "bad_option", "unit"},
        {"a conflict that is none", "on_conflict=merge", "", "bad_option", "reject"},
        {"a time with an offset", "at=2026-11-20T09:00:00+08:00", "", NULL, NULL},
        {"no time", "at=tomorrow", "", "bad_option", "RFC 3339"},
        {"a broken escape", "delay=%4", "", "bad_request", "hex"},
        {"meta", "", "Tarry-Meta-Order: 7\r\nTarry-Meta-Kind: x\r\n", NULL, NULL},
        {"meta twice", "", "Tarry-Meta-Order: 7\r\nTarry-Meta-ORDER: 8\r\n", "option_twice",
         "order"},
        {"meta with no name", "", "Tarry-Meta-: 7\r\n", "bad_meta", "name"},
        {"meta with another character", "", "Tarry-Meta-a_b: 7\r\n", "bad_meta", "a_b"},
        {"meta that is not UTF-8", "", "Tarry-Meta-a: \xff\r\n", "bad_meta", "UTF-8"},
    };
    struct parsed parsed;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        parse(&parsed, rows[i].query, rows[i].headers, OPTIONS_PUSH);
        CASE_HOLDS(rows[i].sentence, parsed.good == !rows[i].code);
        if (rows[i].code) {
            CASE_HOLDS(rows[i].sentence,
                       strcmp(http_problem_code(parsed.fault.problem), rows[i].code) == 0);
            CASE_HOLDS(rows[i].sentence, strstr(parsed.fault.detail, rows[i].detail) != NULL);
        }
        done(&parsed);
    }
}

CLAIM(values_arrive)
{
    struct parsed parsed;
    struct queue_push push = {0};
    parse(&parsed,
          "delay=1500ms&priority=7&ttl=2h&lease_for=30s&max_attempts=5&backoff=fixed:10s&"
          "on_conflict=reject",
          "Tarry-Meta-Order: a b\r\n", OPTIONS_PUSH);
    assert_true(parsed.good);
    api_fields_push(&parsed.query.fields, &push);
    assert_int_equal(push.when.due, QUEUE_DUE_DELAY);
    assert_int_equal(push.when.ms, 1500);
    assert_int_equal(push.priority, 7);
    assert_int_equal(push.policy.ttl_ms, 7200 * 1000);
    assert_int_equal(push.policy.lease_ms, 30 * 1000);
    assert_int_equal(push.policy.max_attempts, 5);
    assert_int_equal(push.policy.backoff.kind, BACKOFF_FIXED);
    assert_int_equal(push.policy.backoff.first_ms, 10 * 1000);
    assert_int_equal(push.on_conflict, CONFLICT_REJECT);
    assert_true(slice_equals(buffer_slice(&parsed.meta), slice_make("order\0a b\0", 10)));
    done(&parsed);
}

/* A meta to search: a name of a meta, a colon, and a whole value or nothing. */
CLAIM(a_meta_is_a_name_and_maybe_a_value)
{
    static const struct {
        const char *query, *name, *value; /* name NULL: refused */
    } rows[] = {
        {"meta=kind:mail", "kind", "mail"},
        {"meta=kind:", "kind", ""},
        {"meta=a-1:b:c%20%26", "a-1", "b:c &"},
        {"meta=a-1:b+c%2B", "a-1", "b c+"},
        {"meta=kind", NULL, NULL},
        {"meta=:mail", NULL, NULL},
        {"meta=Kind:mail", NULL, NULL},
        {"meta=a_b:c", NULL, NULL},
        {"meta=%00:c", NULL, NULL},
        {"meta=", NULL, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct parsed parsed;
        struct slice name = {0}, value = {0};
        parse(&parsed, rows[i].query, "", OPTIONS_SEARCH);
        CASE_HOLDS(rows[i].query, parsed.good == (rows[i].name != NULL));
        if (parsed.good) {
            CASE_HOLDS(rows[i].query, http_meta_split(parsed.query.fields.meta, &name, &value));
            CASE_HOLDS(rows[i].query, slice_is(name, rows[i].name));
            CASE_HOLDS(rows[i].query, slice_is(value, rows[i].value));
        } else {
            CASE_HOLDS(rows[i].query, strstr(parsed.fault.detail, "NAME:VALUE") != NULL);
        }
        done(&parsed);
    }
}

/* As in forms, but not if it is ambiguous. */
CLAIM(a_plus_is_a_blank_or_refused)
{
    struct parsed parsed;
    parse(&parsed, "error=card+declined%2B1", "", OPTION_BIT(OPTION_ERROR));
    assert_true(parsed.good);
    assert_true(slice_is(parsed.query.fields.error, "card declined+1"));
    done(&parsed);
    parse(&parsed, "", "Tarry-Error: card+declined\r\n", OPTION_BIT(OPTION_ERROR));
    assert_true(parsed.good);
    assert_true(slice_is(parsed.query.fields.error, "card+declined"));
    done(&parsed);

    static const char *const times[] = {"at=2026-11-20T09:00:00+08:00",
                                        "at=2026-11-20T09:00:00%2B08:00"};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        parse(&parsed, times[i], "", OPTION_BIT(OPTION_AT));
        CASE_HOLDS(times[i], parsed.good);
        CASE_HOLDS(times[i], parsed.query.fields.at_ms == 1795136400000);
        done(&parsed);
    }

    static const char *const refused[] = {
        "id=a+b",   "id_prefix=+", "cursor=a+b", "topic=a+b", "callback=https://a.example/?q=a+b",
        "lease=a+b"};
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        parse(&parsed, refused[i], "",
              OPTION_BIT(OPTION_ID) | OPTION_BIT(OPTION_ID_PREFIX) | OPTION_BIT(OPTION_CURSOR) |
                  OPTION_BIT(OPTION_TOPIC) | OPTION_BIT(OPTION_CALLBACK) |
                  OPTION_BIT(OPTION_LEASE));
        CASE_HOLDS(refused[i], !parsed.good);
        CASE_HOLDS(refused[i], parsed.fault.problem == PROBLEM_BAD_OPTION);
        CASE_HOLDS(refused[i], strstr(parsed.fault.detail, "write %2B for a plus") != NULL);
        done(&parsed);
    }
    parse(&parsed, "id=a%2Bb", "", OPTION_BIT(OPTION_ID));
    assert_true(parsed.good);
    assert_true(slice_is(parsed.query.fields.id, "a+b"));
    done(&parsed);
}

CLAIM(missing_options_are_not_set)
{
    struct parsed parsed;
    struct queue_push push = {0};
    struct topic_settings settings;
    parse(&parsed, "", "", OPTIONS_PUSH);
    api_fields_push(&parsed.query.fields, &push);
    assert_int_equal(push.when.due, QUEUE_DUE_NOW);
    assert_int_equal(push.priority, QUEUE_PRIORITY_UNSET);
    assert_int_equal(push.on_conflict, 0);
    api_fields_settings(&parsed.query.fields, &settings);
    assert_false(settings.has_priority);
    done(&parsed);
}

CLAIM(topics_and_leases_may_be_repeated)
{
    struct parsed parsed;
    char many[4096];
    size_t len = 0;
    parse(&parsed, "topic=b&max=3&topic=a%2E1", "",
          OPTION_BIT(OPTION_TOPIC) | OPTION_BIT(OPTION_MAX));
    assert_true(parsed.good);
    assert_int_equal(parsed.query.topic_count, 2);
    assert_true(slice_is(parsed.query.topics[0], "b"));
    assert_true(slice_is(parsed.query.topics[1], "a.1"));
    done(&parsed);

    for (int i = 0; i < QUEUE_TAKE_TOPICS_MAX + 1; i++)
        len += (size_t)snprintf(many + len, sizeof many - len, "&topic=t%d", i);
    parse(&parsed, many, "", OPTION_BIT(OPTION_TOPIC));
    assert_false(parsed.good);
    assert_int_equal(parsed.fault.problem, PROBLEM_TOO_MANY_ITEMS);
    assert_int_equal(parsed.fault.limit, QUEUE_TAKE_TOPICS_MAX);
    done(&parsed);
}

CLAIM(meta_is_accepted_only_by_calls_with_meta)
{
    static const char head[] = "POST /x HTTP/1.1\r\nHost: a\r\nTarry-Meta-A: b\r\n\r\n";
    struct parsed parsed;
    parse(&parsed, "", "", 0);
    parsed.query.meta = NULL;
    assert_true(http_request_parse(slice_of(head), &parsed.request, &parsed.fault));
    assert_false(
        http_query_parse(&parsed.request, 0, &parsed.query, &parsed.scratch, &parsed.fault));
    assert_int_equal(parsed.fault.problem, PROBLEM_UNKNOWN_OPTION);
    done(&parsed);
}

/* ---- items of a batch ---- */

struct batched {
    struct queue_push *pushes;
    struct buffer faults, arena, meta;
    struct api_batch batch;
    struct http_fault fault;
    bool good;
};

static void batch(struct batched *out, const char *body, const char *type)
{
    memset(out, 0, sizeof *out);
    out->pushes = calloc(QUEUE_BATCH_MAX, sizeof *out->pushes);
    buffer_init(&out->faults, 1 << 20);
    buffer_init(&out->arena, 1 << 20);
    buffer_init(&out->meta, JOB_META_BYTES_MAX);
    out->batch = (struct api_batch){
        .pushes = out->pushes, .faults = &out->faults, .arena = &out->arena, .meta = &out->meta};
    out->good = api_batch_parse(slice_of(body), slice_of(type), &out->batch, &out->fault);
}

static void batch_done(struct batched *batched)
{
    free(batched->pushes);
    buffer_fini(&batched->faults);
    buffer_fini(&batched->arena);
    buffer_fini(&batched->meta);
}

CLAIM(items_become_pushes)
{
    static const struct {
        const char *sentence, *item, *type, *body, *code;
    } rows[] = {
        {"no body", "{\"topic\":\"t\"}", "", "", NULL},
        {"a string is its text", "{\"topic\":\"t\",\"body\":\"a\\u00e9\\n\"}",
         "text/plain; charset=utf-8", "a\xc3\xa9\n", NULL},
        {"a string of another type",
         "{\"topic\":\"t\",\"body\":\"a,b\",\"content_type\":\"text/csv\"}", "text/csv", "a,b",
         NULL},
        {"a string declared as JSON",
         "{\"topic\":\"t\",\"content_type\":\"application/json\",\"body\":\"a\"}",
         "application/json", "\"a\"", NULL},
        {"an object stays as it is written", "{\"topic\":\"t\",\"body\":{ \"a\" : 1e2 }}",
         "application/json", "{ \"a\" : 1e2 }", NULL},
        {"null is JSON", "{\"topic\":\"t\",\"body\":null}", "application/json", "null", NULL},
        {"a JSON type of its own",
         "{\"topic\":\"t\",\"body\":[1],\"content_type\":\"application/cloudevents+json\"}",
         "application/cloudevents+json", "[1]", NULL},
        {"base64", "{\"topic\":\"t\",\"body_base64\":\"/wE=\"}", "", "\xff\x01", NULL},
        {"broken base64", "{\"topic\":\"t\",\"body_base64\":\"/wE\"}", NULL, NULL, "bad_item"},
        {"both bodies", "{\"topic\":\"t\",\"body\":1,\"body_base64\":\"\"}", NULL, NULL,
         "option_clash"},
        {"no topic", "{\"body\":1}", NULL, NULL, "option_missing"},
        {"a topic that is a number", "{\"topic\":1}", NULL, NULL, "bad_item"},
        {"a topic twice", "{\"topic\":\"t\",\"topic\":\"t\"}", NULL, NULL, "option_twice"},
        {"a number for a duration", "{\"topic\":\"t\",\"delay\":1500}", NULL, NULL, "bad_option"},
        {"a text for a number", "{\"topic\":\"t\",\"priority\":\"5\"}", "", "", NULL},
        {"a fraction for a number", "{\"topic\":\"t\",\"priority\":1.5}", NULL, NULL, "bad_option"},
        {"an array for a number", "{\"topic\":\"t\",\"priority\":[5]}", NULL, NULL, "bad_option"},
        {"null for a number", "{\"topic\":\"t\",\"priority\":null}", NULL, NULL, "bad_option"},
        {"delay and at", "{\"topic\":\"t\",\"delay\":\"1s\",\"at\":2000000000000}", NULL, NULL,
         "option_clash"},
        {"an unknown member", "{\"topic\":\"t\",\"dely\":1}", NULL, NULL, "unknown_option"},
        {"an option of other calls", "{\"topic\":\"t\",\"wait\":1}", NULL, NULL, "unknown_option"},
        {"a lease, which is no option here", "{\"topic\":\"t\",\"lease\":\"x\"}", NULL, NULL,
         "unknown_option"},
        {"meta", "{\"topic\":\"t\",\"meta\":{\"a\":\"b\"}}", "", "", NULL},
        {"meta that is a list", "{\"topic\":\"t\",\"meta\":[]}", NULL, NULL, "bad_meta"},
        {"meta with a number", "{\"topic\":\"t\",\"meta\":{\"a\":1}}", NULL, NULL, "bad_meta"},
        {"meta twice", "{\"topic\":\"t\",\"meta\":{\"a\":\"1\",\"a\":\"2\"}}", NULL, NULL,
         "option_twice"},
        {"a type with a line end", "{\"topic\":\"t\",\"content_type\":\"a/b\\r\\nX: y\"}", NULL,
         NULL, "bad_item"},
        {"no object", "7", NULL, NULL, "bad_item"},
        {"no JSON", "{\"topic\":", NULL, NULL, "bad_json"},
    };
    struct batched got;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        batch(&got, rows[i].item, "application/x-ndjson");
        CASE_HOLDS(rows[i].sentence, got.good && got.batch.item_count == 1);
        if (rows[i].code) {
            const struct api_item_fault *fault = (const void *)got.faults.at;
            CASE_HOLDS(rows[i].sentence, got.faults.len == sizeof *fault);
            CASE_HOLDS(rows[i].sentence,
                       strcmp(http_problem_code(fault->fault.problem), rows[i].code) == 0);
        } else {
            CASE_HOLDS(rows[i].sentence, got.batch.push_count == 1);
            CASE_HOLDS(rows[i].sentence, slice_is(got.pushes[0].content_type, rows[i].type));
            CASE_HOLDS(rows[i].sentence, slice_is(got.pushes[0].body, rows[i].body));
        }
        batch_done(&got);
    }
}

CLAIM(a_bad_item_does_not_spoil_the_rest)
{
    static const char lines[] =
        "{\"topic\":\"a\",\"id\":\"\\u0031\",\"meta\":{\"x\":\"y\"}}\n\nnonsense\r\n"
        "{\"topic\":\"b\",\"meta\":{\"k\":\"\\u0032\"}}\r\n{}";
    struct batched got;
    batch(&got, lines, "");
    assert_true(got.good);
    assert_int_equal(got.batch.item_count, 4);
    assert_int_equal(got.batch.push_count, 2);
    assert_true(slice_is(got.pushes[0].id, "1"));
    assert_true(slice_is(got.pushes[1].topic, "b"));
    assert_true(slice_equals(got.pushes[1].meta, slice_make("k\0002\0", 4)));
    const struct api_item_fault *faults = (const void *)got.faults.at;
    assert_int_equal(got.faults.len, 2 * sizeof *faults);
    assert_int_equal(faults[0].index, 1);
    assert_int_equal(faults[1].index, 3);
    batch_done(&got);
}

CLAIM(an_invalid_batch_is_rejected_as_a_whole)
{
    static const struct {
        const char *sentence, *body, *type;
        bool good;
        uint32_t items;
    } rows[] = {
        {"an array", " [{\"topic\":\"a\"},7]", "application/json", true, 2},
        {"an empty array", "[]", "application/json", true, 0},
        {"an array of no type", "[{\"topic\":\"a\"}]", "", true, 1},
        {"an array cut off", "[{\"topic\":\"a\"}", "application/json", false, 0},
        {"an array declared as lines is a bad line", "[]", "application/x-ndjson", true, 1},
        {"lines", "{\"topic\":\"a\"}\n{\"topic\":\"a\"}\n", "application/x-ndjson", true, 2},
        {"lines declared as JSON", "{\"topic\":\"a\"}\n{\"topic\":\"a\"}", "application/json", true,
         2},
        {"nonsense declared as JSON", "{{{", "application/json", false, 0},
        {"a number declared as JSON", "17", "application/json", false, 0},
        {"nothing declared as JSON", "", "application/json", false, 0},
        {"no lines", "", "application/x-ndjson", true, 0},
    };
    struct batched got;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        batch(&got, rows[i].body, rows[i].type);
        CASE_HOLDS(rows[i].sentence, got.good == rows[i].good);
        CASE_HOLDS(rows[i].sentence, !got.good || got.batch.item_count == rows[i].items);
        batch_done(&got);
    }
}

CLAIM(a_batch_has_a_limit)
{
    struct buffer lines;
    struct batched got;
    buffer_init(&lines, 1 << 20);
    for (int i = 0; i < QUEUE_BATCH_MAX; i++)
        buffer_append_text(&lines, "{\"topic\":\"a\"}\n");
    buffer_append_byte(&lines, 0);
    batch(&got, lines.at, "");
    assert_true(got.good);
    assert_int_equal(got.batch.push_count, QUEUE_BATCH_MAX);
    batch_done(&got);
    lines.len--;
    buffer_append_text(&lines, "{\"topic\":\"a\"}");
    buffer_append_byte(&lines, 0);
    batch(&got, lines.at, "");
    assert_false(got.good);
    assert_int_equal(got.fault.problem, PROBLEM_TOO_MANY_ITEMS);
    assert_int_equal(got.fault.limit, QUEUE_BATCH_MAX);
    batch_done(&got);
    buffer_fini(&lines);
}

/* PHP escapes each slash in JSON. Text that is unescaped and then decoded or copied once
 * more must not need more room than the item had: earlier slices would dangle. */
CLAIM(escapes_take_no_more_room_than_they_had)
{
    static const char head[] = "{\"topic\":\"\\u0074\",\"id\":\"\\u0031\",\"meta\":{";
    struct buffer item;
    struct batched got;
    buffer_init(&item, 1 << 20);
    buffer_append_text(&item, head);
    for (int pair = 0; pair < 3; pair++) {
        buffer_append_format(&item, "%s\"m%d\":\"\\/", pair ? "," : "", pair);
        for (int i = 0; i < 1000; i++)
            buffer_append_byte(&item, 'v');
        buffer_append_byte(&item, '"');
    }
    buffer_append_text(&item, "},\"body_base64\":\"\\/\\/\\/\\/");
    for (int i = 0; i < 60000; i++)
        buffer_append_byte(&item, 'A');
    buffer_append_text(&item, "\"}");
    buffer_append_byte(&item, 0);
    batch(&got, item.at, "application/x-ndjson");
    assert_true(got.good && got.batch.push_count == 1);
    assert_true(slice_is(got.pushes[0].topic, "t"));
    assert_true(slice_is(got.pushes[0].id, "1"));
    assert_int_equal(got.pushes[0].meta.len, 3 * (3 + 1002));
    assert_int_equal(got.pushes[0].body.len, 45003);
    assert_memory_equal(got.pushes[0].body.at, "\xff\xff\xff\0", 4);
    batch_done(&got);
    buffer_fini(&item);
}

CLAIMS_MAIN(NULL, NULL)
