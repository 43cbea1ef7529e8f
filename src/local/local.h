/*
 * local: the delay queue on this machine: engine and embedded store, one shard per reactor.
 *
 * A shard lives on its reactor's thread. Each reactor has one handle (struct queue); a command goes
 * to the shard of its job by a call where the shard is at home, else as a letter, and the answers
 * are gathered on the reactor that asked.
 */
#ifndef TARRY_LOCAL_LOCAL_H
#define TARRY_LOCAL_LOCAL_H

#include "net/reactor.h"
#include "queue/queue.h"
#include "store/wal.h"

struct local;

struct local_options {
    const char *data_dir;
    uint32_t shards; /* 0: what the directory has */
    enum wal_sync sync;
    int64_t sync_interval_ms;
    uint32_t wal_file_bytes; /* 0: default */
    uint64_t body_bytes_max;
    uint32_t topics_max;
    /* The log broke: every call is answered QUEUE_UNAVAILABLE from now on, and the process should
     * stop. Any shard's thread, maybe more than once. */
    void (*failed)(void *ctx);
    void *failed_ctx;
};

/* Locks the directory and reads its manifest, fixes the inner clock. `*shards` is how many reactors
 * to make. 0 or negative errno with `error`. */
int local_open(const struct local_options *options, struct local **out, uint32_t *shards,
               char *error, size_t error_bytes);

/* On each reactor's own thread or before it runs: recovers shard `index` (may take seconds;
 * `progress` may be NULL) and makes its handle. */
int local_attach(struct local *local, uint32_t index, struct reactor *reactor, struct queue **out,
                 char *error, size_t error_bytes);

/* Any thread, once: no new calls are accepted (QUEUE_STOPPING); what is under way is committed;
 * then `stopped` is called on reactor 0. */
void local_stop(struct local *local, void (*stopped)(void *ctx), void *ctx);

/* Whether the log of any shard broke. Any thread. */
bool local_has_failed(const struct local *local);

/* After all reactors have stopped. */
void local_free(struct local *local);

#endif
