#include "redis/reshard.h"

#include "base/clock.h"
#include "base/error.h"
#include "queue/copy.h"
#include "redis/redis_core.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    COLLECT_MS = 15000,  /* limit until the shards have reported their progress */
    ANNOUNCED_MS = 3000, /* three looks: every server has learned of the next generation */
    COUNT_MS = 500,      /* interval at which remaining jobs are counted */
    ROUNDS_MAX = 100     /* of copying settings, if they keep changing */
};

enum step {
    COLLECT = 1,
    ASK,
    PREPARE,
    COPY_FIRST,
    ANNOUNCE,
    WAIT,
    SEAL,
    COPY_LAST,
    LEAVE,
    WATCH,
    OVER
};

struct reshard {
    const struct redis_reshard_options *options;
    struct redis_reshard_report *report;
    struct redis *redis;
    struct reactor *reactor;
    struct deadline *deadline;
    struct redis_generation target;
    enum step step;
    size_t left; /* replies that this step waits for */
    int result;
    int64_t began_ms, step_ms, counted_ms; /* inner time */
    struct queue_reply *before;            /* the topics at the last copy; NULL: no copy yet */
    struct queue_reply *topics;            /* the topics being copied */
    size_t topic;                          /* index of the next topic */
    size_t changed, rounds;
    bool is_counting;
    uint64_t total, left_jobs;
};

/* ---- completion ---- */

static void finish(struct reshard *reshard, int result)
{
    if (reshard->step == OVER)
        return;
    reshard->result = result;
    reshard->step = OVER;
    reactor_stop(reshard->reactor);
}

#define FAIL(RESHARD, CODE, ...)                                                                   \
    finish((RESHARD), error_result((CODE), (RESHARD)->report->error,                               \
                                   sizeof(RESHARD)->report->error, __VA_ARGS__))

static void go_to(struct reshard *reshard, enum step step)
{
    reshard->step = step;
    reshard->step_ms = clock_inner_ms();
    reshard->left = 0;
}

static void fail_by_status(struct reshard *reshard, enum queue_status status)
{
    if (status == QUEUE_NO_SPACE)
        FAIL(reshard, -EINVAL, "redis is full, make room and run this again");
    else
        FAIL(reshard, -EHOSTUNREACH,
             "a shard cannot be reached, run this again once it can: it continues from here");
}

/* ---- steps of shards ---- */

static void fail_by_target(struct reshard *reshard, const struct redis_generation *target)
{
    FAIL(reshard, -EBUSY,
         "the number of shards is already being changed to %u, run this with '--shards %u' to "
         "complete that",
         (unsigned)target->shards, (unsigned)target->shards);
}

static bool is_target(const struct reshard *reshard, const struct redis_generation *generation)
{
    return generation->number == reshard->target.number &&
           generation->shards == reshard->target.shards;
}

/* Handles the reply to "ask" and "prepare". A target is compared with the next step. */
static void on_prepared(void *ctx, enum queue_status status, const struct redis_generation *target)
{
    struct reshard *reshard = ctx;
    (void)target;
    reshard->left--;
    if (status != QUEUE_OK)
        fail_by_status(reshard, status);
}

static void on_stepped(void *ctx, enum queue_status status, const struct redis_generation *target)
{
    struct reshard *reshard = ctx;
    reshard->left--;
    if (status != QUEUE_OK)
        fail_by_status(reshard, status);
    else if (!is_target(reshard, target))
        fail_by_target(reshard, target);
}

static void step_shard(struct reshard *reshard, struct redis_shard *shard, const char *verb)
{
    reshard->left++;
    redis_shard_go_on(shard, verb, &reshard->target, 0, on_stepped, reshard);
}

static void ask_all(struct reshard *reshard, const struct redis_set *set)
{
    reshard->left = set->generation.shards;
    for (uint32_t i = 0; i < set->generation.shards; i++)
        redis_shard_go_on(set->shards[i], "ask", &reshard->target, 0, on_prepared, reshard);
}

