#include "local/lookup.h"

#include "base/log.h"
#include "queue/copy.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES_MAX = 8 }; /* of a command: keys that are looked for on the loop, in memory */

struct lookup_key {
    struct hash128 key;
    int found; /* as depot_find */
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

/* ---- which jobs a command names ---- */

static size_t names_count(const struct command *command)
{
    switch (command->kind) {
    case COMMAND_PUSH:
    case COMMAND_CHANGE:
        return command->count;
    case COMMAND_GET:
        return 1;
    case COMMAND_TOPIC:
        return command->topic.verb == QUEUE_TOPIC_REDRIVE && command->topic.id.len ? 1 : 0;
    case COMMAND_ANSWER: /* leased ones are always in memory */
    case COMMAND_TAKE:
    case COMMAND_LIST:
    case COMMAND_TOPICS:
        return 0;
    }
    return 0;
}

/* False: nobody can have this one. */
static bool name_at(const struct command *command, size_t i, struct slice *topic, struct slice *id)
{
    if (command->kind == COMMAND_PUSH) {
        *topic = command->pushes[i].topic;
        *id = command->pushes[i].id;
        return !command->pushes[i].id_is_made;
    }
    if (command->kind == COMMAND_CHANGE) {
        *topic = command->changes[i].topic;
        *id = command->changes[i].id;
    } else if (command->kind == COMMAND_GET) {
        *topic = command->get.topic;
        *id = command->get.id;
    } else {
        *topic = command->topic.topic;
        *id = command->topic.id;
    }
    return true;
}

static bool is_absent(const struct absent *absent, const struct shard *shard, struct hash128 key)
{
    if (!absent || absent->generation != depot_view(shard->depot)->generation)
        return false;
    for (size_t i = 0; i < absent->count; i++)
        if (absent->keys[i].low == key.low && absent->keys[i].high == key.high)
            return true;
    return false;
}

/* The keys of the jobs that are not in memory; at most QUEUE_BATCH_MAX. */
static size_t absent_keys(const struct shard *shard, const struct command *command,
                          struct hash128 *out, bool *knew)
{
    bool knows[QUEUE_BATCH_MAX];
    size_t named = 0, count = 0;
    for (size_t i = 0; i < names_count(command); i++) {
        struct slice topic, id;
        if (name_at(command, i, &topic, &id))
            out[named++] = engine_key(shard->engine, topic, id);
    }
    engine_know(shard->engine, out, named, knows);
    for (size_t i = 0; i < named; i++)
        if (knows[i])
            *knew = true;
        else
            out[count++] = out[i];
    return count;
}

/* Those of them that must be looked for. Each key's filters are asked while the memory of the
 * next one's comes: for more at a time the processor has no room. Where filters err, as they do
 * for one key in some hundred, the tables say so at once if they are in memory. */
static size_t unknown_keys(const struct shard *shard, const struct absent *absent,
                           struct hash128 *keys, size_t count)
{
    size_t unknown = 0, tries = TRIES_MAX;
    if (count)
        depot_prefetch(shard->depot, keys[0]);
    for (size_t i = 0; i < count; i++) {
        struct hash128 key = keys[i];
        if (i + 1 < count)
            depot_prefetch(shard->depot, keys[i + 1]);
        if (!depot_maybe(shard->depot, key) || is_absent(absent, shard, key))
            continue;
        if (!tries || !depot_is_absent(shard->depot, key))
            keys[unknown++] = key;
        tries -= tries > 0;
    }
    return unknown;
}

/* ---- looking ---- */

static void on_scout(struct work *work)
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

/* Loads what was found. QUEUE_OK, or why the command cannot be carried out. */
static enum queue_status load_found(struct lookup *lookup)
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

static struct absent *absent_of(const struct lookup *lookup)
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

static void on_back(struct work *work)
{
    struct lookup *lookup = (struct lookup *)(void *)work;
    struct shard *shard = lookup->shard;
    enum queue_status status = shard->broken ? QUEUE_UNAVAILABLE : load_found(lookup);
    struct absent *absent = status == QUEUE_OK ? absent_of(lookup) : NULL;
    shard->lookups--;
    if (status == QUEUE_OK && !absent)
        status = QUEUE_NO_MEMORY;
    if (status != QUEUE_OK) {
        completion_status_soon(shard, status, lookup->reply_to);
    } else {
        shard_resume(shard, lookup->command, lookup->reply_to, absent);
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

bool lookup_wants(struct shard *shard, const struct command *command,
                  struct queue_reply_to reply_to, const struct absent *absent)
{
    struct hash128 keys[QUEUE_BATCH_MAX];
    if (depot_view(shard->depot)->run_count == 0)
        return false;
    assert(names_count(command) <= QUEUE_BATCH_MAX);
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
    lookup->work.perform = on_scout;
    lookup->work.done = on_back;
    shard->lookups++;
    worker_give(shard->scout, &lookup->work);
    return true;
}

/* ---- loading ---- */

int shard_load(struct shard *shard, struct slice bytes, struct record_place place,
               struct engine_now now)
{
    struct record record;
    enum job_section section;
    struct record_place moved = depot_moved(shard->depot, place);
    if (!depot_is_alive(shard->depot, moved)) {
        /* It ended where it lies now. Nobody shall find it in the victim again and again. */
        if (depot_is_alive(shard->depot, place))
            depot_release(shard->depot, place, &section);
        return -ENOENT;
    }
    place = moved;
    if (!record_decode(bytes, &record))
        return -EBADMSG;
    /* An id that is remembered no more; nothing was written down when its time ran out. */
    if (record.kind == RECORD_DONE && record.done.remember_until_ms <= now.inner_ms) {
        engine_release_stored(shard->engine, record.done.topic, place);
        return -ENOENT;
    }
    return engine_load(shard->engine, &record, place, now) == ENGINE_NO_MEMORY ? -ENOMEM : 0;
}
