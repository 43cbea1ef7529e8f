/*
 * datadir: the directory a server owns: its lock, and what was fixed when it was made.
 *
 *   DIR/LOCK        held exclusively (flock) while a server runs
 *   DIR/MANIFEST    text, key=value a line: format version, shards, hash seed, boot id and clock
 * offset of the last start, how far the clocks were apart. Replaced whole (temporary file, fsync,
 * rename, directory fsync), never edited DIR/shard-00/   one per shard
 */
#ifndef TARRY_STORE_DATADIR_H
#define TARRY_STORE_DATADIR_H

#include "store/fs.h"

/* A file that says: a backup which was not completed. */
#define DATADIR_INCOMPLETE "INCOMPLETE"

struct datadir;

struct datadir_manifest {
    uint32_t format; /* DATADIR_FORMAT; a newer one is refused */
    uint32_t shards;
    uint64_t hash_seed;
    char boot_id[37];       /* of the last start */
    int64_t boot_offset_ms; /* inner clock minus boot time at the last start */
    int64_t skew_ms; /* wall clock minus inner clock, when it was last known; never too low */
    bool is_new;     /* just made */
};

/*
 * 1: the first
 * 2: records may carry a topic's extension, a job's history and when it was taken. A directory of
 *    format 1 is one of format 2 that has none of these: it becomes one when it is opened for
 *    writing, so that a version that cannot read them says so instead of finding damage.
 * 3: jobs lie in runs, too, beside the log, and records name the slots they are about; fewer of the
 *    log's records have a check of their own. A directory of format 2 is one of format 3 that has
 *    none of these yet.
 */
enum { DATADIR_FORMAT = 3, DATADIR_SHARDS_MAX = 64 };

/*
 * Opens and locks DIR, making it (0700) and its manifest where missing, and writing that of an
 * older format anew. `shards` 0: whatever the directory has (1 where new); else it must agree. 0 or
 * negative errno; `error` then says what and what to do: locked by another server (with its pid),
 * not writable, a different number of shards, a newer format, a manifest that cannot be read, a
 * backup that was not completed.
 */
int datadir_open(const char *path, uint32_t shards, struct datadir **out,
                 struct datadir_manifest *manifest, char *error, size_t error_bytes);
/* As datadir_open for reading only: no file is made or changed; still refuses a directory in use.
 * For fsck. */
int datadir_open_existing(const char *path, struct datadir **out, struct datadir_manifest *manifest,
                          char *error, size_t error_bytes);
/* Writes the manifest anew (boot id and offset). 0 or negative errno. */
int datadir_write(struct datadir *datadir, const struct datadir_manifest *manifest);
void datadir_shard_path(const struct datadir *datadir, uint32_t shard, char *out, size_t out_bytes);
void datadir_close(struct datadir *datadir);

#endif
