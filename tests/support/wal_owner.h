/*
 * wal_owner: a small model of how a shard uses its log, and a check of the recovered content.
 *
 * It pushes jobs, finishes them, writes its topic's record, all by chance from a seed, and
 * remembers every change with its batch. After each opening exactly the changes of the batches up
 * to some one must be there: no fewer than were committed, each body to the byte, nothing else.
 * A difference aborts.
 *
 * Jobs of old files go to a catalog of its own (DIR/CATALOG, durable before the log drops them), and
 * an opening begins at its position.
 */
#ifndef TARRY_TESTS_WAL_OWNER_H
#define TARRY_TESTS_WAL_OWNER_H

#include "store/wal.h"
#include "support/sim_fs.h"

enum { OWNER_JOBS_MAX = 8000, OWNER_CHANGES_MAX = 20000 };

struct owner_change {
    uint64_t sequence;
    enum { OWNER_PUSH = 1, OWNER_DONE, OWNER_TOPIC } kind;
    uint32_t id; /* of a job; the value of the topic */
};

struct wal_owner {
    struct wal_options options;
    struct wal *wal;
    struct wal_found found;
    char error[4096];
    struct random random;
    struct owner_change *changes;
    uint32_t change_count;
    struct record_place *places; /* of live jobs, by id */
    uint32_t jobs;               /* ids 1..jobs were given */
    uint32_t topic_value;
    uint64_t acked;        /* batches up to it were committed: they must stay */
    uint64_t synced_acked; /* those that a sync came after */
    uint32_t live;
    struct owner_checkpoint {
        uint32_t before; /* 0: no batch in progress */
        uint64_t first_sequence, sequence;
        uint32_t *ids; /* live ones whose records lie in older files, or in the catalog */
        uint32_t count;
    } checkpoint;
    bool is_dead; /* unknown which catalog counts */

    uint64_t syncs, refused, checkpoints;
};

/* `options` may leave out clocks and seed. */
void wal_owner_init(struct wal_owner *owner, const struct wal_options *options, uint64_t seed);
void wal_owner_fini(struct wal_owner *owner);

/* Opens and judges: 0 or the error of wal_open. `least`: the batch that must be there. */
int wal_owner_open(struct wal_owner *owner, uint64_t least);
void wal_owner_close(struct wal_owner *owner);

/* The clock that all owners go by. */
extern int64_t wal_owner_ms;

void wal_owner_push(struct wal_owner *owner, size_t body_bytes);
bool wal_owner_finish(struct wal_owner *owner, uint32_t id);
void wal_owner_set_topic(struct wal_owner *owner, uint32_t value);
/* Seal and commit. 0 or negative errno. */
int wal_owner_commit(struct wal_owner *owner);
/* Upkeep where it is wanted. */
int wal_owner_upkeep(struct wal_owner *owner);
/* Makes a step of a checkpoint, if there is one to make of at least `files_min` files: the snapshot;
 * or, once that is synced, the catalog. 0 or negative errno. */
int wal_owner_checkpoint(struct wal_owner *owner, uint32_t files_min);
/* Makes some pushes and ends by chance, then a commit, upkeep and a step of a checkpoint. 0, or the first
 * error that broke the log. */
int wal_owner_step(struct wal_owner *owner);

/* The body of job `id` is made of its id: so many bytes. */
size_t wal_owner_body(uint32_t id, size_t body_bytes, char *into);

#endif
