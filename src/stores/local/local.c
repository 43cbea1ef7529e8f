#include "local/local.h"

#include "base/clock.h"
#include "base/clock_restore.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "base/timestamp.h"
#include "engine/lease.h"
#include "feed/feed.h"
#include "local/awaits.h"
#include "local/backup.h"
#include "local/handle.h"
#include "local/mark_keeper.h"
#include "local/shard_core.h"
#include "local/test_clock.h"
#include "queue/copy.h"
#include "queue/traits.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns the shard of a job, for the handle `ctx`. */
static uint32_t handle_shard_of_job(void *ctx, struct slice topic, struct slice id);

/* ---- from any reactor to any shard: by a call if the shard is on the same reactor, else by letter
 * ---- */

/* The second reply of a push that waits for the end of its job, on its way back to another reactor. */
struct forwarded_end {
    struct letter letter;
    struct forwarded_end *next; /* of the same call */
    struct handle *handle;      /* the caller's */
    size_t item;
    struct queue_reply_to ended;    /* of the push */
    struct queue_reply_to reply_to; /* in place of it */
    struct queue_reply *reply;
    bool is_settled; /* the reply of the push is on its way back */
    bool is_done;    /* the job has ended */
};

/* A command on its way to a shard on another reactor, and its reply on the way back. */
struct forwarded_call {
    struct letter letter;
    struct handle *handle; /* the caller's */
    uint32_t shard;
    uint64_t placement; /* the version by which it was routed */
    struct command *command;
    struct queue_reply_to reply_to;
    struct queue_reply *reply;
    struct forwarded_end *ends; /* of its pushes */
    /* The reply to a call about a batch, whose results have no texts. So no join is lost for lack of memory. */
    struct queue_reply own_reply;
    size_t result_room; /* 0: another call */
    struct queue_result results[];
};

static void forwarded_end_back(struct letter *letter)
{
    struct forwarded_end *end = (struct forwarded_end *)(void *)letter;
    static const struct queue_reply no_memory = {.status = QUEUE_NO_MEMORY};
    end->ended.done(end->ended.owner, end->ended.tag, end->reply ? end->reply : &no_memory);
    free(end->reply);
    free(end);
}

static void forwarded_end_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct forwarded_end *end = owner;
    (void)tag;
    end->reply = copy_reply(reply);
    end->letter.run = forwarded_end_back;
    end->is_done = true;
    if (end->is_settled)
        reactor_post(end->handle->reactor, &end->letter);
}

static void forwarded_ends_free(struct forwarded_end *ends)
{
    while (ends) {
        struct forwarded_end *next = ends->next;
        free(ends);
        ends = next;
    }
}

/* Lets the ends of the pushes of a copied command come back by letter. Returns false if out of memory. */
static bool forwarded_ends_new(struct handle *handle, struct command *copy,
                               struct forwarded_end **ends)
{
    for (size_t i = 0; copy->kind == COMMAND_PUSH && i < copy->count; i++) {
        struct queue_push *push = (struct queue_push *)(uintptr_t)&copy->pushes[i];
        if (!push->ended)
            continue;
        struct forwarded_end *end = calloc(1, sizeof *end);
        if (!end)
            return false;
        *end = (struct forwarded_end){
            .next = *ends, .handle = handle, .item = i, .ended = *push->ended};
        end->reply_to = (struct queue_reply_to){
            .done = forwarded_end_done, .owner = end, .tag = awaits_tag(end->ended)};
        push->ended = &end->reply_to;
        *ends = end;
    }
    return true;
}

/* Frees the ends of the pushes that do not wait. The others free themselves; a job that ended in the same step as its
 * push has its end sent back now, behind the reply of the push. */
static void forwarded_ends_settle(struct forwarded_end *ends, const struct queue_reply *reply)
{
    while (ends) {
        struct forwarded_end *next = ends->next;
        bool awaits =
            ends->item < reply->result_count && queue_push_awaits(&reply->results[ends->item]);
        ends->is_settled = true;
        if (awaits && ends->is_done) {
            reactor_post(ends->handle->reactor, &ends->letter);
        } else if (!awaits) {
            free(ends->reply);
            free(ends);
        }
        ends = next;
    }
}

static void forwarded_call_back(struct letter *letter)
{
    struct forwarded_call *call = (struct forwarded_call *)(void *)letter;
    static const struct queue_reply no_memory = {.status = QUEUE_NO_MEMORY};
    call->reply_to.done(call->reply_to.owner, call->reply_to.tag,
                        call->reply ? call->reply : &no_memory);
    if (call->reply != &call->own_reply)
        free(call->reply);
    free(call);
}

/* Keeps the reply to a call about a batch, which has at most `count` results. */
static struct queue_reply *keep_own_reply(struct forwarded_call *call,
                                          const struct queue_reply *reply, size_t count)
{
    assert(reply->result_count <= count);
    for (size_t i = 0; i < reply->result_count; i++)
        call->results[i] = reply->results[i];
    call->own_reply = (struct queue_reply){
        .status = reply->status, .results = call->results, .result_count = reply->result_count};
    return &call->own_reply;
}