/* Returns whether no batch is open. Fails otherwise: batches do not move, so their jobs would wait until the end of wait_at_most. */
static bool are_batches_closed(struct reshard *reshard, const struct redis_set *set)
{
    const char *job = "", *one;
    uint64_t batches = 0;
    for (uint32_t i = 0; i < set->generation.shards; i++) {
        uint32_t some = redis_shard_batches(set->shards[i], &one);
        job = some ? one : job;
        batches += some;
    }
    if (batches)
        FAIL(reshard, -EBUSY,
             "%" PRIu64 " job%s an open batch, such as %s, and open batches do not move to other "
             "shards; run this again when they have ended, or cancel these jobs; if one is dead, "
             "redrive, cancel or purge it; nothing was changed",
             batches, batches == 1 ? " has" : "s have", job);
    return batches == 0;
}

/* Prepares the new shards. Their numbers begin above all that the old shards may assign until they
 * are empty: if an id ended there and is pushed again here, its delivery has a higher number. */
static void prepare_all(struct reshard *reshard, const struct redis_set *set)
{
    const struct redis_set *old = reshard->redis->into;
    uint64_t least = 0;
    for (uint32_t i = 0; i < old->generation.shards; i++) {
        uint64_t number = redis_shard_number(old->shards[i]);
        least = number > least ? number : least;
    }
    reshard->left = set->generation.shards;
    for (uint32_t i = 0; i < set->generation.shards; i++)
        redis_shard_go_on(set->shards[i], "prepare", &reshard->target, least, on_prepared, reshard);
}

/* Takes the step on the shards that have not reached this state. */
static void step_all(struct reshard *reshard, const struct redis_set *set, const char *verb,
                     enum redis_move_state state)
{
    for (uint32_t i = 0; i < set->generation.shards; i++)
        if (set->states[i] < state)
            step_shard(reshard, set->shards[i], verb);
}

/* ---- settings and pauses ---- */

static int by_name(const void *a, const void *b)
{
    const struct queue_topic *x = a, *y = b;
    size_t len = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = memcmp(x->name.at, y->name.at, len);
    return order ? order : x->name.len < y->name.len ? -1 : x->name.len > y->name.len;
}

/* Returns whether the topic equals its previous copy; a topic without one is compared with an empty
 * one. */
static bool is_copied(const struct reshard *reshard, const struct queue_topic *topic)
{
    const struct queue_reply *before = reshard->before;
    const struct queue_topic nothing = {0}, *was = NULL;
    if (before && before->topic_count)
        was = bsearch(topic, before->topics, before->topic_count, sizeof *was, by_name);
    if (!was)
        was = &nothing;
    return topic->paused == was->paused && topic->paused_until_ms == was->paused_until_ms &&
           topic_settings_equal(&topic->settings, &was->settings);
}

static void copy_next(struct reshard *reshard);

static void on_copied(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct reshard *reshard = owner;
    (void)tag;
    reshard->left--;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_CREATED)
        fail_by_status(reshard, reply->status);
    else if (reshard->left == 0)
        copy_next(reshard);
}

static void ask_part(struct reshard *reshard, struct queue *part, const struct command *command,
                     queue_done *done)
{
    reshard->left++;
    part->ops->submit(part, command, (struct queue_reply_to){.done = done, .owner = reshard});
}

/* The sets that jobs move to, and from. */
static struct redis_set *new_set(const struct reshard *reshard)
{
    const struct redis *redis = reshard->redis;
    return is_target(reshard, &redis->into->generation) ? redis->into : redis->ready;
}

static struct redis_set *old_set(const struct reshard *reshard)
{
    return reshard->redis->from ? reshard->redis->from : reshard->redis->into;
}

