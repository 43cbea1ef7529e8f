/*
 * marks: the known progress of each shard of a data directory, stored outside the shards.
 *
 * DIR/MARKS holds two copies that are written alternately; the intact copy with the higher
 * generation counts. It is written after each start, at most every few seconds while jobs arrive,
 * and at a stop. For each shard it contains the newest epoch of its log and a batch that was
 * synced. A log that has neither is older than the rest of the directory, or has lost its end;
 * without the marks that would look like a crash.
 *
 * Marks have no other purpose: if the file is missing or damaged, a directory opens without them.
 * The module is plain data and its file. Errors: negative errno.
 */
#ifndef TARRY_STORE_MARKS_H
#define TARRY_STORE_MARKS_H

#include "store/fs.h"
#include "store/manifest.h"

struct marks {
    uint64_t generation; /* increases with every write; 0: never written */
    char store[DATADIR_NAME_BYTES + 1];
    uint32_t shards;
    struct marks_shard {
        uint64_t epoch;  /* 0: the shard was never opened */
        uint64_t synced; /* a batch of its log */
    } shard[DATADIR_SHARDS_MAX];
};

/* Returns 0, -ENOENT if there are no marks, or -EBADMSG if they are damaged. */
int marks_read(const struct fs *fs, const char *dir, struct marks *out);
/* Writes and syncs the marks, with their generation, over the older copy. */
int marks_write(const struct fs *fs, const char *dir, const struct marks *marks);

/* A marks file that stays open, for frequent writes. Nothing is written once another program has
 * written to it or replaced it. */
struct marks_file {
    int fd; /* -1: not open */
    struct fs_stamp stamp;
};
/* Opens or creates the file. Its name may be new: the caller syncs the directory before marks_put. */
int marks_open(const struct fs *fs, const char *dir, struct marks_file *file);
/* Writes the marks. Returns -ESTALE if the file is not what was written last. */
int marks_put(const struct fs *fs, struct marks_file *file, const struct marks *marks);
void marks_close(const struct fs *fs, struct marks_file *file);

#endif
