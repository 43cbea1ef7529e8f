#include "local/command.h"

#include "engine/lease.h"
#include "local/awaits.h"
#include "local/checkpoint.h"
#include "local/forecast.h"
#include "local/job_reply.h"
#include "local/scan.h"
#include "local/shard_feed.h"
#include "queue/groups.h"
#include "queue/life.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
    TAKE_BYTES_MAX = 16 << 20 /* of records in one reply, approximately */
};

/* ---- push, answer, change: one result per item, sent when durable ---- */

/* Copies text into the completion's memory. `*used` starts at 0. */
static struct slice completion_text(struct completion *completion, size_t *used, struct slice text)
{
    char *at = (char *)(completion_results(completion) + completion->reply.result_count) + *used;
    if (text.len)
        memcpy(at, text.at, text.len);
    *used += text.len;
    assert(at + text.len <= (char *)completion + completion->bytes);
    return slice_make(at, text.len);
}

static int out_of_memory(struct shard *shard, struct queue_reply_to reply_to)
{
    completion_status_soon(shard, QUEUE_NO_MEMORY, reply_to);
    return 0;
}

static int run_push(struct shard *shard, const struct command *command,
                    struct queue_reply_to reply_to)
{
    size_t bytes = 0, text = 0, used = 0;
    enum queue_status status;
    for (size_t i = 0; i < command->count; i++) {
        bytes += engine_room_push(&command->pushes[i]) +
                 engine_room_next(shard->engine, &command->pushes[i]);
        text += command->pushes[i].topic.len + command->pushes[i].id.len;
    }
    if (checkpoint_is_without_space(shard->checkpoint))
        status = QUEUE_NO_SPACE;
    else if (shard_ask_room(shard, bytes, WAL_FOR_PUSH, &status) == -EAGAIN)
        return -EAGAIN;
    struct completion *completion = completion_new(shard, command->count, text, reply_to);
    if (!completion)
        return out_of_memory(shard, reply_to);
    struct queue_result *results = completion_results(completion);
    struct engine_now now = shard_now(shard);
    struct queue_push copy;
    struct queue_batch room;
    for (size_t i = 0; i < command->count; i++) {
        const struct queue_push *push = &command->pushes[i];
        struct queue_result *result = &results[i];
        bool is_good = command_item_is_good(command, i, result);
        if (is_good && status != QUEUE_OK)
            result->status = status;
        else if (is_good)
            engine_push(shard->engine,
                        lease_prove_parent(push, &shard->options.lease_key, shard->options.index,
                                           &copy, &room),
                        now, result);
        if (__builtin_expect(push->ended != NULL, 0) && queue_push_awaits(result))
            awaits_add(shard, push->topic, push->id, shard_needs(shard), *push->ended);
        result->topic = completion_text(completion, &used, push->topic);
        result->id = completion_text(completion, &used, push->id);
    }
    completion_when_durable(shard, completion);
    return 0;
}

/* Parses the lease of an answer. Returns false if it belongs to no delivery of this shard. */
static bool answer_lease(const struct shard *shard, const struct queue_answer *answer,
                         struct engine_lease *lease)
{
    uint32_t number;
    return lease_parse(answer->lease, &shard->options.lease_key, lease, &number) &&
           number == shard->options.index;
}

/* Returns the further room of an answer in a topic that keeps finished jobs, or with progress. */
static size_t kept_room(const struct shard *shard, const struct queue_answer *answer)
{
    struct engine_lease lease;
    if (!engine_keeps_ends(shard->engine) && !answer->progress.len)
        return 0;
    return answer_lease(shard, answer, &lease) ? engine_room_answer(shard->engine, &lease, answer)
                                               : 0;
}

/* Returns the most log bytes of an answer. */
static size_t answer_room(struct shard *shard, const struct queue_answer *answer)
{
    struct engine_lease lease;
    uint16_t priority;
    bool is_next;
    if (answer->verb != QUEUE_AGAIN)
        return engine_room_change(shard->engine) + kept_room(shard, answer);
    if (!answer_lease(shard, answer, &lease))
        return ENGINE_STATE_BYTES_MAX;
    return engine_room_again(
        engine_leased(shard->engine, &lease, shard_now(shard), &priority, &is_next), answer->again);
}

