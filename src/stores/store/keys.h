/*
 * keys: an immutable table from a job's key to its slot, for the jobs of one run or of many.
 *
 * DIR/run/00000001.keys: blocks of 4 KiB, each with a checksum, of entries sorted by hash, run,
 * slot (a hash is the low half of the job's key); then a filter (filter.h), which is read to RAM;
 * then the first hash of each block ("fences", 0.03 bytes an entry), read to RAM with the filter;
 * then a footer. A hash is found with one read as a rule. Until the fences are read its block is
 * guessed from its value, since hashes are spread evenly: that takes two reads as a rule.
 *
 * An entry is a hint: its slot may be dead, its run gone, its job another of the same hash. Whoever
 * asks looks at the record. So tables can be merged at any time without regard to anything else.
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
int keys_writer_add(struct keys_writer *writer, const struct keys_entry *entry); /* in order */
/* As run_writer_finish. */
int keys_writer_finish(struct keys_writer *writer);
void keys_writer_abandon(struct keys_writer *writer);

/* A new table of what `tables` hold, in steps; between them anybody may read the tables. Entries
 * for which `keeps` says no are left out. entries_max: at least as many as are kept. Memory follows
 * from it while merging; where far fewer are kept the table's filter is the smaller for it. */
struct keys_merger;
int keys_merger_new(const struct keys_writing *writing, struct keys *const *tables, size_t count,
                    bool (*keeps)(void *ctx, const struct keys_entry *entry), void *ctx,
                    struct keys_merger **out);
/* At most so many entries. 1: there is more to do; 0: the table is made; negative: it never will
 * be.
 */
int keys_merger_step(struct keys_merger *merger, uint64_t entries);
/* How many entries it has. */
uint64_t keys_merger_kept(const struct keys_merger *merger);
/* Of a table that is not made nothing stays behind. NULL is fine. */
void keys_merger_free(struct keys_merger *merger);

/* ---- reading ---- */
/* Reads the footer only. */
int keys_open(const struct fs *fs, const char *dir, uint32_t number, uint64_t seed,
              struct keys **out, char *error, size_t error_bytes);
void keys_close(struct keys *keys);
uint64_t keys_count(const struct keys *keys);
uint64_t keys_file_bytes(const struct keys *keys);
uint32_t keys_number(const struct keys *keys);
/* [helper] Reads the filter; until it has, keys_maybe says true. May run beside keys_maybe on
 * another thread. */
int keys_load_filter(struct keys *keys);
bool keys_has_filter(const struct keys *keys);
bool keys_maybe(const struct keys *keys, uint64_t hash);
void keys_prefetch(const struct keys *keys, uint64_t hash);
/* Entries of this hash, at most `max`; returns how many, or negative errno. */
int keys_find(const struct keys *keys, uint64_t hash, bool may_block, struct keys_entry *out,
              size_t max);
/* All entries in their order, for fsck and merging: start with *at = 0. 1, 0 at the end, negative.
 */
struct keys_cursor {
    const struct keys *keys;
    char *block; /* own memory: a few hundred KiB of the file */
    uint64_t next;
    struct keys_entry last; /* given before; -EBADMSG where they do not rise */
};
int keys_cursor_next(struct keys_cursor *cursor, struct keys_entry *out);
void keys_cursor_fini(struct keys_cursor *cursor);
void keys_file_name(uint32_t number, char out[32]);
uint32_t keys_file_number(const char *name);

#endif