static void copy_topic(struct reshard *reshard, const struct queue_topic *topic)
{
    const struct redis_set *set = new_set(reshard);
    const struct command put = {
        .kind = COMMAND_TOPIC,
        .topic = {.verb = QUEUE_TOPIC_PUT, .topic = topic->name, .settings = topic->settings}};
    const struct command pause = {
        .kind = COMMAND_TOPIC,
        .topic = {.verb = topic->paused ? QUEUE_TOPIC_PAUSE : QUEUE_TOPIC_RESUME,
                  .topic = topic->name,
                  .makes = topic->paused,
                  .pause_until_ms = topic->paused_until_ms}};
    for (uint32_t i = 0; i < set->generation.shards; i++) {
        ask_part(reshard, set->parts[i], &put, on_copied);
        ask_part(reshard, set->parts[i], &pause, on_copied);
    }
}

/* Ends a round over all topics. When nothing has changed since the previous round, the copy is
 * complete. */
static void copy_end(struct reshard *reshard)
{
    free(reshard->before);
    reshard->before = reshard->topics;
    reshard->topics = NULL;
    if (reshard->changed == 0)
        go_to(reshard, reshard->step == COPY_FIRST ? ANNOUNCE : LEAVE);
    else if (++reshard->rounds > ROUNDS_MAX)
        FAIL(reshard, -EBUSY,
             "settings of topics are being changed by others, run this again later");
    else
        reshard->left = 0; /* the next step starts another round */
}

/* Fails if the topic has strict groups and its order would not hold, or belongs on one shard. While jobs move, they are delivered from the old and
 * the new shards, so a job could be delivered before the one in front of it. */
static bool keeps_order(struct reshard *reshard, const struct queue_topic *topic)
{
    int bytes = (int)topic->name.len;
    const char *name = topic->name.at;
    bool is_strict = topic->settings.flow.group_order == FLOW_STRICT;
    if (!flow_is_one_shard(&topic->settings.flow) || reshard->step != COPY_FIRST)
        return true;
    if (reshard->target.shards > 1 && !flow_name_is_one_shard(topic->name))
        FAIL(
            reshard, -EBUSY,
            "the topic '%.*s' has %s, so it needs one shard, or a name that ends in .one or .fifo; "
            "nothing was changed",
            bytes, name, is_strict ? "group_order=strict" : "one_shard=true");
    else if (is_strict && !topic->paused)
        FAIL(reshard, -EBUSY,
             "the topic '%.*s' has group_order=strict, and its order would not hold while its jobs "
             "move; pause it until this is done: tarry pause %.*s",
             bytes, name, bytes, name);
    else
        return true;
    return false;
}

static void copy_next(struct reshard *reshard)
{
    while (reshard->topic < reshard->topics->topic_count) {
        const struct queue_topic *topic = &reshard->topics->topics[reshard->topic++];
        if (!keeps_order(reshard, topic))
            return;
        if (is_copied(reshard, topic))
            continue;
        reshard->changed++;
        copy_topic(reshard, topic);
        return;
    }
    copy_end(reshard);
}

static void on_topics(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct reshard *reshard = owner;
    (void)tag;
    reshard->left--;
    if (reply->status != QUEUE_OK) {
        fail_by_status(reshard, reply->status);
        return;
    }
    reshard->topics = copy_reply(reply);
    reshard->topic = reshard->changed = 0;
    if (reshard->topics)
        copy_next(reshard);
    else
        FAIL(reshard, -ENOMEM, "out of memory");
}

/* Starts a round. Reads the topics of the first shard, because settings are the same in all
 * shards. */
static void copy_begin(struct reshard *reshard)
{
    const struct command command = {.kind = COMMAND_TOPICS};
    free(reshard->topics);
    reshard->topics = NULL;
    ask_part(reshard, old_set(reshard)->parts[0], &command, on_topics);
}

/* ---- remaining jobs ---- */

static void on_counted(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct reshard *reshard = owner;
    uint64_t left = 0;
    (void)tag;
    reshard->is_counting = false;
    if (reply->status != QUEUE_OK)
        return;
    for (size_t i = 0; i < reply->topic_count; i++) {
        const struct queue_counts *counts = &reply->topics[i].counts;
        left += counts->delayed + counts->retrying + counts->ready + counts->leased + counts->dead;
    }
    reshard->left_jobs = left;
    if (left > reshard->total)
        reshard->total = left;
}

