#include "cadence/worker.h"

#include "base/log.h"
#include "base/trouble.h"
#include "cadence/stored.h"
#include "cadence/tzdata.h"
#include "cadence/zones.h"
#include "queue/status.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static const int64_t TAKE_WAIT_MS = 24LL * 3600 * 1000;

enum {
    ROUND_MIN = 100, /* schedules of a round, at first and after slow ones */
    ROUND_MAX = QUEUE_TAKE_MAX,
    ROUNDS_MAX = 4,            /* at once: while one waits for the store, the others are decided */
    ROUND_QUICK_MS = 1000,     /* the next round may be twice as large */
    ROUND_SLOW_MS = 2500,      /* a quarter of the lease: the next round is half as large */
    RETRY_MS = 1000,           /* after a queue error */
    UNREADABLE_MS = 60 * 1000, /* before a schedule that this server cannot handle is taken again */
    YIELD_MS_MIN =
        50, /* a schedule that is late is left alone so long, so that calls can change it */
    YIELD_MS_MAX = 2000,
    NEWER_MS =
        5000 /* no take after a schedule of a newer tzdata, so that a newer server takes it */
};

/* A schedule of a round. */
struct entry {
    char name[JOB_ID_BYTES_MAX + 1];
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX];
    size_t lease_bytes;
    struct stored *stored; /* NULL: not readable */
    struct decision decision;
    size_t first_push, push_count;
    struct buffer body; /* afterwards */
    bool is_good;       /* it is pushed again; else it is returned */
    bool is_newer;      /* it belongs to servers with a newer tzdata */
    bool is_postponed;  /* it is left to the next round */
};

/* A job that was pushed ahead of its time and is cancelled. */
struct withdrawal {
    struct slice topic;
    char id[STORED_ID_BYTES_MAX];
};

/* Schedules that are taken, decided and pushed again together. */
struct round {
    struct cadence_worker *worker;
    bool is_busy;
    int64_t now_ms;   /* the time of its decisions, by the clock of the store */
    int64_t wall_ms;  /* the same by the clock of this server */
    int64_t begun_ms; /* inner clock */
    struct entry *entries;
    size_t entry_count;
    struct queue_answer *answers; /* of all entries */
    struct queue_again *agains;
    struct stored_fire *fires; /* of all entries, in their order */
    enum queue_status *outcomes;
    size_t fire_count;
    size_t *
        again; /* indices of fires that are pushed once more: over a dead job, or after a leased one */
    size_t again_count;
    struct queue_push *pushes;
    struct queue_change *changes;   /* of jobs that are replaced, or of withdrawals */
    struct withdrawal *withdrawals; /* fires that a new time zone file leaves out */
    size_t withdrawal_count;
};

struct cadence_worker {
    struct cadence_worker_options options;
    struct zones *zones;
    struct tzdata *tzdata;
    uint64_t take; /* handle of a waiting take, or 0 */
    struct deadline *alarm;
    int64_t take_ms;    /* no take before it */
    uint32_t round_max; /* schedules of the next round */
    struct round rounds[ROUNDS_MAX];
    bool is_started, is_stopping;
    struct iteration_end_call stop_call;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    _Atomic uint64_t rounds_done, fired, retries, skipped[SKIP_REASONS];
};

static void worker_take(struct cadence_worker *worker);

/* Returns a round that is not in progress, or NULL. */
static struct round *worker_idle_round(struct cadence_worker *worker)
{
    for (size_t i = 0; i < ROUNDS_MAX; i++)
        if (!worker->rounds[i].is_busy)
            return &worker->rounds[i];
    return NULL;
}

static bool worker_is_busy(const struct cadence_worker *worker)
{
    for (size_t i = 0; i < ROUNDS_MAX; i++)
        if (worker->rounds[i].is_busy)
            return true;
    return false;
}

static void check_stopped(struct cadence_worker *worker)
{
    if (worker->is_stopping && !worker_is_busy(worker) && worker->stopped)
        reactor_once_at_iteration_end(worker->options.reactor, &worker->stop_call);
}

/* Sets the size of the next round. Many schedules that fire in one minute need few calls of the store, but a round must
 * end long before its leases do. */
