#include "local/shard_core.h"
#include "local/batch_mail.h"

#include "base/clock.h"
#include "base/clock_restore.h"
#include "base/log.h"
#include "net/activity.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL_BYTES = 768, /* of a completion: one result with a topic and an id of usual length */
    MOVED_CHECK_MS = 500,
    ROUNDS_MAX = 8, /* of replies per step: callbacks may submit calls that can be answered
                           * immediately */
    HEAVY_BYTES = 16 * 1024,
    TIMERS = 512,         /* per step */
    TOPICS_AT_ONCE = 256, /* records of topics per step */
    SKEW_LOGGED_MS = 100,
    ROOM_EVERY_US = 1000 * 1000 /* interval between checks of the free disk space */
};

/* ---- time ---- */

struct engine_now shard_now(struct shard *shard)
{
    struct engine_now now;
    clock_both_ms_of(shard->clock, &now.inner_ms, &now.wall_ms);
    int64_t step_ms = now.wall_ms - now.inner_ms - shard->skew_ms;
    if (step_ms > CLOCK_SKEW_NOISE_MS || step_ms < -CLOCK_SKEW_NOISE_MS) {
        bool is_notified = !clock_is_held(shard->clock) || shard->clock == &clock_process;
        if (is_notified && (step_ms > SKEW_LOGGED_MS || step_ms < -SKEW_LOGGED_MS)) {
            log_event(LOG_WARN, "wall clock stepped", LOG_NUMBER("shard", shard->options.index),
                      LOG_NUMBER("step_ms", step_ms));
            if (shard->options.index == 0) /* all shards notice it */
                clock_note_step(step_ms);
        }
        shard->skew_ms += step_ms;
        shard->stepped = shard->options.stepped != NULL;
    }
    now.skew_ms = shard->skew_ms;
    return now;
}

/* ---- replies: each waits for its batch to be durable, or for the end of the step ---- */

static void spare_give(struct shard *shard, struct completion *completion)
{
    completion->list.next = (struct list *)(void *)shard->spare;
    shard->spare = completion;
    shard->spares++;
}

static struct completion *spare_take(struct shard *shard)
{
    struct completion *completion = shard->spare;
    shard->spare = (struct completion *)(void *)completion->list.next;
    shard->spares--;
    return completion;
}

bool completions_reserve(struct shard *shard)
{
    while (shard->spares < COMPLETION_RESERVE) {
        struct completion *completion = malloc(SMALL_BYTES);
        if (!completion)
            return false;
        spare_give(shard, completion);
    }
    return true;
}

struct completion *completion_new(struct shard *shard, size_t count, size_t text_bytes,
                                  struct queue_reply_to reply_to)
{
    size_t bytes = sizeof(struct completion) + count * sizeof(struct queue_result) + text_bytes;
    struct completion *completion;
    bool is_small = bytes <= SMALL_BYTES, has_items = count || text_bytes;
    if (is_small && shard->spares > COMPLETION_RESERVE) {
        completion = spare_take(shard);
    } else {
        completion = malloc(is_small ? SMALL_BYTES : bytes);
        if (!completion && !has_items && shard->spare)
            completion = spare_take(shard);
        if (!completion)
            return NULL;
    }
    if (is_small)
        bytes = SMALL_BYTES;
    memset(completion, 0, sizeof *completion + count * sizeof(struct queue_result));
    completion->bytes = bytes;
    completion->reply_to = reply_to;
    completion->reply.result_count = count;
    completion->reply.results = completion_results(completion);
    return completion;
}

static void completion_free(struct shard *shard, struct completion *completion)
{
    if (completion->bytes == SMALL_BYTES) {
        spare_give(shard, completion);
    } else {
        free(completion);
    }
}

void completion_soon(struct shard *shard, struct completion *completion)
{
    list_add_last(&shard->soon, &completion->list);
}

void completion_soon_of(struct shard *shard, struct completion *completion, size_t bytes)
{
    list_add_last(bytes > HEAVY_BYTES ? &shard->heavy : &shard->soon, &completion->list);
}

uint64_t shard_needs(const struct shard *shard)
{
    uint64_t open = wal_open_sequence(shard->wal);
    return wal_open_is_empty(shard->wal) ? open - 1 : open;
}

