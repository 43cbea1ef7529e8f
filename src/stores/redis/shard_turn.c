#include "redis/shard_turn.h"

#include "base/clock.h"
#include "redis/command.h"
#include "redis/shard_notifications.h"

#include <stdlib.h>

enum {
    DUE_JOBS = 500,           /* made due by one turn at most */
    TURN_BYTES_MAX = 16 << 20 /* of jobs taken, about: they block Redis meanwhile */
};

/* Flags in a reply. */
enum { TURN_HAS_MORE = 1, TURN_HAS_OTHER = 2 };

struct turn {
    struct redis_call call;
    struct redis_shard *shard;
    struct list batches; /* first those of answers, then those of takes */
    size_t answers, takes;
    int64_t asked_us; /* inner time */
    bool lets_due;
};

void redis_turn_let_due(struct redis_shard *shard)
{
    shard->lets_due = true;
}

bool redis_turn_lets_due(const struct redis_shard *shard)
{
    return shard->lets_due || shard->due_under_way;
}

bool redis_turn_takes(const struct redis_shard *shard, struct slice topic)
{
    for (const struct list *at = shard->open.next; at != &shard->open; at = at->next) {
        const struct redis_batch *batch = list_entry(at, struct redis_batch, list);
        if (batch->kind->is_take && slice_equals(redis_batch_topic(batch), topic))
            return true;
    }
    return false;
}

/* ---- replies ---- */

static struct redis_batch *first_batch(const struct turn *turn)
{
    return list_is_empty(&turn->batches) ? NULL
                                         : list_entry(turn->batches.next, struct redis_batch, list);
}