static void round_resize(const struct round *round)
{
    struct cadence_worker *worker = round->worker;
    int64_t took_ms = clock_inner_ms() - round->begun_ms;
    bool is_full = round->entry_count == worker->round_max;
    if (took_ms > ROUND_SLOW_MS && worker->round_max > ROUND_MIN)
        worker->round_max /= 2;
    else if (is_full && took_ms < ROUND_QUICK_MS && worker->round_max < ROUND_MAX)
        worker->round_max *= 2;
    if (worker->round_max > ROUND_MAX)
        worker->round_max = ROUND_MAX;
}

static void round_clear(struct round *round)
{
    for (size_t i = 0; i < round->entry_count; i++) {
        stored_free(round->entries[i].stored);
        buffer_fini(&round->entries[i].body);
    }
    for (size_t i = 0; i < round->fire_count; i++)
        stored_fire_fini(&round->fires[i]);
    round->entry_count = round->fire_count = round->again_count = round->withdrawal_count = 0;
}

static void round_fini(struct round *round)
{
    round_clear(round);
    free(round->answers);
    free(round->agains);
    free(round->entries);
    free(round->fires);
    free(round->outcomes);
    free(round->again);
    free(round->pushes);
    free(round->changes);
    free(round->withdrawals);
}

static void round_end(struct round *round)
{
    struct cadence_worker *worker = round->worker;
    round_resize(round);
    round_clear(round);
    round->is_busy = false;
    atomic_fetch_add_explicit(&worker->rounds_done, 1, memory_order_relaxed);
    tzdata_note(worker->tzdata);
    check_stopped(worker);
    worker_take(worker);
}

/* ---- 4: the schedules are pushed again ---- */

static void on_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct round *round = owner;
    (void)tag;
    /* If an answer failed, the lease ends, and the same fires are decided again. */
    if (reply->status != QUEUE_OK)
        round->worker->take_ms = clock_inner_ms() + RETRY_MS;
    round_end(round);
}

/* Returns how long calls may change the late schedules of a slow round before they are taken again: half its time. */
static int64_t yield_ms_of(int64_t elapsed_ms)
{
    int64_t yield_ms = elapsed_ms / 2;
    return yield_ms < YIELD_MS_MIN ? 0 : yield_ms < YIELD_MS_MAX ? yield_ms : YIELD_MS_MAX;
}

/* Returns when a schedule is handled again. One that is late would be taken again at once, and no call could change it. */
static struct queue_when entry_wake(const struct entry *entry, int64_t now_ms, int64_t yield_ms)
{
    if (entry->decision.wake_ms > now_ms || !yield_ms)
        return (struct queue_when){.due = QUEUE_DUE_AT, .ms = entry->decision.wake_ms};
    return (struct queue_when){.due = QUEUE_DUE_DELAY, .ms = yield_ms};
}

static void round_answer(struct round *round)
{
    int64_t elapsed_ms = queue_wall_ms(round->worker->options.queue) - round->wall_ms;
    int64_t real_ms =
        clock_inner_ms() - round->begun_ms; /* a step of the clock does not make a round slow */
    int64_t yield_ms = yield_ms_of(elapsed_ms < real_ms ? elapsed_ms : real_ms);
    struct queue_answer *answers = round->answers;
    struct queue_again *agains = round->agains;
    for (size_t i = 0; i < round->entry_count; i++) {
        const struct entry *entry = &round->entries[i];
        agains[i] =
            (struct queue_again){.when = entry_wake(entry, round->now_ms + elapsed_ms, yield_ms),
                                 .priority = QUEUE_PRIORITY_UNSET,
                                 .has_body = true,
                                 .body = buffer_slice(&entry->body)};
        answers[i] = (struct queue_answer){.verb = entry->is_good ? QUEUE_AGAIN : QUEUE_RETURN,
                                           .lease = slice_make(entry->lease, entry->lease_bytes),
                                           .delay_ms = entry->is_good ? -1
                                                       : entry->is_newer || entry->is_postponed
                                                           ? 0
                                                           : UNREADABLE_MS,
                                           .again = entry->is_good ? &agains[i] : NULL};
    }
    queue_answer(round->worker->options.queue, answers, round->entry_count,
                 (struct queue_reply_to){.done = on_answered, .owner = round});
}

