/* The last lines of the log, as they are read back. */
#include "base/log_ring.h"

#include "base/clock.h"
#include "base/json_read.h"
#include "base/log.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t number; /* of the newest line: the ring is one for all tests */

static void add(const char *text)
{
    log_ring_add(slice_of(text));
    number++;
}

static void add_numbers(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char text[32];
        snprintf(text, sizeof text, "<%llu>", (unsigned long long)number + 1);
        add(text);
    }
}

static struct buffer out;
static uint64_t lost;

static uint64_t read_ring(uint64_t since, uint32_t limit)
{
    buffer_fini(&out);
    buffer_init(&out, 1 << 20);
    uint64_t next = log_ring_read(since, limit, &out, &lost);
    buffer_append_byte(&out, '\0');
    assert_false(out.failed);
    return next;
}

/* ---- claims ---- */

CLAIM(an_empty_ring_has_nothing)
{
    assert_int_equal(read_ring(0, 10), 0);
    assert_string_equal(out.at, "");
    assert_int_equal(lost, 0);
}

CLAIM(shows_the_last_lines_oldest_first)
{
    add("a");
    add("b");
    add("c");
    assert_int_equal(read_ring(0, 10), number);
    assert_string_equal(out.at, "a,b,c");
    assert_int_equal(read_ring(0, 2), number);
    assert_string_equal(out.at, "b,c");
    assert_int_equal(lost, 0);
}

CLAIM(continues_after_a_given_number)
{
    uint64_t at = read_ring(0, 10);
    assert_int_equal(read_ring(at, 10), at);
    assert_string_equal(out.at, "");
    add("d");
    add("e");
    add("f");
    at = read_ring(at, 2);
    assert_string_equal(out.at, "d,e");
    assert_int_equal(read_ring(at, 2), number);
    assert_string_equal(out.at, "f");
}

CLAIM(a_number_of_another_process_restarts_at_the_oldest_line)
{
    assert_int_equal(read_ring(number + 1000, 1), number);
    assert_string_equal(out.at, "f");
}

CLAIM(the_oldest_lines_go_and_are_counted)
{
    uint64_t at = number;
    add_numbers(LOG_RING_LINES + 7);
    assert_int_equal(read_ring(at, 1), at + 8);
    assert_int_equal(lost, 7);
    char first[32];
    snprintf(first, sizeof first, "<%llu>", (unsigned long long)at + 8);
    assert_string_equal(out.at, first);
    read_ring(0, 1);
    assert_int_equal(lost, number - LOG_RING_LINES);
}

/* Lines of all lengths, over the end of the ring many times. */
CLAIM(long_lines_take_the_place_of_many)
{
    static char text[LOG_RING_BYTES + 2];
    struct random_lines {
        uint32_t bytes;
    } lengths[3000];
    uint32_t seed = 1, kept = 0;
    uint64_t began = number, bytes = 0;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        seed = seed * 1664525 + 1013904223;
        uint32_t len = 1 + (seed >> 8) % (i % 100 ? 2000 : 200000);
        lengths[i].bytes = len;
        memset(text, 'a' + (int)(i % 26), len);
        log_ring_add(slice_make(text, len));
        number++;
        if (i % 50)
            continue;
        read_ring(0, LOG_RING_LINES);
        assert_true(out.len <= LOG_RING_BYTES + LOG_RING_LINES + 1);
    }
    assert_int_equal(read_ring(0, LOG_RING_LINES), number);
    for (const char *at = out.at, *end; *at; at = *end ? end + 1 : end, kept++) {
        end = strchr(at, ',') ? strchr(at, ',') : at + strlen(at);
        uint64_t which = lost + kept - began; /* lines before these tests' are gone */
        assert_int_equal(end - at, lengths[which].bytes);
        assert_int_equal(*at, 'a' + (int)(which % 26));
        bytes += (uint64_t)(end - at);
    }
    assert_int_equal(lost + kept, number);
    assert_true(bytes > LOG_RING_BYTES / 2);
    log_ring_add(slice_make(text, LOG_RING_BYTES + 1)); /* longer than the ring */
    assert_int_equal(read_ring(0, 1), number);
    memset(text, 'z', LOG_RING_BYTES);
    log_ring_add(slice_make(text, LOG_RING_BYTES));
    number++;
    read_ring(0, 10);
    assert_int_equal(out.len, LOG_RING_BYTES + 1);
    add("short");
    read_ring(0, 10);
    assert_string_equal(out.at, "short");
}

CLAIM(the_ring_keeps_log_lines_as_json)
{
    struct json_value value;
    clock_fake_start(INT64_C(1795165200123), INT64_C(1795165200123));
    assert_true(log_open("/dev/null", LOG_INFO, false));
    log_event(LOG_WARN, "something \"odd\"", LOG_TEXT("id", "a\xff<script>\n"),
              LOG_NUMBER("n", -7));
    number++;
    log_event(LOG_DEBUG, "not in the log");
    log_event(LOG_ERROR, "bare");
    number++;
    assert_int_equal(read_ring(number - 2, 10), number);
    assert_non_null(strstr(out.at,
                           "{\"at\":\"2026-11-20T09:00:00.123Z\",\"level\":\"warn\",\"event\":"
                           "\"something \\\"odd\\\"\",\"fields\":{\"id\":\"a"));
    assert_non_null(strstr(out.at, "\",\"n\":-7}},{\"at\":"));
    assert_non_null(strstr(out.at, "\"event\":\"bare\",\"fields\":{}}"));
    struct buffer array;
    buffer_init(&array, 1 << 16);
    buffer_append_format(&array, "[%s]", out.at);
    assert_true(json_check(buffer_slice(&array), &value, NULL));
    buffer_fini(&array);
    clock_fake_end();
}

static void *log_many(void *ctx)
{
    (void)ctx;
    for (int i = 0; i < 2000; i++)
        log_event(LOG_INFO, "busy", LOG_NUMBER("i", i));
    return NULL;
}

CLAIM(threads_write_whole_lines)
{
    pthread_t threads[4];
    struct json_value value;
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, NULL), 0);
    for (int i = 0; i < 50; i++)
        read_ring(0, LOG_RING_LINES);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    number += 8000;
    assert_int_equal(read_ring(0, LOG_RING_LINES), number);
    struct buffer array;
    buffer_init(&array, 1 << 20);
    buffer_append_format(&array, "[");
    buffer_append(&array, out.at, out.len - 1);
    buffer_append_format(&array, "]");
    assert_true(json_check(buffer_slice(&array), &value, NULL));
    buffer_fini(&array);
    buffer_fini(&out);
}

CLAIMS_MAIN(NULL, NULL)
