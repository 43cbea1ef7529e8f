/* From options to commands of the queue. See query.h. */
#include "http/query.h"

struct queue_when http_fields_when(const struct http_fields *fields, enum queue_due otherwise)
{
    if (http_fields_have(fields, OPTION_DELAY))
        return (struct queue_when){.due = QUEUE_DUE_DELAY, .ms = fields->delay_ms};
    if (http_fields_have(fields, OPTION_AT))
        return (struct queue_when){.due = QUEUE_DUE_AT, .ms = fields->at_ms};
    return (struct queue_when){.due = otherwise};
}

/* Not within a character. */
static struct slice cut(struct slice text, size_t bytes_max)
{
    if (text.len <= bytes_max)
        return text;
    while (bytes_max && ((unsigned char)text.at[bytes_max] & 0xc0) == 0x80)
        bytes_max--;
    return slice_make(text.at, bytes_max);
}

void http_fields_push(const struct http_fields *fields, struct queue_push *push)
{
    push->when = http_fields_when(fields, QUEUE_DUE_NOW);
    push->priority = http_fields_have(fields, OPTION_PRIORITY) ? (int32_t)fields->priority
                                                               : QUEUE_PRIORITY_UNSET;
    push->on_conflict = fields->on_conflict;
    push->policy = fields->policy;
    push->past = (struct queue_past){.attempt = fields->attempt,
                                     .dead = fields->state == JOB_DEAD,
                                     .error = cut(fields->error, JOB_ERROR_BYTES_MAX)};
}

void http_fields_settings(const struct http_fields *fields, struct topic_settings *settings)
{
    *settings = (struct topic_settings){
        .policy = fields->policy,
        .on_conflict = fields->on_conflict,
        .priority = (int32_t)fields->priority,
        .has_priority = http_fields_have(fields, OPTION_PRIORITY),
        .dead_letter_expired = fields->dead_letter_expired,
        .dedup_window_ms = fields->dedup_window_ms,
    };
}