/* ---- 3: outcomes of the fires ---- */

/* Decides for at most so many fires. Returns false if the zone is missing. */
static bool entry_decide(struct round *round, struct entry *entry, size_t fires_max)
{
    char error[ZONES_ERROR_BYTES] = "";
    struct schedule schedule = {.name = slice_of(entry->name), .spec = &entry->stored->spec};
    if (!zones_find(round->worker->zones, entry->stored->spec.zone, &schedule.zone, error)) {
        log_event(LOG_WARN, "schedule waits", LOG_TEXT("schedule", entry->name),
                  LOG_TEXT("error", error));
        trouble_note_call(TROUBLE_SCHEDULES, 0);
        return false;
    }
    schedule_decide(&schedule, &entry->stored->state, round->now_ms, fires_max, &entry->decision);
    zones_stamp(round->worker->zones, schedule.zone, &entry->decision.state);
    return true;
}

/* Reports the skips of one reason, with the nominal time of the newest. */
static void publish_skips(struct round *round, const struct entry *entry, enum skip_reason reason,
                          uint64_t skipped)
{
    struct feed_desk *desk = round->worker->options.desk;
    const struct state *after = &entry->decision.state;
    struct job_event event = {.kind = JOB_EVENT_FIRE_SKIPPED,
                              .at_ms = round->now_ms,
                              .count = skipped,
                              .topic = entry->stored->push.topic,
                              .id = slice_of(entry->name),
                              .error = slice_of(skip_reason_name(reason))};
    for (size_t i = 0; i < after->last_count; i++)
        if (after->last[i].reason == reason)
            event.due_ms = after->last[i].at_ms;
    if (desk && (feed_wants(desk, NULL) & job_event_bit(event.kind)) &&
        feed_admit(desk, event.kind, event.topic))
        feed_publish(desk, &event);
}

/* Counts fires and skips after the decision is final. */
static void entry_count_results(struct round *round, const struct entry *entry)
{
    const struct state *before = &entry->stored->state, *after = &entry->decision.state;
    atomic_fetch_add_explicit(&round->worker->fired, after->fired - before->fired,
                              memory_order_relaxed);
    for (int i = 1; i < SKIP_REASONS; i++) {
        uint64_t skipped = after->skipped[i] - before->skipped[i];
        atomic_fetch_add_explicit(&round->worker->skipped[i], skipped, memory_order_relaxed);
        if (!skipped)
            continue;
        log_event(LOG_INFO, "fires skipped", LOG_TEXT("schedule", entry->name),
                  LOG_TEXT("reason", skip_reason_name((enum skip_reason)i)),
                  LOG_NUMBER("fires", (int64_t)skipped));
        publish_skips(round, entry, (enum skip_reason)i, skipped);
    }
    if (after->skipped[SKIP_REFUSED] > before->skipped[SKIP_REFUSED])
        trouble_note_call(TROUBLE_SCHEDULES, 0);
}

/* Applies the outcomes of an entry's pushes to its decision. */
static void entry_settle(struct round *round, struct entry *entry)
{
    size_t good = 0;
    while (good < entry->push_count &&
           queue_status_is_success(round->outcomes[entry->first_push + good]))
        good++;
    if (good < entry->push_count) { /* continue with the first one that was refused */
        struct stored_fire *fire = &round->fires[entry->first_push + good];
        int64_t refused_ms = entry->decision.fires[good].at_ms;
        const char *code = queue_status_code(round->outcomes[entry->first_push + good]);
        log_event(LOG_WARN, "fire refused, it is tried again", LOG_TEXT("schedule", entry->name),
                  LOG_TEXT("fire", fire->id), LOG_TEXT("reason", code));
        atomic_fetch_add_explicit(&round->worker->retries, 1, memory_order_relaxed);
        entry->is_good = entry_decide(round, entry, good);
        schedule_retry(&entry->decision, &entry->stored->state, refused_ms, round->now_ms);
    }
    for (size_t i = 0; i < good; i++)
        if (round->outcomes[entry->first_push + i] == QUEUE_EXISTED)
            state_skip(&entry->decision.state, entry->decision.fires[i].at_ms, SKIP_OVERLAP);
}