static void count(struct reshard *reshard, int64_t now_ms)
{
    const struct command command = {.kind = COMMAND_TOPICS};
    struct queue *queue = reshard->redis->from->queue;
    if (reshard->is_counting || now_ms - reshard->counted_ms < COUNT_MS)
        return;
    reshard->is_counting = true;
    reshard->counted_ms = now_ms;
    queue->ops->submit(queue, &command,
                       (struct queue_reply_to){.done = on_counted, .owner = reshard});
}

static void show(const struct reshard *reshard)
{
    const struct redis_reshard_options *options = reshard->options;
    if (options->progress)
        options->progress(options->ctx, reshard->total - reshard->left_jobs, reshard->total);
}

/* ---- the steps ---- */

static bool are_all(const struct redis_set *set, enum redis_move_state state)
{
    for (uint32_t i = 0; i < set->generation.shards; i++)
        if (set->states[i] < state)
            return false;
    return true;
}

/* Continues what an earlier run, or another process, has begun. */
static void resume(struct reshard *reshard)
{
    const struct redis *redis = reshard->redis;
    reshard->target = redis->into->generation;
    reshard->report->from = redis->from->generation;
    reshard->report->was_begun = true;
    if (redis->into->generation.shards != reshard->options->shards)
        fail_by_target(reshard, &redis->into->generation);
    else
        go_to(reshard, are_all(redis->from, REDIS_MOVE_LEAVING) ? WATCH : WAIT);
}

static void begin(struct reshard *reshard)
{
    struct redis *redis = reshard->redis;
    const struct redis_generation *now = &redis->into->generation;
    const struct redis_generation *stored = &redis->inspection.stored;
    reshard->report->from = *now;
    reshard->target = (struct redis_generation){now->number + 1, reshard->options->shards};
    if (now->shards == reshard->options->shards) {
        reshard->target = *now;
        if (stored->number == now->number)
            FAIL(reshard, -EALREADY, "the queue already has %u shard%s, nothing to do",
                 (unsigned)now->shards, now->shards == 1 ? "" : "s");
        else
            finish(reshard, 0); /* an earlier run was interrupted before it wrote the number */
        return;
    }
    if ((redis->ready = redis_set_new(redis, &reshard->target)))
        go_to(reshard, ASK);
    else
        FAIL(reshard, -ENOMEM, "out of memory");
}

/* Waits, up to a limit, until all shards have reported their progress. */
static void collect(struct reshard *reshard, int64_t now_ms)
{
    const struct redis *redis = reshard->redis;
    if (redis->into->has_reported && !redis->into->target.shards) {
        if (redis->from && !redis->is_ended)
            resume(reshard);
        else if (!redis->from)
            begin(reshard);
    } else if (now_ms - reshard->step_ms > COLLECT_MS) {
        fail_by_status(reshard, QUEUE_UNAVAILABLE);
    }
}

/* Returns whether no jobs are left in the old shards. If an earlier run began the change, this may
 * be true at any step. */
static bool is_over(const struct reshard *reshard)
{
    const struct redis *redis = reshard->redis;
    return is_target(reshard, &redis->into->generation) && (!redis->from || redis->is_ended);
}

static void take_step(struct reshard *reshard, int64_t now_ms)
{
    const struct redis *redis = reshard->redis;
    if (is_over(reshard)) {
        finish(reshard, 0);
        return;
    }
    switch (reshard->step) {
    case ASK:
        ask_all(reshard, redis->into);
        reshard->step = PREPARE;
        break;
    case PREPARE:
        if (!are_batches_closed(reshard, redis->into))
            break;
        prepare_all(reshard, redis->ready);
        reshard->step = COPY_FIRST;
        break;
    case COPY_FIRST:
    case COPY_LAST:
        copy_begin(reshard);
        break;
    case ANNOUNCE:
        step_shard(reshard, redis->into->shards[0], "announce");
        reshard->step = WAIT;
        reshard->step_ms = now_ms;
        break;
    case WAIT:
        if (redis->from && now_ms - reshard->step_ms >= ANNOUNCED_MS)
            go_to(reshard, SEAL);
        break;
    case SEAL:
        step_all(reshard, redis->from, "seal", REDIS_MOVE_SEALED);
        reshard->step = COPY_LAST;
        break;
    case LEAVE:
        step_all(reshard, redis->from, "leave", REDIS_MOVE_LEAVING);
        reshard->step = WATCH;
        break;
    case WATCH:
        count(reshard, now_ms);
        break;
    case COLLECT:
    case OVER:
        break;
    }
}

