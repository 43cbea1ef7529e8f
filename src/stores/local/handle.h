/*
 * handle: the structures of local.c, shared with backup.c: all shards, and one reactor's access to
 * them, which fronts receive as struct queue.
 *
 * Each shard is wrapped as a queue (struct part), reached by a call or by letters. With one shard,
 * that is the queue; with several, a sharded queue (queue/sharded.h) combines them.
 */
#ifndef TARRY_LOCAL_HANDLE_H
#define TARRY_LOCAL_HANDLE_H

#include "local/local.h"
#include "local/placement.h"
#include "queue/door.h"
#include "queue/sharded.h"
#include "store/datadir.h"
#include "store/marks.h"

#include <stdatomic.h>

/* A preallocated letter for when there is no memory: it concerns any topic, and is sent once,
 * however often it is posted before it arrives. */
struct any_letter {
    struct letter letter;
    struct part *part;
    enum queue_event event; /* 0: ready jobs */
    atomic_bool is_posted;
};

/* The path from a reactor to one shard. */
struct part {
    struct queue queue; /* first: handed out as such */
    struct handle *handle;
    uint32_t shard;
    struct any_letter watch_any;                 /* to the shard */
    struct any_letter any[QUEUE_EVENT_DEAD + 1]; /* from the shard: ready jobs, events */
};

struct handle {
    struct local *local;
    struct reactor *reactor;
    uint32_t index; /* of the reactor and of its own shard */
    struct part parts[DATADIR_SHARDS_MAX];
    struct sharded *sharded; /* NULL: there is only one shard */
    struct deadline *repeat; /* of its leaves (queue/batch_parts.h) */
    struct queue *queue;     /* of all shards */
};

struct stop_letter {
    struct letter letter;
    struct local *local;
    uint32_t shard;
};

struct local {
    struct local_options options;
    struct feed *feed; /* NULL: events are not reported */
    struct datadir *datadir;
    struct datadir_manifest manifest;
    int64_t skew_ms; /* wall minus inner clock, as last stored; within noise */
    uint32_t shard_count;
    struct placement *placement; /* the topics whose jobs are in one of the shards */
    char sync_interval[32];      /* for display: "50ms" */
    struct shard *shards[DATADIR_SHARDS_MAX];
    struct handle *handles[DATADIR_SHARDS_MAX];
    atomic_uint attached;      /* shards that have recovered */
    atomic_uint stopping_left; /* shards that have not stopped yet */
    atomic_uint_fast64_t deaf; /* one bit for each handle that has no listener */
    atomic_bool failed;
    struct clock own_clock;        /* used with a test clock */
    struct test_clock *test_clock; /* NULL: no test clock */
    struct backups *backups;       /* created with the first handle */
    struct marks marks;            /* as read at the start */
    struct mark_keeper *keeper;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    struct stop_letter stops[DATADIR_SHARDS_MAX];
};

#endif