static void round_settle(struct round *round)
{
    for (size_t i = 0; i < round->entry_count; i++) {
        struct entry *entry = &round->entries[i];
        if (!entry->is_good)
            continue;
        entry_settle(round, entry);
        buffer_clear(&entry->body);
        stored_write(&entry->body, entry->stored, &entry->decision.state);
        entry->is_good = entry->is_good && !entry->body.failed;
        if (entry->is_good)
            entry_count_results(round, entry);
    }
    round_answer(round);
}

/* ---- 2: the fires are pushed ---- */

static void round_push_once_more(struct round *round);
static void round_request(struct round *round);

/* Returns the outcome of a push. EXISTED remains only for a fire that is skipped because the job of
 * an earlier one is unfinished: all other existing jobs are this fire, pushed before. */
static enum queue_status outcome_of(const struct stored_fire *fire,
                                    const struct queue_result *result)
{
    bool is_skip = fire->push.on_conflict == CONFLICT_KEEP && fire->is_shared;
    if (result->status != QUEUE_EXISTED)
        return result->status;
    return is_skip && result->state && result->state != JOB_FINISHED ? QUEUE_EXISTED
                                                                     : QUEUE_CREATED;
}

/* Returns whether the fire replaces a job that a consumer holds. */
static bool replaces_leased(const struct round *round, size_t i)
{
    return round->outcomes[i] == QUEUE_LEASED &&
           round->fires[i].push.on_conflict == CONFLICT_REPLACE;
}

static void on_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct round *round = owner;
    (void)tag;
    for (size_t i = 0; i < round->fire_count; i++) {
        const struct queue_result *result = &reply->results[i];
        bool is_whole = reply->status == QUEUE_OK && reply->result_count == round->fire_count;
        round->outcomes[i] = is_whole ? outcome_of(&round->fires[i], result)
                                      : (reply->status ? reply->status : QUEUE_UNAVAILABLE);
        bool is_over_dead = round->outcomes[i] == QUEUE_EXISTED && result->state == JOB_DEAD;
        if (is_over_dead || replaces_leased(round, i))
            round->again[round->again_count++] = i;
    }
    if (round->again_count)
        round_request(round);
    else
        round_settle(round);
}

static void on_pushed_once_more(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct round *round = owner;
    (void)tag;
    bool is_whole = reply->status == QUEUE_OK && reply->result_count == round->again_count;
    for (size_t i = 0; i < round->again_count; i++)
        round->outcomes[round->again[i]] = is_whole ? reply->results[i].status : QUEUE_UNAVAILABLE;
    round_settle(round);
}

/* A dead job is not an unfinished one: the fire replaces it. A leased job gets the fire as its successor. */
static void round_push_once_more(struct round *round)
{
    for (size_t i = 0; i < round->again_count; i++) {
        size_t fire = round->again[i];
        round->pushes[i] = round->fires[fire].push;
        round->pushes[i].on_conflict =
            replaces_leased(round, fire) ? CONFLICT_AFTER : CONFLICT_REPLACE;
    }
    queue_push(round->worker->options.queue, round->pushes, round->again_count,
               (struct queue_reply_to){.done = on_pushed_once_more, .owner = round});
}

/* Ignores the result: if a request fails, the fire is pushed nevertheless, and runs after the job. */
static void on_requested(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)tag;
    (void)reply;
    round_push_once_more(owner);
}

/* Asks the holders of jobs that are replaced to end. This comes before the push, because a cancel removes a successor. */
static void round_request(struct round *round)
{
    size_t count = 0;
    for (size_t i = 0; i < round->again_count; i++)
        if (replaces_leased(round, round->again[i])) {
            const struct queue_push *push = &round->fires[round->again[i]].push;
            round->changes[count++] = (struct queue_change){.verb = QUEUE_CANCEL,
                                                            .topic = push->topic,
                                                            .id = push->id,
                                                            .priority = QUEUE_PRIORITY_UNSET,
                                                            .request = true};
        }
    if (count)
        queue_change(round->worker->options.queue, round->changes, count,
                     (struct queue_reply_to){.done = on_requested, .owner = round});
    else
        round_push_once_more(round);
}

