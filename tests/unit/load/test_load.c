/* The load generator: what it sends is well-formed, what it reads does not depend on how it
 * arrives. */
#include "load/http.h"
#include "load/tally.h"
#include "peers/beanstalk.h"
#include "peers/redis.h"
#include "peers/sqs.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct load_answer answer;

#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
#define TWO_JOBS                                                                                   \
    "{\"jobs\":[{\"topic\":\"t\",\"id\":\"1\",\"lease\":\"L1\",\"attempt\":1,\"body\":\"one\"},"   \
    "{\"topic\":\"t\",\"id\":\"2\",\"lease\":\"L2\",\"attempt\":1,\"body\":\"two\"}]}"
#define FOREIGN_FIRST                                                                              \
    "{\"jobs\":[{\"topic\":\"t\",\"id\":\"1\",\"lease\":\"L1\",\"body\":{\"a\":1}},"               \
    "{\"topic\":\"t\",\"id\":\"2\",\"lease\":\"L2\",\"attempt\":1,\"body\":\"two\"}]}"

struct answer_row {
    const char *sentence;
    const struct load_protocol *protocol;
    enum load_kind kind;
    uint32_t count;
    const char *text;
    enum load_outcome outcome;
    uint64_t failed;
    unsigned items;
    const char *first_lease, *first_body, *last_lease, *last_body;
};

