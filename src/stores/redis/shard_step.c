#include "redis/shard_step.h"

#include "base/clock.h"
#include "redis/command.h"
#include "redis/shard_notifications.h"

#include <stdlib.h>

enum {
    DUE_JOBS = 500,           /* made due by one step at most */
    STEP_BYTES_MAX = 16 << 20 /* of jobs taken, about: they block Redis meanwhile */
};

/* Flags in a reply. */
enum { STEP_HAS_MORE = 1, STEP_HAS_OTHER = 2 };

struct step_call {
    struct redis_call call;
    struct redis_shard *shard;
    struct list batches; /* first those of answers, then those of takes */
    size_t answers, takes;
    int64_t asked_us; /* inner time */
    bool lets_due;
};

void redis_step_let_due(struct redis_shard *shard)
{
    shard->lets_due = true;
}

bool redis_step_lets_due(const struct redis_shard *shard)
{
    return shard->lets_due || shard->due_under_way;
}

bool redis_step_takes(const struct redis_shard *shard, struct slice topic)
{
    for (const struct list *at = shard->open.next; at != &shard->open; at = at->next) {
        const struct redis_batch *batch = list_entry(at, struct redis_batch, list);
        if (batch->kind->is_take && slice_equals(redis_batch_topic(batch), topic))
            return true;
    }
    return false;
}

/* ---- replies ---- */

static struct redis_batch *first_batch(const struct step_call *step)
{
    return list_is_empty(&step->batches) ? NULL
                                         : list_entry(step->batches.next, struct redis_batch, list);
}

/* Ends every batch of the step without a reply. */
static void step_fail(struct step_call *step, enum queue_status status)
{
    struct redis_batch *batch;
    while ((batch = first_batch(step)))
        redis_batch_end(batch, status, NULL);
}

/* Reads how many elements of the reply belong to the batch. For a take, the head contains whether
 * some were left, then the number of jobs. */
static bool read_share(const struct redis_batch *batch, struct redis_batch_answer *answer)
{
    uint8_t leaves_some = 0;
    uint32_t jobs = 0;
    answer->count = batch->count;
    if (batch->kind->is_take) {
        if (!redis_unpack_u8(answer->rest, &leaves_some) || !redis_unpack_u32(answer->rest, &jobs))
            return false;
        answer->count = (size_t)jobs * REDIS_TAKE_ELEMENTS;
        answer->leaves_some = leaves_some != 0;
    }
    return answer->count <= answer->reply->elements - answer->at;
}

/* Passes to each batch its part of the reply; the topics that became ready are last. */
static void step_share(struct step_call *step, const struct redis_head *head, struct slice rest,
                       const redisReply *reply)
{
    struct redis_shard *shard = step->shard;
    struct redis_batch *batch;
    struct slice topic;
    struct redis_batch_answer answer = {.head = head, .reply = reply, .rest = &rest, .at = 1};
    while ((batch = first_batch(step))) {
        if (!read_share(batch, &answer)) {
            redis_shard_log_malformed(shard, REDIS_STEP);
            step_fail(step, QUEUE_UNAVAILABLE);
            return;
        }
        redis_batch_end(batch, QUEUE_OK, &answer);
        answer.at += answer.count;
    }
    for (size_t at = answer.at; at < reply->elements; at++)
        if (redis_element(reply, at, &topic))
            redis_notification_ready(shard, topic);
}

static void on_step_reply(struct redis_call *call, enum redis_call_end end,
                          const struct redis_head *head, const redisReply *reply)
{
    struct step_call *step = list_entry(call, struct step_call, call);
    struct redis_shard *shard = step->shard;
    shard->step_calls--;
    if (step->lets_due)
        shard->due_under_way = false;
    if (end == REDIS_CALL_OK) {
        struct slice rest = head->rest;
        uint8_t bits = 0;
        redis_shard_note_head(shard, head);
        if (!redis_unpack_u8(&rest, &bits))
            redis_shard_log_malformed(shard, REDIS_STEP);
        redis_shard_note_due(shard, step->lets_due ? step->asked_us : INT64_MIN,
                             &(struct redis_due){.has_more = bits & STEP_HAS_MORE,
                                                 .has_other = bits & STEP_HAS_OTHER,
                                                 .was_taken = reply->elements > 1 + step->answers});
        step_share(step, head, rest, reply);
    } else {
        step_fail(step, redis_shard_status(end));
    }
    buffer_fini(&step->call.args);
    free(step);
}

/* ---- sending ---- */

/* Moves open batches into the step: answers, or takes of about `most` jobs. Returns their
 * number. */