static void round_push(struct round *round)
{
    if (!round->fire_count) {
        round_settle(round);
        return;
    }
    for (size_t i = 0; i < round->fire_count; i++)
        round->pushes[i] = round->fires[i].push;
    queue_push(round->worker->options.queue, round->pushes, round->fire_count,
               (struct queue_reply_to){.done = on_pushed, .owner = round});
}

/* Pushes after the cancel. A job that is gone or leased was due meanwhile. */
static void on_withdrawn(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct round *round = owner;
    (void)tag;
    if (reply->status == QUEUE_OK) {
        round_push(round);
        return;
    }
    round->worker->take_ms = clock_inner_ms() + RETRY_MS;
    round_end(round); /* the leases end, and the same fires are decided again */
}

static void round_withdraw(struct round *round)
{
    for (size_t i = 0; i < round->withdrawal_count; i++)
        round->changes[i] = (struct queue_change){.verb = QUEUE_CANCEL,
                                                  .topic = round->withdrawals[i].topic,
                                                  .id = slice_of(round->withdrawals[i].id),
                                                  .priority = QUEUE_PRIORITY_UNSET};
    if (round->withdrawal_count)
        queue_change(round->worker->options.queue, round->changes, round->withdrawal_count,
                     (struct queue_reply_to){.done = on_withdrawn, .owner = round});
    else
        round_push(round);
}

/* ---- 1: schedules are taken ---- */

/* Takes back fires that were pushed ahead if the file of the zone has changed since. Those that the new file leaves out
 * are cancelled; the others are decided again, and their `once` makes the second push have no effect. Returns false if
 * the round has no room for them. */
static bool entry_take_back(struct round *round, struct entry *entry)
{
    char error[ZONES_ERROR_BYTES];
    int64_t taken_ms[STATE_LAST];
    struct stored *stored = entry->stored;
    struct schedule schedule = {.name = slice_of(entry->name), .spec = &stored->spec};
    if (!zones_find(round->worker->zones, stored->spec.zone, &schedule.zone, error) ||
        !zones_differ(schedule.zone, &stored->state))
        return true;
    if (!round->withdrawals)
        round->withdrawals = calloc(QUEUE_BATCH_MAX, sizeof *round->withdrawals);
    if (!round->withdrawals)
        round->worker->take_ms = clock_inner_ms() + RETRY_MS; /* there was no memory */
    if (!round->withdrawals || round->withdrawal_count + STATE_LAST > QUEUE_BATCH_MAX)
        return false;
    size_t count = schedule_take_back(&schedule, &stored->state, round->now_ms, taken_ms);
    for (size_t i = 0; i < count; i++) {
        if (schedule_fires_at(&schedule, taken_ms[i]))
            continue;
        struct withdrawal *withdrawal = &round->withdrawals[round->withdrawal_count++];
        withdrawal->topic = stored->push.topic;
        (void)stored_fire_id(schedule.name, taken_ms[i], withdrawal->id);
    }
    return true;
}

static void entry_add_fires(struct round *round, struct entry *entry)
{
    entry->first_push = round->fire_count;
    entry->push_count = entry->decision.fire_count;
    for (size_t i = 0; i < entry->push_count; i++)
        stored_fire_init(&round->fires[round->fire_count++], entry->stored, slice_of(entry->name),
                         &entry->decision.fires[i]);
}

static void entry_begin(struct round *round, const struct queue_job *job)
{
    struct entry *entry = &round->entries[round->entry_count++];
    size_t room = QUEUE_BATCH_MAX - round->fire_count;
    entry->is_good = entry->is_newer = entry->is_postponed = false;
    entry->push_count = 0;
    (void)slice_copy(job->job.id, entry->name, sizeof entry->name);
    memcpy(entry->lease, job->lease.at, job->lease.len);
    entry->lease_bytes = job->lease.len;
    buffer_init(&entry->body, STORED_BYTES_MAX);
    entry->stored = stored_new();
    if (!entry->stored ||
        !stored_read(entry->stored, job->job.id, job->job.body, round->worker->options.hooks)) {
        log_event(LOG_WARN, "schedule not readable by this server, it waits",
                  LOG_TEXT("schedule", entry->name));
        trouble_note_call(TROUBLE_SCHEDULES, 0);
        return;
    }
    if (zones_are_older(round->worker->zones, &entry->stored->state)) {
        log_event(LOG_WARN, "schedule of a newer tzdata, it waits for a server that has it",
                  LOG_TEXT("schedule", entry->name));
        trouble_note_call(TROUBLE_SCHEDULES, 0);
        entry->is_newer = true;
        round->worker->take_ms = clock_inner_ms() + NEWER_MS;
        return;
    }
    if (!entry_take_back(round, entry)) {
        entry->is_postponed = true;
        return;
    }
    if (entry_decide(round, entry, room < DECIDE_FIRES_MAX ? room : DECIDE_FIRES_MAX)) {
        entry->is_good = true;
        entry_add_fires(round, entry);
    }
}

