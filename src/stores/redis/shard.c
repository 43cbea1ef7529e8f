#include "redis/shard.h"

#include "redis/command.h"
#include "redis/shard_core.h"
#include "redis/shard_mail.h"
#include "redis/shard_move.h"
#include "redis/shard_notifications.h"
#include "redis/waits.h"

#include "base/clock.h"
#include "base/log.h"
#include "queue/traits.h"

#include <assert.h>
#include <stdlib.h>

/* Sends the steps that may be sent now. `soon`: another step is expected in a moment, so answers
 * without takes wait for it, but no longer than REDIS_ANSWERS_WAIT_US. */
enum { REDIS_ANSWERS_WAIT_US = 1000 };

/*
 * shard_step: the requests of one step that travel in one call of the script `step`: answers and
 * takes, as batches (shard_core.h), and making jobs due.
 *
 * One step is in progress at a time while the next one grows; a second one is sent only if its
 * batches are fully grown.
 */

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

/* Makes the next step process due jobs, even without a take. */
static void redis_step_let_due(struct redis_shard *shard)
{
    shard->lets_due = true;
}

/* Returns whether a step that processes due jobs is in progress or about to be sent. */
static bool redis_step_lets_due(const struct redis_shard *shard)
{
    return shard->lets_due || shard->due_under_way;
}

/* Returns whether the next step contains a take of the topic. */
static bool redis_step_takes(const struct redis_shard *shard, struct slice topic)
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

static void redis_step_send(struct redis_shard *shard, bool soon)
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

/* ---- shard ---- */

enum { ROUNDS_MAX = 8 /* of replies in one step: one may cause a call with an immediate reply */ };

/* Delays after which a server acts on due jobs. With a local waiter: immediately, and again after a
 * pause if it found nothing (the shard's clock may differ from the estimate). While another server is
 * expected to act: a little later, so that not all act on each job. Without any waiter: later than any
 * server with one, but not by much, because a server with a waiter may not know the event: it is not
 * notified if a later event becomes the next one. */
enum { AGAIN_PAUSE_US = 300, OTHER_LATER_US = 3000, NOBODY_LATER_US = 4500 };

enum {
    PACK_IDLE_MS = 50,    /* without a batch: then there is time */
    PACK_JOBS = 100,      /* per call: other calls wait about a millisecond for it */
    UNPACKED_MAX = 200000 /* jobs: above this, packing does not wait for an idle moment */
};

/* A maintenance call, made by the shard itself. */
struct upkeep {
    struct redis_call call;
    struct redis_shard *shard;
};

/* Returns NULL if memory runs out. */
static struct upkeep *upkeep_new(struct redis_shard *shard, enum redis_script script,
                                 void (*done)(struct redis_call *call, enum redis_call_end end,
                                              const struct redis_head *head,
                                              const redisReply *reply))
{
    struct upkeep *upkeep = calloc(1, sizeof *upkeep);
    if (!upkeep)
        return NULL;
    upkeep->shard = shard;
    redis_shard_call_init(&upkeep->call, script, false, done);
    return upkeep;
}

static void upkeep_free(struct upkeep *upkeep)
{
    buffer_fini(&upkeep->call.args);
    free(upkeep);
}

/* Sends the call. If memory ran out, frees it and returns false. */
static bool upkeep_send(struct upkeep *upkeep, size_t argc)
{
    if (redis_shard_send(upkeep->shard, &upkeep->call, argc))
        return true;
    upkeep_free(upkeep);
    return false;
}

/* ---- packing jobs that are due far from now (scripts/README.md, "Fresh and packed") ---- */

static void on_packed(struct redis_call *call, enum redis_call_end end,
                      const struct redis_head *head, const redisReply *reply)
{
    struct upkeep *upkeep = list_entry(call, struct upkeep, call);
    struct redis_shard *shard = upkeep->shard;
    uint8_t more = 0;
    (void)reply;
    shard->packing = false;
    if (end == REDIS_CALL_OK) {
        struct slice rest = head->rest;
        redis_shard_note_head(shard, head);
        if (!redis_unpack_u8(&rest, &more))
            redis_shard_log_malformed(shard, REDIS_PACK);
        shard->may_pack = more != 0;
        shard->unpacked -= more && shard->unpacked > PACK_JOBS ? PACK_JOBS : shard->unpacked;
    }
    upkeep_free(upkeep);
}

/* Runs in each step after the batches were sent, and packs jobs if the shard is idle. Returns the
 * inner time at which it needs to run next. */