static size_t step_gather(struct step_call *step, bool takes, size_t most)
{
    struct list *open = &step->shard->open, *next;
    size_t count = 0, jobs = 0;
    for (struct list *at = open->next; at != open; at = next) {
        struct redis_batch *batch = list_entry(at, struct redis_batch, list);
        next = at->next;
        if (!redis_batch_is_of_step(batch) || batch->kind->is_take != takes)
            continue;
        size_t more = takes ? batch->wanted : batch->count;
        if (jobs && jobs + more > most)
            break;
        redis_batch_close(batch);
        list_add_last(&step->batches, &batch->list);
        jobs += more;
        count++;
    }
    return count;
}

/* Returns how many jobs stay within the byte limit, judging by the size of recent ones. */
static size_t jobs_wanted(const struct redis_shard *shard)
{
    size_t most = STEP_BYTES_MAX / (shard->record_bytes + 1);
    return most < REDIS_BATCH_ITEMS_MAX ? most : REDIS_BATCH_ITEMS_MAX;
}

static void step_pack(struct step_call *step)
{
    struct redis_shard *shard = step->shard;
    struct buffer *args = &step->call.args;
    uint64_t chance = random_below(&shard->random, UINT64_C(1) << 48);
    redis_pack_step(args, chance, step->lets_due ? DUE_JOBS : 0, (uint32_t)step->answers,
                    (uint32_t)step->takes);
    for (struct list *at = step->batches.next; at != &step->batches; at = at->next) {
        const struct redis_batch *batch = list_entry(at, struct redis_batch, list);
        if (batch->call.args.failed)
            args->failed = true;
        buffer_append_slice(args, buffer_slice(&batch->call.args));
    }
}

static struct step_call *step_new(struct redis_shard *shard)
{
    struct step_call *step = calloc(1, sizeof *step);
    if (!step)
        return NULL;
    step->shard = shard;
    step->asked_us = clock_inner_us();
    step->lets_due = shard->lets_due;
    list_init(&step->batches);
    redis_shard_call_init(&step->call, REDIS_STEP, true, on_step_reply);
    return step;
}

/* Returns false if memory runs out; the batches then wait for the next step. */
static bool step_send(struct redis_shard *shard)
{
    struct step_call *step = step_new(shard);
    if (!step)
        return false;
    shard->lets_due = false;
    shard->notified_next.ms = INT64_MAX; /* included in the reply */
    step_gather(step, false, REDIS_BATCH_ITEMS_MAX);
    for (struct list *at = step->batches.next; at != &step->batches; at = at->next)
        step->answers += list_entry(at, struct redis_batch, list)->count;
    step->takes = step_gather(step, true, jobs_wanted(shard));
    step_pack(step);
    shard->step_calls++;
    shard->due_under_way |= step->lets_due;
    shard->options.figures->items += step->answers;
    size_t argc = 1 + step->answers * REDIS_ANSWER_ARGS + step->takes * REDIS_TAKE_ARGS;
    if (!redis_shard_send(shard, &step->call, argc))
        on_step_reply(&step->call, REDIS_CALL_UNAVAILABLE, NULL, NULL);
    return true;
}

/* The work that is waiting for a step. */
struct step_wants {
    bool some;
    bool grown; /* enough to be sent without waiting */
    bool more;  /* not only answers */
};

static struct step_wants wants_of(const struct redis_shard *shard)
{
    struct step_wants wants = {.some = shard->lets_due, .more = shard->lets_due};
    for (const struct list *at = shard->open.next; at != &shard->open; at = at->next) {
        const struct redis_batch *batch = list_entry(at, struct redis_batch, list);
        if (!redis_batch_is_of_step(batch))
            continue;
        wants.some = true;
        wants.grown |= redis_batch_is_grown(batch);
        wants.more |= batch->kind->is_take;
    }
    return wants;
}

/* Returns whether only answers are waiting, and may wait longer. */
static bool may_wait(struct redis_shard *shard, const struct step_wants *wants)
{
    if (wants->more || wants->grown || shard->stopping)
        return false;
    if (!shard->answers_wait_since_us)
        shard->answers_wait_since_us = clock_boot_us();
    return clock_boot_us() - shard->answers_wait_since_us < REDIS_ANSWERS_WAIT_US;
}

void redis_step_send(struct redis_shard *shard, bool soon)
{
    struct step_wants wants;
    while ((wants = wants_of(shard)).some &&
           (!shard->up || shard->step_calls == 0 ||
            (wants.grown && shard->step_calls < REDIS_SESSION_SLOTS))) {
        if (soon && may_wait(shard, &wants))
            return;
        shard->answers_wait_since_us = 0;
        if (!step_send(shard))
            return;
    }
}