/* Allocates the memory of a round at its first use. A server with few schedules uses one round. */
static bool round_reserve(struct round *round)
{
    if (!round->entries)
        round->entries = calloc(ROUND_MAX, sizeof *round->entries);
    if (!round->fires)
        round->fires = calloc(QUEUE_BATCH_MAX, sizeof *round->fires);
    if (!round->outcomes)
        round->outcomes = calloc(QUEUE_BATCH_MAX, sizeof *round->outcomes);
    if (!round->again)
        round->again = calloc(QUEUE_BATCH_MAX, sizeof *round->again);
    if (!round->pushes)
        round->pushes = calloc(QUEUE_BATCH_MAX, sizeof *round->pushes);
    if (!round->changes)
        round->changes = calloc(QUEUE_BATCH_MAX, sizeof *round->changes);
    if (!round->answers)
        round->answers = calloc(ROUND_MAX, sizeof *round->answers);
    if (!round->agains)
        round->agains = calloc(ROUND_MAX, sizeof *round->agains);
    return round->answers && round->agains && round->entries && round->fires && round->outcomes &&
           round->again && round->pushes && round->changes;
}

/* Returns the time of the store at a take. The clock of this machine may differ: if it is behind, a schedule would be
 * taken again and again until it has caught up. */
static int64_t store_now_ms(struct cadence_worker *worker, const struct queue_reply *reply)
{
    int64_t now_ms = 0;
    for (size_t i = 0; i < reply->job_count; i++) {
        int64_t taken_ms = reply->jobs[i].job.lease_until_ms - STORED_LEASE_MS;
        now_ms = taken_ms > now_ms ? taken_ms : now_ms;
    }
    return now_ms ? now_ms : queue_wall_ms(worker->options.queue);
}

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct cadence_worker *worker = owner;
    (void)tag;
    struct round *round = worker_idle_round(worker);
    worker->take = 0;
    if (reply->status != QUEUE_OK || refused)
        worker->take_ms = clock_inner_ms() + RETRY_MS;
    if (reply->status != QUEUE_OK || !reply->job_count || !round_reserve(round)) {
        worker_take(worker); /* without memory, the leases end */
        return;
    }
    round->is_busy = true;
    round->begun_ms = clock_inner_ms();
    round->now_ms = store_now_ms(worker, reply);
    round->wall_ms = queue_wall_ms(worker->options.queue);
    for (size_t i = 0; i < reply->job_count; i++)
        entry_begin(round, &reply->jobs[i]);
    round_withdraw(round);
    worker_take(worker);
}

static void worker_take(struct cadence_worker *worker)
{
    int64_t now_ms = clock_inner_ms();
    struct queue_info info = {0};
    if (worker->is_stopping || !worker->is_started || worker->take || !worker_idle_round(worker))
        return;
    queue_info(worker->options.queue, &info);
    if (info.draining) /* another server may accept new jobs */
        worker->take_ms = now_ms + RETRY_MS;
    if (now_ms < worker->take_ms) {
        deadline_set(worker->alarm, worker->take_ms);
        return;
    }
    struct slice topic = slice_of(SCHEDULES_TOPIC);
    struct queue_take take = {
        .topics = &topic, .topic_count = 1, .max = worker->round_max, .lease_ms = STORED_LEASE_MS};
    worker->take =
        waiter_take(worker->options.waiters, &take, TAKE_WAIT_MS, now_ms, on_taken, worker, 0);
    if (!worker->take) {
        worker->take_ms = now_ms + RETRY_MS;
        deadline_set(worker->alarm, worker->take_ms);
    }
}

/* ---- life ---- */