static const struct answer_row rows[] = {
    {"a push is answered", &load_http, LOAD_PUSH, 1, HEAD "2\r\n\r\n{}", LOAD_ANSWER, 0, 0, 0, 0, 0,
     0},
    {"a head in small letters", &load_http, LOAD_PUSH, 1,
     "HTTP/1.1 201 Created\r\ncontent-length:3\r\n\r\nabc", LOAD_ANSWER, 0, 0, 0, 0, 0, 0},
    {"an answer without a body", &load_http, LOAD_PUSH, 1, "HTTP/1.1 204 No Content\r\n\r\n",
     LOAD_ANSWER, 0, 0, 0, 0, 0, 0},
    {"a push is refused", &load_http, LOAD_PUSH, 1,
     "HTTP/1.1 507 X\r\nContent-Length: 19\r\n\r\n{\"code\":\"no_space\"}", LOAD_ANSWER, 1, 0, 0, 0,
     0, 0},
    {"a batch is refused", &load_http, LOAD_PUSH, 100,
     "HTTP/1.1 400 X\r\nContent-Length: 0\r\n\r\n", LOAD_ANSWER, 100, 0, 0, 0, 0, 0},
    {"one of a batch is refused", &load_http, LOAD_PUSH, 2,
     HEAD "63\r\n\r\n{\"results\":[{\"id\":\"a\",\"result\":\"created\"},{\"result\":\"bad_id\"}]}",
     LOAD_ANSWER, 1, 0, 0, 0, 0, 0},
    {"a result is missing", &load_http, LOAD_ACK, 2,
     HEAD "41\r\n\r\n{\"results\":[{\"lease\":\"a\",\"result\":\"ok\"}]}", LOAD_ANSWER, 1, 0, 0, 0,
     0, 0},
    {"two acks", &load_http, LOAD_ACK, 2,
     HEAD "69\r\n\r\n{\"results\":[{\"lease\":\"a\",\"result\":\"ok\"},{\"lease\":\"b\",\"result\":"
          "\"ok\"}]}",
     LOAD_ANSWER, 0, 0, 0, 0, 0, 0},
    {"a take brings two", &load_http, LOAD_TAKE, 0, HEAD "132\r\n\r\n" TWO_JOBS, LOAD_ANSWER, 0, 2,
     "L1", "one", "L2", "two"},
    {"a take brings nothing", &load_http, LOAD_TAKE, 0, HEAD "11\r\n\r\n{\"jobs\":[]}", LOAD_ANSWER,
     0, 0, 0, 0, 0, 0},
    {"a job never gets the body of the next", &load_http, LOAD_TAKE, 0,
     HEAD "122\r\n\r\n" FOREIGN_FIRST, LOAD_ANSWER, 0, 2, "L1", "", "L2", "two"},
    {"not HTTP", &load_http, LOAD_PUSH, 1, "+PONG\r\n", LOAD_BROKEN, 0, 0, 0, 0, 0, 0},
    {"no length", &load_http, LOAD_PUSH, 1, "HTTP/1.1 200 OK\r\nA: b\r\n\r\n", LOAD_BROKEN, 0, 0, 0,
     0, 0, 0},
    {"a length that is none", &load_http, LOAD_PUSH, 1,
     "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n", LOAD_BROKEN, 0, 0, 0, 0, 0, 0},
    {"a status that is none", &load_http, LOAD_PUSH, 1,
     "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n", LOAD_BROKEN, 0, 0, 0, 0, 0, 0},

    {"a tube is used", &load_beanstalk, LOAD_GREET, 0, "USING t\r\n", LOAD_ANSWER, 0, 0, 0, 0, 0,
     0},
    {"a put is taken in", &load_beanstalk, LOAD_PUSH, 1, "INSERTED 17\r\n", LOAD_ANSWER, 0, 0, 0, 0,
     0, 0},
    {"a put is refused", &load_beanstalk, LOAD_PUSH, 1, "JOB_TOO_BIG\r\n", LOAD_ANSWER, 1, 0, 0, 0,
     0, 0},
    {"a job is reserved", &load_beanstalk, LOAD_TAKE, 0, "RESERVED 17 3\r\none\r\n", LOAD_ANSWER, 0,
     1, "17", "one", "17", "one"},
    {"a body that holds a line end", &load_beanstalk, LOAD_TAKE, 0, "RESERVED 8 4\r\na\r\nb\r\n",
     LOAD_ANSWER, 0, 1, "8", "a\r\nb", "8", "a\r\nb"},
    {"none to reserve", &load_beanstalk, LOAD_TAKE, 0, "TIMED_OUT\r\n", LOAD_ANSWER, 0, 0, 0, 0, 0,
     0},
    {"a delete", &load_beanstalk, LOAD_ACK, 1, "DELETED\r\n", LOAD_ANSWER, 0, 0, 0, 0, 0, 0},
    {"a delete that comes too late", &load_beanstalk, LOAD_ACK, 1, "NOT_FOUND\r\n", LOAD_ANSWER, 1,
     0, 0, 0, 0, 0},
    {"a reserved without a length", &load_beanstalk, LOAD_TAKE, 0, "RESERVED 17\r\n", LOAD_BROKEN,
     0, 0, 0, 0, 0, 0},
    {"a bare line feed", &load_beanstalk, LOAD_PUSH, 1, "INSERTED 1\n", LOAD_BROKEN, 0, 0, 0, 0, 0,
     0},

    {"a batch of messages is sent", &load_sqs, LOAD_PUSH, 2,
     HEAD "50\r\n\r\n{\"Successful\":[{\"Id\":\"0\"},{\"Id\":\"1\"}],\"Failed\":[]}", LOAD_ANSWER,
     0, 0, 0, 0, 0, 0},
    {"one message of two is refused", &load_sqs, LOAD_PUSH, 2,
     HEAD
     "66\r\n\r\n{\"Successful\":[{\"Id\":\"0\"}],\"Failed\":[{\"Id\":\"1\",\"Code\":\"Invalid\"}]}",
     LOAD_ANSWER, 1, 0, 0, 0, 0, 0},
    {"a batch of messages is refused", &load_sqs, LOAD_PUSH, 2,
     "HTTP/1.1 400 X\r\nContent-Length: 2\r\n\r\n{}", LOAD_ANSWER, 2, 0, 0, 0, 0, 0},
    {"two messages are received", &load_sqs, LOAD_TAKE, 0,
     HEAD "86\r\n\r\n{\"Messages\":[{\"Body\":\"one\",\"ReceiptHandle\":\"L1\"},{\"ReceiptHandle\":"
          "\"L2\",\"Body\":\"two\"}]}",
     LOAD_ANSWER, 0, 2, "L1", "one", "L2", "two"},
    {"no message is received", &load_sqs, LOAD_TAKE, 0, HEAD "2\r\n\r\n{}", LOAD_ANSWER, 0, 0, 0, 0,
     0, 0},

    {"a script pushed one", &load_redis, LOAD_PUSH, 1, ":1\r\n", LOAD_ANSWER, 0, 0, 0, 0, 0, 0},
    {"a script acked 2 of 3", &load_redis, LOAD_ACK, 3, ":2\r\n", LOAD_ANSWER, 1, 0, 0, 0, 0, 0},
    {"a script failed", &load_redis, LOAD_PUSH, 5, "-ERR no\r\n", LOAD_ANSWER, 5, 0, 0, 0, 0, 0},
    {"a script takes two", &load_redis, LOAD_TAKE, 0,
     "*4\r\n$2\r\nL1\r\n$3\r\none\r\n$2\r\nL2\r\n$5\r\nt\r\nwo\r\n", LOAD_ANSWER, 0, 2, "L1", "one",
     "L2", "t\r\nwo"},
    {"a script takes nothing", &load_redis, LOAD_TAKE, 0, "*0\r\n", LOAD_ANSWER, 0, 0, 0, 0, 0, 0},
    {"more acked than asked for", &load_redis, LOAD_ACK, 1, ":2\r\n", LOAD_BROKEN, 0, 0, 0, 0, 0,
     0},
    {"a body that is missing", &load_redis, LOAD_TAKE, 0, "*2\r\n$1\r\nx\r\n$-1\r\n", LOAD_BROKEN,
     0, 0, 0, 0, 0, 0},
    {"not RESP", &load_redis, LOAD_PUSH, 1, "HTTP/1.1 400 X\r\n", LOAD_BROKEN, 0, 0, 0, 0, 0, 0},
};

