#include "redis/codec.h"

#include "queue/life.h"
#include "redis/command.h"
#include "redis/id.h"

#include <assert.h>

/* ---- the formats (scripts/README.md) ---- */

#define NONE ((UINT64_C(1) << 48) - 1)

enum {
    HAS_POLICY = 1,
    HAS_CONTENT_TYPE = 2,
    HAS_META = 4,
    DUE_IS_WALL = 8,
    HAS_PAST = 16,
    HAS_KEEP = 32,
    HAS_GROUP = 64,
    PUSH_HAS_BATCH = DUE_IS_WALL, /* in a push, where the due has no flag */
    RECORD_HAS_BATCH = HAS_PAST,  /* in a record, which has no past */
    FLAGS = HAS_POLICY | HAS_CONTENT_TYPE | HAS_META | DUE_IS_WALL | HAS_KEEP | HAS_GROUP |
            RECORD_HAS_BATCH
};

/* Flags next to the state of a try; IS_HELD, IS_REQUESTED: next to the state in a result. */
enum { HAS_HOLDER = 16, HAS_HISTORY = 128, IS_HELD = 64, IS_REQUESTED = 128 };
enum { HOLDER_IS_REQUESTED = 1, HOLDER_HAS_NEXT = 2, HOLDER_HAS_PROGRESS = 4, HOLDER_FLAGS = 7 };

enum { PRIORITY_GIVEN = 4, ID_IS_MADE = 8, AFTER_CHOSEN = 16, IS_AWAITED = 32 };

enum {
    POLICY_BYTES = 6 + 6 + 1 + 6 + 6 + 4,
    SETTINGS_BYTES = POLICY_BYTES + 1 + 1 + 2 + 1 + 6,
    SETTINGS_LIMITS_BYTES = 6 + 4 + 1, /* appended if there are limits, or what follows them: */
    STEPS_BYTES = 1 + 4 * BACKOFF_STEPS_MAX, /* if the backoff is a list, */
    SETTINGS_KEEPS_BYTES = 6 + 6 + 6 + 1,    /* and if finished jobs are kept, or what follows: */
    SETTINGS_FLOW_BYTES = 2 * (4 + 4 + 1 + 4) + 6 + 1, /* limits and rates of deliveries */
    FIXED_BYTES = 80                                   /* more than any fixed-length text above */
};

/* The most common content types, stored as one byte. In a record, a content type is a byte and a
 * text: up to 128 the byte is the length of the text; above, it is the number of one of these and
 * no text follows. Numbers must not change, because records contain them. */
static const char *const media_types[] = {
    "application/octet-stream",
    "application/json",
    "text/plain",
    "text/plain; charset=utf-8",
    "application/x-www-form-urlencoded",
    "application/xml",
    "application/x-protobuf",
    "application/msgpack",
};

enum { MEDIA_TYPES = sizeof media_types / sizeof media_types[0], MEDIA_FIRST = 129 };
_Static_assert((int)MEDIA_FIRST > (int)JOB_CONTENT_TYPE_BYTES_MAX, "lengths and numbers are apart");

/* Returns 0 if the type is not in the list. */
static uint8_t media_number(struct slice content_type)
{
    for (uint8_t i = 0; i < MEDIA_TYPES; i++)
        if (slice_equals(content_type, slice_of(media_types[i])))
            return (uint8_t)(MEDIA_FIRST + i);
    return 0;
}

/* Returns an empty slice if there is no such number. */
static struct slice media_type(uint8_t number)
{
    bool known = number >= MEDIA_FIRST && number < MEDIA_FIRST + MEDIA_TYPES;
    return known ? slice_of(media_types[number - MEDIA_FIRST]) : (struct slice){0};
}

/* ---- packing: what goes to the scripts ---- */

struct packed {
    char at[FIXED_BYTES];
    size_t len;
};

static void packed_put(struct packed *packed, uint64_t value, size_t bytes)
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

static void pack_policy(struct packed *packed, const struct policy *policy)
{
    packed_put(packed, (uint64_t)policy->lease_ms, 6);
    packed_put(packed, (uint64_t)policy->ttl_ms, 6);
    packed_put(packed, policy->backoff.kind, 1);
    packed_put(packed, policy->backoff.kind ? (uint64_t)policy->backoff.first_ms : 0, 6);
    packed_put(packed, policy->backoff.kind ? (uint64_t)policy->backoff.max_ms : 0, 6);
    packed_put(packed, policy->max_attempts, 4);
}

/* Packs the waits of a list: their number, and each. Returns the bytes; 0 for other backoffs. */
static size_t pack_steps(const struct backoff *backoff, char into[STEPS_BYTES])
{
    size_t bytes = 0;
    if (backoff->kind != BACKOFF_LIST)
        return 0;
    into[bytes++] = (char)backoff->step_count;
    for (uint32_t i = 0; i < backoff->step_count; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            into[bytes++] = (char)(backoff->steps_ms[i] >> shift & 255);
    return bytes;
}

/* Appends a policy, and what was packed before it. */
static void append_policy(struct buffer *args, struct packed *head, const struct policy *policy)
{
    char steps[STEPS_BYTES];
    pack_policy(head, policy);
    buffer_append_slice(args, packed_slice(head));
    head->len = 0;
    buffer_append(args, steps, pack_steps(&policy->backoff, steps));
}

static size_t steps_bytes(const struct backoff *backoff)
{
    return backoff->kind == BACKOFF_LIST ? 1 + 4 * (size_t)backoff->step_count : 0;
}

static bool policy_is_set(const struct policy *policy)
{
    return policy->lease_ms || policy->ttl_ms || policy->backoff.kind || policy->max_attempts;
}

/* Returns the milliseconds of a time. A reschedule may keep the current time; then `ms` is
 * unused. */
static uint64_t ms_of(const struct queue_when *when)
{
    return when->due == QUEUE_DUE_DELAY || when->due == QUEUE_DUE_AT ? (uint64_t)when->ms : 0;
}

static void pack_id(struct buffer *args, struct slice id)
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
           (push->group.len ? HAS_GROUP : 0u) | (push->has_keep_finished ? HAS_KEEP : 0u) |
           (push->batch ? PUSH_HAS_BATCH : 0u) | (has_past(&push->past) ? HAS_PAST : 0u);
}

