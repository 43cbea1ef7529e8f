/*
 * Pushes of members to a sharded queue (queue/batch_parts.h): each asks the part of its waiting job whether it may join, is pushed to its
 * own part, and leaves. The memory of its calls about batches is reserved first, so a push that has joined leaves, even if there is no
 * memory then.
 */
#include "queue/batch_parts.h"
#include "queue/copy.h"
#include "queue/sharded_gather.h"

#include <assert.h>
#include <stdlib.h>

/* The leaves of a call. A leave that a part rejects is sent again, until the part has confirmed it. */
struct leaving {
    struct sharded *sharded;
    struct leaving *next; /* of sharded->leaving */
    size_t under_way;     /* calls to parts, and the call with the pushes */
    size_t count;         /* leaves, */
    bool *is_confirmed;   /* whether each was confirmed, */
    uint32_t *parts;      /* the part that each is sent to, */
    struct queue_batch_call
        calls[]; /* and the leaves; ahead of some, the question for the version of a part */
};

/* An item of a call. */
struct joining_item {
    bool asks;   /* the current step sends a call, */
    uint32_t to; /* to this part, */
    struct queue_batch_call call;
    struct queue_result answer; /* with this answer */
    struct queue_batch batch;
    bool has_joined; /* its push is under way, */
    uint32_t part;   /* and will be stored in this part */
};

/* A call with pushes of members. It is carried out in pieces, so that a member may follow its waiting job in one call. */
struct joining {
    struct sharded *sharded;
    struct queue_reply_to reply_to;
    struct command *command; /* a copy */
    size_t from, until;      /* items of the piece */
    struct joining_item *items;
    size_t left;                               /* parts that have not answered the current step */
    void (*answered)(struct joining *joining); /* the next step */
    struct queue_batch_call *calls; /* of the current step, those of each part together, */
    size_t *asked;                  /* and their items */
    struct leaving *leaving;
    struct queue_result *results;
};

/* The calls to one part, as the tag of their reply. */
static uint64_t tag_of(size_t from, size_t count)
{
    return (uint64_t)from << 32 | count;
}

/* Returns the result of the i-th call, or one with the reason why there is none. */
static struct queue_result call_result(const struct queue_reply *reply, size_t i)
{
    if (i < reply->result_count)
        return reply->results[i];
    return (struct queue_result){.status = reply->status ? reply->status : QUEUE_NO_MEMORY};
}

static uint32_t part_of_call(const struct sharded *sharded, const struct queue_batch_call *call)
{
    const struct command command = {.kind = COMMAND_BATCH, .count = 1, .batches = call};
    return sharded_part_of_item(sharded, &command, 0);
}

/* ---- leave ---- */

static void leaving_free(struct leaving *leaving)
{
    leaving->sharded->under_way--;
    free(leaving->is_confirmed);
    free(leaving->parts);
    free(leaving);
}

/* Creates room for `count` leaves. Returns NULL if out of memory. */
static struct leaving *leaving_new(struct sharded *sharded, size_t count)
{
    struct leaving *leaving = calloc(1, sizeof *leaving + count * sizeof leaving->calls[0]);
    if (!leaving)
        return NULL;
    *leaving = (struct leaving){.sharded = sharded,
                                .under_way = 1,
                                .is_confirmed = calloc(count, sizeof *leaving->is_confirmed),
                                .parts = calloc(count, sizeof *leaving->parts)};
    sharded->under_way++;
    if (leaving->is_confirmed && leaving->parts)
        return leaving;
    leaving_free(leaving);
    return NULL;
}

/* Ends one call. After the last, waits to send again what was not confirmed. */
static void leaving_over(struct leaving *leaving)
{
    struct sharded *sharded = leaving->sharded;
    size_t lost = 0;
    if (--leaving->under_way)
        return;
    for (size_t i = 0; i < leaving->count; i++) {
        if (leaving->is_confirmed[i])
            continue;
        leaving->calls[lost] = leaving->calls[i];
        leaving->parts[lost++] = leaving->parts[i];
    }
    if (!lost) {
        leaving_free(leaving);
        return;
    }
    leaving->count = lost;
    leaving->next = sharded->leaving;
    sharded->leaving = leaving;
    sharded->options.repeat(sharded->options.ctx);
}

/* Lets a push leave whose part has returned the version of its counts, next time. */
static void leaving_knows(struct leaving *leaving, size_t at, uint64_t version)
{
    struct queue_batch_call *call = &leaving->calls[at];
    call->verb = QUEUE_BATCH_LEAVE;
    call->version = version;
    leaving->parts[at] = part_of_call(leaving->sharded, call);
    leaving->is_confirmed[at] = false;
}