static void run_again(struct shard *shard, const struct engine_lease *lease,
                      const struct queue_again *again, struct engine_now now,
                      struct completion *completion, size_t *used, struct queue_result *result)
{
    struct job job;
    uint16_t priority;
    bool is_next;
    struct record_place place = engine_leased(shard->engine, lease, now, &priority, &is_next);
    if (!place.bytes) {
        result->status = QUEUE_LEASE_ENDED;
        return;
    }
    if (shard_read_job(shard, place, is_next, &job)) {
        job.priority = priority;
        struct queue_push push = life_again(&job, again);
        engine_again(shard->engine, lease, &push, now, result);
        result->id = completion_text(completion, used, job.id);
    } else {
        result->status = QUEUE_UNAVAILABLE;
    }
}

static int run_answer(struct shard *shard, const struct command *command,
                      struct queue_reply_to reply_to)
{
    enum queue_status status;
    enum wal_need need = WAL_FOR_ANSWER;
    size_t bytes = 0, text = 0, used = 0;
    for (size_t i = 0; i < command->count; i++) {
        bytes += answer_room(shard, &command->answers[i]);
        text += command->answers[i].hold_ms ? JOB_TOPIC_BYTES_MAX + JOB_GROUP_BYTES_MAX : 0;
        if (command->answers[i].verb != QUEUE_AGAIN)
            continue;
        need = WAL_FOR_PUSH;
        text += JOB_ID_BYTES_MAX;
    }
    if (need == WAL_FOR_PUSH && checkpoint_is_without_space(shard->checkpoint))
        status = QUEUE_NO_SPACE;
    else if (shard_ask_room(shard, bytes, need, &status) == -EAGAIN)
        return -EAGAIN;
    struct completion *completion = completion_new(shard, command->count, text, reply_to);
    if (!completion)
        return out_of_memory(shard, reply_to);
    struct queue_result *results = completion_results(completion);
    struct engine_now now = shard_now(shard);
    for (size_t i = 0; i < command->count; i++) {
        const struct queue_answer *answer = &command->answers[i];
        struct queue_result *result = &results[i];
        struct engine_lease lease;
        if (!command_item_is_good(command, i, result))
            continue;
        if (!answer_lease(shard, answer, &lease))
            result->status = QUEUE_LEASE_ENDED;
        else if (status != QUEUE_OK)
            result->status = status;
        else if (answer->verb == QUEUE_AGAIN)
            run_again(shard, &lease, answer->again, now, completion, &used, result);
        else
            engine_answer(shard->engine, &lease, answer, now, result);
        if (result->topic.len) { /* a hold has begun */
            result->topic = completion_text(completion, &used, result->topic);
            result->group = completion_text(completion, &used, result->group);
        }
    }
    completion_when_durable(shard, completion);
    return 0;
}

static int run_change(struct shard *shard, const struct command *command,
                      struct queue_reply_to reply_to)
{
    size_t text = 0, used = 0;
    enum queue_status status;
    size_t bytes = command->count * engine_room_change(shard->engine);
    for (size_t i = 0; i < command->count; i++) {
        const struct queue_change *change = &command->changes[i];
        text += change->topic.len + change->id.len;
        if (change->verb == QUEUE_CANCEL)
            bytes += engine_room_end(shard->engine, change->topic, change->id);
    }
    if (shard_ask_room(shard, bytes, WAL_FOR_ANSWER, &status) == -EAGAIN)
        return -EAGAIN;
    struct completion *completion = completion_new(shard, command->count, text, reply_to);
    if (!completion)
        return out_of_memory(shard, reply_to);
    struct queue_result *results = completion_results(completion);
    struct engine_now now = shard_now(shard);
    for (size_t i = 0; i < command->count; i++) {
        const struct queue_change *change = &command->changes[i];
        struct queue_result *result = &results[i];
        bool is_good = command_item_is_good(command, i, result);
        if (is_good && status != QUEUE_OK)
            result->status = status;
        else if (is_good) {
            struct queue_change proved =
                lease_prove(change, &shard->options.lease_key, shard->options.index);
            engine_change(shard->engine, &proved, now, result);
        }
        result->topic = completion_text(completion, &used, change->topic);
        result->id = completion_text(completion, &used, change->id);
    }
    completion_when_durable(shard, completion);
    return 0;
}

