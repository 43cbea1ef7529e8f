/*
 * datadir: the directory that a server owns: its lock, and the properties that were fixed at its
 * creation.
 *
 * The directory and all directories below it are held open by descriptor (fs_dir.h) and locked with
 * flock. The lock is on the directory itself, so no change to the files in it can let a second
 * server in.
 *
 *   DIR/LOCK        the only lock of earlier versions; contains the process id
 *   DIR/MANIFEST    the description of the directory (manifest.h). Replaced as a whole (temporary
 *                   file, fsync, rename, directory fsync), never edited
 *   DIR/MANIFEST.copy  the same text, from the first completed start on. It is read if MANIFEST is
 *                   missing or damaged, and replaced before MANIFEST
 *   DIR/MARKS       the progress of each shard (marks.h)
 *   DIR/shard-00/   one per shard, created before the manifest: a manifest is rejected if
 *                   directories of its shards are missing or if there are more
 */
#ifndef TARRY_STORE_DATADIR_H
#define TARRY_STORE_DATADIR_H

#include "base/hash.h"
#include "store/fs.h"
#include "store/manifest.h"

/* Returns the shard of a job's key out of `shards`. Uses the high half of the key, since the low
 * half selects the bucket within the shard. */
static inline uint32_t datadir_shard_of(struct hash128 key, uint32_t shards)
{
    return hash_share(key, shards);
}

#define DATADIR_MANIFEST_COPY "MANIFEST.copy"
/* A file that marks a backup that was not completed. */
#define DATADIR_INCOMPLETE "INCOMPLETE"

struct datadir;

/*
 * Opens and locks DIR, and creates it (0700) and its manifest if they are missing. `shards` must
 * equal the directory's number of shards; 0 accepts any number, and creates 1 shard in a new
 * directory. Returns 0 or a negative errno. `error` then describes the problem and what to do:
 * locked by another server (with its pid), not writable, a different number of shards, a newer
 * format, a manifest that cannot be read or does not match the existing shards, an incomplete
 * backup, a directory that belongs to another user or is writable by others.
 */
int datadir_open(const char *path, uint32_t shards, struct datadir **out,
                 struct datadir_manifest *manifest, char *error, size_t error_bytes);
/* Rejects a directory of something else, such as a home directory given by mistake, before a file is written into it. */
int datadir_refuse_foreign(const char *path, char *error, size_t error_bytes);
/* Works as datadir_open but read-only: creates and changes no file. Still rejects a directory in
 * use. Directories of shards may be missing. For fsck. */
int datadir_open_existing(const char *path, struct datadir **out, struct datadir_manifest *manifest,
                          char *error, size_t error_bytes);
/* Rewrites the manifest (boot id and offset) in this version's format. Returns 0 or a negative
 * errno; -ESTALE: another directory has taken its place. */
int datadir_write(struct datadir *datadir, const struct datadir_manifest *manifest);
const char *datadir_path(const struct datadir *datadir);
void datadir_shard_path(const struct datadir *datadir, uint32_t shard, char *out, size_t out_bytes);
/* Returns access to the files below the directory through the held descriptors. Valid as long as
 * the directory is open. */
const struct fs *datadir_fs(const struct datadir *datadir);
void datadir_close(struct datadir *datadir);
/* Closes the locks that a forked child has inherited; the parent keeps them. The child cannot use
 * the datadir for anything else. */
void datadir_leave(struct datadir *datadir);

#endif