void completion_when_durable(struct shard *shard, struct completion *completion)
{
    completion->needs = shard_needs(shard);
    if (completion->needs <= shard->durable)
        completion_soon(shard, completion);
    else
        list_add_last(&shard->waiting, &completion->list);
}

void completion_status_soon(struct shard *shard, enum queue_status status,
                            struct queue_reply_to reply_to)
{
    struct completion *completion = completion_new(shard, 0, 0, reply_to);
    assert(
        completion); /* without memory even for a refusal, the server cannot continue correctly */
    completion->reply.status = status;
    completion_soon(shard, completion);
}

static void completion_run(struct shard *shard, struct completion *completion)
{
    list_remove(&completion->list);
    completion->reply_to.done(completion->reply_to.owner, completion->reply_to.tag,
                              &completion->reply);
    completion_free(shard, completion);
}

/* Returns the first completion that waits for a sequence up to `until`. NULL: there is none. */
static struct completion *first_waiting(const struct shard *shard, uint64_t until)
{
    if (list_is_empty(&shard->waiting))
        return NULL;
    struct completion *first = list_entry(shard->waiting.next, struct completion, list);
    return first->needs <= until ? first : NULL;
}

/* Fails the completions that need a sequence after `durable` and at most `until` (UINT64_MAX: all), and drops the waits
 * that began with one of them. Sends earlier ones as they are. */
static void completions_fail(struct shard *shard, uint64_t durable, uint64_t until,
                             enum queue_status status)
{
    struct completion *first;
    shard->failed_after =
        shard->failed_until && shard->failed_after < durable ? shard->failed_after : durable;
    shard->failed_until = until;
    while ((first = first_waiting(shard, until))) {
        if (first->push_needs > durable) {
            list_remove(&first->list);
            completion_free(shard, first);
            continue;
        }
        if (first->needs > durable)
            first->reply = (struct queue_reply){.status = status};
        completion_run(shard, first);
    }
}

/* The share of an iteration for replies. It begins with the first one. Most are small, so the clock is read after
 * the first one and then after every fourth one. */
struct reply_share {
    struct reactor_share share;
    uint32_t replies; /* sent, each followed by a check */
    bool has_begun;
};

static void reply_share_begin(struct reply_share *share)
{
    if (!share->has_begun)
        share->share = reactor_share_begin();
    share->has_begun = true;
}

static bool reply_share_is_over(struct reply_share *share)
{
    return share->replies++ % 4 == 0 && reactor_share_is_over(&share->share);
}

/* Sends the completions of a list, and not those that the callbacks add. Stops at the end of the share. Returns whether
 * there were any. */
static bool completions_send(struct shard *shard, struct list *from, struct reply_share *share)
{
    struct list round;
    bool any = false;
    if (list_is_empty(from))
        return false;
    reply_share_begin(share);
    list_take_all(&round, from);
    while (!list_is_empty(&round) && !(any && reply_share_is_over(share))) {
        completion_run(shard, list_entry(round.next, struct completion, list));
        any = true;
    }
    list_add_all_first(from, &round);
    return any;
}

/* Sends large replies, each of which may take long. */
static void send_heavy(struct shard *shard)
{
    struct list round;
    if (list_is_empty(&shard->heavy))
        return;
    struct reactor_share share = reactor_share_begin();
    activity_begin("large replies");
    list_take_all(&round, &shard->heavy);
    do
        completion_run(shard, list_entry(round.next, struct completion, list));
    while (!list_is_empty(&round) && !reactor_share_is_over(&share));
    list_add_all_first(&shard->heavy, &round);
}

/* Sends the replies that became durable. Stops at the end of the share. Returns whether there were any. */
static bool completions_send_durable(struct shard *shard, struct reply_share *share)
{
    bool any = false;
    struct completion *first;
    if (first_waiting(shard, shard->durable))
        reply_share_begin(share);
    while ((first = first_waiting(shard, shard->durable)) && !(any && reply_share_is_over(share))) {
        completion_run(shard, first);
        any = true;
    }
    return any;
}