static void forwarded_call_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct forwarded_call *call = owner;
    (void)tag;
    struct forwarded_end *ends = call->ends;
    call->reply =
        call->result_room ? keep_own_reply(call, reply, call->result_room) : copy_reply(reply);
    call->letter.run = forwarded_call_back;
    reactor_post(call->handle->reactor, &call->letter); /* frees the call */
    forwarded_ends_settle(ends, reply);
}

/* Returns whether all jobs that the call names still belong to the shard: a topic may have been moved to one shard, or from it, while the call
 * was on its way. */
static bool is_routed_well(const struct forwarded_call *call)
{
    for (size_t i = 0; i < command_name_count(call->command); i++) {
        struct queue_find name = command_name(call->command, i);
        if (handle_shard_of_job(call->handle, name.topic, name.id) != call->shard)
            return false;
    }
    return true;
}

static void forwarded_call_there(struct letter *letter)
{
    struct forwarded_call *call = (struct forwarded_call *)(void *)letter;
    struct local *local = call->handle->local;
    if (call->placement != placement_version(local->placement) && !is_routed_well(call)) {
        completion_status_soon(local->shards[call->shard], QUEUE_ELSEWHERE,
                               (struct queue_reply_to){.done = forwarded_call_done, .owner = call});
        free(call->command);
        call->command = NULL;
        return;
    }
    shard_submit(call->handle->local->shards[call->shard], call->command,
                 (struct queue_reply_to){.done = forwarded_call_done,
                                         .owner = call,
                                         .tag = awaits_tag(call->reply_to)});
    free(call->command);
    call->command = NULL;
}

/* Replies without a shard's work, at the end of this iteration. */
static void route_refuse(struct handle *handle, enum queue_status status,
                         struct queue_reply_to reply_to)
{
    completion_status_soon(handle->local->shards[handle->index], status, reply_to);
}

/* Submits a command to the part's shard, by a call or a letter. The reply comes on the handle's
 * thread, never inside the call. */
