/*
 * run_private: declarations shared by the files of a run. Included only by run*.c and fsck*.c.
 *
 *   run          topic names, checksums, header and footer; opening; information about the run; the
 *                parts that are never read
 *   run_write    the writer
 *   run_read     reading slots and records individually and in large reads; punching
 *
 * The file, in blocks of RUN_BLOCK_BYTES:
 *   header      1 block: the format, and a copy of the footer
 *   records     consecutive from block 1 on: the record, 4 bytes of checksum. After the last one
 *               zeros to the end of the block
 *   directory   RUN_BLOCK_SLOTS entries per block: u64 when | group << 48, u64 sequence | group >> 16
 *               << 56, u64 offset | topic << 40; after them u64 end of the block's last record
 *   topics      u8 length and name of each; one stream across the blocks
 *   footer      1 block
 * The last 8 bytes of every block except those of records are its checksum.
 *
 * Changes in parts that are never read lose no job: the header (it identifies newer formats, and is
 * used if the footer is damaged or truncated), and the zeros after the last record, entry, topic
 * and figure. Bytes after the footer are ignored.
 */
#ifndef TARRY_STORE_RUN_PRIVATE_H
#define TARRY_STORE_RUN_PRIVATE_H

#include "store/run.h"

#include <assert.h>
#include <limits.h>

enum {
    RUN_FORMAT = 1,
    RUN_BLOCK_BYTES = 4096,
    RUN_BLOCK_ROOM = RUN_BLOCK_BYTES - 8, /* before the checksum */
    RUN_ENTRY_BYTES = 24,
    RUN_BLOCK_SLOTS = 170,
    RUN_ENTRIES_BYTES =
        RUN_BLOCK_SLOTS * RUN_ENTRY_BYTES, /* followed by the end of the last record */
    RUN_CHECK_BYTES = 4,                   /* after every record */
    RUN_OFFSET_BITS = 40,
    RUN_RECORD_BYTES_MAX = 1 << 30,
    RUN_TOPIC_BYTES_MAX = 255
};
_Static_assert(RUN_ENTRIES_BYTES + 8 == RUN_BLOCK_ROOM, "a block of the directory is full");

#define RUN_FILE_BYTES_MAX (UINT64_C(1) << RUN_OFFSET_BITS)
#define RUN_TOPICS_MAX (UINT32_C(1) << (64 - RUN_OFFSET_BITS))

/* ---- topics ---- */

struct run_topics {
    struct buffer names; /* lengths and names, as stored */
    uint32_t *at;        /* position of each name in `names` */
    uint32_t count, cap;
    uint32_t *table; /* numbers plus 1, by hash; 0: free */
    uint32_t table_cap;
};

void run_topics_init(struct run_topics *topics);
void run_topics_fini(struct run_topics *topics);
struct slice run_topics_name(const struct run_topics *topics, uint32_t number);
/* Returns the number of the topic, or UINT32_MAX if it is not found. */
uint32_t run_topics_find(const struct run_topics *topics, struct slice name);
/* Finds or adds a topic. Returns 0, -ENOMEM, or -EFBIG if there are too many. */
int run_topics_add(struct run_topics *topics, struct slice name, uint32_t *number);
/* Parses the stored topics; `bytes` are those of the stream. Returns 0, -ENOMEM or -EBADMSG. */
int run_topics_parse(struct run_topics *topics, struct slice bytes, uint32_t count);

/* ---- blocks, header and footer ---- */

/* Contents of a footer, and values derived from them. */
struct run_footer {
    struct run_info info;
    uint64_t record_end; /* end of the last record's checksum */
    uint64_t directory_at, topics_at;
    uint32_t topic_bytes;
};

struct run {
    const struct fs *fs;
    char *dir;
    uint64_t seed;
    int fd;
    struct run_footer footer;
    struct run_topics topics;
};

static inline uint64_t run_round_up(uint64_t bytes)
{
    return (bytes + (RUN_BLOCK_BYTES - 1)) & ~(uint64_t)(RUN_BLOCK_BYTES - 1);
}

static inline uint32_t run_directory_blocks(uint32_t slots)
{
    return slots / RUN_BLOCK_SLOTS + (slots % RUN_BLOCK_SLOTS != 0);
}

static inline uint64_t run_topic_blocks(uint32_t topic_bytes)
{
    return ((uint64_t)topic_bytes + RUN_BLOCK_ROOM - 1) / RUN_BLOCK_ROOM;
}

/* Computes the position of each part from slots, topic_bytes and record_end. */
void run_footer_lay_out(struct run_footer *footer);

/* Sets the checksum. `offset`: of the block in the file. */
void run_block_seal(uint64_t seed, uint32_t number, uint64_t offset, char *block);
/* Checks the checksum as if the bytes [from, to) were zeros. These bytes are never read and were
 * written as zeros, so changes in them are ignored. */
bool run_block_holds(uint64_t seed, uint32_t number, uint64_t offset, const char *block,
                     size_t from, size_t to);
uint32_t run_record_check(uint64_t seed, uint32_t number, uint32_t slot, struct slice record);

/* Encodes the header. footer NULL: not known yet. */
void run_header_encode(uint64_t seed, uint32_t number, const struct run_footer *footer,
                       char *block);
void run_footer_encode(uint64_t seed, const struct run_footer *footer, char *block);
/* Decodes a footer. Returns false if it is damaged or its values are inconsistent. */
bool run_footer_decode(uint64_t seed, uint32_t number, uint64_t file_bytes, const char *block,
                       struct run_footer *out);

void run_path(const char *dir, const char *name, const char *suffix, char out[PATH_MAX]);

#endif