/* Returns the text that follows the content type's first byte in the record. */
static struct slice type_text(const struct queue_push *push)
{
    return media_number(push->content_type) ? (struct slice){0} : push->content_type;
}

enum {
    BATCH_FIXED_BYTES = 6 + 4 + 6 + 6 + 1 + 4 * BATCH_OUTCOMES + 1 + 1 + 2 + 6 + 1 + 1,
    BATCH_NOT_ASKED = 255, /* as in scripts/common/batches.lua */
    BATCH_BYTES_MAX = 2 + BATCH_FIXED_BYTES + REDIS_ID_PACKED_BYTES + JOB_BATCH_BYTES_MAX
};

/* Packs the batches of a push: their length, parent, expected members, wait and close, on_dead, members that ended
 * elsewhere by outcome, the answer of the home to a join, the stored id of the named batch, and job_batch_encode without what the script knows. */
static size_t pack_batch(const struct queue_batch *batch, char into[BATCH_BYTES_MAX])
{
    char room[REDIS_ID_PACKED_BYTES], encoded[JOB_BATCH_BYTES_MAX];
    struct job_batch own = life_batch_of(batch);
    if (batch->was_asked && batch->number) {
        own.number = batch->number & REDIS_BATCH_NUMBER_MASK;
        own.depth = (uint8_t)(batch->depth + 1);
    }
    struct slice id = batch->id.len ? redis_id_store(batch->id, room) : slice_of("");
    size_t encoded_bytes = job_batch_encode(&own, encoded);
    struct packed packed = {.len = 0};
    packed_put(&packed, BATCH_FIXED_BYTES + id.len + encoded_bytes, 2);
    packed_put(&packed, batch->parent_delivery, 6);
    packed_put(&packed, batch->members, 4);
    packed_put(&packed, (uint64_t)own.wait_ms, 6);
    packed_put(&packed, (uint64_t)own.close_ms, 6);
    packed_put(&packed, own.on_dead, 1);
    for (int i = 0; i < BATCH_OUTCOMES; i++)
        packed_put(&packed, batch->past.of[i], 4);
    packed_put(&packed, batch->was_asked ? batch->joined : BATCH_NOT_ASKED, 1);
    packed_put(&packed, batch->is_home, 1);
    packed_put(&packed, (batch->number >> QUEUE_BATCH_HOME_SHIFT), 2);
    packed_put(&packed, batch->join, 6);
    packed_put(&packed, batch->dead_member ? batch->dead_member : BATCH_GO, 1);
    packed_put(&packed, id.len, 1);
    memcpy(into, packed.at, packed.len);
    memcpy(into + packed.len, id.at, id.len);
    memcpy(into + packed.len + id.len, encoded, encoded_bytes);
    return packed.len + id.len + encoded_bytes;
}

static size_t tail_bytes(const struct queue_push *push, unsigned flags, size_t batch_bytes)
{
    return (flags & HAS_PAST ? 7 + push->past.error.len : 0) + batch_bytes +
           (flags & HAS_POLICY ? POLICY_BYTES + steps_bytes(&push->policy.backoff) : 0) +
           (flags & HAS_KEEP ? 6 : 0) + (flags & HAS_GROUP ? 1 + push->group.len : 0) +
           (flags & HAS_CONTENT_TYPE ? 1 + type_text(push).len : 0) +
           (flags & HAS_META ? 2 + push->meta.len : 0) + push->body.len;
}

/* Appends the tail in pieces, so that a body is copied only once. */
static void pack_tail(struct buffer *args, const struct queue_push *push, unsigned flags)
{
    struct packed head = {.len = 0};
    char batch[BATCH_BYTES_MAX];
    size_t batch_bytes = push->batch ? pack_batch(push->batch, batch) : 0;
    uint8_t media = media_number(push->content_type);
    buffer_append_byte(args, '$');
    buffer_append_u64(args, tail_bytes(push, flags, batch_bytes));
    buffer_append(args, "\r\n", 2);
    if (flags & HAS_PAST) {
        packed_put(&head, push->past.dead, 1);
        packed_put(&head, push->past.attempt, 4);
        packed_put(&head, push->past.error.len, 2);
        buffer_append_slice(args, packed_slice(&head));
        buffer_append_slice(args, push->past.error);
        head.len = 0;
    }
    buffer_append(args, batch, batch_bytes);
    if (flags & HAS_POLICY)
        append_policy(args, &head, &push->policy);
    if (flags & HAS_KEEP)
        packed_put(&head, (uint64_t)push->keep_finished_ms, 6);
    if (flags & HAS_GROUP) {
        packed_put(&head, push->group.len, 1);
        buffer_append_slice(args, packed_slice(&head));
        buffer_append_slice(args, push->group);
        head.len = 0;
    }
    if (flags & HAS_CONTENT_TYPE)
        packed_put(&head, media ? media : push->content_type.len, 1);
    buffer_append_slice(args, packed_slice(&head));
    buffer_append_slice(args, type_text(push));
    head.len = 0;
    if (flags & HAS_META)
        packed_put(&head, push->meta.len, 2);
    buffer_append_slice(args, packed_slice(&head));
    buffer_append_slice(args, push->meta);
    buffer_append_slice(args, push->body);
    buffer_append(args, "\r\n", 2);
}

/* Appends the argument of the numbers of a push, continued by its `once`. */
static void pack_spec_once(struct buffer *args, const struct queue_push *push,
                           struct packed *packed)
{
    char spec[FIXED_BYTES + JOB_ONCE_BYTES_MAX];
    packed_put(packed, (uint64_t)(push->once_for_ms ? push->once_for_ms : QUEUE_ONCE_MS), 6);
    memcpy(spec, packed->at, packed->len);
    memcpy(spec + packed->len, push->once.at, push->once.len);
    redis_command_arg(args, slice_make(spec, packed->len + push->once.len));
}

