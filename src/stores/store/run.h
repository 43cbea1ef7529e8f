/*
 * run: an immutable file of jobs that outlived the log: written once, in the order in which they
 * come up.
 *
 * DIR/run/00000001.run: a header, then the records (job/record.h: JOB, or DONE where an id is
 * remembered) each followed by a checksum of it and its slot, then the directory (24 bytes a slot:
 * when, sequence, offset, topic), the topics' names, and a footer that says where all of that is.
 * Everything but the records is in blocks of 4 KiB with a checksum each. A file without a whole
 * footer is no run. Slots are ordered by section (job/section.h), when, sequence.
 *
 * Which slots still count is not the run's to know (alive.h, catalog.h).
 *
 * Threads: an open run never changes; any number of threads may read it. With a `fs` whose
 * descriptors are for one thread at a time, so are they. Errors: negative errno; -EBADMSG: what is
 * there is damaged.
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
    uint64_t offset; /* of its record in the file */
    uint32_t bytes;  /* of its record, without checksum */
    uint32_t topic;  /* number within the run */
};

struct run_info {
    uint32_t number;
    uint32_t slots;
    uint64_t file_bytes;
    uint64_t record_bytes; /* of all records with their checksums, without padding */
    struct run_info_section {
        uint32_t first, count; /* slots */
        int64_t first_when_ms; /* 0 where there are none */
    } sections[SECTIONS];
    uint32_t topics;
};

/* ---- writing [helper] ---- */

struct run_writer;

struct run_writing {
    const struct fs *fs;
    const char *dir; /* DIR/run; exists */
    uint32_t number; /* from 1 */
    uint64_t seed;   /* for the checksums: the data directory's */
    /* Stretches in which everything comes up at this time or later do not stay in the page cache:
     * nobody reads them soon, and the cache's memory serves the next ones. 0: all stay. */
    int64_t cold_ms;
    /* NULL, or called after every few hundred KiB: may sleep to leave the disk to others. Negative:
     * give up. */
    int (*pace)(void *ctx, size_t bytes);
    void *ctx;
};

int run_writer_new(const struct run_writing *writing, struct run_writer **out);
/* In the order of part, when, sequence (asserted). `record` is the stored form of a JOB or DONE.
 * Its slot is the number of calls before. After an error all that follow, and run_writer_finish,
 * give it again. -EFBIG: more than a run can hold (1 TiB, 16 million topics). */
int run_writer_add(struct run_writer *writer, enum job_section section, int64_t when_ms,
                   uint64_t sequence, struct slice topic, struct slice record);
/* Writes what is left, syncs the file every few MiB and at the end, gives it its name, syncs the
 * directory. Frees the writer in any case; what failed leaves no file behind if it can help it. */
int run_writer_finish(struct run_writer *writer, struct run_info *out);
void run_writer_abandon(struct run_writer *writer);

/* ---- reading ---- What nobody reads may be damaged: run_check_unread. */

/* Reads footer and topics, and the header where the footer makes no sense. `error` says what is
 * wrong and where. -EBADMSG: damaged; -EPROTONOSUPPORT: written by a newer version; -ENOENT and
 * others from the file system. */
int run_open(const struct fs *fs, const char *dir, uint32_t number, uint64_t seed, struct run **out,
             char *error, size_t error_bytes);
void run_close(struct run *run);
const struct run_info *run_info(const struct run *run);
enum job_section run_section_of(const struct run *run, uint32_t slot);
/* UINT32_MAX: none of its jobs is of that topic. */
uint32_t run_find_topic(const struct run *run, struct slice topic);
struct slice run_topic_name(const struct run *run, uint32_t number);

/* The directory's entries from `first` on. may_block false: -EAGAIN instead of waiting for the
 * disk. */
int run_slots(const struct run *run, uint32_t first, uint32_t count, bool may_block,
              struct run_slot *out);
/* The record of a slot, copied to `scratch` (what was there goes). `bytes`: its length; another one
 * is damage; 0: whatever the directory says. A slot there is none of is damage too. */
int run_read(const struct run *run, uint32_t slot, uint32_t bytes, bool may_block,
             struct buffer *scratch, struct slice *out);
/* The first slot of [first, end) whose when is not below `when_ms`; `end` where there is none. They
 * lie in one section. */
int run_seek(const struct run *run, uint32_t first, uint32_t end, int64_t when_ms, uint32_t *out);

/* Calls `each` with the place of the first byte that is not what was written in each stretch that
 * nobody reads: nothing is lost with it, but the disk does not keep what it is given. Negative:
 * some could not be read, the others were looked at. [helper] */
int run_check_unread(const struct run *run, void (*each)(void *ctx, uint64_t at), void *ctx);

/*
 * Goes over the slots of [first, end), in large reads. `wants` decides by the directory alone: 1
 * the record is read and given to `each`, 0 not, negative: stop before this slot. `each` returning
 * false: stop behind it. *next is where to go on. The record's slice is good during the call only.
 * Record reads are merged where they lie near each other, so `wants` runs ahead of `each`: it may
 * have been asked about slots behind the one where `each` stopped, and will be again. A record that
 * is damaged or cannot be read is given as an empty slice. Negative where the directory is damaged
 * or cannot be read at *next: what comes before was given; run_after_damage is behind it.
 */
struct run_scan {
    uint32_t first, end;
    int (*wants)(void *ctx, uint32_t slot, const struct run_slot *entry);
    bool (*each)(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice record);
    void *ctx;
};
int run_scan(const struct run *run, const struct run_scan *scan, uint32_t *next);
/* Where the next block of the directory begins, or where the slots end. */
uint32_t run_after_damage(const struct run *run, uint32_t slot);

/* Gives back the disk space of the records of [first, end) where whole blocks of 4 KiB lie in them.
 * The directory stays; the records read as damaged from then on. Doing it again with a wider range
 * is fine and gives the blocks between the two. *freed: about how many bytes; 0 where the file
 * system cannot. [helper] Not beside another run_punch of the same run. */
int run_punch(const struct run *run, uint32_t first, uint32_t end, uint64_t *freed);
int64_t run_disk_bytes(const struct run *run); /* what it takes on the disk now, holes left out */
void run_file_name(uint32_t number, char out[32]);
uint32_t run_file_number(const char *name); /* of "00000012.run"; 0: something else */

#endif
