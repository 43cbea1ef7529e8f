/*
 * handle: one reactor's way to all shards: what fronts get as struct queue. This room only.
 *
 * handle.c fills in the table; route.c finds the shard of each item and carries commands and
 * replies between threads; gather_….c join the parts.
 */
#ifndef TARRY_LOCAL_HANDLE_H
#define TARRY_LOCAL_HANDLE_H

#include "job/ulid.h"
#include "local/private.h"
#include "store/datadir.h"

struct handle {
    struct queue queue; /* first: handed out as such */
    struct local *local;
    struct reactor *reactor;
    uint32_t index; /* of the reactor and of the shard at home here */
    struct ulid ulid;
    struct watch_table *watched; /* how often each topic is watched through this handle */
    uint32_t take_from; /* the shard a take asks first; moves on, and to where jobs became ready */
    struct queue_push *pushes; /* scratch for a batch whose ids are made here, QUEUE_BATCH_MAX */
    char (*ids)[ULID_BYTES];
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
    atomic_bool failed;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
};

extern const struct queue_ops handle_ops;

/* ---- route.c ---- */
uint32_t route_of_job(const struct handle *handle, struct slice topic, struct slice id);
/* Sends a command to a shard, here or elsewhere; the reply comes on the handle's thread, never
 * inside the call. */
void route_send(struct handle *handle, uint32_t shard, const struct command *command,
                struct queue_reply_to reply_to);
/* Turns a shard's news of a topic to this handle on or off. */
void route_watch(struct handle *handle, uint32_t shard, struct slice topic, bool on);
/* On a shard's thread: tell the handles whose bits are set. */
void route_ready(struct local *local, uint32_t shard, struct slice topic, uint64_t reactors);
/* A reply without a shard: at the end of this turn. */
void route_refuse(struct handle *handle, enum queue_status status, struct queue_reply_to reply_to);

/* ---- gather.c ---- */
/* Splits a push, answer or change by shard and joins the results in the order of the items. */
void gather_items(struct handle *handle, const struct command *command,
                  struct queue_reply_to reply_to);
/* Asks every shard and joins: list, topic, topics. */
void gather_all(struct handle *handle, const struct command *command,
                struct queue_reply_to reply_to);

/* ---- gather_topic.c ---- */
void gather_pause(struct handle *handle, const struct command *command,
                  struct queue_reply_to reply_to);
/* Of all the dead, at most `max`. */
void gather_redrive(struct handle *handle, const struct command *command,
                    struct queue_reply_to reply_to);

/* ---- gather_take.c ---- */
void gather_take(struct handle *handle, const struct command *command,
                 struct queue_reply_to reply_to);

#endif