/* Ends every batch of the turn without a reply. */
static void turn_fail(struct turn *turn, enum queue_status status)
{
    struct redis_batch *batch;
    while ((batch = first_batch(turn)))
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
static void turn_share(struct turn *turn, const struct redis_head *head, struct slice rest,
                       const redisReply *reply)
{
    struct redis_shard *shard = turn->shard;
    struct redis_batch *batch;
    struct slice topic;
    struct redis_batch_answer answer = {.head = head, .reply = reply, .rest = &rest, .at = 1};
    while ((batch = first_batch(turn))) {
        if (!read_share(batch, &answer)) {
            redis_shard_log_malformed(shard, REDIS_TURN);
            turn_fail(turn, QUEUE_UNAVAILABLE);
            return;
        }
        redis_batch_end(batch, QUEUE_OK, &answer);
        answer.at += answer.count;
    }
    for (size_t at = answer.at; at < reply->elements; at++)
        if (redis_element(reply, at, &topic))
            redis_notification_ready(shard, topic);
}

static void on_turned(struct redis_call *call, enum redis_call_end end,
                      const struct redis_head *head, const redisReply *reply)
{
    struct turn *turn = list_entry(call, struct turn, call);
    struct redis_shard *shard = turn->shard;
    shard->turns_under_way--;
    if (turn->lets_due)
        shard->due_under_way = false;
    if (end == REDIS_CALL_OK) {
        struct slice rest = head->rest;
        uint8_t bits = 0;
        redis_shard_hear(shard, head);
        if (!redis_unpack_u8(&rest, &bits))
            redis_shard_log_malformed(shard, REDIS_TURN);
        redis_shard_note_due(shard, turn->lets_due ? turn->asked_us : INT64_MIN,
                             &(struct redis_due){.has_more = bits & TURN_HAS_MORE,
                                                 .has_other = bits & TURN_HAS_OTHER,
                                                 .was_taken = reply->elements > 1 + turn->answers});
        turn_share(turn, head, rest, reply);
    } else {
        turn_fail(turn, redis_shard_status(end));
    }
    buffer_fini(&turn->call.args);
    free(turn);
}

/* ---- sending ---- */

/* Moves open batches into the turn: answers, or takes of about `most` jobs. Returns their
 * number. */
static size_t turn_gather(struct turn *turn, bool takes, size_t most)
{
    struct list *open = &turn->shard->open, *next;
    size_t count = 0, jobs = 0;
    for (struct list *at = open->next; at != open; at = next) {
        struct redis_batch *batch = list_entry(at, struct redis_batch, list);
        next = at->next;
        if (!redis_batch_is_of_turn(batch) || batch->kind->is_take != takes)
            continue;
        size_t more = takes ? batch->wanted : batch->count;
        if (jobs && jobs + more > most)
            break;
        redis_batch_close(batch);
        list_add_last(&turn->batches, &batch->list);
        jobs += more;
        count++;
    }
    return count;
}

/* Returns how many jobs stay within the byte limit, judging by the size of recent ones. */
static size_t jobs_wanted(const struct redis_shard *shard)
{
    size_t most = TURN_BYTES_MAX / (shard->record_bytes + 1);
    return most < REDIS_BATCH_ITEMS_MAX ? most : REDIS_BATCH_ITEMS_MAX;
}

static void turn_pack(struct turn *turn)
{
    struct redis_shard *shard = turn->shard;
    struct buffer *args = &turn->call.args;
    uint64_t chance = random_below(&shard->random, UINT64_C(1) << 48);
    redis_pack_turn(args, chance, turn->lets_due ? DUE_JOBS : 0, (uint32_t)turn->answers,
                    (uint32_t)turn->takes);
    for (struct list *at = turn->batches.next; at != &turn->batches; at = at->next) {
        const struct redis_batch *batch = list_entry(at, struct redis_batch, list);
        if (batch->call.args.failed)
            args->failed = true;
        buffer_append_slice(args, buffer_slice(&batch->call.args));
    }
}

static struct turn *turn_new(struct redis_shard *shard)
{
    struct turn *turn = calloc(1, sizeof *turn);
    if (!turn)
        return NULL;
    turn->shard = shard;
    turn->asked_us = clock_inner_us();
    turn->lets_due = shard->lets_due;
    list_init(&turn->batches);
    redis_shard_call_init(&turn->call, REDIS_TURN, true, on_turned);
    return turn;
}

/* Returns false if memory runs out; the batches then wait for the next turn. */
static bool turn_send(struct redis_shard *shard)
{
    struct turn *turn = turn_new(shard);
    if (!turn)
        return false;
    shard->lets_due = false;
    shard->notified_next.ms = INT64_MAX; /* included in the reply */
    turn_gather(turn, false, REDIS_BATCH_ITEMS_MAX);
    for (struct list *at = turn->batches.next; at != &turn->batches; at = at->next)
        turn->answers += list_entry(at, struct redis_batch, list)->count;
    turn->takes = turn_gather(turn, true, jobs_wanted(shard));
    turn_pack(turn);
    shard->turns_under_way++;
    shard->due_under_way |= turn->lets_due;
    shard->options.figures->jobs += turn->answers;
    size_t argc = 1 + turn->answers * REDIS_ANSWER_ARGS + turn->takes * REDIS_TAKE_ARGS;
    if (!redis_shard_send(shard, &turn->call, argc))
        on_turned(&turn->call, REDIS_CALL_UNAVAILABLE, NULL, NULL);
    return true;
}

/* The work that is waiting for a turn. */
struct turn_wants {
    bool some;
    bool grown; /* enough to be sent without waiting */
    bool more;  /* not only answers */
};

static struct turn_wants wants_of(const struct redis_shard *shard)
{
    struct turn_wants wants = {.some = shard->lets_due, .more = shard->lets_due};
    for (const struct list *at = shard->open.next; at != &shard->open; at = at->next) {
        const struct redis_batch *batch = list_entry(at, struct redis_batch, list);
        if (!redis_batch_is_of_turn(batch))
            continue;
        wants.some = true;
        wants.grown |= redis_batch_is_grown(batch);
        wants.more |= batch->kind->is_take;
    }
    return wants;
}

/* Returns whether only answers are waiting, and may wait longer. */
static bool may_wait(struct redis_shard *shard, const struct turn_wants *wants)
{
    if (wants->more || wants->grown || shard->stopping)
        return false;
    if (!shard->answers_wait_since_us)
        shard->answers_wait_since_us = clock_boot_us();
    return clock_boot_us() - shard->answers_wait_since_us < REDIS_ANSWERS_WAIT_US;
}

void redis_turn_send(struct redis_shard *shard, bool soon)
{
    struct turn_wants wants;
    while ((wants = wants_of(shard)).some &&
           (!shard->up || shard->turns_under_way == 0 ||
            (wants.grown && shard->turns_under_way < REDIS_SESSION_SLOTS))) {
        if (soon && may_wait(shard, &wants))
            return;
        shard->answers_wait_since_us = 0;
        if (!turn_send(shard))
            return;
    }
}