static int run_batch(struct shard *shard, const struct command *command,
                     struct queue_reply_to reply_to)
{
    enum queue_status status = QUEUE_OK;
    bool needs_room = false;
    for (size_t i = 0; i < command->count; i++)
        needs_room |= command->batches[i].verb == QUEUE_BATCH_REPORT ||
                      command->batches[i].verb == QUEUE_BATCH_ORDER;
    /* A call may record a batch, its waiting job, and a stop. */
    bool is_full = shard_ask_room(shard, command->count * 2 * engine_room_change(shard->engine),
                                  WAL_FOR_ANSWER, &status) == -EAGAIN;
    if (is_full && needs_room)
        return -EAGAIN;
    bool has_room = !is_full && status == QUEUE_OK;
    struct completion *completion = completion_new(shard, command->count, 0, reply_to);
    if (!completion)
        return out_of_memory(shard, reply_to);
    struct queue_result *results = completion_results(completion);
    struct engine_now now = shard_now(shard);
    for (size_t i = 0; i < command->count; i++) {
        const struct queue_batch_call *call = &command->batches[i];
        struct engine_lease lease;
        uint32_t number;
        bool has_lease = call->verb == QUEUE_BATCH_LEASE &&
                         lease_parse(call->lease, &shard->options.lease_key, &lease, &number) &&
                         number == shard->options.index;
        if (needs_room && !has_room)
            results[i].status = status;
        else
            engine_batch_call(shard->engine, call, has_lease ? &lease : NULL, has_room, now,
                              &results[i]);
    }
    if (needs_room)
        completion_when_durable(shard, completion);
    else /* joins and leaves are in memory only, so the log cannot reject them later */
        completion_soon(shard, completion);
    return 0;
}

/* Runs a find, which changes nothing and so need not wait for the disk. */
static int run_find(struct shard *shard, const struct command *command,
                    struct queue_reply_to reply_to)
{
    size_t text = 0, used = 0;
    for (size_t i = 0; i < command->count; i++)
        text += command->finds[i].topic.len + command->finds[i].id.len;
    struct completion *completion = completion_new(shard, command->count, text, reply_to);
    if (!completion)
        return out_of_memory(shard, reply_to);
    struct queue_result *results = completion_results(completion);
    struct engine_now now = shard_now(shard);
    for (size_t i = 0; i < command->count; i++) {
        const struct queue_find *find = &command->finds[i];
        if (command_item_is_good(command, i, &results[i]))
            engine_look(shard->engine, find, now, &results[i]);
        results[i].topic = completion_text(completion, &used, find->topic);
        results[i].id = completion_text(completion, &used, find->id);
    }
    completion_soon(shard, completion);
    return 0;
}

/* ---- take, get ---- */

/* Sends the jobs that were taken, or the reason for an empty reply. */
static void reply_taken(struct shard *shard, struct engine_view *views, size_t count,
                        enum queue_status status, struct job_reply_options options,
                        struct queue_reply_to reply_to)
{
    if (count) {
        job_reply_start(shard, views, count, options, (struct slice){0}, reply_to);
        return;
    }
    free(views);
    struct completion *completion = completion_new(shard, 0, 0, reply_to);
    if (!completion) {
        out_of_memory(shard, reply_to);
        return;
    }
    completion->reply.status = status;
    completion->reply.has_next = options.has_next;
    completion->reply.next = options.next;
    completion_soon(shard, completion);
}

