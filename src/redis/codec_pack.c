/* Packing: what goes to the scripts. */
#include "redis/codec_private.h"
#include "redis/command.h"
#include "redis/id.h"
#include "redis/media.h"

#include <assert.h>

struct packed {
    char at[FIXED_BYTES];
    size_t len;
};

static void put(struct packed *packed, uint64_t value, size_t bytes)
{
    assert(packed->len + bytes <= sizeof packed->at && (bytes == 8 || !(value >> (8 * bytes))));
    for (size_t i = bytes; i--; value >>= 8)
        packed->at[packed->len + i] = (char)(value & 255);
    packed->len += bytes;
}

static struct slice packed_slice(const struct packed *packed)
{
    return slice_make(packed->at, packed->len);
}

static void put_policy(struct packed *packed, const struct policy *policy)
{
    put(packed, (uint64_t)policy->lease_ms, 6);
    put(packed, (uint64_t)policy->ttl_ms, 6);
    put(packed, policy->backoff.kind, 1);
    put(packed, policy->backoff.kind ? (uint64_t)policy->backoff.first_ms : 0, 6);
    put(packed, policy->backoff.kind ? (uint64_t)policy->backoff.max_ms : 0, 6);
    put(packed, policy->max_attempts, 4);
}

static bool policy_is_set(const struct policy *policy)
{
    return policy->lease_ms || policy->ttl_ms || policy->backoff.kind || policy->max_attempts;
}

/* A reschedule may leave the time as it is; then `ms` says nothing. */
static uint64_t ms_of(const struct queue_when *when)
{
    return when->due == QUEUE_DUE_DELAY || when->due == QUEUE_DUE_AT ? (uint64_t)when->ms : 0;
}

static void put_id(struct buffer *args, struct slice id)
{
    char room[REDIS_ID_PACKED_BYTES];
    redis_command_arg(args, redis_id_store(id, room));
}

static bool has_past(const struct queue_past *past)
{
    return past->attempt || past->dead || past->error.len;
}

static unsigned flags_of(const struct queue_push *push)
{
    return (policy_is_set(&push->policy) ? HAS_POLICY : 0u) |
           (push->content_type.len ? HAS_CONTENT_TYPE : 0u) | (push->meta.len ? HAS_META : 0u) |
           (has_past(&push->past) ? HAS_PAST : 0u);
}

/* What stands in the record behind the content type's first byte. */
static struct slice type_text(const struct queue_push *push)
{
    return redis_media_number(push->content_type) ? (struct slice){0} : push->content_type;
}

static size_t tail_bytes(const struct queue_push *push, unsigned flags)
{
    return (flags & HAS_PAST ? 7 + push->past.error.len : 0) +
           (flags & HAS_POLICY ? POLICY_BYTES : 0) +
           (flags & HAS_CONTENT_TYPE ? 1 + type_text(push).len : 0) +
           (flags & HAS_META ? 2 + push->meta.len : 0) + push->body.len;
}

/* In pieces, so that a body is copied once. */
static void put_tail(struct buffer *args, const struct queue_push *push, unsigned flags)
{
    struct packed head = {.len = 0};
    uint8_t media = redis_media_number(push->content_type);
    buffer_append_byte(args, '$');
    buffer_append_u64(args, tail_bytes(push, flags));
    buffer_append(args, "\r\n", 2);
    if (flags & HAS_PAST) {
        put(&head, push->past.dead, 1);
        put(&head, push->past.attempt, 4);
        put(&head, push->past.error.len, 2);
        buffer_append_slice(args, packed_slice(&head));
        buffer_append_slice(args, push->past.error);
        head.len = 0;
    }
    if (flags & HAS_POLICY)
        put_policy(&head, &push->policy);
    if (flags & HAS_CONTENT_TYPE)
        put(&head, media ? media : push->content_type.len, 1);
    buffer_append_slice(args, packed_slice(&head));
    buffer_append_slice(args, type_text(push));
    head.len = 0;
    if (flags & HAS_META)
        put(&head, push->meta.len, 2);
    buffer_append_slice(args, packed_slice(&head));
    buffer_append_slice(args, push->meta);
    buffer_append_slice(args, push->body);
    buffer_append(args, "\r\n", 2);
}