static int64_t pack_step(struct redis_shard *shard, int64_t now_ms)
{
    if (shard->batches_under_way || shard->step_calls || !list_is_empty(&shard->open))
        shard->busy_ms = now_ms;
    if (!shard->may_pack || shard->packing || shard->step_calls || !shard->up || shard->stopping)
        return INT64_MAX;
    if (now_ms - shard->busy_ms < PACK_IDLE_MS && shard->unpacked < UNPACKED_MAX)
        return shard->busy_ms + PACK_IDLE_MS;
    struct upkeep *upkeep = upkeep_new(shard, REDIS_PACK, on_packed);
    if (upkeep) { /* if memory runs out, packing is skipped: it only saves space */
        redis_command_number(&upkeep->call.args, PACK_JOBS);
        shard->packing = upkeep_send(upkeep, 1);
    }
    return INT64_MAX; /* the reply triggers the next step */
}

/* ---- free space ---- */

static void on_probed(struct redis_call *call, enum redis_call_end end,
                      const struct redis_head *head, const redisReply *reply)
{
    struct upkeep *upkeep = list_entry(call, struct upkeep, call);
    (void)head;
    (void)reply;
    upkeep->shard->probing = false;
    redis_shard_note_space(upkeep->shard, redis_shard_status(end));
    upkeep_free(upkeep);
}

/* Probes for room with an empty push, after a push found no room: clients may not send any, because
 * a server without room is not ready. */
static void probe(struct redis_shard *shard)
{
    struct upkeep *upkeep =
        shard->has_space || shard->probing ? NULL : upkeep_new(shard, REDIS_PUSH, on_probed);
    if (!upkeep)
        return;
    redis_command_text(&upkeep->call.args, ""); /* no ticket */
    redis_command_text(&upkeep->call.args, ""); /* no topic */
    redis_command_number(&upkeep->call.args, 0);
    shard->probing = upkeep_send(upkeep, 3);
}

/* Notes that the master reports that it rejects writes that need memory. */
static void note_full(struct redis_shard *shard)
{
    if (shard->has_space)
        log_event(LOG_WARN, "redis is full", LOG_NUMBER("shard", shard->options.index),
                  LOG_TEXT("why", "maxmemory is met, or it cannot write to its disk"));
    shard->has_space = false;
}

/* ---- callbacks of the session ---- */

static void on_message(void *ctx, struct slice message)
{
    redis_notification_receive(ctx, message);
}

static void on_learned(void *ctx, const struct redis_master *master)
{
    struct redis_shard *shard = ctx;
    const struct redis_shard_options *options = &shard->options;
    if (!options->asks)
        return;
    if (master->is_full)
        note_full(shard);
    options->learned(options->learned_ctx, options->place, master);
}

/* Handles a change of the connection. Notifications may have been missed while it was down. */
static void on_connection_change(void *ctx, bool up)
{
    struct redis_shard *shard = ctx;
    shard->options.figures->shards_up += (uint32_t)up - (uint32_t)shard->up;
    shard->up = up;
    shard->known = false;
    redis_feed_cut(shard);
    shard->changed_ms = clock_inner_ms();
    shard->may_pack |= up; /* jobs that another server left unpacked */
    if (up)
        redis_notifications_check(shard, true);
    if (up && shard->options.waits)
        redis_waits_check(shard->options.waits);
}

/* ---- the step ---- */

/* Returns the earlier event of the last reply and the notifications. */
static const struct redis_next *next_event(const struct redis_shard *shard)
{
    return shard->notified_next.ms < shard->next.ms ? &shard->notified_next : &shard->next;
}

/* Returns whether nothing can become due before time advances. */
static bool nothing_is_due(const struct redis_shard *shard, int64_t now_us)
{
    const struct redis_next *event = next_event(shard);
    return redis_shard_to_inner_us(shard, event->ms) > now_us ||
           (shard->in_vain_us == now_us && shard->in_vain_event_ms == event->ms);
}

/* Returns whether the waiters for the event's topic were already notified of this event. */
static bool is_notified(const struct redis_shard *shard, const struct redis_next *event)
{
    return shard->notified.ms == event->ms &&
           slice_equals(redis_next_topic(&shard->notified), redis_next_topic(event));
}

/* Returns whether there is a local waiter for the event: for its topic; if a lease ends, for any
 * topic. */
static bool is_waited_for(const struct redis_shard *shard, const struct redis_next *event)
{
    if (!shard->watches.table.count)
        return false;
    if (!event->topic_bytes)
        return true;
    return redis_watches_find(&shard->watches, redis_next_topic(event)) &&
           !(shard->notified_in_vain && is_notified(shard, event));
}