void redis_pack_push(struct buffer *args, const struct queue_push *push, bool id_is_made)
{
    unsigned flags = flags_of(push);
    bool has_priority = push->priority != QUEUE_PRIORITY_UNSET;
    struct packed packed = {.len = 0};
    pack_id(args, push->id);
    packed_put(&packed,
               (push->on_conflict == CONFLICT_AFTER ? AFTER_CHOSEN : (unsigned)push->on_conflict) |
                   (has_priority ? PRIORITY_GIVEN : 0u) | (id_is_made ? ID_IS_MADE : 0u) |
                   (push->ended ? IS_AWAITED : 0u),
               1);
    packed_put(&packed, push->when.due, 1);
    packed_put(&packed, flags, 1);
    packed_put(&packed, has_priority ? (uint64_t)push->priority : 0, 2);
    packed_put(&packed, ms_of(&push->when), 6);
    if (push->once.len)
        pack_spec_once(args, push, &packed);
    else
        redis_command_arg(args, packed_slice(&packed));
    pack_tail(args, push, flags);
}

void redis_pack_step(struct buffer *args, uint64_t chance, uint32_t due_max, uint32_t answers,
                     uint32_t takes)
{
    struct packed packed = {.len = 0};
    packed_put(&packed, chance, 6);
    packed_put(&packed, due_max, 2);
    packed_put(&packed, answers, 2);
    packed_put(&packed, takes, 2);
    redis_command_arg(args, packed_slice(&packed));
}

void redis_pack_take(struct buffer *args, struct slice topic, uint32_t max, uint32_t bytes_max,
                     int64_t lease_ms, enum job_way way, struct slice consumer)
{
    struct packed packed = {.len = 0};
    packed_put(&packed, max, 4);
    packed_put(&packed, bytes_max, 4);
    packed_put(&packed, (uint64_t)lease_ms, 6);
    packed_put(&packed, way, 1);
    char terms[sizeof packed.at + JOB_CONSUMER_BYTES_MAX];
    assert(consumer.len <= JOB_CONSUMER_BYTES_MAX);
    memcpy(terms, packed.at, packed.len);
    if (consumer.len)
        memcpy(terms + packed.len, consumer.at, consumer.len);
    redis_command_arg(args, topic);
    redis_command_arg(args, slice_make(terms, packed.len + consumer.len));
}

void redis_pack_pick(struct buffer *args, const struct queue_take *take, uint32_t bytes_max)
{
    struct packed packed = {.len = 0};
    packed_put(&packed, take->max, 4);
    packed_put(&packed, bytes_max, 4);
    packed_put(&packed, (uint64_t)take->lease_ms, 6);
    packed_put(&packed, take->way, 1);
    packed_put(&packed, take->is_bounded, 1);
    packed_put(&packed, take->priority_max, 2);
    char terms[sizeof packed.at + JOB_CONSUMER_BYTES_MAX];
    assert(take->consumer.len <= JOB_CONSUMER_BYTES_MAX);
    memcpy(terms, packed.at, packed.len);
    if (take->consumer.len)
        memcpy(terms + packed.len, take->consumer.at, take->consumer.len);
    redis_command_arg(args, slice_make(terms, packed.len + take->consumer.len));
}

/* The verbs of the script: those of queue.h, a final nack, again, and a final nack with a result. */
enum { REFUSE = 5, AGAIN, REFUSE_WITH_RESULT, WITH_HOLD = 64 };
enum { AGAIN_HAS_BODY = 1, AGAIN_HAS_TYPE };

/* Appends the arguments of a job that is pushed again: numbers, and the new content type and body. */
static void pack_again(struct buffer *args, const struct queue_again *again, int64_t hold_ms,
                       uint64_t delivery)
{
    struct packed packed = {.len = 0};
    bool has_type = again->has_body && again->content_type.len;
    bool has_priority = again->priority != QUEUE_PRIORITY_UNSET;
    uint8_t media = media_number(again->content_type);
    struct slice type = has_type && !media ? again->content_type : (struct slice){0};
    struct slice body = again->has_body ? again->body : (struct slice){0};
    packed_put(&packed, delivery, 6);
    packed_put(&packed, hold_ms ? AGAIN | WITH_HOLD : AGAIN, 1);
    packed_put(&packed, ms_of(&again->when), 6);
    packed_put(&packed, again->when.due, 1);
    packed_put(&packed, has_priority, 1);
    packed_put(&packed, has_priority ? (uint64_t)again->priority : 0, 2);
    packed_put(&packed, (again->has_body ? AGAIN_HAS_BODY : 0u) | (has_type ? AGAIN_HAS_TYPE : 0u),
               1);
    if (hold_ms)
        packed_put(&packed, (uint64_t)hold_ms, 6);
    redis_command_arg(args, packed_slice(&packed));
    buffer_append_byte(args, '$');
    buffer_append_u64(args, has_type + type.len + body.len);
    buffer_append(args, "\r\n", 2);
    if (has_type)
        buffer_append_byte(args, media ? (char)media : (char)again->content_type.len);
    buffer_append_slice(args, type);
    buffer_append_slice(args, body);
    buffer_append(args, "\r\n", 2);
}

static uint64_t ms_of_answer(const struct queue_answer *answer)
{
    if (answer->verb == QUEUE_NACK)
        return answer->delay_ms < 0 ? NONE : (uint64_t)answer->delay_ms;
    if (answer->verb == QUEUE_RETURN)
        return answer->delay_ms > 0 ? (uint64_t)answer->delay_ms : 0;
    return answer->verb == QUEUE_EXTEND ? (uint64_t)answer->lease_ms : 0;
}

static bool has_result(const struct queue_answer *answer)
{
    bool may = answer->verb == QUEUE_ACK || (answer->verb == QUEUE_NACK && answer->final);
    return may && answer->result.len + answer->result_type.len;
}

