/* A shard, here or on another reactor, as a queue of its own. */
#include "local/handle.h"

static void pass_on(struct queue *queue, const struct command *command,
                    struct queue_reply_to reply_to)
{
    struct part *part = (struct part *)(void *)queue;
    route_send(part->handle, part->shard, command, reply_to);
}

static void on_push(struct queue *queue, const struct queue_push *pushes, size_t count,
                    struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_PUSH, .count = count, .pushes = pushes};
    pass_on(queue, &command, reply_to);
}

static void on_answer(struct queue *queue, const struct queue_answer *answers, size_t count,
                      struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_ANSWER, .count = count, .answers = answers};
    pass_on(queue, &command, reply_to);
}

static void on_change(struct queue *queue, const struct queue_change *changes, size_t count,
                      struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_CHANGE, .count = count, .changes = changes};
    pass_on(queue, &command, reply_to);
}

static void on_take(struct queue *queue, const struct queue_take *take,
                    struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_TAKE, .take = *take};
    pass_on(queue, &command, reply_to);
}

static void on_get(struct queue *queue, struct slice topic, struct slice id,
                   struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_GET, .get = {.topic = topic, .id = id}};
    pass_on(queue, &command, reply_to);
}

static void on_list(struct queue *queue, const struct queue_list *list,
                    struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_LIST, .list = *list};
    pass_on(queue, &command, reply_to);
}

static void on_topic(struct queue *queue, const struct queue_topic_call *call,
                     struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_TOPIC, .topic = *call};
    pass_on(queue, &command, reply_to);
}

static void on_topics(struct queue *queue, struct queue_reply_to reply_to)
{
    struct command command = {.kind = COMMAND_TOPICS};
    pass_on(queue, &command, reply_to);
}

static void on_watch(struct queue *queue, struct slice topic, bool on)
{
    struct part *part = (struct part *)(void *)queue;
    route_watch(part->handle, part->shard, topic, on);
}

static void on_info(struct queue *queue, struct queue_info *out)
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
                               .checkpoints = figures.checkpoints,
                               .checkpoints_failed = figures.checkpoints_failed,
                               .healthy = figures.healthy,
                               .accepting = figures.accepting && !figures.astray,
                               .moved = figures.astray};
    switch (local->options.sync) {
    case WAL_SYNC_ALWAYS:
        out->sync = out->durability_class = "always";
        out->durability = "an answered change survives a crash of the server and a power cut";
        break;
    case WAL_SYNC_INTERVAL:
        out->sync = local->sync_interval;
        out->durability_class = "interval";
        out->durability = "an answered change survives a crash of the server; a power cut may take "
                          "what the last sync interval brought";
        break;
    case WAL_SYNC_NEVER:
        out->sync = out->durability_class = "never";
        out->durability = "an answered change survives a crash of the server; what a power cut "
                          "takes is up to the operating system";
        break;
    }
}

const struct queue_ops part_ops = {.push = on_push,
                                   .take = on_take,
                                   .answer = on_answer,
                                   .change = on_change,
                                   .get = on_get,
                                   .list = on_list,
                                   .topic = on_topic,
                                   .topics = on_topics,
                                   .watch = on_watch,
                                   .info = on_info};
