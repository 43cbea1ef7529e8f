/* Unpacking: what comes back. */
#include "redis/codec_private.h"
#include "redis/media.h"

#include <assert.h>

/* What is left of a text, and whether it was all there. */
struct reading {
    struct slice rest;
    bool failed;
};

static struct slice get_text(struct reading *in, size_t bytes)
{
    struct slice text = {0};
    if (in->failed || in->rest.len < bytes) {
        in->failed = true;
        return text;
    }
    text = slice_make(in->rest.at, bytes);
    in->rest = slice_make(in->rest.at + bytes, in->rest.len - bytes);
    return text;
}

static uint64_t get(struct reading *in, size_t bytes)
{
    struct slice text = get_text(in, bytes);
    uint64_t value = 0;
    for (size_t i = 0; i < text.len; i++)
        value = value << 8 | (unsigned char)text.at[i];
    return value;
}

static int64_t get_ms(struct reading *in)
{
    return (int64_t)get(in, 6);
}

/* A time, on the wall clock; 0 stands for none. */
static int64_t get_wall_ms(struct reading *in, int64_t adjust_ms)
{
    int64_t ms = get_ms(in);
    return ms ? ms - adjust_ms : 0;
}

static unsigned get_up_to(struct reading *in, size_t bytes, unsigned most)
{
    uint64_t value = get(in, bytes);
    in->failed |= value > most;
    return (unsigned)value;
}

static void get_policy(struct reading *in, struct policy *out)
{
    out->lease_ms = get_ms(in);
    out->ttl_ms = get_ms(in);
    out->backoff.kind = (enum backoff_kind)get_up_to(in, 1, BACKOFF_EXPONENTIAL);
    out->backoff.first_ms = get_ms(in);
    out->backoff.max_ms = get_ms(in);
    out->max_attempts = (uint32_t)get(in, 4);
}

static void get_status(struct reading *in, struct queue_result *out)
{
    out->status = (enum queue_status)get_up_to(in, 1, QUEUE_UNAVAILABLE);
    out->state = (enum job_state)get_up_to(in, 1, JOB_FINISHED);
    out->detail = out->status == QUEUE_BAD_OPTION ? "at" : NULL; /* all that a script refuses */
}

bool redis_unpack_all_made(struct slice rest, int64_t *now_ms)
{
    struct reading in = {.rest = rest};
    *now_ms = get_ms(&in);
    return !in.failed && in.rest.len == 0;
}

/* As due_of in push.lua. */
static int64_t due_of(const struct queue_when *when, int64_t now_ms, int64_t adjust_ms)
{
    if (when->due == QUEUE_DUE_DELAY && when->ms > 0)
        return now_ms + 1 + when->ms;
    if (when->due == QUEUE_DUE_AT && when->ms > now_ms - adjust_ms)
        return when->ms + adjust_ms;
    return now_ms;
}

void redis_result_of_made(const struct queue_when *when, int64_t now_ms, int64_t adjust_ms,
                          struct queue_result *out)
{
    int64_t due_ms = due_of(when, now_ms, adjust_ms);
    out->status = QUEUE_CREATED;
    out->state = due_ms > now_ms ? JOB_DELAYED : JOB_READY;
    out->due_ms = due_ms - adjust_ms;
}

bool redis_unpack_result(struct slice *rest, int64_t adjust_ms, struct queue_result *out)
{
    struct reading in = {.rest = *rest};
    get_status(&in, out);
    out->due_ms = get_wall_ms(&in, adjust_ms);
    *rest = in.rest;
    return !in.failed;
}

bool redis_unpack_answered(struct slice *rest, int64_t adjust_ms, struct queue_result *out)
{
    if (!redis_unpack_result(rest, adjust_ms, out))
        return false;
    struct reading in = {.rest = *rest};
    out->lease_until_ms = get_wall_ms(&in, adjust_ms);
    *rest = in.rest;
    return !in.failed;
}

bool redis_unpack_u8(struct slice *rest, uint8_t *out)
{
    struct reading in = {.rest = *rest};
    *out = (uint8_t)get(&in, 1);
    *rest = in.rest;
    return !in.failed;
}

bool redis_unpack_u48(struct slice *rest, uint64_t *out)
{
    struct reading in = {.rest = *rest};
    *out = get(&in, 6);
    *rest = in.rest;
    return !in.failed;
}

static struct slice get_content_type(struct reading *in)
{
    uint8_t length = (uint8_t)get(in, 1);
    if (length <= JOB_CONTENT_TYPE_BYTES_MAX)
        return get_text(in, length);
    struct slice type = redis_media_type(length);
    in->failed |= !type.len;
    return type;
}