static enum load_outcome parse(const struct answer_row *row, struct slice bytes)
{
    memset(&answer, 0, sizeof answer);
    return row->protocol->parse(NULL, row->kind, row->count, bytes, &answer);
}

static void check_item(const char *sentence, const struct load_item *item, const char *lease,
                       const char *body)
{
    CASE_HOLDS(sentence, slice_is(item->lease, lease));
    CASE_HOLDS(sentence, slice_is(item->body, body));
}

static void check_whole(const struct answer_row *row, struct slice bytes)
{
    CASE_HOLDS(row->sentence, parse(row, bytes) == row->outcome);
    if (row->outcome != LOAD_ANSWER)
        return;
    CASE_HOLDS(row->sentence, answer.bytes == strlen(row->text));
    CASE_HOLDS(row->sentence, answer.failed == row->failed);
    CASE_HOLDS(row->sentence, !answer.failed || answer.problem.len > 0);
    CASE_HOLDS(row->sentence, answer.item_count == row->items);
    if (row->items) {
        check_item(row->sentence, &answer.items[0], row->first_lease, row->first_body);
        check_item(row->sentence, &answer.items[row->items - 1], row->last_lease, row->last_body);
    }
}

/* Each part in memory of exactly its size, so that a sanitizer sees a byte read too far. */
CLAIM(reads_an_answer_split_at_any_byte)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct answer_row *row = &rows[i];
        size_t whole = strlen(row->text);
        for (size_t len = 1; len <= whole; len++) {
            char *part = malloc(len);
            assert_non_null(part);
            memcpy(part, row->text, len);
            if (len == whole) {
                check_whole(row, slice_make(part, len));
            } else if (row->outcome == LOAD_ANSWER) {
                CASE_HOLDS(row->sentence, parse(row, slice_make(part, len)) == LOAD_PARTIAL);
                CASE_HOLDS(row->sentence, answer.need > len && answer.need <= whole);
            }
            free(part);
        }
    }
}

CLAIM(does_not_look_into_the_next_answer)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[1024];
        int len = snprintf(text, sizeof text, "%s%s", rows[i].text, rows[i].text);
        check_whole(&rows[i], slice_make(text, (size_t)len));
    }
}

/* ---- requests ---- */