/* Notes what a part has confirmed. A part that has failed or stops has ended its joins, and never returns the version of its counts: the
 * push stays under way. */
static void part_left(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct leaving *leaving = owner;
    size_t from = (size_t)(tag >> 32), count = tag & UINT32_MAX;
    for (size_t i = from; i < from + count; i++) {
        struct queue_result result = call_result(reply, i - from);
        leaving->is_confirmed[i] = result.status == QUEUE_OK || result.status == QUEUE_STOPPING ||
                                   result.status == QUEUE_UNAVAILABLE;
        if (result.status == QUEUE_OK && leaving->calls[i].verb == QUEUE_BATCH_VERSION)
            leaving_knows(leaving, i, result.version);
    }
    leaving_over(leaving);
}

/* Sends the leaves from the given one on. Those of one part follow each other. */
static void leaving_send(struct leaving *leaving, size_t from)
{
    size_t count;
    for (; from < leaving->count; from += count) {
        for (count = 1;
             from + count < leaving->count && leaving->parts[from + count] == leaving->parts[from];)
            count++;
        const struct command command = {
            .kind = COMMAND_BATCH, .count = count, .batches = &leaving->calls[from]};
        for (size_t i = 0; i < count; i++)
            leaving->is_confirmed[from + i] = false;
        leaving->under_way++;
        sharded_send(leaving->sharded, leaving->parts[from], &command,
                     (struct queue_reply_to){
                         .done = part_left, .owner = leaving, .tag = tag_of(from, count)});
    }
}

void sharded_repeat(struct sharded *sharded)
{
    struct leaving *leaving = sharded->leaving;
    sharded->leaving = NULL;
    while (leaving) {
        struct leaving *next = leaving->next;
        leaving->under_way = 1;
        leaving_send(leaving, 0);
        leaving_over(leaving);
        leaving = next;
    }
}

void sharded_forget_leaves(struct sharded *sharded)
{
    while (sharded->leaving) {
        struct leaving *first = sharded->leaving;
        sharded->leaving = first->next;
        leaving_free(first);
    }
}

/* ---- a call ---- */

static void joining_free(struct joining *joining)
{
    joining->sharded->under_way--;
    if (joining->leaving)
        leaving_over(joining->leaving);
    free(joining->command);
    free(joining->items);
    free(joining->calls);
    free(joining->asked);
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

/* ---- a step: the calls of several items ---- */

static void step_over(struct joining *joining)
{
    if (--joining->left == 0)
        joining->answered(joining);
}

static void part_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct joining *joining = owner;
    size_t from = (size_t)(tag >> 32), count = tag & UINT32_MAX;
    for (size_t i = 0; i < count; i++)
        joining->items[joining->asked[from + i]].answer = call_result(reply, i);
    step_over(joining);
}

/* Sends the calls of the items that ask to their parts. `answered` follows after the last answer. */
static void step_send(struct joining *joining, void (*answered)(struct joining *joining))
{
    struct sharded *sharded = joining->sharded;
    size_t count = 0;
    joining->left = 1;
    joining->answered = answered;
    for (size_t i = joining->from; i < joining->until; i++)
        if (joining->items[i].asks)
            joining->items[i].to = part_of_call(sharded, &joining->items[i].call);
    for (uint32_t part = 0; part < sharded->part_count; part++) {
        size_t from = count;
        for (size_t i = joining->from; i < joining->until; i++) {
            const struct joining_item *item = &joining->items[i];
            if (!item->asks || item->to != part)
                continue;
            joining->calls[count] = item->call;
            joining->asked[count++] = i;
        }
        const struct command command = {
            .kind = COMMAND_BATCH, .count = count - from, .batches = &joining->calls[from]};
        if (!command.count)
            continue;
        joining->left++;
        sharded_send(sharded, part, &command,
                     (struct queue_reply_to){.done = part_answered,
                                             .owner = joining,
                                             .tag = tag_of(from, command.count)});
    }
    step_over(joining);
}

/* ---- push, and leave ---- */

/* Returns whether a push that ended with this status may have been stored: its part has failed, its data directory was moved, or its
 * reply was lost for lack of memory. */
