/*
 * run: an immutable file of jobs that outlived the log, written once, in the order in which they
 * become due.
 *
 * DIR/run/00000001.run: a header; then the records (job/record.h: JOB, or DONE for a remembered
 * id), each followed by a checksum of it and its slot; then the directory (24 bytes per slot: when,
 * sequence, offset, topic, group); the names of the topics; and a footer that locates these parts.
 * Everything except the records is in blocks of 4 KiB with a checksum each. A file without an
 * intact footer is not a run. Slots are ordered by section (job/section.h), when and sequence.
 *
 * A run does not record which of its slots still count (alive.h, catalog.h).
 *
 * Threads: an open run never changes, and any number of threads may read it. If the descriptors of
 * `fs` are limited to one thread at a time, so is the run. Errors: negative errno; -EBADMSG for
 * damage.
 */
#ifndef TARRY_STORE_RUN_H
#define TARRY_STORE_RUN_H

#include "base/buffer.h"
#include "job/section.h"
#include "store/fs.h"

struct run;

struct run_slot {
    int64_t when_ms;
    uint64_t sequence;
    uint64_t offset; /* position of its record in the file */
    uint32_t bytes;  /* size of its record, without checksum */
    uint32_t topic;  /* number within the run */
    uint32_t group;  /* flow_group_mark of its job */
};

/* Bits of the due time and the sequence in a slot. The 24 bits that are left are the mark of the group. */
enum { RUN_WHEN_BITS = 48, RUN_SEQUENCE_BITS = 56 };

struct run_info {
    uint32_t number;
    uint32_t slots;
    uint64_t file_bytes;
    uint64_t record_bytes; /* total size of all records including checksums, without padding */
    struct run_info_section {
        uint32_t first, count; /* slots */
        int64_t first_when_ms; /* 0 if the section is empty */
    } sections[SECTIONS];
    uint32_t topics;
};

/* ---- writing [helper] ---- */

struct run_writer;

struct run_writing {
    const struct fs *fs;
    const char *dir; /* DIR/run; exists */
    uint32_t number; /* from 1 */
    uint64_t seed;   /* for the checksums; from the data directory */
    /* Ranges in which everything becomes due at this time or later do not stay in the page cache:
     * they are not read soon, and the cache can hold the following ranges instead. 0: everything
     * stays. */
    int64_t cold_ms;
    /* NULL, or called after every few hundred KiB; may sleep to leave disk bandwidth to others. A
     * negative result cancels the writing. */
    int (*pace)(void *ctx, size_t bytes);
    void *ctx;
};

int run_writer_new(const struct run_writing *writing, struct run_writer **out);
/* Adds a record. Calls must be in the order of section, when and sequence (asserted). `record` is
 * the stored form of a JOB or DONE; `group` is the flow_group_mark of its job. Its slot is the number
 * of previous calls. After an error, all following calls and run_writer_finish return the same error. -EFBIG: more than a run can hold (1
 * TiB, 16 million topics). */
int run_writer_add(struct run_writer *writer, enum job_section section, int64_t when_ms,
                   uint64_t sequence, struct slice topic, uint32_t group, struct slice record);
/* Writes the rest, syncs the file every few MiB and at the end, gives it its name, and syncs the
 * directory. Always frees the writer. After a failure it leaves no file behind if possible. */
int run_writer_finish(struct run_writer *writer, struct run_info *out);
void run_writer_abandon(struct run_writer *writer);

/* ---- reading ---- Damage in unread parts is not detected here: see run_check_unread. */

/* Opens a run. Reads the footer and the topics, and the header if the footer is invalid. `error`
 * describes what is wrong and where. Returns -EBADMSG if it is damaged, -EPROTONOSUPPORT if a newer
 * version wrote it, or -ENOENT and other errors of the file system. */
int run_open(const struct fs *fs, const char *dir, uint32_t number, uint64_t seed, struct run **out,
             char *error, size_t error_bytes);
void run_close(struct run *run);
const struct run_info *run_info(const struct run *run);
enum job_section run_section_of(const struct run *run, uint32_t slot);
/* Returns the topic's number, or UINT32_MAX if the run has no job of that topic. */
uint32_t run_find_topic(const struct run *run, struct slice topic);
struct slice run_topic_name(const struct run *run, uint32_t number);

/* Reads the directory's entries from `first` on. Returns -EAGAIN instead of waiting for the disk if
 * may_block is false. */
int run_slots(const struct run *run, uint32_t first, uint32_t count, bool may_block,
              struct run_slot *out);
/* Reads the record of a slot into `scratch`, replacing its contents. `bytes`: the expected length,
 * any other is damage; 0: as in the directory. A slot beyond the last is also damage. */
int run_read(const struct run *run, uint32_t slot, uint32_t bytes, bool may_block,
             struct buffer *scratch, struct slice *out);
/* Finds the first slot of [first, end) whose when is not below `when_ms`, or returns `end`. The
 * slots must be in one section. */
int run_seek(const struct run *run, uint32_t first, uint32_t end, int64_t when_ms, uint32_t *out);

/* [helper] Calls `each` with the position of the first modified byte in each range that is never
 * read. Such damage loses no data but shows that the disk does not keep what is written. Returns a
 * negative errno if some ranges could not be read; the others were still checked. */
int run_check_unread(const struct run *run, void (*each)(void *ctx, uint64_t at), void *ctx);

/*
 * Iterates over the slots of [first, end) in large reads. `wants` decides from the directory only:
 * 1 reads the record and passes it to `each`, 0 skips it, a negative result stops before this slot.
 * If `each` returns false, the scan stops after the slot. *next is the slot to continue with. The
 * record's slice is valid only during the call. Reads of nearby records are merged, so `wants` runs
 * ahead of `each`: it may have been called for slots after the one at which `each` stopped, and is
 * called for them again in the next scan. A record that is damaged or cannot be read is passed as
 * an empty slice. Returns a negative errno if the directory is damaged or cannot be read at *next:
 * all slots before it were processed, and run_after_damage returns the slot to continue with.
 */
struct run_scan {
    uint32_t first, end;
    int (*wants)(void *ctx, uint32_t slot, const struct run_slot *entry);
    bool (*each)(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice record);
    void *ctx;
};
int run_scan(const struct run *run, const struct run_scan *scan, uint32_t *next);
/* Returns the first slot of the next block of the directory, or the end of the slots. */
uint32_t run_after_damage(const struct run *run, uint32_t slot);

/* [helper] Releases the disk space of the records of [first, end), in complete blocks of 4 KiB. The
 * directory stays; the records read as damaged afterwards. Calling it again with a wider range is
 * allowed and also releases the blocks between the two ranges. *freed: the approximate number of
 * bytes; 0 if the file system does not support it. Must not run concurrently with another run_punch
 * of the same run. */
int run_punch(const struct run *run, uint32_t first, uint32_t end, uint64_t *freed);
/* Returns the space on disk now, without holes. */
int64_t run_disk_bytes(const struct run *run);
void run_file_name(uint32_t number, char out[32]);
/* Returns the number of "00000012.run"; 0: not a run. */
uint32_t run_file_number(const char *name);

#endif
