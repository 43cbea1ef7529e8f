/* The door: what is wrong with a call is found out here, once, and pushes without an id get one. */
#include "queue/check.h"

#include "job/ulid.h"

#include <assert.h>
#include <stdlib.h>

struct queue_door {
    uint64_t body_bytes_max;
    int64_t (*wall_ms)(void);
    struct ulid ulid;
    /* Room for a batch whose ids are made here. */
    struct queue_push pushes[QUEUE_BATCH_MAX];
    char ids[QUEUE_BATCH_MAX][ULID_BYTES];
};

struct queue_door *queue_door_new(uint64_t body_bytes_max, uint64_t seed, int64_t (*wall_ms)(void))
{
    struct queue_door *door = malloc(sizeof *door); /* its room is touched only where it is used */
    if (!door)
        return NULL;
    door->body_bytes_max = body_bytes_max;
    door->wall_ms = wall_ms;
    ulid_init(&door->ulid, seed);
    return door;
}

void queue_door_free(struct queue_door *door)
{
    free(door);
}

static bool has_all_ids(const struct command *command)
{
    for (size_t i = 0; i < command->count; i++)
        if (!command->pushes[i].id.len)
            return false;
    return true;
}

/* A copy of the pushes in which all have an id: which shard a job belongs to depends on it. */
static const struct queue_push *with_ids(struct queue_door *door, const struct command *command)
{
    int64_t wall_ms = door->wall_ms();
    memcpy(door->pushes, command->pushes, command->count * sizeof *command->pushes);
    for (size_t i = 0; i < command->count; i++) {
        if (command->pushes[i].id.len)
            continue;
        ulid_write(&door->ulid, wall_ms, door->ids[i]);
        door->pushes[i].id = slice_make(door->ids[i], ULID_BYTES);
        door->pushes[i].id_is_made = true;
    }
    return door->pushes;
}

static void submit_named(struct queue *queue, const struct command *command,
                         struct queue_reply_to reply_to)
{
    if (command->kind != COMMAND_PUSH || !queue->door || has_all_ids(command)) {
        queue->ops->submit(queue, command, reply_to);
        return;
    }
    struct command named = {.kind = COMMAND_PUSH,
                            .count = command->count,
                            .checks = command->checks,
                            .pushes = with_ids(queue->door, command)};
    queue->ops->submit(queue, &named, reply_to);
}

/* The rare call with something wrong in it, so that others need no room for what that is. */
static __attribute__((noinline)) void submit_faulty(struct queue *queue,
                                                    const struct command *command,
                                                    uint64_t body_bytes_max,
                                                    struct queue_reply_to reply_to)
{
    struct queue_check checks[QUEUE_BATCH_MAX];
    struct command faulty = *command;
    queue_check_note(&faulty, body_bytes_max, checks);
    submit_named(queue, &faulty, reply_to);
}

void queue_submit(struct queue *queue, const struct command *command,
                  struct queue_reply_to reply_to)
{
    uint64_t body_bytes_max = queue->door ? queue->door->body_bytes_max : UINT64_MAX;
    assert(command->count <= QUEUE_BATCH_MAX);
    if (queue_check_command(command, body_bytes_max))
        submit_named(queue, command, reply_to);
    else
        submit_faulty(queue, command, body_bytes_max, reply_to);
}

/* ---- what implementations share ---- */

static int compare_names(const void *a, const void *b)
{
    return slice_compare(((const struct queue_topic *)a)->name,
                         ((const struct queue_topic *)b)->name);
}

void queue_topics_sort(struct queue_topic *topics, size_t count)
{
    if (count)
        qsort(topics, count, sizeof *topics, compare_names);
}
