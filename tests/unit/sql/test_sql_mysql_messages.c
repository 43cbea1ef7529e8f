/* Messages of events as MariaDB and MySQL have them: bounded in a row and in a second, and each event is in one or counted. */
#include "base/clock.h"
#include "sql/mysql/link.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <string.h>

enum { EVENTS = 6000, ROW_BYTES = 60000, SECOND_BYTES = 2 << 20, ROUNDS = 5 };

static struct mysql_link link;
static struct sql_context context;

static void begin(void)
{
    link = (struct mysql_link){.context = &context, .now_ms = 1700000000000};
    context = (struct sql_context){.server = 7};
    buffer_init(&link.wire.text, 16 << 20);
    sql_effects_init(&context.effects);
    context.effects.has_listener = true;
}

static void end(void)
{
    mysql_messages_free(&link);
    mysql_steps_fini(&link.wire.steps);
    mysql_ends_fini(&link.wire.ends);
    mysql_ends_fini(&link.wire.packet_steps);
    buffer_fini(&link.wire.text);
    sql_effects_fini(&context.effects);
}

static void report(size_t count)
{
    char id[128];
    sql_effects_clear(&context.effects);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(id, sizeof id, "%0100zu", i);
        sql_effects_publish(&context.effects, &(struct job_event){.kind = JOB_EVENT_PUSHED,
                                                                  .topic = slice_of("a'\\b"),
                                                                  .id = slice_of(id)});
    }
}

struct reported {
    size_t rows, lines, row_bytes_max, bytes;
    uint64_t lost, first_number, last_number;
};

/* Returns the message in the statement. */
static struct reported read_text(void)
{
    static const char head[] = "INSERT INTO tarry.message (at,server,number,lost,text) VALUES ";
    struct reported reported = {0};
    if (!link.wire.text.len)
        return reported;
    buffer_append_byte(&link.wire.text, '\0');
    assert_false(link.wire.text.failed);
    assert_memory_equal(link.wire.text.at, head, sizeof head - 1);
    for (const char *at = link.wire.text.at + sizeof head - 1; *at;) {
        unsigned long long number, lost;
        int len = 0;
        assert_int_equal(sscanf(at, "(1700000000000,7,%llu,%llu,'%n", &number, &lost, &len), 2);
        const char *close = strstr(at, "')");
        assert_non_null(close);
        size_t bytes = (size_t)(close - at) - (size_t)len;
        reported.rows++;
        reported.lost += lost;
        reported.bytes += bytes;
        reported.row_bytes_max = bytes > reported.row_bytes_max ? bytes : reported.row_bytes_max;
        reported.first_number = reported.first_number ? reported.first_number : number;
        reported.last_number = number;
        for (const char *line = at; line < close; line++)
            reported.lines += *line == '\n';
        at = close + 2;
        at += *at == ',';
    }
    return reported;
}

static struct reported append_transaction(size_t events)
{
    mysql_pipeline_begin(&link);
    link.outbox.written = 0;
    report(events);
    mysql_append_messages(&link);
    return read_text();
}

CLAIM(a_transaction_without_events_sends_nothing)
{
    begin();
    assert_int_equal(append_transaction(0).rows, 0);
    assert_int_equal(link.wire.steps.count, 0);
    end();
}

CLAIM(a_long_transaction_is_several_rows_of_one_statement_numbered_on)
{
    begin();
    link.outbox.number = 41;
    struct reported reported = append_transaction(EVENTS);
    assert_int_equal(link.wire.steps.count, 1);
    assert_true(reported.rows > 2);
    assert_int_equal(reported.rows, link.outbox.written);
    assert_int_equal(reported.first_number, 42);
    assert_int_equal(reported.last_number, 41 + reported.rows);
    assert_int_equal(reported.lines, EVENTS);
    assert_true(reported.row_bytes_max <
                2 * ROW_BYTES); /* a quote and a backslash are two each here */
    end();
}

CLAIM(events_beyond_the_limit_per_second_count_as_lost)
{
    int64_t begun_us = clock_boot_us();
    size_t bytes = 0, lines = 0;
    uint64_t lost = 0;
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        struct reported reported = append_transaction(EVENTS);
        bytes += reported.bytes;
        lines += reported.lines;
        lost += reported.lost;
    }
    size_t seconds = (size_t)((clock_boot_us() - begun_us) / 1000000) + 1;
    assert_int_equal(lines + lost, ROUNDS * EVENTS);
    assert_true(bytes < seconds * SECOND_BYTES * 11 / 10);
    assert_true(lost > 0 || seconds > 1);
    end();
}

CLAIMS_MAIN(NULL, NULL)