static struct load_plan plan_of(const struct load_protocol *protocol)
{
    return (struct load_plan){.protocol = protocol,
                              .host = "localhost",
                              .port = "8279",
                              .topic = "orders",
                              .body_bytes = 60,
                              .take_max = 100,
                              .pipeline = 1,
                              .batch = 1};
}

static void check_request(struct slice request, const char *start, struct slice *body)
{
    static const char mark[] = "\r\nContent-Length: ";
    assert_true(request.len > strlen(start) && memcmp(request.at, start, strlen(start)) == 0);
    const char *length = memmem(request.at, request.len, mark, sizeof mark - 1);
    const char *blank = memmem(request.at, request.len, "\r\n\r\n", 4);
    assert_true(length && blank);
    *body = slice_make(blank + 4, request.len - (size_t)(blank + 4 - request.at));
    assert_int_equal(strtoul(length + sizeof mark - 1, NULL, 10), body->len);
}

CLAIM(own_ids_differ_and_are_as_long_as_a_servers)
{
    char ids[3][LOAD_ID_BYTES];
    load_stamp_id(ids[0], 7, 1);
    load_stamp_id(ids[1], 7, UINT64_C(1) << 39);
    load_stamp_id(ids[2], 8, 1);
    assert_memory_equal(ids[0], "r00000007i0000000000000001", LOAD_ID_BYTES);
    assert_memory_not_equal(ids[0], ids[1], LOAD_ID_BYTES);
    assert_memory_not_equal(ids[0], ids[2], LOAD_ID_BYTES);

    struct load_plan plan = plan_of(&load_http);
    plan.own_ids = true;
    char problem[LOAD_TEXT_BYTES_MAX];
    struct load_speech *speech = load_http.open(&plan, 7, problem);
    struct buffer out;
    struct slice body;
    assert_non_null(speech);
    buffer_init(&out, 65536);
    load_http.push(speech, &out, &(struct load_stamp){.run = 7, .index = 1}, 1);
    check_request(buffer_slice(&out),
                  "PUT /v1/topics/orders/jobs/r00000007i0000000000000001?delay=0ms HTTP/1.1\r\n",
                  &body);
    buffer_fini(&out);
    load_http.close(speech);
}

CLAIM(http_requests_have_their_declared_length)
{
    const struct load_stamp stamps[2] = {{.run = 7, .index = 1, .sent_us = 5, .delay_ms = 30000},
                                         {.run = 7, .index = 2, .sent_us = 5, .delay_ms = 0}};
    const struct load_item items[2] = {{.lease = slice_of("a")}, {.lease = slice_of("b")}};
    struct load_plan plan = plan_of(&load_http);
    char problem[LOAD_TEXT_BYTES_MAX];
    struct load_speech *speech = load_http.open(&plan, 7, problem);
    struct buffer out;
    struct slice body;
    struct load_stamp stamp;
    assert_non_null(speech);
    buffer_init(&out, 65536);

    load_http.push(speech, &out, stamps, 1);
    check_request(buffer_slice(&out), "POST /v1/topics/orders/jobs?delay=30000ms HTTP/1.1\r\n",
                  &body);
    assert_int_equal(body.len, plan.body_bytes);
    assert_true(load_stamp_read(body, &stamp));
    assert_true(stamp.run == 7 && stamp.index == 1 && stamp.sent_us == 5 &&
                stamp.delay_ms == 30000);

    buffer_clear(&out);
    load_http.push(speech, &out, stamps, 2);
    check_request(buffer_slice(&out), "POST /v1/jobs HTTP/1.1\r\n", &body);
    assert_memory_equal(body.at, "{\"topic\":\"orders\",\"delay\":\"30000ms\",\"body\":\"t00000007",
                        53);
    assert_int_equal(body.at[body.len - 1], '\n');

    buffer_clear(&out);
    assert_int_equal(load_http.ack(speech, &out, items, 2), 1);
    check_request(buffer_slice(&out), "POST /v1/ack HTTP/1.1\r\n", &body);
    assert_true(slice_is(body, "{\"leases\":[\"a\",\"b\"]}"));

    buffer_clear(&out);
    assert_int_equal(load_http.take(speech, &out, 0), 1);
    check_request(buffer_slice(&out), "POST /v1/topics/orders/take?max=100&wait=20s HTTP/1.1\r\n",
                  &body);
    assert_int_equal(body.len, 0);
    buffer_fini(&out);
    load_http.close(speech);
}

