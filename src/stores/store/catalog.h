/*
 * catalog: what of a shard's directory counts: the one commit point of runs, tables of keys, what
 * is alive in them, and where the log begins.
 *
 * DIR/run/CATALOG-00000012: written whole under a temporary name, synced, renamed, directory
 * synced; then once more as CATALOG-00000012.2, which counts if the first copy is damaged or gone;
 * then the ones before are removed. The newest whole one counts; where the newest is damaged and no
 * older one is there, opening fails. Binary, with a format version and a checksum. Bytes behind its
 * length are ignored.
 *
 * State of a shard = the runs it names, less the slots it calls dead, and the log from
 * `log_first` on replayed over that.
 *
 * The file: magic, format, its own length, the fields in the order of the structs below, and last a
 * checksum of all before it. Magic, format and checksum lie where they are in every format to come,
 * so that a newer one is told from damage. Little-endian.
 *
 * `dir` is DIR/run and exists. Plain data and its file; no threads of its own. Errors as in run.h,
 * and -EPROTONOSUPPORT: a newer format.
 */
#ifndef TARRY_STORE_CATALOG_H
#define TARRY_STORE_CATALOG_H

#include "base/buffer.h"
#include "job/section.h"
#include "store/fs.h"
#include "store/identity.h"

enum { CATALOG_FORMAT = 1 };

struct catalog_run {
    uint32_t number, slots;
    uint32_t keys; /* number of the table its keys are in */
    uint32_t alive_count;
    uint64_t record_bytes; /* of the alive ones' records */
    char *alive;           /* alive_bytes(slots), own memory; as alive_save */
};

/* What the runs hold of a topic: alive slots by section, whether their jobs are in RAM or not. */
struct catalog_topic {
    struct slice name; /* own memory */
    uint64_t stored[SECTIONS];
    uint64_t dead_bytes; /* records of SECTION_DEAD */
};

struct catalog {
    uint64_t generation; /* rises with every writing; 0: none was ever written */
    uint64_t seed;       /* for the checksums of runs and tables; drawn once */
    struct store_identity identity;
    uint32_t next_run; /* numbers from here on were never committed */
    uint32_t next_keys;
    uint32_t log_first;          /* the log's oldest file that counts; 0: whatever the log says */
    uint64_t log_first_sequence; /* of the first batch in it */
    int64_t inner_ms, wall_ms;   /* when it was written */
    struct catalog_run *runs;    /* numbers rising */
    uint32_t run_count;
    uint32_t *keys; /* numbers of tables, rising */
    uint32_t key_count;
    struct catalog_topic *topics;
    uint32_t topic_count;
};

void catalog_fini(struct catalog *catalog); /* zeroed ones too */

/* The newest that is whole. 0; -ENOENT: there is none (a directory without runs); -EBADMSG:
 * damaged. *damaged: newer ones that are not readable were passed over (a crash leaves none: they
 * have another name until they are whole). One that cannot be read for another reason than damage
 * (memory, an I/O error, a newer format) is never passed over. */
int catalog_read(const struct fs *fs, const char *dir, struct catalog *out, uint32_t *damaged,
                 char *error, size_t error_bytes);
/* The same; those of another identity count as damaged. */
int catalog_read_of(const struct fs *fs, const char *dir, const struct store_identity *identity,
                    struct catalog *out, uint32_t *damaged, char *error, size_t error_bytes);
/* Writes it as the generation it says, durably; then its second copy, which may fail; then removes
 * older ones. 0 or negative errno: then
 * *is_fatal says whether the disk may have got it nevertheless (a sync failed), so that nobody
 * knows what counts. One that catalog_read would refuse is not written: -EBADMSG. */
int catalog_write(const struct fs *fs, const char *dir, const struct catalog *catalog,
                  bool *is_fatal);
/* The stored form, for tests and fuzzing. A content has one: what decodes encodes to the same bytes
 * again. False: out of memory. */
bool catalog_encode(const struct catalog *catalog, struct buffer *out);
int catalog_decode(struct slice bytes, struct catalog *out);
int catalog_check(struct slice bytes); /* what catalog_decode would say */
void catalog_file_name(uint64_t generation, char out[32]);
void catalog_copy_name(uint64_t generation, char out[32]);
uint64_t catalog_file_generation(const char *name); /* of either copy; 0: something else */
/* Whether a copy, which may be either, is whole, and whose it is: 0, -ENOENT, -EBADMSG or another
 * negative errno. */
int catalog_look(const struct fs *fs, const char *dir, const char *name,
                 struct store_identity *identity);

#endif
