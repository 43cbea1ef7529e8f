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
    ROUND_QUICK_MS = 1000,     /* the next round may be twice as large */
    ROUND_SLOW_MS = 2500,      /* a quarter of the lease: the next round is half as large */
    RETRY_MS = 1000,           /* after a queue error */
    UNREADABLE_MS = 60 * 1000, /* before a schedule that this server cannot handle is taken again */
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
};

struct cadence_worker {
    struct cadence_worker_options options;
    struct zones *zones;
    struct tzdata *tzdata;
    uint64_t take; /* handle of a waiting take, or 0 */
    struct deadline *alarm;
    int64_t take_ms;    /* no take before it */
    int64_t now_ms;     /* of the round: the time of its decisions, by the clock of the store */
    int64_t begun_ms;   /* of the round, inner clock */
    uint32_t round_max; /* schedules of the next round */
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
    bool has_round, is_started, is_stopping;
    struct iteration_end_call stop_call;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    _Atomic uint64_t rounds, fired, retries, skipped[SKIP_REASONS];
};

static void worker_take(struct cadence_worker *worker);

static void check_stopped(struct cadence_worker *worker)
{
    if (worker->is_stopping && !worker->has_round && worker->stopped)
        reactor_once_at_iteration_end(worker->options.reactor, &worker->stop_call);
}

/* Sets the size of the next round. Many schedules that fire in one minute need few calls of the store, but a round must
 * end long before its leases do. */
static void round_resize(struct cadence_worker *worker)
{
    int64_t took_ms = clock_inner_ms() - worker->begun_ms;
    bool is_full = worker->entry_count == worker->round_max;
    if (took_ms > ROUND_SLOW_MS && worker->round_max > ROUND_MIN)
        worker->round_max /= 2;
    else if (is_full && took_ms < ROUND_QUICK_MS && worker->round_max < ROUND_MAX)
        worker->round_max *= 2;
    if (worker->round_max > ROUND_MAX)
        worker->round_max = ROUND_MAX;
}

static void round_end(struct cadence_worker *worker)
{
    round_resize(worker);
    for (size_t i = 0; i < worker->entry_count; i++) {
        stored_free(worker->entries[i].stored);
        buffer_fini(&worker->entries[i].body);
    }
    for (size_t i = 0; i < worker->fire_count; i++)
        stored_fire_fini(&worker->fires[i]);
    worker->entry_count = worker->fire_count = worker->again_count = 0;
    worker->has_round = false;
    atomic_fetch_add_explicit(&worker->rounds, 1, memory_order_relaxed);
    tzdata_note(worker->tzdata);
    check_stopped(worker);
    worker_take(worker);
}

/* ---- 4: the schedules are pushed again ---- */

static void on_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct cadence_worker *worker = owner;
    (void)tag;
    /* If an answer failed, the lease ends, and the same fires are decided again. */
    if (reply->status != QUEUE_OK)
        worker->take_ms = clock_inner_ms() + RETRY_MS;
    round_end(worker);
}

static void round_answer(struct cadence_worker *worker)
{
    struct queue_answer *answers = worker->answers;
    struct queue_again *agains = worker->agains;
    for (size_t i = 0; i < worker->entry_count; i++) {
        const struct entry *entry = &worker->entries[i];
        agains[i] =
            (struct queue_again){.when = {.due = QUEUE_DUE_AT, .ms = entry->decision.wake_ms},
                                 .priority = QUEUE_PRIORITY_UNSET,
                                 .has_body = true,
                                 .body = buffer_slice(&entry->body)};
        answers[i] = (struct queue_answer){.verb = entry->is_good ? QUEUE_AGAIN : QUEUE_RETURN,
                                           .lease = slice_make(entry->lease, entry->lease_bytes),
                                           .delay_ms = entry->is_good    ? -1
                                                       : entry->is_newer ? 0
                                                                         : UNREADABLE_MS,
                                           .again = entry->is_good ? &agains[i] : NULL};
    }
    queue_answer(worker->options.queue, answers, worker->entry_count,
                 (struct queue_reply_to){.done = on_answered, .owner = worker});
}

/* ---- 3: outcomes of the fires ---- */