static bool is_unknown_end(enum queue_status status)
{
    return status == QUEUE_UNAVAILABLE || status == QUEUE_STOPPING ||
           status == QUEUE_DIRECTORY_MOVED || status == QUEUE_NO_MEMORY;
}

/* Sends the ends of the pushes, ahead of the reply to the caller, and waits for no answer. If it is not known whether a push was stored,
 * its part is asked for the version of its counts first; or the push stays under way until its join expires. */
static void piece_leave(struct joining *joining)
{
    struct sharded *sharded = joining->sharded;
    struct leaving *leaving = joining->leaving;
    size_t from = leaving->count;
    for (uint32_t part = 0; part < sharded->part_count; part++)
        for (size_t i = joining->from; i < joining->until; i++) {
            struct joining_item *item = &joining->items[i];
            bool is_unknown = is_unknown_end(joining->results[i].status);
            bool is_home = item->batch.is_home; /* which has no version */
            struct queue_batch_call leave = {.verb = QUEUE_BATCH_LEAVE,
                                             .part = item->part,
                                             .number = item->batch.number,
                                             .version = is_home ? 0 : joining->results[i].version,
                                             .join = item->batch.join};
            if (!item->has_joined || part_of_call(sharded, &leave) != part)
                continue;
            item->has_joined = false;
            if (is_unknown && sharded->options.joins_expire)
                continue;
            bool asks = is_unknown && !is_home;
            if (asks)
                leave.verb = QUEUE_BATCH_VERSION;
            leaving->parts[leaving->count] = asks ? item->part : part;
            leaving->calls[leaving->count++] = leave;
        }
    leaving_send(leaving, from);
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

static void piece_joined(struct joining *joining)
{
    for (size_t i = joining->from; i < joining->until; i++) {
        struct joining_item *item = &joining->items[i];
        if (!item->asks)
            continue;
        item->batch.number = item->answer.batch;
        item->batch.depth = item->answer.depth;
        item->batch.dead_member = item->answer.on_dead;
        item->batch.joined = item->answer.status;
        item->batch.join = item->answer.version;
        item->batch.was_asked = true;
        item->batch.part = item->part;
        item->batch.is_home = item->to == item->part;
        item->has_joined = item->answer.status == QUEUE_OK;
    }
    piece_push(joining);
}

static void piece_join(struct joining *joining)
{
    for (size_t i = joining->from; i < joining->until; i++) {
        const struct queue_push *push = push_at(joining, i);
        struct joining_item *item = &joining->items[i];
        if (!(item->asks = is_member(joining, i)))
            continue;
        item->part = sharded_part_of_job(joining->sharded, push->topic, push->id);
        item->call = (struct queue_batch_call){.verb = QUEUE_BATCH_JOIN,
                                               .part = item->part,
                                               .topic = push->batch->topic,
                                               .id = push->batch->id,
                                               .number = item->batch.number};
    }
    step_send(joining, piece_joined);
}

/* ---- the leases of parents ---- */

static void parents_found(struct joining *joining)
{
    for (size_t i = joining->from; i < joining->until; i++)
        if (joining->items[i].asks)
            joining->items[i].batch.number = joining->items[i].answer.batch;
    piece_join(joining);
}

static void piece_begin(struct joining *joining)
{
    joining->until = joining->from;
    do
        joining->until++;
    while (joining->until < joining->command->count &&
           !follows_its_waiting_job(joining, joining->until));
    for (size_t i = joining->from; i < joining->until; i++) {
        struct joining_item *item = &joining->items[i];
        item->asks = is_member(joining, i) && push_at(joining, i)->batch->parent.len;
        if (item->asks)
            item->call = (struct queue_batch_call){.verb = QUEUE_BATCH_LEASE,
                                                   .topic = push_at(joining, i)->batch->topic,
                                                   .id = push_at(joining, i)->batch->id,
                                                   .lease = push_at(joining, i)->batch->parent};
    }
    step_send(joining, parents_found);
}

/* ---- any push ---- */

static bool has_memory(const struct joining *joining)
{
    return joining->command && joining->items && joining->calls && joining->asked &&
           joining->leaving && joining->results;
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
                                .items = calloc(command->count, sizeof *joining->items),
                                .calls = calloc(command->count, sizeof *joining->calls),
                                .asked = calloc(command->count, sizeof *joining->asked),
                                .leaving = leaving_new(sharded, command->count),
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
        joining->items[i].batch = *pushes[i].batch;
        joining->items[i].batch.number = 0;
        pushes[i].batch = &joining->items[i].batch;
    }
    piece_begin(joining);
}