/* ---- events of topics: gathered during a step, reported at its end, once per topic ---- */

struct topic_event {
    struct list list;
    enum queue_event event; /* 0: the topic has ready jobs */
    uint64_t reactors;      /* of ready jobs: the reactors to notify */
    size_t topic_bytes;
    char topic[];
};

/* Adds an event, once for each topic and event. Returns false when out of memory. */
static bool event_add(struct list *all, enum queue_event event, struct slice topic,
                      uint64_t reactors)
{
    for (struct list *at = all->next; at != all; at = at->next) {
        struct topic_event *known = list_entry(at, struct topic_event, list);
        if (known->event == event &&
            slice_equals(slice_make(known->topic, known->topic_bytes), topic)) {
            known->reactors |= reactors;
            return true;
        }
    }
    struct topic_event *added = malloc(sizeof *added + topic.len);
    if (!added)
        return false;
    *added = (struct topic_event){.event = event, .reactors = reactors, .topic_bytes = topic.len};
    memcpy(added->topic, topic.at, topic.len);
    list_add_last(all, &added->list);
    return true;
}

void shard_event(struct shard *shard, enum queue_event event, struct slice topic)
{
    if (!event_add(&shard->events, event, topic, 0))
        shard->events_any |= 1u << event;
}

/* Adds a notification of ready jobs. It must not be lost: without memory for it, all topics are
 * reported. */
static void ready_add(struct shard *shard, struct slice topic, uint64_t reactors)
{
    if (!event_add(&shard->ready_topics, 0, topic, reactors))
        shard->ready_any |= reactors;
}

void shard_watch(struct shard *shard, struct slice topic, uint32_t reactor, bool on)
{
    uint64_t bit = UINT64_C(1) << reactor;
    if (!topic.len || !watch_set(shard->watches, topic, reactor, on)) {
        shard->watch_all |= bit;
        shard->ready_any |= bit;
    } else if (on && engine_topic_has_ready(shard->engine, topic)) {
        ready_add(shard, topic, bit);
    }
}

static struct topic_event *event_take_first(struct list *all)
{
    if (list_is_empty(all))
        return NULL;
    struct topic_event *first = list_entry(all->next, struct topic_event, list);
    list_remove(&first->list);
    return first;
}

/* Reports the gathered events. Returns whether there were any. */
static bool events_run(struct shard *shard)
{
    struct shard_options *options = &shard->options;
    struct topic_event *notice;
    bool any = shard->ready_any || shard->events_any;
    if (shard->ready_any) {
        uint64_t reactors = shard->ready_any;
        shard->ready_any = 0;
        options->ready(options->ctx, (struct slice){0}, reactors);
    }
    for (uint32_t event = 0; shard->events_any; event++)
        if (shard->events_any & 1u << event) {
            shard->events_any &= ~(1u << event);
            options->event(options->ctx, (enum queue_event)event, (struct slice){0});
        }
    while ((notice = event_take_first(&shard->ready_topics))) {
        options->ready(options->ctx, slice_make(notice->topic, notice->topic_bytes),
                       notice->reactors);
        free(notice);
        any = true;
    }
    while ((notice = event_take_first(&shard->events))) {
        options->event(options->ctx, notice->event, slice_make(notice->topic, notice->topic_bytes));
        free(notice);
        any = true;
    }
    return any;
}

static void on_mark(void *owner, uint64_t tag, const struct queue_reply *nothing)
{
    struct shard *shard = owner;
    (void)tag;
    (void)nothing;
    if (--shard->reply_marks == 0)
        wal_hold_back(shard->wal, false);
}

/* Puts a mark behind the replies of a list. */
static void mark_replies(struct shard *shard, struct list *replies)
{
    if (list_is_empty(replies))
        return;
    struct completion *mark =
        completion_new(shard, 0, 0, (struct queue_reply_to){.done = on_mark, .owner = shard});
    assert(mark);
    list_add_last(replies, &mark->list);
    if (shard->reply_marks++ == 0)
        wal_hold_back(shard->wal, true);
}

void shard_checkpointed(struct shard *shard, uint32_t file)
{
    wal_checkpointed(shard->wal, file);
    mark_replies(shard, &shard->soon);
    mark_replies(shard, &shard->heavy);
}