/* Decides for at most so many fires. Returns false if the zone is missing. */
static bool entry_decide(struct cadence_worker *worker, struct entry *entry, size_t fires_max)
{
    char error[ZONES_ERROR_BYTES] = "";
    struct schedule schedule = {.name = slice_of(entry->name), .spec = &entry->stored->spec};
    if (!zones_find(worker->zones, entry->stored->spec.zone, &schedule.zone, error)) {
        log_event(LOG_WARN, "schedule waits", LOG_TEXT("schedule", entry->name),
                  LOG_TEXT("error", error));
        trouble_note_call(TROUBLE_SCHEDULES, 0);
        return false;
    }
    schedule_decide(&schedule, &entry->stored->state, worker->now_ms, fires_max, &entry->decision);
    zones_stamp(worker->zones, schedule.zone, &entry->decision.state);
    return true;
}

/* Reports the skips of one reason, with the nominal time of the newest. */
static void publish_skips(struct cadence_worker *worker, const struct entry *entry,
                          enum skip_reason reason, uint64_t skipped)
{
    struct feed_desk *desk = worker->options.desk;
    const struct state *after = &entry->decision.state;
    struct job_event event = {.kind = JOB_EVENT_FIRE_SKIPPED,
                              .at_ms = worker->now_ms,
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
static void entry_count_results(struct cadence_worker *worker, const struct entry *entry)
{
    const struct state *before = &entry->stored->state, *after = &entry->decision.state;
    atomic_fetch_add_explicit(&worker->fired, after->fired - before->fired, memory_order_relaxed);
    for (int i = 1; i < SKIP_REASONS; i++) {
        uint64_t skipped = after->skipped[i] - before->skipped[i];
        atomic_fetch_add_explicit(&worker->skipped[i], skipped, memory_order_relaxed);
        if (!skipped)
            continue;
        log_event(LOG_INFO, "fires skipped", LOG_TEXT("schedule", entry->name),
                  LOG_TEXT("reason", skip_reason_name((enum skip_reason)i)),
                  LOG_NUMBER("fires", (int64_t)skipped));
        publish_skips(worker, entry, (enum skip_reason)i, skipped);
    }
    if (after->skipped[SKIP_REFUSED] > before->skipped[SKIP_REFUSED])
        trouble_note_call(TROUBLE_SCHEDULES, 0);
}

/* Applies the outcomes of an entry's pushes to its decision. */
static void entry_settle(struct cadence_worker *worker, struct entry *entry)
{
    size_t good = 0;
    while (good < entry->push_count &&
           queue_status_is_success(worker->outcomes[entry->first_push + good]))
        good++;
    if (good < entry->push_count) { /* continue with the first one that was refused */
        struct stored_fire *fire = &worker->fires[entry->first_push + good];
        int64_t refused_ms = entry->decision.fires[good].at_ms;
        const char *code = queue_status_code(worker->outcomes[entry->first_push + good]);
        log_event(LOG_WARN, "fire refused, it is tried again", LOG_TEXT("schedule", entry->name),
                  LOG_TEXT("fire", fire->once), LOG_TEXT("reason", code));
        atomic_fetch_add_explicit(&worker->retries, 1, memory_order_relaxed);
        entry->is_good = entry_decide(worker, entry, good);
        schedule_retry(&entry->decision, &entry->stored->state, refused_ms, worker->now_ms);
    }
    for (size_t i = 0; i < good; i++)
        if (worker->outcomes[entry->first_push + i] == QUEUE_EXISTED)
            state_skip(&entry->decision.state, entry->decision.fires[i].at_ms, SKIP_OVERLAP);
}

static void round_settle(struct cadence_worker *worker)
{
    for (size_t i = 0; i < worker->entry_count; i++) {
        struct entry *entry = &worker->entries[i];
        if (!entry->is_good)
            continue;
        entry_settle(worker, entry);
        buffer_clear(&entry->body);
        stored_write(&entry->body, entry->stored, &entry->decision.state);
        entry->is_good = entry->is_good && !entry->body.failed;
        if (entry->is_good)
            entry_count_results(worker, entry);
    }
    round_answer(worker);
}

/* ---- 2: the fires are pushed ---- */

static void round_push_once_more(struct cadence_worker *worker);
static void round_request(struct cadence_worker *worker);

/* Returns the outcome of a push. EXISTED remains only for a fire that is skipped because the job of
 * an earlier one is unfinished: all other existing jobs are this fire, pushed before. */
static enum queue_status outcome_of(const struct stored_fire *fire,
                                    const struct queue_result *result)
{
    bool is_skip =
        fire->push.on_conflict == CONFLICT_KEEP && !slice_equals(fire->push.id, fire->push.once);
    if (result->status != QUEUE_EXISTED)
        return result->status;
    return is_skip && result->state && result->state != JOB_FINISHED ? QUEUE_EXISTED
                                                                     : QUEUE_CREATED;
}

/* Returns whether the fire replaces a job that a consumer holds. */
static bool replaces_leased(const struct cadence_worker *worker, size_t i)
{
    return worker->outcomes[i] == QUEUE_LEASED &&
           worker->fires[i].push.on_conflict == CONFLICT_REPLACE;
}

static void on_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct cadence_worker *worker = owner;
    (void)tag;
    for (size_t i = 0; i < worker->fire_count; i++) {
        const struct queue_result *result = &reply->results[i];
        bool is_whole = reply->status == QUEUE_OK && reply->result_count == worker->fire_count;
        worker->outcomes[i] = is_whole ? outcome_of(&worker->fires[i], result)
                                       : (reply->status ? reply->status : QUEUE_UNAVAILABLE);
        bool is_over_dead = worker->outcomes[i] == QUEUE_EXISTED && result->state == JOB_DEAD;
        if (is_over_dead || replaces_leased(worker, i))
            worker->again[worker->again_count++] = i;
    }
    if (worker->again_count)
        round_request(worker);
    else
        round_settle(worker);
}

static void on_pushed_once_more(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct cadence_worker *worker = owner;
    (void)tag;
    bool is_whole = reply->status == QUEUE_OK && reply->result_count == worker->again_count;
    for (size_t i = 0; i < worker->again_count; i++)
        worker->outcomes[worker->again[i]] =
            is_whole ? reply->results[i].status : QUEUE_UNAVAILABLE;
    round_settle(worker);
}

/* A dead job is not an unfinished one: the fire replaces it. A leased job gets the fire as its successor. */
static void round_push_once_more(struct cadence_worker *worker)
{
    for (size_t i = 0; i < worker->again_count; i++) {
        size_t fire = worker->again[i];
        worker->pushes[i] = worker->fires[fire].push;
        worker->pushes[i].on_conflict =
            replaces_leased(worker, fire) ? CONFLICT_AFTER : CONFLICT_REPLACE;
    }
    queue_push(worker->options.queue, worker->pushes, worker->again_count,
               (struct queue_reply_to){.done = on_pushed_once_more, .owner = worker});
}

/* Ignores the result: if a request fails, the fire is pushed nevertheless, and runs after the job. */
static void on_requested(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)tag;
    (void)reply;
    round_push_once_more(owner);
}