static int64_t later_us(const struct redis_shard *shard, const struct redis_next *event)
{
    if (!is_waited_for(shard, event))
        return NOBODY_LATER_US;
    return clock_boot_us() < shard->other_until_us ? OTHER_LATER_US : 0;
}

static bool may_come(const struct redis_shard *shard)
{
    return shard->up && shard->known && !shard->stopping && !redis_step_lets_due(shard);
}

/* Returns how long the event has been due here, given that it became due at inner time `at_us`. The
 * inner clock may stand still when tests move it. */
static int64_t due_since_us(struct redis_shard *shard, const struct redis_next *event,
                            int64_t at_us, int64_t now_us)
{
    if (shard->due_event_ms != event->ms) {
        shard->due_event_ms = event->ms;
        shard->due_seen_us = clock_boot_us();
    }
    int64_t seen_us = clock_boot_us() - shard->due_seen_us, since_us = now_us - at_us;
    return seen_us > since_us ? seen_us : since_us;
}

/* Returns when this server acts on the next event: inner time, INT64_MAX: not under current
 * conditions. */
static int64_t coming_us(struct redis_shard *shard, int64_t now_us)
{
    const struct redis_next *event = next_event(shard);
    int64_t at_us = may_come(shard) ? redis_shard_to_inner_us(shard, event->ms) : INT64_MAX;
    if (at_us == INT64_MAX)
        return INT64_MAX;
    int64_t later = later_us(shard, event), pause_us = shard->pause_until_us - clock_boot_us();
    if (at_us > now_us)
        return at_us + later;
    later -= due_since_us(shard, event, at_us, now_us);
    if (later < pause_us)
        later = pause_us;
    return later > 0 ? now_us + later : now_us;
}

/* Returns whether a local waiter's event is due within a moment. */
static bool comes_soon(struct redis_shard *shard, int64_t now_us)
{
    int64_t at_us = coming_us(shard, now_us);
    return at_us > now_us && at_us - now_us <= REDIS_ANSWERS_WAIT_US &&
           is_waited_for(shard, next_event(shard));
}

/* Acts on a due event. The first time, the waiters for its topic are notified, and their takes
 * leave with the step. If that was not enough, the step processes whatever is due. */
static void come(struct redis_shard *shard)
{
    const struct redis_next *event = next_event(shard);
    struct slice topic = redis_next_topic(event);
    bool is_new = topic.len && is_waited_for(shard, event) && !is_notified(shard, event);
    shard->pause_until_us = clock_boot_us() + AGAIN_PAUSE_US;
    if (!is_new) {
        redis_step_let_due(shard);
        return;
    }
    redis_next_set(&shard->notified, event->ms, topic);
    shard->notified_in_vain = false;
    redis_notification_ready(shard, topic);
}

/* Notes whether the notified waiters have taken, after they had the chance to. */
static void note_notified(struct redis_shard *shard)
{
    const struct redis_next *event = next_event(shard);
    if (is_notified(shard, event) && !shard->step_calls)
        shard->notified_in_vain = !redis_step_takes(shard, redis_next_topic(event));
}

/* Sends the replies that are ready. Replies added by callbacks wait for the next round. */
static void replies_run(struct redis_shard *shard)
{
    struct list round;
    list_take_all(&round, &shard->soon);
    while (!list_is_empty(&round)) {
        struct redis_soon *soon = list_entry(round.next, struct redis_soon, list);
        list_remove(&soon->list);
        soon->run(soon);
    }
}

static bool must_notify(const struct redis_shard *shard)
{
    return redis_notifications_has_some(shard) || !list_is_empty(&shard->soon);
}

/* Checks for changes without a notification. */
static void shard_look(struct redis_shard *shard)
{
    if (!shard->up || shard->stopping)
        return;
    if (!shard->looking)
        redis_notifications_check(shard, true);
    redis_session_look(shard->session);
    probe(shard);
}

/* Sends what may be sent now. Announced pushes leave first, and the takes that they wake leave behind them. */
static void calls_send(struct redis_shard *shard, int64_t now_us)
{
    if (redis_batches_will_announce(shard)) {
        redis_batches_send(shard);
        redis_notifications_deliver(shard);
    }
    redis_step_send(shard, comes_soon(shard, now_us));
    redis_batches_send(shard);
}