bool shard_has_ready(const struct shard *shard)
{
    return first_waiting(shard, shard->durable) || !list_is_empty(&shard->soon) ||
           !list_is_empty(&shard->heavy) || !events_is_empty(shard);
}

void shard_notify_all(struct shard *shard)
{
    batch_mail_send(shard); /* ahead of the replies to the same changes */
    struct reply_share durable = {0}, rounds = {0};
    (void)completions_send_durable(shard, &durable);
    for (int round = 0; round < ROUNDS_MAX; round++) {
        bool has_run = events_run(shard);
        has_run |= completions_send(shard, &shard->soon, &rounds);
        has_run |= completions_send_durable(shard, &rounds);
        if (!has_run || (rounds.has_begun && reactor_share_is_over(&rounds.share)))
            break;
    }
    send_heavy(shard);
}

/* ---- the log ---- */

void shard_fail(struct shard *shard, const char *what, int error)
{
    if (shard->broken)
        return;
    shard->broken = true;
    atomic_store(&shard->healthy, false);
    log_event(LOG_ERROR, "log failed", LOG_NUMBER("shard", shard->options.index),
              LOG_TEXT("during", what),
              LOG_TEXT("error", wal_error(shard->wal) ? wal_error(shard->wal) : strerror(-error)));
    completions_fail(shard, shard->durable, UINT64_MAX, QUEUE_UNAVAILABLE);
    shard->ends_awaits = true;
    shard->options.failed(shard->options.ctx);
}

void shard_note_moved(struct shard *shard)
{
    shard->moved_check_ms = clock_inner_ms() + MOVED_CHECK_MS;
    if (shard->moved)
        return;
    shard->moved = true;
    log_event(LOG_ERROR, "data directory moved: its path leads elsewhere, changes are rejected",
              LOG_NUMBER("shard", shard->options.index), LOG_TEXT("path", shard->options.dir));
}

int shard_ask_room(struct shard *shard, size_t bytes, enum wal_need need, enum queue_status *status)
{
    switch (wal_has_room(shard->wal, bytes, need)) {
    case 0:
        *status = QUEUE_OK;
        return 0;
    case -EAGAIN: /* the current commit or the next file will make room */
        return -EAGAIN;
    case -EMSGSIZE:
        *status = QUEUE_BODY_TOO_BIG; /* too large even for an empty batch */
        return 0;
    case -ENOSPC:
        *status = QUEUE_NO_SPACE;
        return 0;
    case -ENOMEM:
        *status = QUEUE_NO_MEMORY;
        return 0;
    default:
        *status = QUEUE_UNAVAILABLE;
        return 0;
    }
}

uint32_t shard_timers_per_step(const struct shard *shard)
{
    uint32_t limit = shard->options.limits.timers;
    return limit ? limit : TIMERS;
}

bool shard_has_timers_room(struct shard *shard, size_t others)
{
    size_t bytes = shard_timers_per_step(shard) * engine_room_change(shard->engine);
    return wal_has_room(shard->wal, others + bytes, WAL_FOR_ANSWER) == 0;
}

void shard_look_at_room(struct shard *shard, int64_t now_us)
{
    struct fs_room room;
    if (shard->room_looked_us && now_us - shard->room_looked_us < ROOM_EVERY_US)
        return;
    shard->room_looked_us = now_us;
    if (!wal_room(shard->wal, &room))
        return;
    counter_set(&shard->tally.disk_free_bytes, room.free_bytes);
    counter_set(&shard->tally.disk_bytes, room.all_bytes);
}

static void commit_perform(struct work *work)
{
    struct shard *shard = list_entry(work, struct shard, commit_work);
    int64_t began_us = clock_boot_us();
    shard->commit_error = wal_commit(shard->wal);
    int64_t now_us = clock_boot_us();
    shard->commit_took_us = now_us - began_us;
    shard_look_at_room(shard, now_us);
}