void redis_pack_push(struct buffer *args, const struct queue_push *push, bool id_is_made)
{
    unsigned flags = flags_of(push);
    bool has_priority = push->priority != QUEUE_PRIORITY_UNSET;
    struct packed packed = {.len = 0};
    put_id(args, push->id);
    put(&packed,
        (unsigned)push->on_conflict | (has_priority ? PRIORITY_GIVEN : 0u) |
            (id_is_made ? ID_IS_MADE : 0u),
        1);
    put(&packed, push->when.due, 1);
    put(&packed, flags, 1);
    put(&packed, has_priority ? (uint64_t)push->priority : 0, 2);
    put(&packed, ms_of(&push->when), 6);
    redis_command_arg(args, packed_slice(&packed));
    put_tail(args, push, flags);
}

/* One verb more than queue.h has: nack for good. */
enum { REFUSE = 5 };

static uint64_t ms_of_answer(const struct queue_answer *answer)
{
    if (answer->verb == QUEUE_NACK)
        return answer->delay_ms < 0 ? NONE : (uint64_t)answer->delay_ms;
    if (answer->verb == QUEUE_RETURN)
        return answer->delay_ms > 0 ? (uint64_t)answer->delay_ms : 0;
    return answer->verb == QUEUE_EXTEND ? (uint64_t)answer->lease_ms : 0;
}

void redis_pack_answer(struct buffer *args, const struct queue_answer *answer, uint64_t delivery)
{
    struct packed packed = {.len = 0};
    struct slice error = answer->verb == QUEUE_NACK ? answer->error : (struct slice){0};
    put(&packed, delivery, 6);
    bool refuses = answer->verb == QUEUE_NACK && answer->final;
    put(&packed, refuses ? REFUSE : (uint64_t)answer->verb, 1);
    put(&packed, ms_of_answer(answer), 6);
    redis_command_arg(args, packed_slice(&packed));
    if (error.len > JOB_ERROR_BYTES_MAX)
        error.len = JOB_ERROR_BYTES_MAX;
    redis_command_arg(args, error);
}

/* One verb more than queue.h has: cancel a dead job if it is still the one meant. */
enum { CANCEL_DEAD = 4 };

static uint64_t ms_or_delivery(const struct queue_change *change)
{
    if (change->only_dead)
        return change->delivery;
    return change->verb == QUEUE_RESCHEDULE ? (uint64_t)ms_of(&change->when) : 0;
}

void redis_pack_change(struct buffer *args, const struct queue_change *change)
{
    bool is_reschedule = change->verb == QUEUE_RESCHEDULE;
    bool has_priority = is_reschedule && change->priority != QUEUE_PRIORITY_UNSET;
    struct packed packed = {.len = 0};
    put_id(args, change->id);
    put(&packed, change->only_dead ? CANCEL_DEAD : (uint64_t)change->verb, 1);
    put(&packed, is_reschedule ? change->when.due : 0u, 1);
    put(&packed, has_priority, 1);
    put(&packed, has_priority ? (uint64_t)change->priority : 0, 2);
    put(&packed, ms_or_delivery(change), 6);
    redis_command_arg(args, packed_slice(&packed));
}

void redis_pack_settings(struct buffer *args, const struct topic_settings *settings)
{
    struct packed packed = {.len = 0};
    put_policy(&packed, &settings->policy);
    put(&packed, settings->on_conflict, 1);
    put(&packed, settings->has_priority, 1);
    put(&packed, settings->has_priority ? (uint64_t)settings->priority : 0, 2);
    put(&packed, settings->dead_letter_expired, 1);
    put(&packed, (uint64_t)settings->dedup_window_ms, 6);
    assert(packed.len == SETTINGS_BYTES);
    redis_command_arg(args, packed_slice(&packed));
}
