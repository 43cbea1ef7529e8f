#include "local/admission.h"

#include "base/hash.h"
#include "base/log.h"
#include "local/checkpoint.h"
#include "local/command.h"
#include "queue/copy.h"
#include "queue/traits.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES_MAX = 8 }; /* per command: keys looked up on the loop, in memory */
enum { KEYS_MAX = 2 * QUEUE_BATCH_MAX };

/* Keys that no cold job has while the view is of this generation: a job becomes cold only by a
 * checkpoint, which changes the view. */
struct absent {
    uint64_t generation;
    bool is_all; /* the command's jobs were neither in memory nor found: its keys do not exist */
    size_t count;
    struct hash128 keys[];
};

/* A command that waits for room in the log. */
struct parked {
    struct list list;
    struct command *command;
    struct queue_reply_to reply_to;
    struct absent *absent; /* NULL: nothing known */
};

/* ---- parked: commands that wait for room in the log, or for a checkpoint ---- */

/* Parks a command. Takes ownership of the copy (NULL: out of memory) and `absent`. */
static void command_park(struct shard *shard, struct list *where, struct command *copy,
                         struct queue_reply_to reply_to, struct absent *absent)
{
    struct parked *parked = malloc(sizeof *parked);
    if (!parked || !copy) {
        free(parked);
        free(copy);
        free(absent);
        completion_status_soon(shard, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    *parked = (struct parked){.command = copy, .reply_to = reply_to, .absent = absent};
    list_add_last(where, &parked->list);
}

/* Counts the topics of a push that begins to wait among those held, or no longer does. */
static void count_held(struct shard *shard, const struct command *command, bool begins)
{
    for (size_t i = 0; i < command->count; i++) {
        struct slice topic = command->pushes[i].topic;
        shard->held_topics[hash_64(topic.at, topic.len) % SHARD_HELD_TOPICS] += begins ? 1 : -1U;
    }
}

/* Returns whether no push that waits has a topic of this one, whose order must be kept. */
static bool may_overtake(const struct shard *shard, const struct command *command)
{
    for (size_t i = 0; i < command->count; i++) {
        struct slice topic = command->pushes[i].topic;
        if (shard->held_topics[hash_64(topic.at, topic.len) % SHARD_HELD_TOPICS])
            return false;
    }
    return true;
}

/* Returns about how many bytes the command adds to the log. */
static size_t push_bytes(const struct command *command)
{
    enum { BESIDE = 64 };
    size_t bytes = 0;
    for (size_t i = 0; i < command->count; i++)
        bytes += command->pushes[i].body.len + command->pushes[i].meta.len + BESIDE;
    return bytes;
}

/* Returns whether the command only ends pushes of members, which is not stored. */
static bool ends_pushes(const struct command *command)
{
    return command->kind == COMMAND_BATCH && (command->batches[0].verb == QUEUE_BATCH_LEAVE ||
                                              command->batches[0].verb == QUEUE_BATCH_VERSION);
}

/* Returns QUEUE_OK, or the reason for refusing the command: its own status or the state of the
 * shard. */
static enum queue_status command_refusal(const struct shard *shard, const struct command *command)
{
    if (command->status != QUEUE_OK)
        return command->status;
    if (shard->broken)
        return QUEUE_UNAVAILABLE;
    return shard->moved && command_acts(command) && !ends_pushes(command) ? QUEUE_DIRECTORY_MOVED
                                                                          : QUEUE_OK;
}

/*
 * ---- lookup: commands for jobs that may be cold wait until the scout has looked them up ----
 *
 * Before a command is executed, each of its keys is looked up in memory, then in the filters. If a
 * filter matches, the command waits while the scout looks on the disk. The jobs that it finds are
 * loaded, and then the command is executed as if they had always been in memory.
 */

static void command_resume(struct shard *shard, struct command *command,
                           struct queue_reply_to reply_to, struct absent *absent);

struct lookup_key {
    struct hash128 key;
    int found; /* the result of depot_find */
    struct depot_hit hit;
};

struct lookup {
    struct work work;
    struct shard *shard;
    struct command *command;
    struct queue_reply_to reply_to;
    struct depot_view *view;
    struct buffer records;
    bool knew; /* a job of the command was in memory */
    size_t count;
    struct lookup_key keys[];
};

/* Returns whether an earlier lookup has shown that no cold job has this key. */
static bool key_is_absent(const struct absent *absent, const struct shard *shard,
                          struct hash128 key)
{
    if (!absent || absent->generation != depot_view(shard->depot)->generation)
        return false;
    for (size_t i = 0; i < absent->count; i++)
        if (absent->keys[i].low == key.low && absent->keys[i].high == key.high)
            return true;
    return false;
}

/* Writes the keys of the jobs that are not in memory, and of the `once` of pushes, at most KEYS_MAX, and returns their
 * number. */
static size_t absent_keys(const struct shard *shard, const struct command *command,
                          struct hash128 *out, bool *knew)
{
    bool knows[KEYS_MAX];
    size_t named = 0, count = 0;
    const size_t name_count = command_name_count(command);
    for (size_t i = 0; i < name_count; i++) {
        struct queue_find name = command_name(command, i);
        const struct queue_push *push = command->kind == COMMAND_PUSH ? &command->pushes[i] : NULL;
        if (!push || !push->id_is_made) /* else no job can have this name yet */
            out[named++] = engine_key(shard->engine, name.topic, name.id);
        if (push && push->once.len)
            out[named++] = engine_once_key(shard->engine, name.topic, push->once);
    }
    engine_know(shard->engine, out, named, knows);
    for (size_t i = 0; i < named; i++)
        if (knows[i])
            *knew = true;
        else
            out[count++] = out[i];
    return count;
}

/* Keeps the keys that must be looked up on the disk and returns their number. Checks the filters of
 * a key while the memory of the next one is prefetched: the processor has no room for more. If a
 * filter errs, as for one key in some hundred, tables in memory refute the match immediately. */
static size_t unknown_keys(struct shard *shard, const struct absent *absent, struct hash128 *keys,
                           size_t count)
{
    size_t unknown = 0, tries = TRIES_MAX;
    if (count)
        depot_prefetch(shard->depot, keys[0]);
    for (size_t i = 0; i < count; i++) {
        struct hash128 key = keys[i];
        if (i + 1 < count)
            depot_prefetch(shard->depot, keys[i + 1]);
        if (!depot_maybe(shard->depot, key) || key_is_absent(absent, shard, key))
            continue;
        if (!tries || !depot_is_absent(shard->depot, key))
            keys[unknown++] = key;
        else
            counter_add(&shard->tally.filter_misses, 1);
        tries -= tries > 0;
    }
    return unknown;
}

/* ---- on the scout ---- */

static void lookup_on_scout(struct work *work)
{
    struct lookup *lookup = (struct lookup *)(void *)work;
    for (size_t i = 0; i < lookup->count; i++) {
        struct lookup_key *key = &lookup->keys[i];
        key->found = depot_find(lookup->view, lookup->shard->options.hash_seed, key->key,
                                &lookup->records, &key->hit);
    }
}

static void lookup_free(struct lookup *lookup)
{
    if (lookup->view)
        depot_let_go(lookup->view);
    buffer_fini(&lookup->records);
    free(lookup->command);
    free(lookup);
}

/* Loads the jobs that were found. Returns QUEUE_OK, or the reason why the command cannot be
 * executed. */
static enum queue_status lookup_load_found(struct lookup *lookup)
{
    struct shard *shard = lookup->shard;
    struct engine_now now = shard_now(shard);
    for (size_t i = 0; i < lookup->count; i++) {
        const struct lookup_key *key = &lookup->keys[i];
        int failed = key->found < 0 ? key->found : 0;
        if (key->found == 1)
            failed = shard_load(shard,
                                slice_make(lookup->records.at + key->hit.at, key->hit.place.bytes),
                                key->hit.place, now);
        if (failed && failed != -ENOENT) {
            log_event(LOG_ERROR, "job cannot be looked up",
                      LOG_NUMBER("shard", shard->options.index),
                      LOG_TEXT("error", strerror(-failed)));
            return failed == -ENOMEM ? QUEUE_NO_MEMORY : QUEUE_UNAVAILABLE;
        }
    }
    return QUEUE_OK;
}

/* Returns what this lookup has shown, for the next one. NULL: out of memory. */
static struct absent *lookup_absent(const struct lookup *lookup)
{
    struct absent *absent = malloc(sizeof *absent + lookup->count * sizeof absent->keys[0]);
    if (!absent)
        return NULL;
    absent->generation = lookup->view->generation;
    absent->is_all = !lookup->knew;
    absent->count = 0;
    for (size_t i = 0; i < lookup->count; i++)
        if (lookup->keys[i].found != 0)
            absent->is_all = false; /* in memory now, and may leave it again */
        else
            absent->keys[absent->count++] = lookup->keys[i].key;
    return absent;
}

static void lookup_count(const struct lookup *lookup)
{
    struct shard_tally *tally = &lookup->shard->tally;
    for (size_t i = 0; i < lookup->count; i++) {
        if (lookup->keys[i].found == 1)
            counter_add(&tally->lookups_found, 1);
        else if (lookup->keys[i].found == 0)
            counter_add(&tally->lookups_absent, 1);
    }
}

/* Continues after the lookup: loads the jobs that were found and executes the command. */
static void lookup_on_back(struct work *work)
{
    struct lookup *lookup = (struct lookup *)(void *)work;
    struct shard *shard = lookup->shard;
    lookup_count(lookup);
    enum queue_status status = shard->broken ? QUEUE_UNAVAILABLE : lookup_load_found(lookup);
    struct absent *absent = status == QUEUE_OK ? lookup_absent(lookup) : NULL;
    shard->lookups--;
    if (status == QUEUE_OK && !absent)
        status = QUEUE_NO_MEMORY;
    if (status != QUEUE_OK) {
        completion_status_soon(shard, status, lookup->reply_to);
    } else {
        command_resume(shard, lookup->command, lookup->reply_to, absent);
        lookup->command = NULL;
    }
    lookup_free(lookup);
}

static struct lookup *lookup_new(struct shard *shard, const struct command *command,
                                 const struct hash128 *keys, size_t count)
{
    struct lookup *lookup = calloc(1, sizeof *lookup + count * sizeof lookup->keys[0]);
    if (!lookup)
        return NULL;
    lookup->shard = shard;
    lookup->count = count;
    for (size_t i = 0; i < count; i++)
        lookup->keys[i].key = keys[i];
    buffer_init(&lookup->records, SIZE_MAX / 2);
    lookup->view = depot_hold(shard->depot);
    lookup->command = lookup->view ? copy_command(command) : NULL;
    if (lookup->command)
        return lookup;
    lookup_free(lookup);
    return NULL;
}

/* Returns true if the command (copied) waits and is executed later, or false if it is to be
 * executed now. `absent` (may be NULL) is the result of an earlier lookup and stays the
 * caller's. */
static bool lookup_wants(struct shard *shard, const struct command *command,
                         struct queue_reply_to reply_to, const struct absent *absent)
{
    struct hash128 keys[KEYS_MAX];
    if (depot_view(shard->depot)->run_count == 0)
        return false;
    assert(command_name_count(command) <= QUEUE_BATCH_MAX);
    bool knew = false;
    if (absent && absent->is_all && absent->generation == depot_view(shard->depot)->generation)
        return false;
    size_t count = absent_keys(shard, command, keys, &knew);
    count = unknown_keys(shard, absent, keys, count);
    if (!count)
        return false;
    struct lookup *lookup = lookup_new(shard, command, keys, count);
    if (!lookup) {
        completion_status_soon(shard, QUEUE_NO_MEMORY, reply_to);
        return true;
    }
    lookup->reply_to = reply_to;
    lookup->knew = knew;
    lookup->work.perform = lookup_on_scout;
    lookup->work.done = lookup_on_back;
    shard->lookups++;
    worker_give(shard->scout, &lookup->work);
    return true;
}

static void command_resume(struct shard *shard, struct command *command,
                           struct queue_reply_to reply_to, struct absent *absent)
{
    if (!lookup_wants(shard, command, reply_to, absent) &&
        command_run(shard, command, reply_to) == -EAGAIN) {
        command_park(shard, &shard->parked, command, reply_to, absent);
        return;
    }
    free(command);
    free(absent);
}

/*
 * ---- large_push: a batch of pushes that is larger than one batch of the log ----
 *
 * Small log files (--wal-file) have small batches, and a valid call may be larger. It is executed
 * in pieces that fit, one after the other, and answered once, when the last piece is durable.
 */

struct large_push {
    struct shard *shard;
    struct queue_reply_to reply_to;
    struct command *command; /* a copy, which contains the topics and ids of the results */
    size_t done;             /* items with a result */
    struct queue_result results[];
};

/* Returns whether the command is such a batch. */
static bool large_push_is(const struct shard *shard, const struct command *command)
{
    size_t bytes = 0;
    if (command->kind != COMMAND_PUSH || command->count < 2)
        return false;
    for (size_t i = 0; i < command->count; i++)
        bytes += engine_room_push(&command->pushes[i]);
    return bytes > wal_room_max(shard->wal);
}

/* Returns how many of the next items fit into one batch of the log; at least one. */
static size_t large_push_items(const struct large_push *push)
{
    size_t room = wal_room_max(push->shard->wal), bytes = 0, items = 0;
    const struct queue_push *next = push->command->pushes + push->done;
    for (size_t left = push->command->count - push->done; items < left; items++) {
        bytes += engine_room_push(&next[items]);
        if (bytes > room && items)
            break;
    }
    return items;
}

static void large_push_finish(struct large_push *push)
{
    struct queue_reply reply = {.results = push->results, .result_count = push->command->count};
    push->reply_to.done(push->reply_to.owner, push->reply_to.tag, &reply);
    free(push->command);
    free(push);
}

static void large_push_send(struct large_push *push);

/* Handles the result of a piece. If a piece is refused as a whole, the items before it keep their
 * results and the rest is refused with the same status. */
static void large_push_piece_done(void *owner, uint64_t items, const struct queue_reply *reply)
{
    struct large_push *push = owner;
    bool is_refused = reply->result_count != items;
    size_t until = is_refused ? push->command->count : push->done + items;
    for (size_t i = 0; push->done < until; i++, push->done++) {
        struct queue_result *result = &push->results[push->done];
        if (is_refused)
            result->status = reply->status;
        else
            *result = reply->results[i];
        result->topic = push->command->pushes[push->done].topic;
        result->id = push->command->pushes[push->done].id;
    }
    if (push->done < push->command->count)
        large_push_send(push);
    else
        large_push_finish(push);
}

/* Submits the next piece as a separate call. */
static void large_push_send(struct large_push *push)
{
    struct command piece = {.kind = COMMAND_PUSH,
                            .count = large_push_items(push),
                            .checks =
                                push->command->checks ? push->command->checks + push->done : NULL,
                            .pushes = push->command->pushes + push->done};
    shard_submit(
        push->shard, &piece,
        (struct queue_reply_to){.done = large_push_piece_done, .owner = push, .tag = piece.count});
}

/* Starts a large push. Copies the command. Ends in one reply with a result for each item. */
static void large_push_start(struct shard *shard, const struct command *command,
                             struct queue_reply_to reply_to)
{
    struct large_push *push =
        calloc(1, sizeof *push + command->count * sizeof(struct queue_result));
    struct command *copy = copy_command(command);
    if (!push || !copy) {
        free(push);
        free(copy);
        completion_status_soon(shard, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    *push = (struct large_push){.shard = shard, .reply_to = reply_to, .command = copy};
    large_push_send(push);
}

/* ---- submitting ---- */

/* Returns whether a push must wait for a checkpoint that is behind. It does not delay other
 * commands. */
static bool push_is_held(struct shard *shard, const struct command *command)
{
    if (command->kind != COMMAND_PUSH)
        return false;
    size_t bytes = push_bytes(command);
    if (list_is_empty(&shard->held) && checkpoint_takes(shard->checkpoint, bytes))
        return false;
    return !may_overtake(shard, command) || !checkpoint_takes_small(shard->checkpoint, bytes);
}

/* Makes a push wait for a checkpoint. */
static void push_hold(struct shard *shard, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct command *copy = copy_command(command);
    const struct list *last = shard->held.prev;
    command_park(shard, &shard->held, copy, reply_to, NULL);
    if (shard->held.prev != last)
        count_held(shard, copy, true);
}

void shard_submit(struct shard *shard, const struct command *command,
                  struct queue_reply_to reply_to)
{
    enum queue_status refused = command_refusal(shard, command);
    shard->submitted++;
    shard->activity += command_acts(command);
    if (refused != QUEUE_OK)
        completion_status_soon(shard, refused, reply_to);
    else if (shard->stopping)
        completion_status_soon(shard, QUEUE_STOPPING, reply_to);
    else if (large_push_is(shard, command))
        large_push_start(shard, command, reply_to);
    else if (push_is_held(shard, command))
        push_hold(shard, command, reply_to);
    else if (!list_is_empty(&shard->parked))
        command_park(shard, &shard->parked, copy_command(command), reply_to, NULL);
    else if (!lookup_wants(shard, command, reply_to, NULL) &&
             command_run(shard, command, reply_to) == -EAGAIN)
        command_park(shard, &shard->parked, copy_command(command), reply_to, NULL);
}

/* Executes a parked command. Returns false if it must wait for room. */
static bool parked_admit(struct shard *shard, struct parked *first)
{
    enum queue_status refused = command_refusal(shard, first->command);
    if (refused != QUEUE_OK)
        completion_status_soon(shard, refused, first->reply_to);
    else if (!lookup_wants(shard, first->command, first->reply_to, first->absent) &&
             command_run(shard, first->command, first->reply_to) == -EAGAIN)
        return false;
    list_remove(&first->list);
    free(first->command);
    free(first->absent);
    free(first);
    return true;
}

/* Returns whether the rest must wait for the next iteration, which then follows. */
static bool share_has_ended(struct shard *shard, const struct reactor_share *share)
{
    bool is_over = reactor_share_is_over(share);
    if (is_over)
        reactor_iterate_again(shard->reactor);
    return is_over;
}

void admission_step(struct shard *shard)
{
    if (list_is_empty(&shard->parked) && list_is_empty(&shard->held))
        return;
    struct reactor_share share = reactor_share_begin();
    while (!list_is_empty(&shard->parked)) {
        if (!parked_admit(shard, list_entry(shard->parked.next, struct parked, list)))
            return;
        if (share_has_ended(shard, &share))
            return;
    }
    while (!list_is_empty(&shard->held)) {
        struct parked *first = list_entry(shard->held.next, struct parked, list);
        bool takes = shard->broken || shard->moved ||
                     checkpoint_takes(shard->checkpoint, push_bytes(first->command));
        if (!takes)
            return;
        count_held(shard, first->command, false);
        if (!parked_admit(shard, first)) {
            count_held(shard, first->command, true);
            return;
        }
        if (share_has_ended(shard, &share))
            return;
    }
}