static void commit_count(struct shard *shard)
{
    struct shard_tally *tally = &shard->tally;
    struct wal_stats stats;
    wal_stats(shard->wal, &stats);
    uint64_t bytes = stats.bytes_written - counter_get(&tally->log_written_bytes);
    if (bytes > 0) {
        shared_histogram_add(&tally->batch_bytes, bytes);
        shared_histogram_add(&tally->batch_records,
                             stats.records_written - counter_get(&tally->log_records));
    }
    if (stats.syncs > counter_get(&tally->log_syncs))
        shared_histogram_add(&tally->sync_us, (uint64_t)shard->commit_took_us);
    counter_set(&tally->log_written_bytes, stats.bytes_written);
    counter_set(&tally->log_records, stats.records_written);
    counter_set(&tally->log_syncs, stats.syncs);
}

/* Handles the end of a commit: the batch is durable, or the log is broken. */
static void commit_done(struct work *work)
{
    struct shard *shard = list_entry(work, struct shard, commit_work);
    uint64_t durable = shard->durable;
    shard->committing = false;
    shard->durable = wal_committed(shard->wal);
    if (shard->options.synced)
        shard->options.synced(shard->options.ctx, wal_synced(shard->wal));
    commit_count(shard);
    if (shard->commit_error)
        shard_fail(shard, "commit", shard->commit_error);
    batch_mail_send(shard); /* ahead of all replies to what is durable now */
    if (!shard->broken && wal_is_moved(shard->wal)) {
        shard_note_moved(shard);
        completions_fail(shard, durable, shard->durable, QUEUE_DIRECTORY_MOVED);
    }
}

void shard_commit(struct shard *shard, bool at_once)
{
    uint64_t sequence = wal_open_sequence(shard->wal);
    activity_begin("commit");
    bool sealed = !shard->committing && !shard->broken &&
                  (at_once ? wal_seal_sync(shard->wal) : wal_seal(shard->wal));
    if (!sealed)
        return;
    batch_mail_collect(shard, sequence);
    shard->committing = true;
    worker_give(shard->committer, &shard->commit_work);
}

/* ---- the topics' records, written to the log again ---- */

void topics_begin(struct shard *shard)
{
    shard->writing_topics = true;
    shard->topics_at = 0;
    shard->topics_want_room = false;
}

bool topics_step(struct shard *shard)
{
    if (!shard->writing_topics)
        return false;
    for (int left = TOPICS_AT_ONCE; left; left--) {
        int failed = wal_has_room(shard->wal, ENGINE_TOPIC_BYTES_MAX, WAL_FOR_ANSWER);
        shard->topics_want_room = failed != 0;
        if (failed) {
            if (failed != -EAGAIN && shard->stopping) /* the old records remain valid */
                shard->writing_topics = false;
            return false;
        }
        if (engine_carry_topics(shard->engine, &shard->topics_at, 1)) {
            shard->writing_topics = false;
            return false;
        }
    }
    return true;
}

/* ---- loading a cold job ---- */

struct hash128 shard_record_key(const struct shard *shard, const struct record *record)
{
    if (record->kind == RECORD_DONE)
        return record->done.key;
    return engine_key(shard->engine, record->job.topic, record->job.id);
}

/* Clears the slot of a victim whose job has ended in the new run, so that helpers no longer find
 * it. */
static void release_ended(struct shard *shard, struct record_place place)
{
    enum job_section section;
    if (!depot_is_alive(shard->depot, depot_moved(shard->depot, place)) &&
        depot_is_alive(shard->depot, place))
        depot_release(shard->depot, place, &section);
}

int shard_load(struct shard *shard, struct slice bytes, struct record_place place,
               struct engine_now now)
{
    struct record record;
    struct record_place counted;
    bool counts = depot_find_counted(shard->depot, place, &counted);
    if (!counts)
        release_ended(shard, place);
    if (!record_decode(bytes, &record))
        return counts ? -EBADMSG : -ENOENT;
    bool is_in_memory = engine_knows(shard->engine, shard_record_key(shard, &record));
    if (!counts)
        return is_in_memory ? 0 : -ENOENT;
    /* A remembered id expired while it was cold, for which there is no record. */
    if (!is_in_memory && record.kind == RECORD_DONE &&
        record_done_until_ms(&record.done) <= now.inner_ms) {
        engine_release_stored(shard->engine, record.done.topic, counted);
        return -ENOENT;
    }
    if (!depot_prepare_hold(shard->depot, counted))
        return -ENOMEM;
    return engine_load(shard->engine, &record, counted, now) == ENGINE_NO_MEMORY ? -ENOMEM : 0;
}