static int run_take(struct shard *shard, const struct command *command,
                    struct queue_reply_to reply_to)
{
    const struct queue_take *take = &command->take;
    enum queue_status status;
    if (shard_ask_room(shard, take->max * engine_room_change(shard->engine), WAL_FOR_ANSWER,
                       &status) == -EAGAIN)
        return -EAGAIN;
    struct engine_view *views = status == QUEUE_OK ? malloc((take->max + 1) * sizeof *views) : NULL;
    if (!views) {
        completion_status_soon(shard, status == QUEUE_OK ? QUEUE_NO_MEMORY : status, reply_to);
        return 0;
    }
    struct engine_now now = shard_now(shard);
    struct job_reply_options options = {.with_lease = true, .with_body = true, .way = take->way};
    size_t count = 0, bytes = 0;
    if (take->id.len) {
        status = engine_take_job(shard->engine, take->topics[0], take->id, take->lease_ms,
                                 take->consumer, now, views);
        reply_taken(shard, views, status == QUEUE_OK, status, options, reply_to);
        return 0;
    }
    if (take->by_priority) {
        count = engine_take_best(shard->engine, take, TAKE_BYTES_MAX, now, views, &options.next,
                                 &options.has_next);
        reply_taken(shard, views, count, QUEUE_OK, options, reply_to);
        return 0;
    }
    for (size_t i = 0; i < take->topic_count && count < take->max && bytes < TAKE_BYTES_MAX; i++) {
        size_t before = count;
        count +=
            engine_take(shard->engine, take->topics[i], take->max - (uint32_t)count,
                        TAKE_BYTES_MAX - bytes, take->lease_ms, take->consumer, now, views + count);
        for (size_t at = before; at < count; at++)
            bytes += views[at].place.bytes;
    }
    job_reply_start(shard, views, count, options, (struct slice){0}, reply_to);
    return 0;
}

/* Finds a job, with `finished` also a kept one. */
static bool find_job(struct shard *shard, struct slice topic, struct slice id, bool finished,
                     struct engine_view *view)
{
    struct engine_now now = shard_now(shard);
    return engine_find(shard->engine, topic, id, now, view) ||
           (finished && engine_find_kept(shard->engine, topic, id, now, view));
}

static void run_get(struct shard *shard, const struct command *command,
                    struct queue_reply_to reply_to)
{
    struct engine_view *view = malloc(sizeof *view);
    if (!view) {
        out_of_memory(shard, reply_to);
    } else if (!find_job(shard, command->get.topic, command->get.id, command->get.finished, view)) {
        free(view);
        completion_status_soon(shard, QUEUE_NOT_FOUND, reply_to);
    } else {
        job_reply_start(shard, view, 1, (struct job_reply_options){.with_body = true},
                        (struct slice){0}, reply_to);
    }
}

/* Begins a wait for the end of a job, or answers at once: a job that is dead or kept has ended. */
static void await_begin(struct shard *shard, struct slice topic, struct slice id,
                        struct queue_reply_to reply_to)
{
    struct engine_view *view = malloc(sizeof *view);
    if (!view) {
        out_of_memory(shard, reply_to);
    } else if (!find_job(shard, topic, id, true, view)) {
        free(view);
        completion_status_soon(shard, QUEUE_NOT_FOUND, reply_to);
    } else if (view->state == JOB_FINISHED || view->state == JOB_DEAD) {
        job_reply_start(shard, view, 1, (struct job_reply_options){.with_body = true},
                        (struct slice){0}, reply_to);
    } else {
        engine_view_fini(view);
        free(view);
        awaits_add(shard, topic, id, 0, reply_to);
    }
}

static void run_await(struct shard *shard, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct slice topic = command->await.topic, id = command->await.id;
    if (!command->await.cancels) {
        await_begin(shard, topic, id, reply_to);
        return;
    }
    awaits_cancel(shard, topic, id, command->await.cancels);
    completion_status_soon(shard, QUEUE_OK, reply_to);
}

