/*
 * A take over several shards: one after the other, so that nobody leases more than was asked for;
 * the first named topic on all of them before the second. Begins where jobs were last heard to be
 * ready and moves on from take to take, so that no shard is favoured.
 */
#include "local/handle.h"

#include <stdlib.h>

enum { ENOUGH_BYTES = 16 << 20 }; /* of bodies: then no further shard is asked */

struct gather_take {
    struct handle *handle;
    struct queue_reply_to reply_to;
    struct command *command;   /* a copy of the whole */
    size_t topic;              /* the one being asked for */
    uint32_t first, asked;     /* shards: where it began, how many were asked for this topic */
    uint32_t left;             /* jobs still wanted */
    size_t bytes;              /* of those that came */
    enum queue_status refusal; /* of a shard; told where no other had jobs */
    struct queue_reply **replies;
    size_t reply_count;
};

static void ask_next(struct gather_take *take);

static void finish(struct gather_take *take)
{
    size_t count = 0;
    struct queue_reply reply = {.status = take->reply_count ? QUEUE_OK : take->refusal};
    for (size_t i = 0; i < take->reply_count; i++)
        count += take->replies[i]->job_count;
    struct queue_job *jobs = malloc((count + 1) * sizeof *jobs);
    if (jobs) {
        for (size_t i = 0; i < take->reply_count; i++)
            for (size_t j = 0; j < take->replies[i]->job_count; j++)
                jobs[reply.job_count++] = take->replies[i]->jobs[j];
        reply.jobs = jobs;
    } else {
        reply.status = QUEUE_NO_MEMORY; /* the leases end by themselves */
    }
    take->reply_to.done(take->reply_to.owner, take->reply_to.tag, &reply);
    free(jobs);
    for (size_t i = 0; i < take->reply_count; i++)
        free(take->replies[i]);
    free(take->replies);
    free(take->command);
    free(take);
}

static void part_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct gather_take *take = owner;
    (void)tag;
    if (reply->status != QUEUE_OK)
        take->refusal = reply->status;
    if (reply->job_count) {
        struct queue_reply *copy = copy_reply(reply);
        if (copy) {
            take->replies[take->reply_count++] = copy;
            for (size_t i = 0; i < copy->job_count; i++)
                take->bytes += copy->jobs[i].job.body.len + copy->jobs[i].job.meta.len;
            take->left -= reply->job_count < take->left ? (uint32_t)reply->job_count : take->left;
        }
    }
    ask_next(take);
}

static void ask_next(struct gather_take *take)
{
    uint32_t shards = take->handle->local->shard_count;
    if (take->asked == shards) {
        take->asked = 0;
        take->topic++;
    }
    if (!take->left || take->bytes >= ENOUGH_BYTES ||
        take->topic == take->command->take.topic_count) {
        finish(take);
        return;
    }
    struct command part = {.kind = COMMAND_TAKE,
                           .take = {.topics = &take->command->take.topics[take->topic],
                                    .topic_count = 1,
                                    .max = take->left,
                                    .lease_ms = take->command->take.lease_ms}};
    uint32_t shard = (take->first + take->asked++) % shards;
    route_send(take->handle, shard, &part,
               (struct queue_reply_to){.done = part_done, .owner = take});
}

void gather_take(struct handle *handle, const struct command *command,
                 struct queue_reply_to reply_to)
{
    uint32_t shards = handle->local->shard_count;
    struct gather_take *take = calloc(1, sizeof *take);
    struct command *copy = copy_command(command);
    struct queue_reply **replies =
        malloc(shards * command->take.topic_count * sizeof(struct queue_reply *));
    if (!take || !copy || !replies) {
        free(take);
        free(copy);
        free(replies);
        route_refuse(handle, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    *take = (struct gather_take){.handle = handle,
                                 .reply_to = reply_to,
                                 .command = copy,
                                 .first = handle->take_from,
                                 .left = command->take.max,
                                 .replies = replies};
    handle->take_from = (handle->take_from + 1) % shards;
    ask_next(take);
}