/* Asks the holders of jobs that are replaced to end. This comes before the push, because a cancel removes a successor. */
static void round_request(struct cadence_worker *worker)
{
    static _Thread_local struct queue_change changes[QUEUE_BATCH_MAX];
    size_t count = 0;
    for (size_t i = 0; i < worker->again_count; i++)
        if (replaces_leased(worker, worker->again[i])) {
            const struct queue_push *push = &worker->fires[worker->again[i]].push;
            changes[count++] = (struct queue_change){.verb = QUEUE_CANCEL,
                                                     .topic = push->topic,
                                                     .id = push->id,
                                                     .priority = QUEUE_PRIORITY_UNSET,
                                                     .request = true};
        }
    if (count)
        queue_change(worker->options.queue, changes, count,
                     (struct queue_reply_to){.done = on_requested, .owner = worker});
    else
        round_push_once_more(worker);
}

static void round_push(struct cadence_worker *worker)
{
    if (!worker->fire_count) {
        round_settle(worker);
        return;
    }
    for (size_t i = 0; i < worker->fire_count; i++)
        worker->pushes[i] = worker->fires[i].push;
    queue_push(worker->options.queue, worker->pushes, worker->fire_count,
               (struct queue_reply_to){.done = on_pushed, .owner = worker});
}

/* ---- 1: schedules are taken ---- */

static void entry_add_fires(struct cadence_worker *worker, struct entry *entry)
{
    entry->first_push = worker->fire_count;
    entry->push_count = entry->decision.fire_count;
    for (size_t i = 0; i < entry->push_count; i++)
        stored_fire_init(&worker->fires[worker->fire_count++], entry->stored, slice_of(entry->name),
                         &entry->decision.fires[i]);
}