/* Appends an argument of two texts with the type of the result between them. */
static void pack_result(struct buffer *args, struct slice before, const struct queue_answer *answer)
{
    uint8_t media = media_number(answer->result_type);
    struct slice type = media ? (struct slice){0} : answer->result_type;
    buffer_append_byte(args, '$');
    buffer_append_u64(args, before.len + 1 + type.len + answer->result.len);
    buffer_append(args, "\r\n", 2);
    buffer_append_slice(args, before);
    buffer_append_byte(args, media ? (char)media : (char)type.len);
    buffer_append_slice(args, type);
    buffer_append_slice(args, answer->result);
    buffer_append(args, "\r\n", 2);
}

/* Appends the second argument of a final nack: its counted error, then the result. */
static void pack_refusal(struct buffer *args, struct slice error, const struct queue_answer *answer)
{
    char before[2 + JOB_ERROR_BYTES_MAX] = {(char)(error.len >> 8), (char)error.len};
    if (error.len)
        memcpy(before + 2, error.at, error.len);
    pack_result(args, slice_make(before, 2 + error.len), answer);
}

void redis_pack_answer(struct buffer *args, const struct queue_answer *answer, uint64_t delivery)
{
    struct packed packed = {.len = 0};
    struct slice error = answer->verb == QUEUE_NACK ? answer->error : (struct slice){0};
    bool with_result = has_result(answer);
    if (answer->verb == QUEUE_AGAIN) {
        pack_again(args, answer->again, answer->hold_ms, delivery);
        return;
    }
    packed_put(&packed, delivery, 6);
    bool refuses = answer->verb == QUEUE_NACK && answer->final;
    uint64_t refusal = with_result ? REFUSE_WITH_RESULT : REFUSE;
    packed_put(&packed,
               (refuses ? refusal : (uint64_t)answer->verb) | (answer->hold_ms ? WITH_HOLD : 0u),
               1);
    packed_put(&packed, ms_of_answer(answer), 6);
    if (answer->verb == QUEUE_NACK && answer->has_priority)
        packed_put(&packed, answer->priority, 2);
    if (answer->verb == QUEUE_ACK && with_result)
        packed_put(&packed, 1, 1);
    if (answer->hold_ms)
        packed_put(&packed, (uint64_t)answer->hold_ms, 6);
    redis_command_arg(args, packed_slice(&packed));
    if (error.len > JOB_ERROR_BYTES_MAX)
        error.len = JOB_ERROR_BYTES_MAX;
    if (refuses && with_result)
        pack_refusal(args, error, answer);
    else if (with_result)
        pack_result(args, (struct slice){.at = ""}, answer);
    else
        redis_command_arg(args, answer->verb == QUEUE_EXTEND ? answer->progress : error);
}

/* Verbs in addition to those of queue.h: cancel a dead job if it is still the one meant; cancel, or request it if the
 * job is leased; cancel a waiting job if it is still the one meant. A close has another number than there. */
enum { CANCEL_DEAD = 4, CANCEL_OR_REQUEST, CANCEL_WAITING, CLOSE };
enum { CANCEL_WITH_MEMBERS = 1 }; /* in place of when */

#define DELIVERY_MAX 0xffffffffffff /* not used by any job */

static uint64_t verb_of(const struct queue_change *change)
{
    if (change->only_dead)
        return CANCEL_DEAD;
    if (change->lease.len)
        return CANCEL_WAITING;
    if (change->verb == QUEUE_CLOSE)
        return CLOSE;
    return change->verb == QUEUE_CANCEL && change->request ? CANCEL_OR_REQUEST
                                                           : (uint64_t)change->verb;
}

static uint64_t ms_or_delivery(const struct queue_change *change)
{
    if (change->only_dead || change->lease.len)
        return change->delivery < DELIVERY_MAX ? change->delivery : DELIVERY_MAX;
    return change->verb == QUEUE_RESCHEDULE ? (uint64_t)ms_of(&change->when) : 0;
}

void redis_pack_change(struct buffer *args, const struct queue_change *change)
{
    bool is_reschedule = change->verb == QUEUE_RESCHEDULE;
    bool has_priority = is_reschedule && change->priority != QUEUE_PRIORITY_UNSET;
    struct packed packed = {.len = 0};
    pack_id(args, change->id);
    packed_put(&packed, verb_of(change), 1);
    packed_put(&packed,
               is_reschedule                                     ? change->when.due
               : change->verb == QUEUE_CANCEL && change->members ? CANCEL_WITH_MEMBERS
                                                                 : 0u,
               1);
    packed_put(&packed, has_priority, 1);
    packed_put(&packed, has_priority ? (uint64_t)change->priority : 0, 2);
    packed_put(&packed, ms_or_delivery(change), 6);
    redis_command_arg(args, packed_slice(&packed));
}

enum { FLOW_IS_STRICT = 1, FLOW_HAS_ONE_SHARD = 2 };

static void pack_flow_limits(struct packed *packed, const struct flow_limits *limits)
{
    packed_put(packed, limits->limit, 4);
    packed_put(packed, limits->rate.count, 4);
    packed_put(packed, limits->rate.unit, 1);
    packed_put(packed, limits->burst, 4);
}

static bool flow_limits_are_set(const struct flow_limits *limits)
{
    return limits->limit || limits->rate.count || limits->burst;
}

static bool flow_is_set(const struct topic_flow *flow)
{
    return flow_limits_are_set(&flow->topic) || flow_limits_are_set(&flow->group) ||
           flow->group_max_jobs || flow->group_order || flow->one_shard;
}

static void pack_flow(struct packed *packed, const struct topic_flow *flow)
{
    pack_flow_limits(packed, &flow->topic);
    pack_flow_limits(packed, &flow->group);
    packed_put(packed, flow->group_max_jobs, 6);
    packed_put(packed,
               (flow->group_order == FLOW_STRICT ? FLOW_IS_STRICT : 0u) |
                   (flow->one_shard ? FLOW_HAS_ONE_SHARD : 0u),
               1);
}

