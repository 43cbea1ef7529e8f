/*
 * keys: an immutable table that maps a job's key to its slot, for the jobs of one or more runs.
 *
 * DIR/run/00000001.keys: blocks of 4 KiB, each with a checksum, of entries sorted by hash, run and
 * slot (a hash is the low half of the job's key); then a filter (filter.h), which is read into RAM;
 * then the first hash of each block ("fences", 0.03 bytes per entry), read into RAM with the
 * filter; then a footer. A lookup usually takes one read. Until the fences are read, the block is
 * estimated from the hash, since hashes are evenly distributed; then a lookup usually takes two
 * reads.
 *
 * An entry is a hint: its slot may be dead, its run removed, or its job another one with the same
 * hash. The caller must check the record. So tables can be merged at any time independently of
 * everything else.
 *
 * Threads and errors as in run.h.
 */
#ifndef TARRY_STORE_KEYS_H
#define TARRY_STORE_KEYS_H

#include "store/filter.h"
#include "store/fs.h"

struct keys;

struct keys_entry {
    uint64_t hash;
    uint32_t run, slot;
};

struct keys_writing {
    const struct fs *fs;
    const char *dir;
    uint32_t number;
    uint64_t seed;
    uint64_t entries_max;
    int (*pace)(void *ctx, size_t bytes); /* as in run.h */
    void *ctx;
};

/* ---- writing [helper] ---- */
struct keys_writer;
int keys_writer_new(const struct keys_writing *writing, struct keys_writer **out);
/* Adds an entry. Entries must be added in order. */
int keys_writer_add(struct keys_writer *writer, const struct keys_entry *entry);
/* Works as run_writer_finish. */
int keys_writer_finish(struct keys_writer *writer);
void keys_writer_abandon(struct keys_writer *writer);

/* Merges `tables` into a new table in steps. Between the steps any thread may read the tables.
 * Omits entries for which `keeps` returns false. entries_max: an upper bound for the number of kept
 * entries. It determines the memory used while merging; if far fewer are kept, the filter of the
 * new table is smaller. */
struct keys_merger;
int keys_merger_new(const struct keys_writing *writing, struct keys *const *tables, size_t count,
                    bool (*keeps)(void *ctx, const struct keys_entry *entry), void *ctx,
                    struct keys_merger **out);
/* Merges at most `entries` entries. Returns 1 if there is more to do, 0 if the table is complete,
 * or a negative errno if the merge has failed. */
int keys_merger_step(struct keys_merger *merger, uint64_t entries);
/* Returns the number of entries in the new table. */
uint64_t keys_merger_kept(const struct keys_merger *merger);
/* Frees the merger. An incomplete table leaves no file behind. NULL is allowed. */
void keys_merger_free(struct keys_merger *merger);

/* ---- reading ---- */
/* Opens a table. Reads only the footer. */
int keys_open(const struct fs *fs, const char *dir, uint32_t number, uint64_t seed,
              struct keys **out, char *error, size_t error_bytes);
void keys_close(struct keys *keys);
uint64_t keys_count(const struct keys *keys);
uint64_t keys_file_bytes(const struct keys *keys);
uint32_t keys_number(const struct keys *keys);
/* [helper] Reads the filter. Until it is read, keys_maybe returns true. May run concurrently with
 * keys_maybe on another thread. */
int keys_load_filter(struct keys *keys);
bool keys_has_filter(const struct keys *keys);
bool keys_maybe(const struct keys *keys, uint64_t hash);
void keys_prefetch(const struct keys *keys, uint64_t hash);
/* Finds at most `max` entries with this hash. Returns their number or a negative errno. */
int keys_find(const struct keys *keys, uint64_t hash, bool may_block, struct keys_entry *out,
              size_t max);
/* An iterator over all entries in order, for fsck and merging; start with `next` = 0.
 * keys_cursor_next returns 1, 0 at the end, or a negative errno. */
struct keys_cursor {
    const struct keys *keys;
    char *block; /* a few hundred KiB of the file, owned */
    uint64_t next;
    struct keys_entry last; /* the previous entry; -EBADMSG if entries do not ascend */
};
int keys_cursor_next(struct keys_cursor *cursor, struct keys_entry *out);
void keys_cursor_fini(struct keys_cursor *cursor);
void keys_file_name(uint32_t number, char out[32]);
uint32_t keys_file_number(const char *name);

#endif