static void entry_begin(struct cadence_worker *worker, const struct queue_job *job)
{
    struct entry *entry = &worker->entries[worker->entry_count++];
    size_t room = QUEUE_BATCH_MAX - worker->fire_count;
    entry->is_good = entry->is_newer = false;
    entry->push_count = 0;
    (void)slice_copy(job->job.id, entry->name, sizeof entry->name);
    memcpy(entry->lease, job->lease.at, job->lease.len);
    entry->lease_bytes = job->lease.len;
    buffer_init(&entry->body, STORED_BYTES_MAX);
    entry->stored = stored_new();
    if (!entry->stored ||
        !stored_read(entry->stored, job->job.id, job->job.body, worker->options.hooks)) {
        log_event(LOG_WARN, "schedule not readable by this server, it waits",
                  LOG_TEXT("schedule", entry->name));
        trouble_note_call(TROUBLE_SCHEDULES, 0);
        return;
    }
    if (zones_are_older(worker->zones, &entry->stored->state)) {
        log_event(LOG_WARN, "schedule of a newer tzdata, it waits for a server that has it",
                  LOG_TEXT("schedule", entry->name));
        trouble_note_call(TROUBLE_SCHEDULES, 0);
        entry->is_newer = true;
        worker->take_ms = clock_inner_ms() + NEWER_MS;
        return;
    }
    if (entry_decide(worker, entry, room < DECIDE_FIRES_MAX ? room : DECIDE_FIRES_MAX)) {
        entry->is_good = true;
        entry_add_fires(worker, entry);
    }
}

/* Allocates the memory of rounds at the first one, because a server without schedules does not need it. */
static bool worker_reserve(struct cadence_worker *worker)
{
    if (!worker->entries)
        worker->entries = calloc(ROUND_MAX, sizeof *worker->entries);
    if (!worker->fires)
        worker->fires = calloc(QUEUE_BATCH_MAX, sizeof *worker->fires);
    if (!worker->outcomes)
        worker->outcomes = calloc(QUEUE_BATCH_MAX, sizeof *worker->outcomes);
    if (!worker->again)
        worker->again = calloc(QUEUE_BATCH_MAX, sizeof *worker->again);
    if (!worker->pushes)
        worker->pushes = calloc(QUEUE_BATCH_MAX, sizeof *worker->pushes);
    if (!worker->answers)
        worker->answers = calloc(ROUND_MAX, sizeof *worker->answers);
    if (!worker->agains)
        worker->agains = calloc(ROUND_MAX, sizeof *worker->agains);
    return worker->answers && worker->agains && worker->entries && worker->fires &&
           worker->outcomes && worker->again && worker->pushes;
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
    worker->take = 0;
    if (reply->status != QUEUE_OK || refused)
        worker->take_ms = clock_inner_ms() + RETRY_MS;
    if (reply->status != QUEUE_OK || !reply->job_count || !worker_reserve(worker)) {
        worker_take(worker); /* without memory, the leases end */
        return;
    }
    worker->has_round = true;
    worker->begun_ms = clock_inner_ms();
    worker->now_ms = store_now_ms(worker, reply);
    for (size_t i = 0; i < reply->job_count; i++)
        entry_begin(worker, &reply->jobs[i]);
    round_push(worker);
}

static void worker_take(struct cadence_worker *worker)
{
    int64_t now_ms = clock_inner_ms();
    struct queue_info info = {0};
    if (worker->is_stopping || !worker->is_started || worker->has_round || worker->take)
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
    for (size_t i = 0; i < worker->entry_count; i++) {
        stored_free(worker->entries[i].stored);
        buffer_fini(&worker->entries[i].body);
    }
    for (size_t i = 0; i < worker->fire_count; i++)
        stored_fire_fini(&worker->fires[i]);
    if (worker->alarm)
        deadline_free(worker->alarm);
    tzdata_free(worker->tzdata);
    zones_free(worker->zones);
    free(worker->answers);
    free(worker->agains);
    free(worker->entries);
    free(worker->fires);
    free(worker->outcomes);
    free(worker->again);
    free(worker->pushes);
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
    metric_write(page, &cadence_metrics[ROUNDS], atomic_load(&worker->rounds));
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
                            "`paused` and `overlap` follow from the schedule."},
    [RETRIES] = {.name = "tarry_schedule_retries_total",
                 .type = PROMETHEUS_COUNTER,
                 .help = "Pushes of fires that were rejected and are tried again.",
                 .meaning = "The topic or the store is full, or the store is unavailable."},
    [ROUNDS] = {.name = "tarry_schedule_rounds_total",
                .type = PROMETHEUS_COUNTER,
                .help = "Batches of schedules that this server handled.",
                .meaning = "Divide the fires by it for the number of fires of a batch."},
    METRIC_END};