void redis_pack_group(struct buffer *args, const struct group_settings *settings)
{
    struct packed packed = {.len = 0};
    packed_put(&packed, settings->weight, 1);
    pack_flow_limits(&packed, &settings->limits);
    packed_put(&packed, settings->max_jobs, 6);
    packed_put(&packed, settings->paused, 1);
    packed_put(&packed, (uint64_t)settings->paused_until_ms, 6);
    redis_command_arg(args, packed_slice(&packed));
}

void redis_pack_settings(struct buffer *args, const struct topic_settings *settings)
{
    struct packed packed = {.len = 0};
    pack_policy(&packed, &settings->policy);
    packed_put(&packed, settings->on_conflict, 1);
    packed_put(&packed, settings->has_priority, 1);
    packed_put(&packed, settings->has_priority ? (uint64_t)settings->priority : 0, 2);
    packed_put(&packed, settings->dead_letter_expired, 1);
    packed_put(&packed, (uint64_t)settings->dedup_window_ms, 6);
    assert(packed.len == SETTINGS_BYTES);
    bool has_steps = settings->policy.backoff.kind == BACKOFF_LIST;
    bool has_flow = flow_is_set(&settings->flow);
    bool keeps = settings->keep_finished_ms || settings->keep_finished_max ||
                 settings->keep_finished_bytes || settings->keep_body || has_flow;
    if (keeps || settings->max_jobs || settings->push_rate.count || has_steps) {
        packed_put(&packed, settings->max_jobs, 6);
        packed_put(&packed, settings->push_rate.count, 4);
        packed_put(&packed, settings->push_rate.unit, 1);
    }
    char text[FIXED_BYTES + STEPS_BYTES + SETTINGS_FLOW_BYTES];
    memcpy(text, packed.at, packed.len);
    size_t bytes = packed.len;
    bytes += pack_steps(&settings->policy.backoff, text + bytes);
    packed.len = 0;
    if (keeps) {
        packed_put(&packed, (uint64_t)settings->keep_finished_ms, 6);
        packed_put(&packed, settings->keep_finished_max, 6);
        packed_put(&packed, settings->keep_finished_bytes, 6);
        packed_put(&packed, settings->keep_body, 1);
    }
    if (has_flow)
        pack_flow(&packed, &settings->flow);
    memcpy(text + bytes, packed.at, packed.len);
    redis_command_arg(args, slice_make(text, bytes + packed.len));
}

/* ---- unpacking: replies ---- */

/* The unread part of a text, and whether reading has failed. */
struct unpacking {
    struct slice rest;
    bool failed;
};

static struct slice read_text(struct unpacking *in, size_t bytes)
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

static uint64_t read_number(struct unpacking *in, size_t bytes)
{
    struct slice text = read_text(in, bytes);
    uint64_t value = 0;
    for (size_t i = 0; i < text.len; i++)
        value = value << 8 | (unsigned char)text.at[i];
    return value;
}

static int64_t read_ms(struct unpacking *in)
{
    return (int64_t)read_number(in, 6);
}

/* Reads a time on the wall clock; 0: no time. */
static int64_t read_wall_ms(struct unpacking *in, int64_t adjust_ms)
{
    int64_t ms = read_ms(in);
    return ms ? ms - adjust_ms : 0;
}

/* Returns 0 if the number is above `most`, so that it is a safe index. */
static unsigned read_up_to(struct unpacking *in, size_t bytes, unsigned most)
{
    uint64_t value = read_number(in, bytes);
    in->failed |= value > most;
    return value > most ? 0 : (unsigned)value;
}

static void read_policy(struct unpacking *in, struct policy *out)
{
    out->lease_ms = read_ms(in);
    out->ttl_ms = read_ms(in);
    out->backoff.kind = (enum backoff_kind)read_up_to(in, 1, BACKOFF_LIST);
    out->backoff.first_ms = read_ms(in);
    out->backoff.max_ms = read_ms(in);
    out->max_attempts = (uint32_t)read_number(in, 4);
}

/* Reads the waits of a list. */
static void read_steps(struct unpacking *in, struct backoff *out)
{
    if (out->kind != BACKOFF_LIST)
        return;
    out->step_count = read_up_to(in, 1, BACKOFF_STEPS_MAX);
    for (uint32_t i = 0; !in->failed && i < out->step_count; i++)
        out->steps_ms[i] = (uint32_t)read_number(in, 4);
    in->failed = in->failed || !policy_backoff_is_valid(out);
}

static void read_status(struct unpacking *in, struct queue_result *out)
{
    out->status = (enum queue_status)read_up_to(in, 1, QUEUE_STATUSES - 1);
    unsigned state = read_up_to(in, 1, IS_REQUESTED | IS_HELD | JOB_FINISHED);
    out->cancel_requested = state & IS_REQUESTED;
    out->state = (enum job_state)(state & ~(unsigned)(IS_REQUESTED | IS_HELD));
    in->failed |= out->state > JOB_FINISHED;
    /* The only ones that scripts reject: a time, and a batch that is too deep. */
    out->detail = out->status != QUEUE_BAD_OPTION ? NULL
                  : out->state == JOB_FINISHED    ? "batch"
                                                  : "at";
}

bool redis_unpack_all_made(struct slice rest, int64_t *now_ms)
{
    struct unpacking in = {.rest = rest};
    *now_ms = read_ms(&in);
    return !in.failed && in.rest.len == 0;
}

/* Computes the due time, like due_of in push.lua. */
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
    struct unpacking in = {.rest = *rest};
    read_status(&in, out);
    out->due_ms = read_wall_ms(&in, adjust_ms);
    *rest = in.rest;
    return !in.failed;
}

bool redis_unpack_answered(struct slice *rest, int64_t adjust_ms, struct queue_result *out)
{
    if (!redis_unpack_result(rest, adjust_ms, out))
        return false;
    struct unpacking in = {.rest = *rest};
    out->lease_until_ms = read_wall_ms(&in, adjust_ms);
    *rest = in.rest;
    return !in.failed;
}

bool redis_result_is_held(struct slice rest)
{
    return rest.len > 1 && (unsigned char)rest.at[1] & IS_HELD;
}

