/*
 * handle: one reactor's way to all shards: what fronts get as struct queue. This room only.
 *
 * Each shard is dressed as a queue of its own (shard_queue.c), reached by a call or by letters (route.c). With
 * one shard that is the queue; with several a sharded queue (queue/sharded.h) makes one of them.
 */
#ifndef TARRY_LOCAL_HANDLE_H
#define TARRY_LOCAL_HANDLE_H

#include "local/private.h"
#include "queue/door.h"
#include "queue/sharded.h"
#include "store/datadir.h"

/* The way from a reactor to one shard. */
struct part {
    struct queue queue; /* first: handed out as such */
    struct handle *handle;
    uint32_t shard;
};

struct handle {
    struct local *local;
    struct reactor *reactor;
    uint32_t index; /* of the reactor and of the shard at home here */
    struct part parts[DATADIR_SHARDS_MAX];
    struct sharded *sharded; /* NULL: there is one shard */
    struct queue *queue;     /* of them all */
};

struct local {
    struct local_options options;
    struct datadir *datadir;
    struct datadir_manifest manifest;
    uint32_t shard_count;
    char sync_interval[32]; /* as people write it: "50ms" */
    struct shard *shards[DATADIR_SHARDS_MAX];
    struct handle *handles[DATADIR_SHARDS_MAX];
    atomic_uint attached;      /* shards that have recovered */
    atomic_uint stopping_left; /* shards that have not stopped yet */
    atomic_uint_fast64_t deaf; /* a bit for each handle that is known to have no listener */
    atomic_bool failed;
    struct backups *backups; /* made with the first handle */
    void (*stopped)(void *ctx);
    void *stopped_ctx;
};

/* ---- handle.c ---- */
struct handle *handle_new(struct local *local, uint32_t index, struct reactor *reactor);
void handle_free(struct handle *handle);

/* ---- shard_queue.c ---- */
extern const struct queue_ops part_ops;

/* ---- route.c ---- */
/* Of a part: its shard is called, or sent a letter; the reply comes on the handle's thread, never inside
 * the call. */
void route_submit(struct queue *queue, const struct command *command,
                  struct queue_reply_to reply_to);
/* Turns a shard's news of a topic to this handle on or off. */
void route_watch(struct handle *handle, uint32_t shard, struct slice topic, bool on);
/* On a shard's thread: tell the handles whose bits are set. */
void route_ready(struct local *local, uint32_t shard, struct slice topic, uint64_t reactors);
/* On a shard's thread: tell whoever listens to what happens to topics. */
void route_event(struct local *local, uint32_t shard, enum queue_event event, struct slice topic);
/* A reply without a shard: at the end of this turn. */
void route_refuse(struct handle *handle, enum queue_status status, struct queue_reply_to reply_to);

#endif