static void on_alarm(void *ctx)
{
    worker_take(ctx);
}

static void run_stopped(struct iteration_end_call *call)
{
    struct cadence_worker *worker = list_entry(call, struct cadence_worker, stop_call);
    void (*stopped)(void *ctx) = worker->stopped;
    worker->stopped = NULL;
    if (stopped)
        stopped(worker->stopped_ctx);
}

struct cadence_worker *cadence_worker_new(const struct cadence_worker_options *options)
{
    struct cadence_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return NULL;
    worker->options = *options;
    worker->round_max = ROUND_MIN;
    for (size_t i = 0; i < ROUNDS_MAX; i++)
        worker->rounds[i].worker = worker;
    list_init(&worker->stop_call.list);
    worker->stop_call.run = run_stopped;
    worker->zones = zones_new(options->zone_directory);
    worker->alarm = deadline_new(options->reactor, on_alarm, worker);
    if (worker->zones)
        worker->tzdata =
            tzdata_new(options->reactor, options->queue, worker->zones, options->hooks);
    if (worker->tzdata && worker->alarm)
        return worker;
    cadence_worker_free(worker);
    return NULL;
}

void cadence_worker_start(struct cadence_worker *worker)
{
    worker->is_started = true;
    tzdata_start(worker->tzdata);
    worker_take(worker);
}

void cadence_worker_stop(struct cadence_worker *worker, void (*stopped)(void *ctx), void *ctx)
{
    worker->is_stopping = true;
    tzdata_stop(worker->tzdata);
    worker->stopped = stopped;
    worker->stopped_ctx = ctx;
    if (worker->take) {
        waiter_cancel(worker->options.waiters, worker->take);
        worker->take = 0;
    }
    check_stopped(worker);
}

void cadence_worker_free(struct cadence_worker *worker)
{
    if (!worker)
        return;
    reactor_cancel_at_iteration_end(&worker->stop_call);
    for (size_t i = 0; i < ROUNDS_MAX; i++)
        round_fini(&worker->rounds[i]);
    if (worker->alarm)
        deadline_free(worker->alarm);
    tzdata_free(worker->tzdata);
    zones_free(worker->zones);
    free(worker);
}

/* ---- metrics ---- */

enum { FIRED, SKIPPED, RETRIES, ROUNDS };

void cadence_worker_emit_metrics(struct cadence_worker *worker, struct metric_page *page)
{
    metric_write(page, &cadence_metrics[FIRED], atomic_load(&worker->fired));
    metric_begin(page, &cadence_metrics[SKIPPED]);
    for (int i = 1; i < SKIP_REASONS; i++)
        metric_sample(page, METRIC_LABELS(slice_of(skip_reason_name((enum skip_reason)i))),
                      atomic_load(&worker->skipped[i]));
    metric_write(page, &cadence_metrics[RETRIES], atomic_load(&worker->retries));
    metric_write(page, &cadence_metrics[ROUNDS], atomic_load(&worker->rounds_done));
}

const struct metric cadence_metrics[] = {
    [FIRED] = {.name = "tarry_schedule_fires_total",
               .type = PROMETHEUS_COUNTER,
               .help = "Fires of schedules that this server pushed.",
               .meaning = "Compare with the plan: `tarry schedule list` shows the next fires."},
    [SKIPPED] = {.name = "tarry_schedule_skipped_total",
                 .type = PROMETHEUS_COUNTER,
                 .labels = {"reason"},
                 .help = "Fires of schedules that this server skipped.",
                 .meaning = "`missed`: no server handled the schedule in time. `refused`: the push "
                            "was rejected until the grace time ended; the log has the reason. "
                            "`paused`, `overlap` and `ended` follow from the schedule."},
    [RETRIES] = {.name = "tarry_schedule_retries_total",
                 .type = PROMETHEUS_COUNTER,
                 .help = "Pushes of fires that were rejected and are tried again.",
                 .meaning = "The topic or the store is full, or the store is unavailable."},
    [ROUNDS] = {.name = "tarry_schedule_rounds_total",
                .type = PROMETHEUS_COUNTER,
                .help = "Batches of schedules that this server handled.",
                .meaning = "Divide the fires by it for the number of fires of a batch."},
    METRIC_END};