CLAIM(beanstalk_reserves_as_many_as_there_may_be)
{
    struct load_plan plan = plan_of(&load_beanstalk);
    char problem[LOAD_TEXT_BYTES_MAX];
    struct load_speech *speech = load_beanstalk.open(&plan, 7, problem);
    struct buffer out;
    assert_non_null(speech);
    buffer_init(&out, 65536);
    assert_int_equal(load_beanstalk.take(speech, &out, 0), 1);
    assert_int_equal(load_beanstalk.take(speech, &out, 10), 21);
    assert_int_equal(load_beanstalk.take(speech, &out, 90), 100);
    buffer_fini(&out);
    load_beanstalk.close(speech);
}

CLAIM(reads_urls)
{
    static const struct {
        const char *url, *host, *port; /* host NULL: refused */
    } urls[] = {
        {"http://127.0.0.1:8279", "127.0.0.1", "8279"},
        {"http://queue/", "queue", "8279"},
        {"http://[::1]:80/", "::1", "80"},
        {"http://[::1]", "::1", "8279"},
        {"https://queue:8443", "queue", "8443"},
        {"ftp://queue", NULL, NULL},
        {"queue:8279", NULL, NULL},
        {"http://", NULL, NULL},
        {"http://queue:", NULL, NULL},
        {"http://queue/v1", NULL, NULL},
        {"http://queue:123456789", NULL, NULL},
        {"http://[::1", NULL, NULL},
        {"http://user:secret@queue", NULL, NULL},
        {"http://queue,other", NULL, NULL},
        {"http://queue?x=1", NULL, NULL},
        {"http://127.1", NULL, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        struct load_plan plan = {0};
        char problem[LOAD_TEXT_BYTES_MAX];
        CASE_HOLDS(urls[i].url, load_http_url(urls[i].url, &plan, problem) == !!urls[i].host);
        CASE_HOLDS(urls[i].url, !urls[i].host || (strcmp(plan.host, urls[i].host) == 0 &&
                                                  strcmp(plan.port, urls[i].port) == 0));
    }
}

/* ---- judging ---- */

static bool deliver(struct load_tally *tally, struct load_stamp stamp, int64_t now_us)
{
    char body[LOAD_STAMP_BYTES];
    load_stamp_write(body, &stamp);
    return load_tally_delivered(tally, slice_make(body, sizeof body), now_us);
}

CLAIM(reads_when_a_job_was_due)
{
    static const char text[] =
        HEAD "76\r\n\r\n{\"jobs\":[{\"lease\":\"L1\",\"due_at\":\"1970-01-02T00:00:00.007Z\"},"
             "{\"lease\":\"L2\"}]}";
    memset(&answer, 0, sizeof answer);
    assert_int_equal(load_http.parse(NULL, LOAD_TAKE, 0, slice_of(text), &answer), LOAD_ANSWER);
    assert_int_equal(answer.item_count, 2);
    assert_int_equal(answer.items[0].due_ms, 86400007);
    assert_int_equal(answer.items[1].due_ms, 0);
}

CLAIM(evaluates_by_the_reported_due_time)
{
    static struct load_result result;
    struct load_tally tally;
    load_tally_init(&tally, &result, 7, NULL);
    load_tally_late_by_due(&tally, 1700000000123, 1700000000125500);
    assert_int_equal(result.late_by_due_us.max, 2500);
    load_tally_late_by_due(&tally, 1700000000123, 1700000000122000);
    assert_int_equal(result.late_by_due_us.count, 2);
    assert_int_equal(result.late_by_due_us.max, 2500);
}

CLAIM(judges_deliveries)
{
    static struct load_result result;
    struct load_tally tally;
    memset(&result, 0, sizeof result);
    load_tally_init(&tally, &result, 7, NULL);
    load_tally_pushed(&tally, 4, 0, 1000, 2000);
    assert_true(deliver(
        &tally, (struct load_stamp){.run = 7, .index = 0, .sent_us = 1000, .delay_ms = 5}, 6000));
    assert_int_equal(result.early, 0);
    assert_true(deliver(
        &tally, (struct load_stamp){.run = 7, .index = 1, .sent_us = 1000, .delay_ms = 5}, 5999));
    assert_int_equal(result.early, 1);
    assert_int_equal(result.early_max_us, 1);
    assert_true(
        deliver(&tally, (struct load_stamp){.run = 7, .index = 1000000, .sent_us = 1000}, 9000));
    assert_int_equal(result.late_us.max, 8000);
    assert_true(deliver(&tally, (struct load_stamp){.run = 7, .index = 0, .sent_us = 1000}, 9000));
    assert_int_equal(result.duplicates, 1);
    assert_false(deliver(&tally, (struct load_stamp){.run = 8, .index = 3}, 9000));
    assert_false(load_tally_delivered(&tally, slice_of("an order"), 9000));
    assert_int_equal(result.foreign, 2);
    assert_true(load_tally_finish(&tally, true));
    assert_int_equal(result.delivered, 3);
    assert_int_equal(result.missing, 1);
}

static void check_entry(FILE *file, struct load_trace_entry expected)
{
    struct load_trace_entry entry;
    assert_int_equal(fread(&entry, sizeof entry, 1, file), 1);
    assert_int_equal(entry.kind, expected.kind);
    assert_int_equal(entry.at_us, expected.at_us);
    assert_int_equal(entry.took_us, expected.took_us);
    assert_int_equal(entry.jobs, expected.jobs);
}

CLAIM(a_trace_holds_the_evaluated_events)
{
    static struct load_result result;
    struct load_tally tally;
    char path[] = "/tmp/tarry-trace-XXXXXX";
    close(mkstemp(path));
    memset(&result, 0, sizeof result);
    assert_true(load_tally_init(&tally, &result, 7, path));
    load_tally_pushed(&tally, 4, 1, 1000, 2500);
    deliver(&tally, (struct load_stamp){.run = 7, .index = 0, .sent_us = 1000, .delay_ms = 5},
            6700);
    deliver(&tally, (struct load_stamp){.run = 7, .index = 1, .sent_us = 1000, .delay_ms = 9},
            7000);
    load_tally_acked(&tally, 2, 0, 8000);
    assert_true(load_tally_finish(&tally, false));

    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    check_entry(file, (struct load_trace_entry){2500, 1500, 3, LOAD_TRACE_PUSHED, 0});
    check_entry(file, (struct load_trace_entry){6700, 700, 1, LOAD_TRACE_DELIVERED, 0});
    check_entry(file, (struct load_trace_entry){7000, 0, 1, LOAD_TRACE_DELIVERED, 0});
    check_entry(file, (struct load_trace_entry){8000, 0, 2, LOAD_TRACE_ACKED, 0});
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    unlink(path);
}

CLAIM(an_unwritable_trace_is_reported)
{
    struct load_result result = {0};
    struct load_tally tally;
    assert_false(load_tally_init(&tally, &result, 7, "/nowhere/trace"));
    assert_true(load_tally_init(&tally, &result, 7, "/dev/full"));
    load_tally_pushed(&tally, 1, 0, 1, 2);
    assert_false(load_tally_finish(&tally, false));
}

CLAIM(a_problem_is_made_printable)
{
    static struct load_result result;
    struct load_tally tally;
    memset(&result, 0, sizeof result);
    load_tally_init(&tally, &result, 7, NULL);
    load_tally_problem(&tally, slice_of("\r\nHTTP/1.1 500 X\r\n\x01\xff no"));
    load_tally_problem(&tally, slice_of("the second counts no more"));
    assert_string_equal(result.problem, "HTTP/1.1 500 X no");
    (void)load_tally_finish(&tally, false);
}

CLAIMS_MAIN(NULL, NULL)