/* ---- the engine's sink ---- */

static struct record_place sink_append(void *ctx, const struct record *record)
{
    return wal_append(((struct shard *)ctx)->wal, record);
}

/* The job was delivered a moment ago, so its record is almost always in memory or in the page cache. The bytes are
 * copied, because the log changes while the job is pushed again. */
bool shard_read_job(struct shard *shard, struct record_place place, bool is_next, struct job *out)
{
    struct slice bytes = {0};
    struct record record;
    buffer_clear(&shard->job_bytes);
    int failed = record_place_is_run(place)
                     ? depot_read(depot_view(shard->depot), place, true, &shard->job_bytes, &bytes)
                     : wal_read(shard->wal, place, true, &shard->job_bytes, &bytes);
    if (failed || !record_decode(bytes, &record) || record.kind != RECORD_JOB)
        return false;
    if (is_next)
        record_next_start(&record.job);
    *out = record.job;
    return true;
}

static bool sink_read(void *ctx, struct record_place place, bool is_next, struct job *out)
{
    return shard_read_job(ctx, place, is_next, out);
}

static void sink_hold_slot(void *ctx, struct record_place place, bool in_memory)
{
    depot_hold_slot(((struct shard *)ctx)->depot, place, in_memory);
}

static enum engine_slot sink_release_slot(void *ctx, struct record_place place,
                                          enum job_section *section)
{
    switch (depot_release(((struct shard *)ctx)->depot, place, section)) {
    case DEPOT_RELEASED:
        return SLOT_RELEASED;
    case DEPOT_WAS_DEAD:
        return SLOT_WAS_DEAD;
    case DEPOT_NEVER_COMMITTED:
        break;
    }
    return SLOT_UNKNOWN;
}

static void sink_ready(void *ctx, struct slice topic)
{
    struct shard *shard = ctx;
    uint64_t reactors = watch_find(shard->watches, topic) | shard->watch_all;
    if (reactors)
        ready_add(shard, topic, reactors);
}

static void sink_died(void *ctx, struct slice topic)
{
    shard_event(ctx, QUEUE_EVENT_DEAD, topic);
}

static bool sink_has_room(void *ctx, size_t bytes)
{
    return shard_has_timers_room(ctx, bytes);
}

struct engine_sink shard_engine_sink(struct shard *shard)
{
    return (struct engine_sink){.append = sink_append,
                                .read = sink_read,
                                .release_slot = sink_release_slot,
                                .hold_slot = sink_hold_slot,
                                .ready = sink_ready,
                                .died = sink_died,
                                .has_room = sink_has_room,
                                .ctx = shard};
}

/* ---- creation ---- */

void shard_core_init(struct shard *shard)
{
    list_init(&shard->waiting);
    list_init(&shard->mail);
    list_init(&shard->soon);
    list_init(&shard->heavy);
    list_init(&shard->ready_topics);
    list_init(&shard->events);
    buffer_init(&shard->job_bytes, SIZE_MAX / 2);
    shard->commit_work.perform = commit_perform;
    shard->commit_work.done = commit_done;
}

static void events_clear(struct list *all)
{
    while (!list_is_empty(all)) {
        struct topic_event *first = list_entry(all->next, struct topic_event, list);
        list_remove(&first->list);
        free(first);
    }
}

void shard_core_fini(struct shard *shard)
{
    struct list *const lists[] = {&shard->waiting, &shard->soon, &shard->heavy};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        while (!list_is_empty(lists[i])) {
            struct completion *first = list_entry(lists[i]->next, struct completion, list);
            list_remove(&first->list);
            free(first);
        }
    while (shard->spare) {
        struct completion *next = (struct completion *)(void *)shard->spare->list.next;
        free(shard->spare);
        shard->spare = next;
    }
    events_clear(&shard->ready_topics);
    events_clear(&shard->events);
    batch_mail_fini(shard);
}