/* ---- topics ---- */

/* Reports an event of all shards, on the first shard only. */
static void notify_topic(struct shard *shard, const struct queue_topic_call *call,
                         enum queue_status status)
{
    if (shard->options.index != 0 || (status != QUEUE_OK && status != QUEUE_CREATED))
        return;
    if (call->verb == QUEUE_TOPIC_PUT)
        shard_feed_topic(shard, JOB_EVENT_SETTINGS, call->topic, 0);
    else if (call->verb == QUEUE_TOPIC_PAUSE)
        shard_feed_topic(shard, JOB_EVENT_PAUSED, call->topic, 0);
    else if (call->verb == QUEUE_TOPIC_RESUME)
        shard_feed_topic(shard, JOB_EVENT_RESUMED, call->topic, 0);
}

/* Creates a completion whose reply contains copies of these topics. Returns NULL when out of
 * memory. */
static struct completion *completion_topics(struct shard *shard, const struct queue_topic *topics,
                                            size_t count, struct queue_reply_to reply_to)
{
    size_t text = count * sizeof *topics, used = 0;
    for (size_t i = 0; i < count; i++)
        text += topics[i].name.len + topics[i].settings.extension.len;
    struct completion *completion = completion_new(shard, 0, text, reply_to);
    if (!completion)
        return NULL;
    struct slice copy =
        completion_text(completion, &used, slice_make(topics, count * sizeof *topics));
    struct queue_topic *copies = (struct queue_topic *)(uintptr_t)copy.at;
    for (size_t i = 0; i < count; i++) {
        copies[i].name = completion_text(completion, &used, topics[i].name);
        copies[i].settings.extension =
            completion_text(completion, &used, topics[i].settings.extension);
    }
    completion->reply.topics = copies;
    completion->reply.topic_count = count;
    return completion;
}

static void reply_topic(struct shard *shard, struct slice name, enum queue_status status,
                        struct queue_reply_to reply_to)
{
    struct queue_topic topic;
    bool found = (status == QUEUE_OK || status == QUEUE_CREATED) &&
                 engine_topic_show(shard->engine, name, shard_now(shard), &topic);
    struct completion *completion = completion_topics(shard, &topic, found ? 1 : 0, reply_to);
    if (!completion) {
        out_of_memory(shard, reply_to);
        return;
    }
    completion->reply.status = status == QUEUE_OK && !found ? QUEUE_NOT_FOUND : status;
    completion_when_durable(shard, completion);
}

static bool knows_topic(struct shard *shard, struct slice name)
{
    struct queue_topic topic;
    return engine_topic_show(shard->engine, name, shard_now(shard), &topic);
}

/* Returns the end of the pause by the inner clock; 0: unlimited. */
static int64_t pause_end_ms(struct shard *shard, const struct queue_topic_call *call)
{
    struct engine_now now = shard_now(shard);
    if (call->pause_until_ms)
        return call->pause_until_ms > now.skew_ms ? call->pause_until_ms - now.skew_ms : 1;
    return call->pause_ms ? now.inner_ms + call->pause_ms + 1 : 0;
}

