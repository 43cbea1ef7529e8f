/*
 * marks: how far each shard of a data directory is known to have come, beside the shards themselves.
 *
 * DIR/MARKS holds two copies in turn; the whole one of the higher generation counts. It is written
 * after each start, at most every few seconds while jobs come, and at a stop, and names for each shard the
 * newest epoch of its log and a batch that was synced. A log that has neither is older than the rest
 * of the directory, or lost its end: without the marks that would look like a crash.
 *
 * It vouches for nothing else: where it is missing or damaged, a directory opens as it is. Plain
 * data and its file. Errors: negative errno.
 */
#ifndef TARRY_STORE_MARKS_H
#define TARRY_STORE_MARKS_H

#include "store/fs.h"
#include "store/manifest.h"

struct marks {
    uint64_t generation; /* rises with every writing; 0: none was written */
    char store[DATADIR_NAME_BYTES + 1];
    uint32_t shards;
    struct marks_shard {
        uint64_t epoch;  /* 0: the shard was never opened */
        uint64_t synced; /* a batch of its log */
    } shard[DATADIR_SHARDS_MAX];
};

/* 0; -ENOENT: there are none; -EBADMSG: damaged. */
int marks_read(const struct fs *fs, const char *dir, struct marks *out);
/* Writes and syncs the generation they say over the older copy. */
int marks_write(const struct fs *fs, const char *dir, const struct marks *marks);

/* The same for whoever writes them often: in a file that stays open, and nothing is written once
 * somebody else has written into it, or put another file in its place. */
struct marks_file {
    int fd; /* -1: it is not open */
    struct fs_stamp stamp;
};
int marks_open(const struct fs *fs, const char *dir, struct marks_file *file);
/* -ESTALE: the file is not what was written last. */
int marks_put(const struct fs *fs, struct marks_file *file, const struct marks *marks);
void marks_close(const struct fs *fs, struct marks_file *file);

#endif
