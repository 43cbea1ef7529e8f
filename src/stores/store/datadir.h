/*
 * datadir: the directory a server owns: its lock, and what was fixed when it was made.
 *
 * It is held by its descriptor, with all directories below it (fs_dir.h), and locked (flock): the
 * directory itself, so that nothing that happens to files lets another one in, and
 *
 *   DIR/LOCK        which versions before locked alone; holds the process's number
 *   DIR/MANIFEST    what the directory is (manifest.h). Replaced whole (temporary file, fsync,
 *                   rename, directory fsync), never edited
 *   DIR/MARKS       how far each shard had come (marks.h)
 *   DIR/shard-00/   one per shard, made before the manifest: a manifest whose shards are not all
 *                   there, or are more, is refused
 */
#ifndef TARRY_STORE_DATADIR_H
#define TARRY_STORE_DATADIR_H

#include "base/hash.h"
#include "store/fs.h"
#include "store/manifest.h"

/* Of how many shards a job's key belongs to: by its high half, since the low one finds the bucket
 * within the shard. */
static inline uint32_t datadir_shard_of(struct hash128 key, uint32_t shards)
{
    return (uint32_t)(((key.high >> 32) * shards) >> 32);
}

/* A file that says: a backup which was not completed. */
#define DATADIR_INCOMPLETE "INCOMPLETE"

struct datadir;

/*
 * Opens and locks DIR, making it (0700) and its manifest where missing. `shards` 0: whatever the directory has (1 where new); else it must agree. 0 or
 * negative errno; `error` then says what and what to do: locked by another server (with its pid),
 * not writable, a different number of shards, a newer format, a manifest that cannot be read or
 * whose shards are not those that are there, a backup that was not completed, a directory that
 * belongs to somebody else or may be written by others.
 */
int datadir_open(const char *path, uint32_t shards, struct datadir **out,
                 struct datadir_manifest *manifest, char *error, size_t error_bytes);
/* As datadir_open for reading only: no file is made or changed; still refuses a directory in use.
 * Directories of shards may be missing. For fsck. */
int datadir_open_existing(const char *path, struct datadir **out, struct datadir_manifest *manifest,
                          char *error, size_t error_bytes);
/* Writes the manifest anew (boot id and offset), in this version's format. 0 or negative errno.
 * -ESTALE: another one has taken its place. */
int datadir_write(struct datadir *datadir, const struct datadir_manifest *manifest);
const char *datadir_path(const struct datadir *datadir);
void datadir_shard_path(const struct datadir *datadir, uint32_t shard, char *out, size_t out_bytes);
/* The files below it, from the descriptors that are held. As long as the directory is open. */
const struct fs *datadir_fs(const struct datadir *datadir);
void datadir_close(struct datadir *datadir);
/* In a child that was forked: lets go of the locks that it has inherited, which the parent keeps. Nothing else can be
 * done with it there. */
void datadir_leave(struct datadir *datadir);

#endif