static void get_record(struct reading *in, int64_t adjust_ms, struct job *out)
{
    unsigned flags = get_up_to(in, 1, FLAGS);
    out->priority = (uint16_t)get(in, 2);
    out->sequence = get(in, 6);
    out->due_ms = out->first_due_ms = get_ms(in) - adjust_ms;
    out->due_is_wall = flags & DUE_IS_WALL;
    if (flags & HAS_POLICY)
        get_policy(in, &out->policy);
    if (flags & HAS_CONTENT_TYPE)
        out->content_type = get_content_type(in);
    if (flags & HAS_META)
        out->meta = get_text(in, get_up_to(in, 2, JOB_META_BYTES_MAX));
    out->body = in->rest;
}

/* A history that was spoiled keeps nobody from the job. */
static struct slice readable(struct slice history)
{
    struct job_attempt ignored;
    size_t at = 0, count = 0;
    while (count < JOB_HISTORY_MAX && job_history_next(history, &at, &ignored))
        count++;
    return slice_make(history.at, at);
}

static void get_try(struct reading *in, int64_t adjust_ms, struct job *out)
{
    unsigned state = (unsigned)get(in, 1);
    out->state = (enum job_state)(state & ~(unsigned)HAS_HISTORY);
    out->priority = (uint16_t)get(in, 2);
    out->attempt = (uint32_t)get(in, 4);
    out->due_ms = get_ms(in) - adjust_ms;
    out->first_due_ms = get_ms(in) - adjust_ms;
    out->lease_until_ms = get_wall_ms(in, adjust_ms);
    out->delivery = get(in, 6);
    (void)get_ms(in); /* what it was taken with, for an extension that names no time */
    if (state & HAS_HISTORY) {
        out->error = get_text(in, get_up_to(in, 2, JOB_ERROR_BYTES_MAX));
        out->history = readable(in->rest);
    } else {
        out->error = in->rest;
    }
    in->failed |= !out->state || out->state > JOB_DEAD || out->error.len > JOB_ERROR_BYTES_MAX;
}

bool redis_unpack_job(struct slice record, struct slice attempt, enum job_state state,
                      int64_t adjust_ms, struct job *out)
{
    struct reading in = {.rest = record};
    *out = (struct job){0};
    get_record(&in, adjust_ms, out);
    if (attempt.len && !in.failed) {
        in.rest = attempt;
        get_try(&in, adjust_ms, out);
    }
    if (state)
        out->state = state;
    if (out->state != JOB_LEASED)
        out->lease_until_ms = 0;
    return !in.failed && out->state >= JOB_DELAYED && out->state <= JOB_DEAD;
}

bool redis_unpack_counters(struct slice rest, uint64_t *changes, uint64_t *deaths)
{
    struct reading in = {.rest = rest};
    *changes = get(&in, 6);
    *deaths = get(&in, 6);
    return !in.failed && in.rest.len == 0;
}

static void get_settings(struct reading *in, struct topic_settings *out)
{
    get_policy(in, &out->policy);
    out->on_conflict = (enum record_conflict)get_up_to(in, 1, CONFLICT_REJECT);
    out->has_priority = get_up_to(in, 1, 1);
    out->priority = (int32_t)get(in, 2);
    out->dead_letter_expired = get_up_to(in, 1, 1);
    out->dedup_window_ms = get_ms(in);
}

static void get_totals(struct reading *in, struct topic_totals *out)
{
    uint64_t *const fields[] = {&out->pushed,   &out->acked,     &out->cancelled, &out->expired,
                                &out->replaced, &out->delivered, &out->nacked,    &out->lease_ended,
                                &out->died,     &out->redriven};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        *fields[i] = get(in, 6);
}

bool redis_unpack_topic(struct slice text, int64_t adjust_ms, struct queue_topic *out)
{
    struct reading in = {.rest = text};
    *out = (struct queue_topic){.paused = get_up_to(&in, 1, 1)};
    out->counts.delayed = get(&in, 6);
    out->counts.retrying = get(&in, 6);
    out->counts.ready = get(&in, 6);
    out->counts.leased = get(&in, 6);
    out->counts.dead = get(&in, 6);
    out->counts.dead_bytes = get(&in, 6);
    get_totals(&in, &out->totals);
    out->oldest_ready_due_ms = get_wall_ms(&in, adjust_ms);
    size_t settings_bytes = get_up_to(&in, 1, SETTINGS_BYTES);
    if (settings_bytes) {
        in.failed |= settings_bytes != SETTINGS_BYTES;
        get_settings(&in, &out->settings);
    }
    out->settings.extension = in.rest;
    return !in.failed && in.rest.len <= TOPIC_EXTENSION_BYTES_MAX;
}