static int run_topic(struct shard *shard, const struct command *command,
                     struct queue_reply_to reply_to)
{
    const struct queue_topic_call *call = &command->topic;
    enum queue_status status = QUEUE_OK;
    if (call->verb != QUEUE_TOPIC_GET &&
        shard_ask_room(shard, ENGINE_TOPIC_BYTES_MAX + engine_room_change(shard->engine),
                       WAL_FOR_ANSWER, &status) == -EAGAIN)
        return -EAGAIN;
    if (status != QUEUE_OK) {
        completion_status_soon(shard, status, reply_to);
        return 0;
    }
    switch (call->verb) {
    case QUEUE_TOPIC_GET:
        break;
    case QUEUE_TOPIC_PUT:
        status = engine_topic_may_move(shard->engine, call->topic, &call->settings, call->place);
        if (status == QUEUE_OK)
            status = call->place == QUEUE_PLACE_UNDONE
                         ? engine_topic_put_back(shard->engine, call->topic, &call->settings)
                         : engine_topic_put(shard->engine, call->topic, &call->settings);
        if (status == QUEUE_OK || status == QUEUE_CREATED)
            shard_event(shard, QUEUE_EVENT_TOPIC, call->topic);
        break;
    case QUEUE_TOPIC_PAUSE:
    case QUEUE_TOPIC_RESUME:
        if (call->makes && !knows_topic(shard, call->topic))
            status = engine_topic_put(shard->engine, call->topic, &(struct topic_settings){0});
        if (status == QUEUE_CREATED)
            status = QUEUE_OK;
        if (status == QUEUE_OK && call->verb == QUEUE_TOPIC_PAUSE)
            status = engine_topic_pause(shard->engine, call->topic, pause_end_ms(shard, call));
        else if (status == QUEUE_OK)
            status = engine_topic_resume(shard->engine, call->topic);
        break;
    case QUEUE_TOPIC_MARK:
        status = engine_topic_mark(shard->engine, call->topic, call->makes);
        break;
    case QUEUE_TOPIC_PURGE:
    case QUEUE_TOPIC_DELETE:
        scan_start(shard, command, reply_to);
        return 0;
    case QUEUE_TOPIC_REDRIVE:
        if (call->id.len) {
            struct completion *completion = completion_new(shard, 0, 0, reply_to);
            if (!completion)
                return out_of_memory(shard, reply_to);
            completion->reply.status =
                engine_redrive(shard->engine, call->topic, call->id, shard_now(shard));
            completion->reply.affected = completion->reply.status == QUEUE_OK;
            completion_when_durable(shard, completion);
            return 0;
        }
        scan_start(shard, command, reply_to);
        return 0;
    }
    notify_topic(shard, call, status);
    reply_topic(shard, call->topic, status, reply_to);
    return 0;
}

static void run_topics(struct shard *shard, const struct command *command,
                       struct queue_reply_to reply_to)
{
    struct queue_topic *topics;
    size_t count;
    if (!engine_topics_page(shard->engine, command->topics.after, command->topics.limit,
                            shard_now(shard), &topics, &count)) {
        out_of_memory(shard, reply_to);
        return;
    }
    struct completion *completion = completion_topics(shard, topics, count, reply_to);
    free(topics);
    if (completion)
        completion_soon(shard, completion);
    else
        out_of_memory(shard, reply_to);
}

/* ---- groups ---- */

/* Creates a completion whose reply contains copies of these groups. Returns NULL when out of memory. */
static struct completion *completion_groups(struct shard *shard, const struct queue_reply *reply,
                                            struct queue_reply_to reply_to)
{
    size_t count = reply->group_count, used = 0;
    size_t text = count * sizeof *reply->groups + reply->cursor.len;
    for (size_t i = 0; i < count; i++)
        text += reply->groups[i].name.len;
    struct completion *completion = completion_new(shard, 0, text, reply_to);
    if (!completion)
        return NULL;
    struct slice copy = completion_text(completion, &used,
                                        slice_make(reply->groups, count * sizeof *reply->groups));
    struct queue_group *copies = (struct queue_group *)(uintptr_t)copy.at;
    for (size_t i = 0; i < count; i++)
        copies[i].name = completion_text(completion, &used, reply->groups[i].name);
    completion->reply.status = reply->status;
    completion->reply.groups = copies;
    completion->reply.group_count = count;
    completion->reply.cursor = completion_text(completion, &used, reply->cursor);
    return completion;
}