bool redis_unpack_u8(struct slice *rest, uint8_t *out)
{
    struct unpacking in = {.rest = *rest};
    *out = (uint8_t)read_number(&in, 1);
    *rest = in.rest;
    return !in.failed;
}

bool redis_unpack_u32(struct slice *rest, uint32_t *out)
{
    struct unpacking in = {.rest = *rest};
    *out = (uint32_t)read_number(&in, 4);
    *rest = in.rest;
    return !in.failed;
}

bool redis_unpack_u48(struct slice *rest, uint64_t *out)
{
    struct unpacking in = {.rest = *rest};
    *out = read_number(&in, 6);
    *rest = in.rest;
    return !in.failed;
}

bool redis_unpack_rank(struct slice *rest, int64_t adjust_ms, struct queue_rank *out)
{
    struct unpacking in = {.rest = *rest};
    out->priority = (uint16_t)read_number(&in, 2);
    out->due_ms = read_wall_ms(&in, adjust_ms);
    out->sequence = read_number(&in, 6);
    *rest = in.rest;
    return !in.failed;
}

static struct slice read_content_type(struct unpacking *in)
{
    uint8_t length = (uint8_t)read_number(in, 1);
    if (length <= JOB_CONTENT_TYPE_BYTES_MAX)
        return read_text(in, length);
    struct slice type = media_type(length);
    in->failed |= !type.len;
    return type;
}

/* Sets *own to the state of the job's own batch; empty: the record has none. */
static void read_record(struct unpacking *in, int64_t adjust_ms, struct job *out, struct slice *own)
{
    unsigned flags = read_up_to(in, 1, FLAGS);
    *own = (struct slice){0};
    out->priority = (uint16_t)read_number(in, 2);
    out->sequence = read_number(in, 6);
    out->due_ms = out->first_due_ms = read_ms(in) - adjust_ms;
    out->due_is_wall = flags & DUE_IS_WALL;
    if (flags & HAS_POLICY) {
        read_policy(in, &out->policy);
        read_steps(in, &out->policy.backoff);
    }
    out->has_keep = flags & HAS_KEEP;
    if (flags & HAS_KEEP)
        out->keep_ms = read_ms(in);
    if (flags & HAS_GROUP) {
        out->group = read_text(in, read_up_to(in, 1, JOB_GROUP_BYTES_MAX));
        in->failed |= !out->group.len;
    }
    if (flags & RECORD_HAS_BATCH) {
        struct unpacking part = {.rest = read_text(in, read_number(in, 2))};
        (void)read_text(&part, read_number(&part, 1)); /* the id of the batch as stored */
        *own = read_text(&part, read_number(&part, 1));
        out->batch = part.rest;
        in->failed |= part.failed;
    }
    if (flags & HAS_CONTENT_TYPE)
        out->content_type = read_content_type(in);
    if (flags & HAS_META)
        out->meta = read_text(in, read_up_to(in, 2, JOB_META_BYTES_MAX + BATCH_META_BYTES_MAX));
    out->body = in->rest;
}

enum {
    TRY_TEXTS_BYTES_MAX =
        2 + JOB_CONSUMER_BYTES_MAX + 6 + 2 + JOB_PROGRESS_BYTES_MAX + JOB_ERROR_BYTES_MAX
};

/* Returns the intact part of a history: a damaged history must not make the job unreadable. */
static struct slice readable(struct slice history)
{
    struct job_attempt ignored;
    size_t at = 0, count = 0;
    while (count < JOB_HISTORY_MAX && job_history_next(history, &at, &ignored))
        count++;
    return slice_make(history.at, at);
}

/* Reads the consumer that holds the job, whether it is requested to give the job up, the due of the successor, and
 * the progress. */
static void read_holder(struct unpacking *in, int64_t adjust_ms, struct job *out)
{
    uint64_t flags = read_up_to(in, 1, HOLDER_FLAGS);
    out->cancel_requested = flags & HOLDER_IS_REQUESTED;
    out->consumer = read_text(in, read_up_to(in, 1, JOB_CONSUMER_BYTES_MAX));
    if (flags & HOLDER_HAS_NEXT)
        out->next_due_ms = read_ms(in) - adjust_ms;
    if (flags & HOLDER_HAS_PROGRESS)
        out->progress = read_text(in, read_up_to(in, 2, JOB_PROGRESS_BYTES_MAX));
}

static void read_try(struct unpacking *in, int64_t adjust_ms, struct job *out)
{
    unsigned state = (unsigned)read_number(in, 1);
    out->state = (enum job_state)(state & ~(unsigned)(HAS_HISTORY | HAS_HOLDER));
    out->priority = (uint16_t)read_number(in, 2);
    out->attempt = (uint32_t)read_number(in, 4);
    out->due_ms = read_ms(in) - adjust_ms;
    out->first_due_ms = read_ms(in) - adjust_ms;
    out->lease_until_ms = read_wall_ms(in, adjust_ms);
    out->delivery = read_number(in, 6);
    (void)read_ms(in); /* the lease time of the take, for an extend without a time */
    struct unpacking texts = *in;
    if (state & HAS_HISTORY) {
        texts.rest = read_text(in, read_up_to(in, 2, TRY_TEXTS_BYTES_MAX));
        out->history = readable(in->rest);
    }
    if (state & HAS_HOLDER)
        read_holder(&texts, adjust_ms, out);
    out->error = texts.rest;
    in->failed |= texts.failed;
    in->failed |= !out->state || out->state > JOB_DEAD || out->error.len > JOB_ERROR_BYTES_MAX;
}

bool redis_unpack_job(struct slice record, struct slice attempt, enum job_state state,
                      int64_t adjust_ms, struct job *out)
{
    struct unpacking in = {.rest = record};
    struct slice own;
    *out = (struct job){0};
    read_record(&in, adjust_ms, out, &own);
    if (attempt.len && !in.failed) {
        in.rest = attempt;
        read_try(&in, adjust_ms, out);
    }
    if (state)
        out->state = state;
    if (out->state != JOB_LEASED) {
        out->lease_until_ms = 0;
        out->consumer = (struct slice){0};
        out->progress = (struct slice){0};
        out->cancel_requested = false;
        out->next_due_ms = 0;
    }
    return !in.failed && out->state >= JOB_DELAYED && out->state <= JOB_DEAD;
}

