/*
 * Pushes of members to a sharded queue (queue/batch_parts.h): each asks the part of its waiting job whether it may join, is pushed to its
 * own part, and leaves.
 */
#include "queue/batch_parts.h"
#include "queue/copy.h"
#include "queue/sharded_gather.h"

#include <assert.h>
#include <stdlib.h>

/* A call with pushes of members. It is carried out in pieces, so that a member may follow its waiting job in one call. */
struct joining {
    struct sharded *sharded;
    struct queue_reply_to reply_to;
    struct command *command; /* a copy */
    size_t from, until;      /* items of the piece */
    size_t *asked;           /* items that the current step asks about */
    size_t asked_count;
    struct queue_batch *batches; /* of each item */
    struct queue_batch_call *calls;
    bool *joined;    /* items that are under way, */
    uint32_t *parts; /* and the part with which they joined */
    struct queue_result *results;
};

static void joining_free(struct joining *joining)
{
    joining->sharded->under_way--;
    free(joining->command);
    free(joining->asked);
    free(joining->batches);
    free(joining->calls);
    free(joining->joined);
    free(joining->parts);
    free(joining->results);
    free(joining);
}

static const struct queue_push *push_at(const struct joining *joining, size_t item)
{
    return &joining->command->pushes[item];
}

/* Returns whether the item is a member, and passed the checks of the door. */
static bool is_member(const struct joining *joining, size_t item)
{
    const struct command *command = joining->command;
    bool is_good = !command->checks || command->checks[item].status == QUEUE_OK;
    return is_good && push_at(joining, item)->batch && push_at(joining, item)->batch->topic.len;
}

/* Returns whether an earlier item of the piece is the waiting job of this one. */
static bool follows_its_waiting_job(const struct joining *joining, size_t item)
{
    const struct queue_batch *batch = push_at(joining, item)->batch;
    for (size_t i = joining->from; is_member(joining, item) && i < item; i++) {
        const struct queue_push *push = push_at(joining, i);
        if (push->batch && push->batch->waits && slice_equals(push->topic, batch->topic) &&
            slice_equals(push->id, batch->id))
            return true;
    }
    return false;
}

static void piece_begin(struct joining *joining);

/* Sends the calls of the current step to their parts. */
static void calls_send(struct joining *joining, queue_done *done)
{
    const struct command command = {
        .kind = COMMAND_BATCH, .count = joining->asked_count, .batches = joining->calls};
    sharded_items(joining->sharded, &command,
                  (struct queue_reply_to){.done = done, .owner = joining});
}

/* Returns the result of the i-th call, or one with the reason why there is none. */
static struct queue_result call_result(const struct queue_reply *reply, size_t i)
{
    if (i < reply->result_count)
        return reply->results[i];
    return (struct queue_result){.status = reply->status ? reply->status : QUEUE_NO_MEMORY};
}

/* ---- leave ---- */

static void piece_left(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sharded *sharded = owner;
    (void)tag;
    (void)reply;
    sharded->under_way--;
}

/* Sends the ends of the pushes, ahead of the reply to the caller, and waits for no answer. If it is not known whether a push was stored,
 * it stays under way: its shard has failed, and the next start finds out. */
static void piece_leave(struct joining *joining)
{
    struct sharded *sharded = joining->sharded;
    size_t count = 0;
    for (size_t i = joining->from; i < joining->until; i++) {
        const struct queue_push *push = push_at(joining, i);
        if (!joining->joined[i] || joining->results[i].status == QUEUE_UNAVAILABLE)
            continue;
        /* If its topic has moved since, the version is that of another part, whose report is ahead of this call. */
        bool is_there = sharded_part_of_job(sharded, push->topic, push->id) == joining->parts[i];
        joining->calls[count++] =
            (struct queue_batch_call){.verb = QUEUE_BATCH_LEAVE,
                                      .part = joining->parts[i],
                                      .number = joining->batches[i].number,
                                      .version = is_there ? joining->results[i].version : 0};
    }
    if (!count)
        return;
    const struct command command = {
        .kind = COMMAND_BATCH, .count = count, .batches = joining->calls};
    sharded->under_way++;
    sharded_items(sharded, &command, (struct queue_reply_to){.done = piece_left, .owner = sharded});
}

static void piece_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct joining *joining = owner;
    (void)tag;
    for (size_t i = joining->from; i < joining->until; i++) {
        joining->results[i] = call_result(reply, i - joining->from);
        joining->results[i].topic = push_at(joining, i)->topic;
        joining->results[i].id = push_at(joining, i)->id;
    }
    piece_leave(joining);
    joining->from = joining->until;
    if (joining->from < joining->command->count) {
        piece_begin(joining);
        return;
    }
    struct queue_reply whole = {.results = joining->results,
                                .result_count = joining->command->count};
    joining->reply_to.done(joining->reply_to.owner, joining->reply_to.tag, &whole);
    joining_free(joining);
}