int64_t redis_shard_step(struct redis_shard *shard, int64_t now_us, bool looks)
{
    if (looks)
        shard_look(shard);
    int64_t feed_ms = redis_feed_step(shard, now_us / 1000);
    bool comes = coming_us(shard, now_us) <= now_us;
    if (comes)
        come(shard);
    for (int round = 0; round < ROUNDS_MAX; round++) {
        if (!must_notify(shard))
            break;
        redis_notifications_deliver(shard);
        replies_run(shard);
    }
    if (comes)
        note_notified(shard);
    redis_notifications_check(shard, false);
    int64_t mail_ms = redis_mail_step(shard, now_us / 1000);
    calls_send(shard, now_us);
    int64_t pack_ms = pack_step(shard, now_us / 1000);
    int64_t move_ms = redis_move_step(shard, now_us / 1000, looks);
    if (move_ms < pack_ms)
        pack_ms = move_ms;
    if (feed_ms < pack_ms)
        pack_ms = feed_ms;
    if (mail_ms < pack_ms)
        pack_ms = mail_ms;
    if (must_notify(shard))
        return now_us;
    int64_t at_us = coming_us(shard, now_us);
    return pack_ms <= at_us / 1000 ? pack_ms * 1000 : at_us;
}

/* ---- information ---- */

static void on_info(struct queue *queue, struct queue_info *out)
{
    struct redis_shard *shard = redis_shard_of(queue);
    const struct redis_inspection *inspection = shard->options.inspection;
    *out = (struct queue_info){.store = "redis",
                               .durability = inspection->durability_text,
                               .durability_class = redis_durability_name(inspection->durability),
                               .sync = inspection->sync,
                               .shards = 1,
                               .body_bytes_max = shard->options.body_bytes_max,
                               .wait_replicas = shard->options.wait_replicas,
                               /* A single lost shard does not take the server out of service,
                                * because the others continue. */
                               .healthy = shard->options.figures->shards_up > 0 ||
                                          !redis_shard_is_missed(shard),
                               .accepting = shard->has_space && !inspection->evicts,
                               .keeps_finished = true,
                               .awaits = true,
                               .groups = true,
                               .batches = true,
                               .strict_groups = true,
                               .group_max_jobs = true,
                               .one_shard = true,
                               .soon = true};
    memcpy(out->finished_dropped, shard->finished_dropped, sizeof out->finished_dropped);
}

bool redis_shard_is_done(const struct redis_shard *shard)
{
    return shard->calls == 0 && !shard->move.is_under_way;
}

bool redis_shard_is_quiet(const struct redis_shard *shard, int64_t now_us)
{
    return shard->calls == 0 && !must_notify(shard) && !redis_mail_is_busy(shard) &&
           list_is_empty(&shard->fresh) && redis_session_calls(shard->session) == 0 && shard->up &&
           shard->known && nothing_is_due(shard, now_us);
}

int64_t redis_shard_skew_ms(const struct redis_shard *shard)
{
    return -shard->adjust_ms;
}

/* ---- a held clock ---- */

int64_t redis_shard_held_ms(const struct redis_shard *shard)
{
    return redis_session_clock(shard->session)->held_ms;
}

int64_t redis_shard_next_ms(const struct redis_shard *shard)
{
    return next_event(shard)->ms;
}

struct holding {
    struct redis_call call;
    struct redis_shard *shard;
    void (*done)(void *ctx, bool is_good);
    void *ctx;
};

static void on_holding(struct redis_call *call, enum redis_call_end end,
                       const struct redis_head *head, const redisReply *reply)
{
    struct holding *holding = (struct holding *)(void *)call;
    (void)reply;
    if (end == REDIS_CALL_OK)
        redis_shard_note_head(holding->shard, head);
    holding->shard->calls--;
    if (!holding->shard->freeing)
        holding->done(holding->ctx, end == REDIS_CALL_OK);
    buffer_fini(&call->args);
    free(holding);
}

void redis_shard_hold(struct redis_shard *shard, int64_t at_ms,
                      void (*done)(void *ctx, bool is_good), void *ctx)
{
    struct holding *holding = calloc(1, sizeof *holding);
    assert(holding); /* only in test servers */
    holding->shard = shard;
    holding->done = done;
    holding->ctx = ctx;
    shard->calls++;
    redis_shard_call_init(&holding->call, REDIS_ADJUST, true, on_holding);
    redis_command_text(&holding->call.args, "");
    if (at_ms >= 0)
        redis_command_number(&holding->call.args, at_ms);
    else
        redis_command_text(&holding->call.args, "");
    if (!redis_shard_send(shard, &holding->call, 2))
        abort(); /* only a few bytes */
}

/* ---- life cycle ---- */

