/*
 * run_private: what the files of a run share. Nobody outside run*.c and fsck*.c includes it.
 *
 *   run          the topics' names, checksums, header and footer; opening, what a run says about
 *                itself, and what of it nobody reads
 *   run_write    the writer
 *   run_read     slots and records one by one and in large reads; punching
 *
 * The file, in blocks of RUN_BLOCK_BYTES:
 *   header      1 block: the format, and a copy of the footer
 *   records     back to back from block 1 on: the record, 4 bytes of checksum. Zeros to the block's
 *               end behind the last one
 *   directory   RUN_BLOCK_SLOTS entries a block: u64 when, u64 sequence, u64 offset | topic << 40;
 *               behind them u64 where the block's last record ends
 *   topics      u8 length and the name, each; one stream over the blocks
 *   footer      1 block
 * The last 8 bytes of every block but those of records are its checksum.
 *
 * What is never read costs no job where it was changed: the header (it names newer formats, and
 * counts where the footer is damaged or cut off), and the zeros behind the last record, entry, topic
 * and figure. Bytes behind the footer are ignored.
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
    RUN_ENTRIES_BYTES = RUN_BLOCK_SLOTS * RUN_ENTRY_BYTES, /* the end of the last record follows */
    RUN_CHECK_BYTES = 4,                                   /* behind every record */
    RUN_OFFSET_BITS = 40,
    RUN_RECORD_BYTES_MAX = 1 << 30,
    RUN_TOPIC_BYTES_MAX = 255
};
_Static_assert(RUN_ENTRIES_BYTES + 8 == RUN_BLOCK_ROOM, "a block of the directory is full");

#define RUN_FILE_BYTES_MAX (UINT64_C(1) << RUN_OFFSET_BITS)
#define RUN_TOPICS_MAX (UINT32_C(1) << (64 - RUN_OFFSET_BITS))

/* ---- topics ---- */

struct run_topics {
    struct buffer names; /* as they are stored */
    uint32_t *at;        /* of each in `names` */
    uint32_t count, cap;
    uint32_t *table; /* numbers plus 1 by hash; 0: free */
    uint32_t table_cap;
};

void run_topics_init(struct run_topics *topics);
void run_topics_fini(struct run_topics *topics);
struct slice run_topics_name(const struct run_topics *topics, uint32_t number);
uint32_t run_topics_find(const struct run_topics *topics, struct slice name); /* UINT32_MAX: none */
/* Its number, new or not. 0, -ENOMEM, -EFBIG: there are too many. */
int run_topics_add(struct run_topics *topics, struct slice name, uint32_t *number);
/* What was stored; `bytes` are those of the stream. 0, -ENOMEM, -EBADMSG. */
int run_topics_parse(struct run_topics *topics, struct slice bytes, uint32_t count);

/* ---- blocks, header and footer ---- */

/* What footers say, beside what follows from it. */
struct run_footer {
    struct run_info info;
    uint64_t record_end; /* where the last record's checksum ends */
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

/* Derives from slots, topic_bytes and record_end where everything lies. */
void run_footer_lay_out(struct run_footer *footer);

/* `offset`: of the block in the file. */
void run_block_seal(uint64_t seed, uint32_t number, uint64_t offset, char *block);
/* As before, also where only bytes [from, to) were changed: nobody reads them, and they were
 * written as zeros. */
bool run_block_holds(uint64_t seed, uint32_t number, uint64_t offset, const char *block,
                     size_t from, size_t to);
uint32_t run_record_check(uint64_t seed, uint32_t number, uint32_t slot, struct slice record);

/* footer NULL: it is not known yet. */
void run_header_encode(uint64_t seed, uint32_t number, const struct run_footer *footer,
                       char *block);
void run_footer_encode(uint64_t seed, const struct run_footer *footer, char *block);
/* False: it is not whole, or its figures do not go together. */
bool run_footer_decode(uint64_t seed, uint32_t number, uint64_t file_bytes, const char *block,
                       struct run_footer *out);

void run_path(const char *dir, const char *name, const char *suffix, char out[PATH_MAX]);

#endif