/* Bits of the state of a batch. */
enum { BATCH_IS_CLOSED = 1, BATCH_HAS_ENDED = 2 };

bool redis_unpack_waiting(struct slice record, bool is_taken, struct queue_job *job,
                          struct queue_waiting *room)
{
    struct job_batch batch;
    struct job ignored;
    struct slice own;
    struct unpacking in = {.rest = record};
    if (!job->job.batch.len)
        return true;
    if (!job_batch_decode(job->job.batch, &batch))
        return false;
    if (!batch.waits)
        return true;
    read_record(&in, 0, &ignored, &own);
    *room = (struct queue_waiting){.on_dead = batch.on_dead};
    job->waiting = room;
    if (!own.len)
        return true; /* its state was lost */
    in = (struct unpacking){.rest = own};
    unsigned bits = (unsigned)read_number(&in, 1);
    room->is_closed = bits & BATCH_IS_CLOSED;
    room->has_ended = bits & BATCH_HAS_ENDED;
    (void)read_text(&in, 1 + 1 + 6); /* on_dead, depth, number */
    for (int i = 0; i < BATCH_OUTCOMES; i++)
        room->counts.of[i] = (uint32_t)read_number(&in, 4);
    (void)read_text(&in, 4 + 6 + 6); /* expected; end of the wait, last time for a close */
    room->when.due = (enum queue_due)read_number(&in, 1);
    room->when.ms = (int64_t)read_number(&in, 6);
    size_t outcome_bytes = read_up_to(&in, 1, BATCH_META_BYTES_MAX);
    if (in.failed || outcome_bytes > job->job.meta.len)
        return false;
    if (!is_taken)
        job->job.meta.len -= outcome_bytes;
    if (!room->has_ended && job->job.state != JOB_DEAD)
        job->job.due_ms = 0;
    return true;
}

/* Flags of a kept job, in the order of its texts, but for the batch, which is behind the result. */
enum {
    KEPT_META = 1,
    KEPT_CONSUMER = 2,
    KEPT_HISTORY = 4,
    KEPT_PROGRESS = 8,
    KEPT_RESULT = 16,
    KEPT_TYPE = 32,
    KEPT_BODY = 64,
    KEPT_BATCH = 128,
    KEPT_FLAGS = 255
};

static void read_end(struct unpacking *in, struct slice result, struct queue_end *end)
{
    in->rest = result;
    end->result_type = read_content_type(in);
    end->result = in->rest;
}

bool redis_unpack_kept(struct slice text, int64_t adjust_ms, struct job *out, struct queue_end *end)
{
    struct unpacking in = {.rest = text};
    *out = (struct job){.state = JOB_FINISHED};
    unsigned flags = read_up_to(&in, 1, KEPT_FLAGS);
    unsigned outcome = read_up_to(&in, 1, JOB_END_EXPIRED + 1);
    *end = (struct queue_end){.outcome = outcome <= JOB_END_EXPIRED ? (enum job_end)outcome : 0,
                              .has_body = flags & KEPT_BODY};
    out->sequence = queue_finished_rank_sequence(read_number(&in, 6));
    out->due_ms = queue_finished_rank(read_ms(&in) - adjust_ms);
    end->finished_ms = read_wall_ms(&in, adjust_ms);
    out->attempt = (uint32_t)read_number(&in, 4);
    end->duration_ms = (int64_t)read_number(&in, 4);
    if (flags & KEPT_META)
        out->meta = read_text(&in, read_up_to(&in, 2, JOB_META_BYTES_MAX + BATCH_META_BYTES_MAX));
    if (flags & KEPT_CONSUMER)
        out->consumer = read_text(&in, read_up_to(&in, 1, JOB_CONSUMER_BYTES_MAX));
    if (flags & KEPT_HISTORY)
        out->history = readable(read_text(&in, read_up_to(&in, 2, UINT16_MAX)));
    if (flags & KEPT_PROGRESS)
        out->progress = read_text(&in, read_up_to(&in, 2, JOB_PROGRESS_BYTES_MAX));
    struct unpacking result = in;
    if (flags & KEPT_RESULT) {
        struct slice bytes = read_text(&in, read_up_to(&in, 4, 2 * JOB_RESULT_BYTES_MAX));
        read_end(&result, bytes, end);
    }
    if (flags & KEPT_BATCH)
        out->batch = read_text(&in, read_up_to(&in, 2, JOB_BATCH_BYTES_MAX));
    if (flags & KEPT_TYPE)
        out->content_type = read_content_type(&in);
    if (flags & KEPT_BODY)
        out->body = in.rest;
    return !in.failed && !result.failed && outcome;
}

bool redis_unpack_ended(struct slice message, struct redis_ended *out)
{
    struct unpacking in = {.rest = message};
    *out = (struct redis_ended){.outcome = (enum redis_outcome)read_up_to(&in, 1, REDIS_MOVED)};
    out->number = read_number(&in, 6);
    out->has_job = read_up_to(&in, 1, 1);
    out->topic = read_text(&in, read_up_to(&in, 1, JOB_TOPIC_BYTES_MAX));
    out->stored = read_text(&in, read_up_to(&in, 1, JOB_ID_BYTES_MAX));
    out->job = in.rest;
    return !in.failed && out->outcome;
}

bool redis_unpack_counters(struct slice *rest, uint64_t *changes, uint64_t *deaths, uint64_t *ends)
{
    return redis_unpack_u48(rest, changes) && redis_unpack_u48(rest, deaths) &&
           redis_unpack_u48(rest, ends);
}