static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct redis_shard *shard = redis_shard_of(queue);
    if (shard->options.active && command_acts(command))
        shard->options.active(shard->options.test_clock_ctx);
    switch (command->kind) {
    case COMMAND_PUSH:
    case COMMAND_ANSWER:
    case COMMAND_CHANGE:
        redis_submit_items(shard, command, reply_to);
        break;
    case COMMAND_TAKE:
        redis_submit_take(shard, command, reply_to);
        break;
    case COMMAND_GET:
    case COMMAND_LIST:
    case COMMAND_TOPIC:
    case COMMAND_TOPICS:
    case COMMAND_FORECAST:
    case COMMAND_FIND:
    case COMMAND_GROUP:
    case COMMAND_GROUPS:
        redis_submit_ask(shard, command, reply_to);
        break;
    case COMMAND_AWAIT:
        redis_submit_await(shard, command, reply_to);
        break;
    case COMMAND_BATCH:
        redis_submit_parts(shard, command, reply_to);
        break;
    }
}

static const struct queue_ops ops = {
    .submit = on_submit, .watch = redis_notifications_watch, .info = on_info};

/* Reports the time of a held clock. All clocks are shown by that of the first shard. */
static void on_held(void *ctx, int64_t at_ms)
{
    const struct redis_shard_options *options = &((struct redis_shard *)ctx)->options;
    if (options->place == 0 && options->held)
        options->held(options->test_clock_ctx, at_ms);
}

static struct redis_session *session_new(struct redis_shard *shard)
{
    const struct redis_shard_options *options = &shard->options;
    struct redis_session_options session = {.reactor = options->reactor,
                                            .topology = options->topology,
                                            .url = options->url,
                                            .name = options->place == 0 ? options->name : NULL,
                                            .place = options->place,
                                            .shards = options->generation.shards,
                                            .generation = options->generation.number,
                                            .wait_replicas = options->wait_replicas,
                                            .timeout_ms = options->timeout_ms,
                                            .figures = options->figures,
                                            .tally = options->tally,
                                            .script_us = options->script_us,
                                            .message = on_message,
                                            .changed = on_connection_change,
                                            .learned = on_learned,
                                            .test_clock_ms = options->test_clock_ms,
                                            .held = on_held,
                                            .require_durability = options->require_durability,
                                            .ctx = shard};
    redis_slot_tag_of(options->url->prefix, options->generation.number, options->place,
                      options->generation.shards, session.tag);
    memcpy(session.server, options->server, sizeof session.server);
    return redis_session_new(&session);
}

void redis_shard_set_waits(struct redis_shard *shard, struct redis_waits *waits)
{
    shard->options.waits = waits;
}

void redis_shard_free(struct redis_shard *shard)
{
    if (!shard)
        return;
    shard->freeing = true;
    shard->options.figures->shards_up -= shard->up;
    if (shard->session)
        redis_session_free(shard->session);
    shard->session = NULL;
    redis_batches_free(shard);
    redis_mail_fini(shard);
    replies_run(shard);
    redis_notifications_fini(shard);
    free(shard);
}

struct redis_shard *redis_shard_new(const struct redis_shard_options *options, struct queue **queue)
{
    struct redis_shard *shard = calloc(1, sizeof *shard);
    if (!shard)
        return NULL;
    shard->queue.ops = &ops;
    shard->options = *options;
    shard->random.state = random_u64();
    shard->next.ms = shard->notified_next.ms = shard->notified.ms = INT64_MAX;
    shard->changed_ms = clock_inner_ms();
    shard->has_space = !options->inspection->is_full;
    list_init(&shard->open);
    list_init(&shard->sent);
    list_init(&shard->soon);
    redis_mail_init(shard);
    for (size_t i = 0; i < REDIS_BATCH_BUCKETS; i++)
        list_init(&shard->buckets[i]);
    redis_notifications_init(shard);
    if (!(shard->session = session_new(shard))) {
        redis_shard_free(shard);
        return NULL;
    }
    *queue = &shard->queue;
    return shard;
}

void redis_shard_stop(struct redis_shard *shard)
{
    shard->stopping = true;
    redis_session_stop(shard->session, clock_inner_ms() + REDIS_STOP_MS);
}

void redis_shard_show(const struct redis_shard *shard, struct redis_shard_summary *out)
{
    static const struct buckets none;
    const struct redis_endpoint *master = redis_session_endpoint(shard->session);
    const struct redis_tally *tally = shard->options.tally;
    out->host = master->host;
    out->port = master->port;
    out->is_up = shard->up;
    out->waiting = redis_session_calls(shard->session);
    out->adjust_ms = shard->adjust_ms;
    out->round_trip_us = tally ? &tally->round_trip_us : &none;
    out->last_round_trip_us = tally ? tally->last_round_trip_us : 0;
    out->reconnects = tally ? tally->reconnects : 0;
    out->failovers = tally ? tally->failovers : 0;
}