/* Runs at the end of each step: takes the next step once all replies to the last one have
 * arrived. */
static void after_iteration(void *ctx, int64_t now_ms)
{
    struct reshard *reshard = ctx;
    const struct redis_reshard_options *options = reshard->options;
    if (reshard->step == OVER)
        return;
    if (options->is_enough && options->is_enough(options->ctx)) {
        finish(reshard, -EINTR);
        return;
    }
    if (reshard->step == COLLECT)
        collect(reshard, now_ms);
    else if (reshard->left == 0)
        take_step(reshard, now_ms);
    if (reshard->step == WATCH)
        show(reshard);
    deadline_set(reshard->deadline, now_ms + COUNT_MS / 5);
}

static void on_deadline(void *ctx)
{
    (void)ctx; /* does nothing: the step that follows is the purpose */
}

/* ---- the run ---- */

static int reshard_open(struct reshard *reshard)
{
    struct redis_reshard_report *report = reshard->report;
    const struct redis_options options = {.url = reshard->options->url,
                                          .must_exist = true,
                                          .body_bytes_max = UINT32_MAX,
                                          .topics_max = UINT32_MAX};
    struct queue *unused;
    int result = redis_open(&options, &reshard->redis, report->error, sizeof report->error);
    if (result != 0)
        return result;
    reshard->reactor = reactor_new(0);
    reshard->deadline =
        reshard->reactor ? deadline_new(reshard->reactor, on_deadline, reshard) : NULL;
    if (!reshard->deadline)
        return error_result(-ENOMEM, report->error, sizeof report->error, "out of memory");
    return redis_attach(reshard->redis, reshard->reactor, &unused, report->error,
                        sizeof report->error);
}

static void reshard_close(struct reshard *reshard)
{
    redis_free(reshard->redis);
    deadline_free(reshard->deadline);
    if (reshard->reactor)
        reactor_free(reshard->reactor);
    free(reshard->before);
    free(reshard->topics);
}

/* Stores the new generation, which is now the only one: servers that start begin with it. */
static int write_generation(const struct reshard *reshard)
{
    struct redis_reshard_report *report = reshard->report;
    return redis_inspect_write_generation(&reshard->redis->url, &reshard->target, report->error,
                                          sizeof report->error);
}

int redis_reshard_run(const struct redis_reshard_options *options,
                      struct redis_reshard_report *report)
{
    struct reshard reshard = {.options = options, .report = report, .step = COLLECT};
    *report = (struct redis_reshard_report){0};
    struct redis_url url;
    if (!redis_url_parse(options->url, &url, report->error, sizeof report->error))
        return -EDOM;
    explicit_bzero(&url, sizeof url);
    int result = reshard_open(&reshard);
    if (result == 0) {
        reshard.began_ms = reshard.step_ms = clock_inner_ms();
        reshard.redis->after_iteration = after_iteration;
        reshard.redis->after_iteration_ctx = &reshard;
        reactor_run(reshard.reactor);
        result = reshard.result;
        report->into = reshard.target;
        report->took_ms = clock_inner_ms() - reshard.began_ms;
        report->moved = reshard.total - (result == 0 ? 0 : reshard.left_jobs);
    }
    if (result == 0 && (result = write_generation(&reshard)) == 0)
        report->is_done = true;
    if (result == -EINTR)
        result = 0;
    reshard_close(&reshard);
    return result;
}