static void route_submit(struct queue *queue, const struct command *command,
                         struct queue_reply_to reply_to)
{
    const struct part *part = (struct part *)(void *)queue;
    struct handle *handle = part->handle;
    struct local *local = handle->local;
    uint32_t shard = part->shard;
    if (shard == handle->index) {
        shard_submit(local->shards[shard], command, reply_to);
        return;
    }
    size_t result_room = command->kind == COMMAND_BATCH ? command->count : 0;
    struct forwarded_call *call =
        calloc(1, sizeof *call + result_room * sizeof(struct queue_result));
    struct command *copy = copy_command(command);
    struct forwarded_end *ends = NULL;
    if (!call || !copy || !forwarded_ends_new(handle, copy, &ends)) {
        forwarded_ends_free(ends);
        free(call);
        free(copy);
        route_refuse(handle, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    *call = (struct forwarded_call){.letter.run = forwarded_call_there,
                                    .handle = handle,
                                    .shard = shard,
                                    .placement = placement_version(local->placement),
                                    .command = copy,
                                    .reply_to = reply_to,
                                    .ends = ends,
                                    .result_room = result_room};
    reactor_post(local->handles[shard]->reactor, &call->letter);
}

/* ---- watches and the notification of ready jobs ---- */

struct topic_letter {
    struct letter letter;
    struct local *local;
    uint32_t reactor, shard;
    bool on;
    enum queue_event event;
    size_t topic_bytes;
    char topic[];
};

/* Creates a letter about a topic: a watch, or a notification. Returns NULL when out of memory;
 * any_letter is then posted instead. */
static struct topic_letter *topic_letter_new(struct local *local, uint32_t shard, uint32_t reactor,
                                             struct slice topic)
{
    struct topic_letter *letter = malloc(sizeof *letter + topic.len);
    if (!letter)
        return NULL;
    *letter = (struct topic_letter){
        .local = local, .shard = shard, .reactor = reactor, .topic_bytes = topic.len};
    memcpy(letter->topic, topic.at, topic.len);
    return letter;
}

static void any_post(struct reactor *reactor, struct any_letter *any)
{
    if (!atomic_exchange(&any->is_posted, true))
        reactor_post(reactor, &any->letter);
}

static void watch_any_there(struct letter *letter)
{
    struct any_letter *any = (struct any_letter *)(void *)letter;
    const struct handle *handle = any->part->handle;
    atomic_store(&any->is_posted, false);
    shard_watch(handle->local->shards[any->part->shard], (struct slice){0}, handle->index, true);
}

static void watch_there(struct letter *letter)
{
    struct topic_letter *watch = (struct topic_letter *)(void *)letter;
    shard_watch(watch->local->shards[watch->shard], slice_make(watch->topic, watch->topic_bytes),
                watch->reactor, watch->on);
    free(watch);
}

/* Turns a shard's notifications about a topic to this handle on or off. */
static void route_watch(struct handle *handle, uint32_t shard, struct slice topic, bool on)
{
    if (shard == handle->index) {
        shard_watch(handle->local->shards[shard], topic, handle->index, on);
        return;
    }
    struct topic_letter *watch = topic_letter_new(handle->local, shard, handle->index, topic);
    if (!watch) {
        any_post(handle->local->handles[shard]->reactor, &handle->parts[shard].watch_any);
        return;
    }
    watch->on = on;
    watch->letter.run = watch_there;
    reactor_post(handle->local->handles[shard]->reactor, &watch->letter);
}

static void ready_here(struct local *local, uint32_t reactor, uint32_t shard, struct slice topic)
{
    queue_report_ready(&local->handles[reactor]->parts[shard].queue, topic);
}

static void ready_there(struct letter *letter)
{
    struct topic_letter *notice = (struct topic_letter *)(void *)letter;
    ready_here(notice->local, notice->reactor, notice->shard,
               slice_make(notice->topic, notice->topic_bytes));
    free(notice);
}

/* Notifies the handles whose bits are set. On a shard's thread. */
static void route_ready(struct local *local, uint32_t shard, struct slice topic, uint64_t reactors)
{
    for (uint32_t reactor = 0; reactors; reactor++, reactors >>= 1) {
        if (!(reactors & 1))
            continue;
        if (reactor == shard) {
            ready_here(local, reactor, shard, topic);
            continue;
        }
        struct topic_letter *notice =
            topic.len ? topic_letter_new(local, shard, reactor, topic) : NULL;
        struct handle *handle = local->handles[reactor];
        if (notice) {
            notice->letter.run = ready_there;
            reactor_post(handle->reactor, &notice->letter);
        } else {
            any_post(handle->reactor, &handle->parts[shard].any[0]);
        }
    }
}

/* ---- events ---- */

/* Delivers an event. Only the listener's own thread can read whether there is a listener, which is
 * set before the loop begins. A handle without a listener sets its bit in `deaf` at the first
 * event. */
static void event_here(struct local *local, uint32_t reactor, uint32_t shard,
                       enum queue_event event, struct slice topic)
{
    struct handle *handle = local->handles[reactor];
    struct queue *part = &handle->parts[shard].queue;
    if (handle->queue->on_event)
        part->on_event(part->on_event_owner, event, topic);
    else
        atomic_fetch_or(&local->deaf, UINT64_C(1) << reactor);
}

static void event_there(struct letter *letter)
{
    struct topic_letter *notice = (struct topic_letter *)(void *)letter;
    event_here(notice->local, notice->reactor, notice->shard, notice->event,
               slice_make(notice->topic, notice->topic_bytes));
    free(notice);
}

/* Sends an event of a topic to all listeners. On a shard's thread. */
static void route_event(struct local *local, uint32_t shard, enum queue_event event,
                        struct slice topic)
{
    /* A listener begins by reading the topics, which is not possible before all shards are
     * attached. */
    bool all_there = atomic_load(&local->attached) == local->shard_count;
    uint64_t deaf = atomic_load(&local->deaf);
    for (uint32_t reactor = 0; reactor < local->shard_count; reactor++) {
        if (deaf & UINT64_C(1) << reactor)
            continue;
        if (reactor == shard) {
            event_here(local, reactor, shard, event, topic);
        } else if (all_there) {
            struct topic_letter *notice =
                topic.len ? topic_letter_new(local, shard, reactor, topic) : NULL;
            if (!notice) {
                struct handle *handle = local->handles[reactor];
                any_post(handle->reactor, &handle->parts[shard].any[event]);
                continue;
            }
            notice->event = event;
            notice->letter.run = event_there;
            reactor_post(local->handles[reactor]->reactor, &notice->letter);
        }
    }
}

static void any_there(struct letter *letter)
{
    struct any_letter *any = (struct any_letter *)(void *)letter;
    const struct part *part = any->part;
    struct handle *handle = part->handle;
    const struct slice none = {0};
    atomic_store(&any->is_posted, false);
    if (any->event)
        event_here(handle->local, handle->index, part->shard, any->event, none);
    else
        ready_here(handle->local, handle->index, part->shard, none);
}

/* ---- one shard, on this or another reactor, as a queue ---- */

static void part_watch(struct queue *queue, struct slice topic, bool on)
{
    struct part *part = (struct part *)(void *)queue;
    route_watch(part->handle, part->shard, topic, on);
}

static void part_info(struct queue *queue, struct queue_info *out)
{
    const struct part *part = (struct part *)(void *)queue;
    const struct local *local = part->handle->local;
    struct shard_figures figures;
    shard_figures(local->shards[part->shard], &figures);
    *out = (struct queue_info){.store = "embedded",
                               .shards = 1,
                               .body_bytes_max = local->options.body_bytes_max,
                               .bytes_on_disk = figures.bytes_on_disk,
                               .cold_jobs = figures.cold_jobs,
                               .runs = figures.runs,
                               .spare_bytes = figures.spare_bytes,
                               .checkpoints = figures.checkpoints,
                               .checkpoints_failed = figures.checkpoints_failed,
                               .keeps_finished = true,
                               .awaits = true,
                               .groups = true,
                               .batches = true,
                               .soon = true,
                               .strict_groups = true,
                               .group_max_jobs = true,
                               .one_shard = true,
                               .healthy = figures.healthy,
                               .accepting = figures.accepting && !figures.moved,
                               .moved = figures.moved};
    memcpy(out->finished_dropped, figures.dropped, sizeof out->finished_dropped);
    switch (local->options.sync) {
    case WAL_SYNC_ALWAYS:
        out->sync = out->durability_class = "always";
        out->durability = "an answered change survives a crash of the server and a power cut";
        break;
    case WAL_SYNC_INTERVAL:
        out->sync = local->sync_interval;
        out->durability_class = "interval";
        out->durability = "an answered change survives a crash of the server; a power cut may lose "
                          "the changes of the last sync interval";
        break;
    case WAL_SYNC_NEVER:
        out->sync = out->durability_class = "never";
        out->durability = "an answered change survives a crash of the server; the operating system "
                          "decides what a power cut may lose";
        break;
    }
}

static const struct queue_ops part_ops = {
    .submit = route_submit, .watch = part_watch, .info = part_info};

/* ---- handles: with one shard, its part is the queue; with several, a sharded queue combines them
 * ---- */

static uint32_t handle_shard_of_job(void *ctx, struct slice topic, struct slice id)
{
    const struct local *local = ((struct handle *)ctx)->local;
    if (id.len && placement_is_one(local->placement, topic))
        id = (struct slice){.at = ""};
    return datadir_shard_of(hash_pair(topic, id, local->manifest.hash_seed), local->shard_count);
}

static bool handle_place_begin(void *ctx, struct slice topic, bool deletes)
{
    return placement_begin(((struct handle *)ctx)->local->placement, topic, deletes);
}

static bool handle_place(void *ctx, struct slice topic, bool is_one)
{
    return placement_set(((struct handle *)ctx)->local->placement, topic, is_one);
}

static void handle_place_end(void *ctx, struct slice topic, bool deletes)
{
    placement_end(((struct handle *)ctx)->local->placement, topic, deletes);
}

static bool handle_shard_of_lease(void *ctx, struct slice text, uint32_t *shard)
{
    return lease_find_shard(text, shard) && *shard < ((struct handle *)ctx)->local->shard_count;
}

static void handle_refuse(void *ctx, enum queue_status status, struct queue_reply_to reply_to)
{
    route_refuse(ctx, status, reply_to);
}

static int64_t handle_skew_ms(void *ctx)
{
    return clock_skew_ms_of(((struct handle *)ctx)->local->options.clock);
}

static void handle_repeat(void *ctx)
{
    enum { REPEAT_MS = 50 };
    deadline_set(((struct handle *)ctx)->repeat, clock_inner_ms() + REPEAT_MS);
}

static void on_repeat(void *ctx)
{
    sharded_repeat(((struct handle *)ctx)->sharded);
}

static struct sharded *handle_make_sharded(struct handle *handle)
{
    struct queue *parts[DATADIR_SHARDS_MAX];
    uint32_t count = handle->local->shard_count;
    for (uint32_t i = 0; i < count; i++)
        parts[i] = &handle->parts[i].queue;
    return sharded_new(&(struct sharded_options){.parts = parts,
                                                 .skew_ms = handle_skew_ms,
                                                 .joins_batches = true,
                                                 .part_count = count,
                                                 .home = handle->index,
                                                 .leads = true,
                                                 .part_of_job = handle_shard_of_job,
                                                 .part_of_lease = handle_shard_of_lease,
                                                 .place_begin = handle_place_begin,
                                                 .place = handle_place,
                                                 .place_end = handle_place_end,
                                                 .refuse = handle_refuse,
                                                 .repeat = handle_repeat,
                                                 .ctx = handle});
}

static void handle_free(struct handle *handle)
{
    if (!handle)
        return;
    if (handle->queue)
        queue_door_free(handle->queue->door);
    sharded_free(handle->sharded);
    deadline_free(handle->repeat);
    free(handle);
}

static struct handle *handle_new(struct local *local, uint32_t index, struct reactor *reactor)
{
    struct handle *handle = calloc(1, sizeof *handle);
    if (!handle)
        return NULL;
    handle->local = local;
    handle->reactor = reactor;
    handle->index = index;
    for (uint32_t i = 0; i < local->shard_count; i++) {
        struct part *part = &handle->parts[i];
        part->queue.ops = &part_ops;
        part->handle = handle;
        part->shard = i;
        part->watch_any.letter.run = watch_any_there;
        part->watch_any.part = part;
        for (int event = 0; event <= QUEUE_EVENT_DEAD; event++) {
            part->any[event].letter.run = any_there;
            part->any[event].part = part;
            part->any[event].event = (enum queue_event)event;
        }
    }
    handle->queue = &handle->parts[0].queue;
    if (local->shard_count > 1) {
        handle->repeat = deadline_new(reactor, on_repeat, handle);
        handle->sharded = handle->repeat ? handle_make_sharded(handle) : NULL;
        handle->queue = handle->sharded ? sharded_queue(handle->sharded) : NULL;
    }
    if (handle->queue)
        handle->queue->door =
            queue_door_new(local->options.body_bytes_max, random_u64(), clock_wall_ms);
    if (!handle->queue || !handle->queue->door) {
        handle_free(handle);
        return NULL;
    }
    handle->queue->clock = local->options.clock;
    return handle;
}

/*
 * ---- settle: completes changes over several shards that a crash interrupted, before any call
 * comes ----
 *
 * The first shard leads (queue/sharded.h): settings and pauses are stored there first, and a delete
 * is marked there until its end. So its state of a topic applies to all shards. If it has no state
 * of a topic that has settings or is paused elsewhere, as in directories of older versions, the
 * first shard with such a state is used. A move to one shard that did not reach the first shard is
 * completed only if no other shard has jobs of the topic.
 */

static bool settle_find_topic(struct local *local, uint32_t shard, struct slice name,
                              struct queue_topic *out)
{
    struct engine_now now = {0};
    return engine_topic_show(local->shards[shard]->engine, name, now, out);
}

static bool topic_has_content(const struct queue_topic *topic)
{
    return topic->paused || !topic_settings_equal(&topic->settings, &(struct topic_settings){0});
}

/* Returns whether a shard other than the home of the topic has jobs of it. */
static bool settle_is_spread(struct local *local, struct slice name)
{
    uint32_t home = handle_shard_of_job(local->handles[0], name, (struct slice){.at = ""});
    struct queue_topic here;
    for (uint32_t i = 0; i < local->shard_count; i++) {
        if (i == home || !settle_find_topic(local, i, name, &here))
            continue;
        const struct queue_counts *counts = &here.counts;
        if (counts->delayed || counts->retrying || counts->ready || counts->leased ||
            counts->dead || counts->finished)
            return true;
    }
    return false;
}

/* Makes one shard agree, also if it accepted jobs after its change. A shard without memory or room
 * in its log is left as it is: the next start tries again. */
static void settle_shard(struct local *local, uint32_t index, const struct queue_topic *lead)
{
    struct shard *shard = local->shards[index];
    struct queue_topic here;
    bool is_there = settle_find_topic(local, index, lead->name, &here);
    bool has_settings = is_there && topic_settings_equal(&here.settings, &lead->settings);
    bool has_pause =
        is_there && here.paused == lead->paused && here.paused_until_ms == lead->paused_until_ms;
    if (is_there ? has_settings && has_pause : !topic_has_content(lead))
        return;
    enum queue_status status = QUEUE_OK;
    if (wal_has_room(shard->wal, 2 * (size_t)ENGINE_TOPIC_BYTES_MAX, WAL_FOR_ANSWER) != 0)
        status = QUEUE_UNAVAILABLE;
    if (status == QUEUE_OK && !has_settings)
        status = engine_topic_put_back(shard->engine, lead->name, &lead->settings);
    if (status == QUEUE_OK || status == QUEUE_CREATED)
        /* Both times are shown with an inner clock equal to the wall clock. */
        status = lead->paused ? engine_topic_pause(shard->engine, lead->name, lead->paused_until_ms)
                              : engine_topic_resume(shard->engine, lead->name);
    bool failed = status != QUEUE_OK;
    char name[JOB_TOPIC_BYTES_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)lead->name.len, lead->name.at);
    log_event(failed ? LOG_WARN : LOG_INFO,
              failed ? "a topic is half changed" : "half changed topic completed",
              LOG_TEXT("topic", name), LOG_NUMBER("shard", index));
}

static void delete_settled(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    log_event(LOG_INFO, "half deleted topic completed", LOG_NUMBER("jobs", reply->affected));
}

/* Routes all jobs of a topic to its home. Returns false if out of memory. */
static bool settle_place(struct local *local, struct slice name)
{
    if (!placement_begin(local->placement, name, false))
        return false;
    (void)placement_set(local->placement, name, true);
    placement_end(local->placement, name, false);
    return true;
}

/* Makes all shards agree with the leading shard's state of a topic. Returns false if out of memory. */
static bool settle_topic(struct local *local, const struct queue_topic *lead)
{
    struct queue *queue = local->handles[0]->queue;
    if (lead->deleting) {
        queue_topic(queue,
                    &(struct queue_topic_call){.verb = QUEUE_TOPIC_DELETE, .topic = lead->name},
                    (struct queue_reply_to){.done = delete_settled});
        return true;
    }
    for (uint32_t i = 0; i < local->shard_count; i++)
        settle_shard(local, i, lead);
    return !flow_is_one_shard(&lead->settings.flow) || settle_place(local, lead->name);
}

/* Settles all topics, after all shards have recovered and before any of their loops runs. The
 * changes are written in the first step; deletes continue from there. Returns false if out of memory:
 * the jobs of a topic in one shard would not be found. */
static bool settle_topics(struct local *local)
{
    struct queue_topic topic, leading;
    struct engine_now now = {0};
    for (uint32_t shard = 0; local->shard_count > 1 && shard < local->shard_count; shard++)
        for (uint32_t at = 0; engine_topic_next(local->shards[shard]->engine, &at, now, &topic);) {
            bool is_led = shard > 0 && settle_find_topic(local, 0, topic.name, &leading);
            if (is_led || (shard > 0 && !topic_has_content(&topic)))
                continue;
            if (shard > 0 && flow_is_one_shard(&topic.settings.flow) &&
                settle_is_spread(local, topic.name))
                topic.settings = (struct topic_settings){0};
            if (!settle_topic(local, &topic))
                return false;
        }
    return true;
}

/* Passes the reports of all shards on batches to the homes of these, as settle_topics. Returns false if out of memory. */
static bool settle_batches(struct local *local)
{
    struct queue_batch_call report;
    uint32_t count = local->shard_count;
    for (uint32_t shard = 0; count > 1 && shard < count; shard++)
        for (uint32_t at = 0; engine_batch_reports(local->shards[shard]->engine, &at, &report);) {
            uint64_t home = (report.number >> QUEUE_BATCH_HOME_SHIFT) - 1;
            if (home < count && !engine_batch_heard(local->shards[home]->engine, &report))
                return false;
        }
    for (uint32_t shard = 0; count > 1 && shard < count; shard++)
        engine_batches_begin(local->shards[shard]->engine);
    return true;
}

/* ---- the clock ---- */

/* The margin that the manifest adds to the difference between the clocks, which may have been larger than
 * known: a start late is better than a start early. */
enum { SKEW_MARGIN_MS = CLOCK_SKEW_NOISE_MS + 1 };

/* Starts the inner clock where it left off: by boot time within the same boot, else by the wall
 * clock, which may have been set while the inner clock was running: the difference between the two
 * is kept. */
static void start_clock(struct clock *clock, const struct datadir_manifest *manifest)
{
    char boot_id[37];
    clock_boot_id(boot_id);
    int64_t inner_ms = clock_wall_ms_of(clock) - manifest->skew_ms;
    bool is_same_boot = boot_id[0] && !strcmp(boot_id, manifest->boot_id);
    if (!manifest->is_new && is_same_boot && clock_boot_ms() + manifest->boot_offset_ms > 0)
        clock_restore(clock, manifest->boot_offset_ms);
    else
        clock_start(clock, inner_ms > 0 ? inner_ms : 0);
}

static bool is_test_directory(const struct local *local)
{
    return local->manifest.test_start_ms != 0;
}

/* Marks a directory that no server has used yet, or checks that it is of the right kind. */
static int claim_clock(struct local *local, char *error, size_t error_bytes)
{
    struct datadir_manifest *manifest = &local->manifest;
    int64_t asked_ms = local->options.test_clock_ms, start_ms = manifest->test_start_ms;
    bool is_unused = !manifest->boot_id[0];
    if (asked_ms && !start_ms && is_unused) {
        manifest->test_start_ms = asked_ms == LOCAL_TEST_CLOCK_NOW ? clock_wall_ms() : asked_ms;
        manifest->test_inner_ms = manifest->test_start_ms;
        manifest->skew_ms = 0;
        int failed = datadir_write(local->datadir, manifest);
        return failed ? error_result(failed, error, error_bytes,
                                     "cannot write the manifest in '%s': %s",
                                     local->options.data_dir, strerror(-failed))
                      : 0;
    }
    if (asked_ms && !start_ms)
        return error_result(
            -EINVAL, error, error_bytes,
            "data directory '%s' is not for a test clock; give --test-clock a new directory",
            local->options.data_dir);
    if (!asked_ms && start_ms)
        return error_result(-EINVAL, error, error_bytes,
                            "data directory '%s' is for a test clock, its jobs are not real; use "
                            "another directory, or --test-clock",
                            local->options.data_dir);
    if (asked_ms && asked_ms != LOCAL_TEST_CLOCK_NOW && asked_ms != start_ms) {
        char start[TIMESTAMP_BYTES];
        timestamp_write(start, start_ms);
        return error_result(-EINVAL, error, error_bytes,
                            "the test clock of data directory '%s' began at another time: give "
                            "--test-clock without one, or --test-clock=%.*s",
                            local->options.data_dir, TIMESTAMP_BYTES, start);
    }
    return 0;
}

static void start_test_clock(struct clock *clock, const struct datadir_manifest *manifest)
{
    clock_hold(clock, manifest->test_inner_ms, manifest->test_inner_ms + manifest->skew_ms);
}

/* Stores the state of a test clock. */
static int remember_test_clock(struct local *local)
{
    local->manifest.is_opened = true;
    clock_boot_id(local->manifest.boot_id);
    clock_both_ms_of(local->options.clock, &local->manifest.test_inner_ms,
                     &local->manifest.skew_ms);
    local->manifest.skew_ms -= local->manifest.test_inner_ms;
    return datadir_write(local->datadir, &local->manifest);
}

/* Stores the state of the inner clock, so that the next start continues from there. */
static int remember_clock(struct local *local)
{
    if (is_test_directory(local))
        return remember_test_clock(local);
    local->manifest.is_opened = true;
    clock_boot_id(local->manifest.boot_id);
    local->manifest.boot_offset_ms = clock_boot_offset_ms(local->options.clock);
    local->skew_ms = clock_skew_ms_since(local->options.clock, local->skew_ms);
    local->manifest.skew_ms = local->skew_ms + SKEW_MARGIN_MS;
    return datadir_write(local->datadir, &local->manifest);
}

/* ---- open ---- */

/* Formats the interval for /v1/info. */
static void name_sync_interval(struct local *local)
{
    struct buffer text;
    buffer_init(&text, sizeof local->sync_interval - 1);
    duration_emit(&text, local->options.sync_interval_ms);
    if (!text.failed)
        memcpy(local->sync_interval, text.at, text.len);
    buffer_fini(&text);
}

/* Reads the marks, which detect the loss of data that was once durable. Marks of another store are
 * ignored. */
static int read_marks(struct local *local, char *error, size_t error_bytes)
{
    struct marks *marks = &local->marks;
    int result = marks_read(datadir_fs(local->datadir), datadir_path(local->datadir), marks);

    if (result < 0 && result != -ENOENT && result != -EBADMSG)
        return error_result(result, error, error_bytes, "cannot read '%s/MARKS': %s",
                            local->options.data_dir, strerror(-result));
    if (result < 0 || strcmp(marks->store, local->manifest.name) != 0 ||
        marks->shards != local->manifest.shards)
        *marks = (struct marks){.shards = local->manifest.shards};
    memcpy(marks->store, local->manifest.name, sizeof marks->store);
    local->keeper = mark_keeper_new(local->datadir, marks, local->options.mark_pause_ms);
    return local->keeper ? 0 : error_result(-ENOMEM, error, error_bytes, "out of memory");
}

int local_open(const struct local_options *options, struct local **out, uint32_t *shards,
               char *error, size_t error_bytes)
{
    struct local *local = calloc(1, sizeof *local);
    if (!local) {
        snprintf(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    local->options = *options;
    if (!(local->placement = placement_new())) {
        free(local);
        snprintf(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    if (!options->clock)
        local->options.clock = &clock_process;
    int failed = datadir_open(options->data_dir, options->shards, &local->datadir, &local->manifest,
                              error, error_bytes);
    if (failed) {
        placement_free(local->placement);
        free(local);
        return failed;
    }
    local->shard_count = local->manifest.shards;
    if (local->manifest.fault)
        log_event(LOG_WARN, "the manifest is restored from its copy", LOG_TEXT("file", "MANIFEST"),
                  LOG_TEXT("fault", local->manifest.fault));
    failed = claim_clock(local, error, error_bytes);
    if (!failed)
        failed = read_marks(local, error, error_bytes);
    if (!failed && is_test_directory(local)) {
        local->own_clock = (struct clock)CLOCK_INIT;
        local->options.clock = &local->own_clock;
        start_test_clock(local->options.clock, &local->manifest);
        if (!(local->test_clock = test_clock_new(local)))
            failed = error_result(-ENOMEM, error, error_bytes, "out of memory");
    } else if (!failed) {
        start_clock(local->options.clock, &local->manifest);
        /* Otherwise the jobs would have slightly different due times after each start, and cursors
         * from before it would repeat or leave out jobs. */
        local->skew_ms = local->manifest.skew_ms - SKEW_MARGIN_MS;
        local->skew_ms = clock_skew_ms_since(local->options.clock, local->skew_ms);
    }
    if (failed) {
        mark_keeper_free(local->keeper);
        datadir_close(local->datadir);
        placement_free(local->placement);
        free(local);
        return failed;
    }
    name_sync_interval(local);
    *shards = local->shard_count;
    *out = local;
    return 0;
}

const char *local_store_name(const struct local *local)
{
    return local->manifest.name;
}

/* ---- attach ---- */

void local_set_feed(struct local *local, struct feed *feed)
{
    local->feed = feed;
}

static void on_shard_ready(void *ctx, struct slice topic, uint64_t reactors)
{
    struct handle *handle = ctx;
    route_ready(handle->local, handle->index, topic, reactors);
}

static void on_shard_event(void *ctx, enum queue_event event, struct slice topic)
{
    struct handle *handle = ctx;
    route_event(handle->local, handle->index, event, topic);
}

/* Stores the clock after a step. On a helper thread. If this fails, the next step or start stores
 * it. */
static void on_clock_stepped(void *ctx)
{
    struct handle *handle = ctx;
    int failed = remember_clock(handle->local);
    if (failed)
        log_event(LOG_WARN, "clock step not stored", LOG_TEXT("error", strerror(-failed)));
}

static bool on_shard_call(void *ctx, uint32_t shard, const struct command *command,
                          struct queue_reply_to reply_to)
{
    struct handle *handle = ctx;
    if (shard >= handle->local->shard_count)
        return false;
    route_submit(&handle->parts[shard].queue, command, reply_to);
    return true;
}

static void on_shard_failed(void *ctx)
{
    struct handle *handle = ctx;
    atomic_store(&handle->local->failed, true);
    if (handle->local->options.failed)
        handle->local->options.failed(handle->local->options.failed_ctx);
}

static void on_shard_synced(void *ctx, uint64_t sequence)
{
    struct handle *handle = ctx;
    mark_keeper_note(handle->local->keeper, handle->index, sequence);
}

static void on_shard_active(void *ctx)
{
    struct handle *handle = ctx;
    test_clock_active(handle->local->test_clock);
}

/* Returns the key of leases. It was drawn when the directory was created and is equal in every copy
 * of it, so leases outlive a restart. */
static struct mac_key lease_key_of(const struct datadir_manifest *manifest)
{
    return (struct mac_key){.low = manifest->hash_seed,
                            .high = hash_64(manifest->name, strlen(manifest->name))};
}

/* Stores the clock and the marks, after all shards were opened. The file of the marks is made first, so that one sync of
 * the directory covers its name and that of the manifest. */
static int write_state(struct local *local, char *error, size_t error_bytes)
{
    int marks_result = mark_keeper_make_file(local->keeper);
    int result = marks_result < 0 ? 0 : remember_clock(local);

    if (result < 0)
        return error_result(result, error, error_bytes, "cannot write the manifest in '%s': %s",
                            local->options.data_dir, strerror(-result));
    if (marks_result == 0)
        marks_result = mark_keeper_begin(local->keeper, shard_helper(local->shards[0]));
    return marks_result < 0
               ? error_result(marks_result, error, error_bytes, "cannot write '%s/MARKS': %s",
                              local->options.data_dir, strerror(-marks_result))
               : 0;
}

int local_attach(struct local *local, uint32_t index, struct reactor *reactor, struct queue **out,
                 char *error, size_t error_bytes)
{
    char dir[4096];
    struct shard_recovered recovered;
    struct handle *handle = handle_new(local, index, reactor);
    if (!handle) {
        snprintf(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    datadir_shard_path(local->datadir, index, dir, sizeof dir);
    const struct marks_shard *mark = &local->marks.shard[index];
    struct shard_options options = {.local = &local->options,
                                    .identity = {.shard = index},
                                    .epoch_min =
                                        local->manifest.is_opened && !mark->epoch ? 1 : mark->epoch,
                                    .synced_min = mark->synced,
                                    .skew_ms = local->skew_ms,
                                    .synced = on_shard_synced,
                                    .dir = dir,
                                    .fs = datadir_fs(local->datadir),
                                    .index = index,
                                    .shards = local->shard_count,
                                    .hash_seed = local->manifest.hash_seed,
                                    .lease_key = lease_key_of(&local->manifest),
                                    .ready = on_shard_ready,
                                    .event = on_shard_event,
                                    .failed = on_shard_failed,
                                    .call = on_shard_call,
                                    .desk = local->feed ? feed_desk_at(local->feed, index) : NULL,
                                    .stepped = index == 0 ? on_clock_stepped : NULL,
                                    .active = local->test_clock ? on_shard_active : NULL,
                                    .ctx = handle};
    memcpy(options.identity.store, local->manifest.name, sizeof options.identity.store);
    local->handles[index] = handle;
    if (index == 0 && mark_keeper_live_on(local->keeper, reactor)) {
        snprintf(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    if (index == 0 && !(local->backups = backups_new(local, reactor))) {
        snprintf(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    int failed =
        shard_open(&options, reactor, &local->shards[index], &recovered, error, error_bytes);
    if (!failed)
        mark_keeper_open(local->keeper, index, recovered.epoch, recovered.sequence);
    /* The last shard to attach stores the clock, because any shard may have raised it. */
    bool is_last = !failed && atomic_fetch_add(&local->attached, 1) + 1 == local->shard_count;
    if (is_last && !(settle_topics(local) && settle_batches(local))) {
        snprintf(error, error_bytes, "out of memory");
        failed = -ENOMEM;
    }
    if (is_last && !failed)
        failed = write_state(local, error, error_bytes);
    if (failed)
        return failed; /* local_free releases what was created */
    const struct queue_counts *counts = &recovered.counts;
    log_event(LOG_INFO, "shard recovered", LOG_NUMBER("shard", index),
              LOG_NUMBER("jobs", counts->delayed + counts->retrying + counts->ready +
                                     counts->leased + counts->dead),
              LOG_NUMBER("records", recovered.records),
              LOG_NUMBER("torn_bytes", recovered.torn_bytes),
              LOG_NUMBER("took_ms", recovered.took_ms));
    *out = handle->queue;
    return 0;
}

/* ---- figures ---- */

uint32_t local_shards(const struct local *local)
{
    return local->shard_count;
}

void local_figures(const struct local *local, uint32_t shard, struct shard_figures *out)
{
    assert(shard < local->shard_count);
    shard_figures(local->shards[shard], out);
}

void local_times(const struct local *local, uint32_t shard, struct shard_times *sum)
{
    assert(shard < local->shard_count);
    shard_times(local->shards[shard], sum);
}

/* ---- stop ---- */

static void stop_letter_back(struct letter *letter)
{
    struct stop_letter *stop = (struct stop_letter *)(void *)letter;
    struct local *local = stop->local;
    local->stopped(local->stopped_ctx);
}

static void shard_stopped(void *ctx)
{
    struct stop_letter *stop = ctx;
    if (atomic_fetch_sub(&stop->local->stopping_left, 1) > 1)
        return;
    stop->letter.run = stop_letter_back;
    reactor_post(stop->local->handles[0]->reactor, &stop->letter);
}

static void stop_letter_there(struct letter *letter)
{
    struct stop_letter *stop = (struct stop_letter *)(void *)letter;
    shard_stop(stop->local->shards[stop->shard], shard_stopped, stop);
}

void local_stop(struct local *local, void (*stopped)(void *ctx), void *ctx)
{
    local->stopped = stopped;
    local->stopped_ctx = ctx;
    atomic_store(&local->stopping_left, local->shard_count);
    for (uint32_t i = 0; i < local->shard_count; i++) {
        struct stop_letter *stop = &local->stops[i];
        *stop = (struct stop_letter){.letter.run = stop_letter_there, .local = local, .shard = i};
        reactor_post(local->handles[i]->reactor, &stop->letter);
    }
}

bool local_has_failed(const struct local *local)
{
    return atomic_load(&local->failed);
}

void local_leave(struct local *local)
{
    datadir_leave(local->datadir);
}

void local_free(struct local *local)
{
    if (!local)
        return;
    for (uint32_t i = 0; i < local->shard_count; i++) {
        shard_free(local->shards[i]);
        handle_free(local->handles[i]);
    }
    backups_free(local->backups);
    mark_keeper_free(local->keeper);
    test_clock_free(local->test_clock);
    placement_free(local->placement);
    datadir_close(local->datadir);
    free(local);
}