static enum queue_status change_group(struct shard *shard, const struct queue_group_call *call)
{
    struct group_settings settings = call->settings;
    int64_t skew_ms = shard_now(shard).skew_ms;
    if (call->verb == QUEUE_GROUP_DELETE)
        return engine_group_delete(shard->engine, call->topic, call->group);
    if (call->verb == QUEUE_GROUP_HOLD)
        return engine_group_hold(shard->engine, call->topic, call->group, call->hold_ms,
                                 shard_now(shard));
    if (settings.paused_until_ms)
        settings.paused_until_ms =
            settings.paused_until_ms > skew_ms ? settings.paused_until_ms - skew_ms : 1;
    return engine_group_put(shard->engine, call->topic, call->group, &settings);
}

static int run_group(struct shard *shard, const struct command *command,
                     struct queue_reply_to reply_to)
{
    const struct queue_group_call *call = &command->group;
    enum queue_status status = QUEUE_OK;
    if (call->verb != QUEUE_GROUP_GET &&
        shard_ask_room(shard, ENGINE_TOPIC_BYTES_MAX + engine_room_change(shard->engine),
                       WAL_FOR_ANSWER, &status) == -EAGAIN)
        return -EAGAIN;
    if (status == QUEUE_OK && call->verb != QUEUE_GROUP_GET)
        status = change_group(shard, call);
    if (status != QUEUE_OK) {
        completion_status_soon(shard, status, reply_to);
        return 0;
    }
    struct queue_group group;
    struct queue_reply reply = {.status = QUEUE_NOT_FOUND};
    if (engine_group_show(shard->engine, call->topic, call->group, shard_now(shard), &group))
        reply = (struct queue_reply){.status = QUEUE_OK, .groups = &group, .group_count = 1};
    struct completion *completion = completion_groups(shard, &reply, reply_to);
    if (!completion)
        return out_of_memory(shard, reply_to);
    completion_when_durable(shard, completion);
    return 0;
}

static void run_groups(struct shard *shard, const struct command *command,
                       struct queue_reply_to reply_to)
{
    const struct queue_groups_call *call = &command->groups;
    struct engine_now now = shard_now(shard);
    struct queue_reply reply = {0};
    struct queue_group group;
    struct groups_page page;
    uint32_t at = 0;
    if (!knows_topic(shard, call->topic)) {
        completion_status_soon(shard, QUEUE_NOT_FOUND, reply_to);
        return;
    }
    struct completion *completion = NULL;
    if (groups_page_init(&page, call)) {
        while (engine_group_next(shard->engine, call->topic, &at, now, &group))
            groups_page_add(&page, &group);
        groups_page_end(&page, &reply);
        completion = completion_groups(shard, &reply, reply_to);
        groups_page_fini(&page);
    }
    if (completion)
        completion_soon(shard, completion);
    else
        out_of_memory(shard, reply_to);
}

int command_run(struct shard *shard, const struct command *command, struct queue_reply_to reply_to)
{
    shard_feed_look(shard);
    switch (command->kind) {
    case COMMAND_PUSH:
        return run_push(shard, command, reply_to);
    case COMMAND_ANSWER:
        return run_answer(shard, command, reply_to);
    case COMMAND_CHANGE:
        return run_change(shard, command, reply_to);
    case COMMAND_FIND:
        return run_find(shard, command, reply_to);
    case COMMAND_TAKE:
        return run_take(shard, command, reply_to);
    case COMMAND_GET:
        run_get(shard, command, reply_to);
        return 0;
    case COMMAND_LIST:
        scan_start(shard, command, reply_to);
        return 0;
    case COMMAND_TOPIC:
        return run_topic(shard, command, reply_to);
    case COMMAND_TOPICS:
        run_topics(shard, command, reply_to);
        return 0;
    case COMMAND_FORECAST:
        forecast_start(shard, &command->forecast, reply_to);
        return 0;
    case COMMAND_AWAIT:
        run_await(shard, command, reply_to);
        return 0;
    case COMMAND_GROUP:
        return run_group(shard, command, reply_to);
    case COMMAND_GROUPS:
        run_groups(shard, command, reply_to);
        return 0;
    case COMMAND_BATCH:
        return run_batch(shard, command, reply_to);
    }
    assert(false); /* not a command */
    return 0;
}
