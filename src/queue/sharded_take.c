/*
 * A take over several parts: one after the other, so that nobody leases more than was asked for;
 * the first named topic on all of them before the second. Begins where jobs were last heard to be
 * ready and moves on from take to take, so that no part is favoured.
 */
#include "queue/copy.h"
#include "queue/sharded_private.h"

#include <stdlib.h>

enum { ENOUGH_BYTES = 16 << 20 }; /* of bodies: then no further part is asked */

struct sharded_taking {
    struct sharded *sharded;
    struct queue_reply_to reply_to;
    struct command *command;   /* a copy of the whole */
    size_t topic;              /* the one being asked for */
    uint32_t first, asked;     /* parts: where it began, how many were asked for this topic */
    uint32_t left;             /* jobs still wanted */
    size_t bytes;              /* of those that came */
    enum queue_status refusal; /* of a part; told where no other had jobs */
    struct queue_reply **replies;
    size_t reply_count;
};

static void ask_next(struct sharded_taking *take);

static void finish(struct sharded_taking *take)
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
    struct sharded_taking *take = owner;
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

static void ask_next(struct sharded_taking *take)
{
    uint32_t parts = take->sharded->part_count;
    if (take->asked == parts) {
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
    uint32_t at = (take->first + take->asked++) % parts;
    sharded_send(take->sharded, at, &part,
                 (struct queue_reply_to){.done = part_done, .owner = take});
}

void sharded_take(struct sharded *sharded, const struct command *command,
                  struct queue_reply_to reply_to)
{
    uint32_t parts = sharded->part_count;
    struct sharded_taking *take = calloc(1, sizeof *take);
    struct command *copy = copy_command(command);
    struct queue_reply **replies =
        malloc(parts * command->take.topic_count * sizeof(struct queue_reply *));
    if (!take || !copy || !replies) {
        free(take);
        free(copy);
        free(replies);
        sharded_refuse(sharded, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    *take = (struct sharded_taking){.sharded = sharded,
                                    .reply_to = reply_to,
                                    .command = copy,
                                    .first = sharded->take_from,
                                    .left = command->take.max,
                                    .replies = replies};
    sharded->take_from = (sharded->take_from + 1) % parts;
    ask_next(take);
}