static void read_settings(struct unpacking *in, struct topic_settings *out)
{
    read_policy(in, &out->policy);
    out->on_conflict = (enum record_conflict)read_up_to(in, 1, CONFLICT_REJECT);
    out->has_priority = read_up_to(in, 1, 1);
    out->priority = (int32_t)read_number(in, 2);
    out->dead_letter_expired = read_up_to(in, 1, 1);
    out->dedup_window_ms = read_ms(in);
}

static void read_limits(struct unpacking *in, struct topic_settings *out)
{
    out->max_jobs = read_number(in, 6);
    out->push_rate.count = (uint32_t)read_number(in, 4);
    out->push_rate.unit = (enum frequency_unit)read_number(in, 1);
    in->failed |= out->max_jobs > TOPIC_JOBS_MAX || !frequency_is_valid(out->push_rate);
}

static void read_keeps(struct unpacking *in, struct topic_settings *out)
{
    out->keep_finished_ms = read_ms(in);
    out->keep_finished_max = read_number(in, 6);
    out->keep_finished_bytes = read_number(in, 6);
    out->keep_body = read_up_to(in, 1, 1);
}

static void read_totals(struct unpacking *in, struct topic_totals *out)
{
    uint64_t *const fields[] = {&out->pushed,   &out->acked,     &out->cancelled, &out->expired,
                                &out->replaced, &out->delivered, &out->nacked,    &out->lease_ended,
                                &out->died,     &out->redriven};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        *fields[i] = read_number(in, 6);
}

static struct flow_limits read_flow_limits(struct unpacking *in)
{
    struct flow_limits limits = {.limit = (uint32_t)read_number(in, 4)};
    limits.rate.count = (uint32_t)read_number(in, 4);
    limits.rate.unit = (enum frequency_unit)read_number(in, 1);
    limits.burst = (uint32_t)read_number(in, 4);
    in->failed |= !frequency_is_valid(limits.rate);
    return limits;
}

static void read_flow(struct unpacking *in, struct topic_flow *out)
{
    out->topic = read_flow_limits(in);
    out->group = read_flow_limits(in);
    out->group_max_jobs = read_number(in, 6);
    unsigned bits = read_up_to(in, 1, FLOW_IS_STRICT | FLOW_HAS_ONE_SHARD);
    out->group_order = bits & FLOW_IS_STRICT ? FLOW_STRICT : FLOW_FREE;
    out->one_shard = bits & FLOW_HAS_ONE_SHARD;
}

bool redis_unpack_group(struct slice text, int64_t adjust_ms, struct queue_group *out)
{
    struct unpacking in = {.rest = text};
    *out = (struct queue_group){.ready = read_number(&in, 6)};
    out->leased = read_number(&in, 6);
    out->held_by = (enum flow_held)read_up_to(&in, 1, FLOW_HELD_REASONS - 1);
    out->held_until_ms = read_wall_ms(&in, adjust_ms);
    out->oldest_ready_due_ms = read_wall_ms(&in, adjust_ms);
    out->has_settings = in.rest.len > 0;
    if (in.failed || !out->has_settings)
        return !in.failed;
    out->settings.weight = read_up_to(&in, 1, GROUP_WEIGHT_MAX);
    out->settings.limits = read_flow_limits(&in);
    out->settings.max_jobs = read_number(&in, 6);
    out->settings.paused = read_up_to(&in, 1, 1);
    out->settings.paused_until_ms = read_ms(&in);
    return !in.failed && !in.rest.len;
}

bool redis_unpack_held(struct slice text, int64_t adjust_ms, struct queue_job *out)
{
    struct unpacking in = {.rest = text};
    if (!text.len)
        return true;
    out->held_by = (enum flow_held)read_up_to(&in, 1, FLOW_HELD_REASONS - 1);
    out->held_until_ms = read_wall_ms(&in, adjust_ms);
    return !in.failed;
}

enum { TOPIC_IS_PAUSED = 1, TOPIC_HAS_FINISHED = 2, TOPIC_HAS_FLOW = 4 };

static void read_flow_figures(struct unpacking *in, struct queue_topic *out)
{
    out->groups = read_number(in, 4);
    for (unsigned left = read_up_to(in, 1, FLOW_HELD_REASONS - 1); left; left--) {
        unsigned by = read_up_to(in, 1, FLOW_HELD_REASONS - 1);
        out->held_by[by] = read_number(in, 6);
        out->counts.held += out->held_by[by];
    }
}

bool redis_unpack_topic(struct slice text, int64_t adjust_ms, struct queue_topic *out)
{
    struct unpacking in = {.rest = text};
    unsigned flags = read_up_to(&in, 1, TOPIC_IS_PAUSED | TOPIC_HAS_FINISHED | TOPIC_HAS_FLOW);
    *out = (struct queue_topic){.paused = flags & TOPIC_IS_PAUSED};
    out->paused_until_ms = read_wall_ms(&in, adjust_ms);
    out->counts.delayed = read_number(&in, 6);
    out->counts.retrying = read_number(&in, 6);
    out->counts.ready = read_number(&in, 6);
    out->counts.leased = read_number(&in, 6);
    out->counts.dead = read_number(&in, 6);
    out->counts.dead_bytes = read_number(&in, 6);
    read_totals(&in, &out->totals);
    out->oldest_ready_due_ms = read_wall_ms(&in, adjust_ms);
    if (flags & TOPIC_HAS_FINISHED)
        out->counts.finished = read_number(&in, 6);
    if (flags & TOPIC_HAS_FLOW)
        read_flow_figures(&in, out);
    struct unpacking settings = {.rest = read_text(&in, read_number(&in, 1))};
    if (settings.rest.len)
        read_settings(&settings, &out->settings);
    if (settings.rest.len) {
        read_limits(&settings, &out->settings);
        read_steps(&settings, &out->settings.policy.backoff);
    }
    if (settings.rest.len)
        read_keeps(&settings, &out->settings);
    if (settings.rest.len)
        read_flow(&settings, &out->settings.flow);
    in.failed |= settings.failed || settings.rest.len;
    out->settings.extension = in.rest;
    return !in.failed && in.rest.len <= TOPIC_EXTENSION_BYTES_MAX;
}