/* ---- push ---- */

static void piece_push(struct joining *joining)
{
    struct command piece = *joining->command;
    piece.count = joining->until - joining->from;
    piece.pushes += joining->from;
    if (piece.checks)
        piece.checks += joining->from;
    sharded_items(joining->sharded, &piece,
                  (struct queue_reply_to){.done = piece_pushed, .owner = joining});
}

/* ---- join ---- */

static void piece_joined(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct joining *joining = owner;
    (void)tag;
    for (size_t i = 0; i < joining->asked_count; i++) {
        struct queue_result result = call_result(reply, i);
        struct queue_batch *batch = &joining->batches[joining->asked[i]];
        batch->number = result.batch;
        batch->depth = result.depth;
        batch->dead_member = result.on_dead;
        batch->joined = result.status;
        joining->joined[joining->asked[i]] = result.status == QUEUE_OK;
    }
    piece_push(joining);
}

static void piece_join(struct joining *joining)
{
    joining->asked_count = 0;
    for (size_t i = joining->from; i < joining->until; i++) {
        const struct queue_push *push = push_at(joining, i);
        if (!is_member(joining, i))
            continue;
        joining->parts[i] = sharded_part_of_job(joining->sharded, push->topic, push->id);
        joining->calls[joining->asked_count] =
            (struct queue_batch_call){.verb = QUEUE_BATCH_JOIN,
                                      .part = joining->parts[i],
                                      .topic = push->batch->topic,
                                      .id = push->batch->id,
                                      .number = joining->batches[i].number};
        joining->asked[joining->asked_count++] = i;
    }
    if (joining->asked_count)
        calls_send(joining, piece_joined);
    else
        piece_push(joining);
}

/* ---- the leases of parents ---- */

static void parents_found(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct joining *joining = owner;
    (void)tag;
    for (size_t i = 0; i < joining->asked_count; i++)
        joining->batches[joining->asked[i]].number = call_result(reply, i).batch;
    piece_join(joining);
}

static void piece_begin(struct joining *joining)
{
    joining->until = joining->from;
    do
        joining->until++;
    while (joining->until < joining->command->count &&
           !follows_its_waiting_job(joining, joining->until));
    joining->asked_count = 0;
    for (size_t i = joining->from; i < joining->until; i++) {
        if (!is_member(joining, i) || !push_at(joining, i)->batch->parent.len)
            continue;
        joining->calls[joining->asked_count] = (struct queue_batch_call){
            .verb = QUEUE_BATCH_LEASE, .lease = push_at(joining, i)->batch->parent};
        joining->asked[joining->asked_count++] = i;
    }
    if (joining->asked_count)
        calls_send(joining, parents_found);
    else
        piece_join(joining);
}

/* ---- any push ---- */

static bool has_memory(const struct joining *joining)
{
    return joining->command && joining->asked && joining->batches && joining->calls &&
           joining->joined && joining->parts && joining->results;
}

bool sharded_has_members(const struct command *command)
{
    for (size_t i = 0; command->kind == COMMAND_PUSH && i < command->count; i++)
        if (__builtin_expect(command->pushes[i].batch != NULL, 0) &&
            command->pushes[i].batch->topic.len)
            return true;
    return false;
}

void sharded_push_members(struct sharded *sharded, const struct command *command,
                          struct queue_reply_to reply_to)
{
    struct joining *joining = calloc(1, sizeof *joining);
    if (!joining) {
        sharded_refuse(sharded, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    sharded->under_way++;
    *joining = (struct joining){.sharded = sharded,
                                .reply_to = reply_to,
                                .command = copy_command(command),
                                .asked = calloc(command->count, sizeof *joining->asked),
                                .batches = calloc(command->count, sizeof *joining->batches),
                                .calls = calloc(command->count, sizeof *joining->calls),
                                .joined = calloc(command->count, sizeof *joining->joined),
                                .parts = calloc(command->count, sizeof *joining->parts),
                                .results = calloc(command->count, sizeof *joining->results)};
    if (!has_memory(joining)) {
        sharded_refuse(sharded, QUEUE_NO_MEMORY, reply_to);
        joining_free(joining);
        return;
    }
    struct queue_push *pushes = (struct queue_push *)(uintptr_t)joining->command->pushes;
    for (size_t i = 0; i < command->count; i++) {
        if (!pushes[i].batch)
            continue;
        joining->batches[i] = *pushes[i].batch;
        joining->batches[i].number = 0;
        pushes[i].batch = &joining->batches[i];
    }
    piece_begin(joining);
}
