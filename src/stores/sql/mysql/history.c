/* The history of attempts and jobs, for topics that keep it. Events are recorded by the rules and
 * written with the rows. */
#include "sql/mysql/link.h"

#include <string.h>

void mysql_history_note(struct mysql_link *link, const struct mysql_row *row, const char *event,
                        struct slice consumer, struct slice error)
{
    struct mysql_event noted = {.row = row,
                                .event = event,
                                .attempt = row->attempt,
                                .started_ms = row->taken_ms,
                                .consumer_bytes = consumer.len,
                                .error = error};
    if (!row->topic || row->topic->settings.history_ms <= 0)
        return;
    if (consumer.len)
        memcpy(noted.consumer, consumer.at, consumer.len);
    if (!mysql_events_add(&link->history.events, noted))
        link->context->effects.failed = true;
}

static void append_event(struct buffer *out, const struct mysql_link *link,
                         const struct mysql_event *event)
{
    buffer_append_format(out, "(%lld,%u,", (long long)link->now_ms, event->row->topic->number);
    mysql_quote(out, mysql_row_id(event->row));
    buffer_append_format(out, ",'%s',%u,", event->event, event->attempt);
    if (event->started_ms)
        buffer_append_i64(out, event->started_ms);
    else
        buffer_append_text(out, "NULL");
    buffer_append_byte(out, ',');
    mysql_quote_bytes(out, slice_make(event->consumer, event->consumer_bytes));
    buffer_append_byte(out, ',');
    mysql_quote_bytes(out, event->error);
    buffer_append_byte(out, ')');
}

void mysql_append_history(struct mysql_link *link)
{
    enum { STATEMENT_BYTES = 256 * 1024 };
    struct buffer *out = NULL;
    size_t begun = 0;
    for (size_t i = 0; i < link->history.events.count; i++) {
        if (!out || out->len - begun > STATEMENT_BYTES) {
            out = mysql_statement(link, NULL);
            begun = out->len;
            buffer_append_text(out, "INSERT INTO tarry.history "
                                    "(at,topic,id,event,attempt,started,consumer,error) VALUES ");
        } else {
            buffer_append_byte(out, ',');
        }
        append_event(out, link, &link->history.events.at[i]);
    }
}

void mysql_append_history_days(struct mysql_link *link)
{
    enum { UPKEEPS = 60 }; /* one upkeep per second */
    EACH_CALL(link, call)
    {
        if (call->kind == SQL_CALL_UPKEEP && link->history.upkeeps++ % UPKEEPS == 0)
            link->history.wants_days = true;
    }
    if (!link->history.wants_days)
        return;
    buffer_append_text(mysql_statement_of(link, (struct mysql_step){.is_optional = true}),
                       "CALL tarry.server_history_days()");
    /* its last query has begun a transaction */
    buffer_append_text(mysql_statement_of(link, (struct mysql_step){.is_optional = true}),
                       "COMMIT");
}
