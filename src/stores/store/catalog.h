/*
 * catalog: the list of the files that count in a shard's directory. It is the only commit point for
 * runs, key tables, the alive slots in them, and the start of the log.
 *
 * DIR/run/CATALOG-00000012 is written completely under a temporary name, synced and renamed, and
 * the directory is synced. Then a second copy is written as CATALOG-00000012.2, which is used if
 * the first copy is damaged or missing. Then older catalogs are removed. The newest intact catalog
 * counts. If the newest is damaged and there is no older one, opening fails. The format is binary,
 * with a format version and a checksum. Bytes after its length are ignored.
 *
 * The state of a shard is: the runs that the catalog names, minus the slots that it marks dead,
 * with the log replayed on top from `log_first` on.
 *
 * File layout: magic, format, its own length, the fields in the order of the structs below, and
 * finally a checksum of everything before it. Magic, format and checksum keep their positions in
 * all future formats, so that a newer format can be distinguished from damage. Little-endian.
 *
 * `dir` is DIR/run and exists. The module is plain data and its file; it has no threads. Errors are
 * as in run.h, and -EPROTONOSUPPORT for a newer format.
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
    uint32_t keys; /* number of the table that holds its keys */
    uint32_t alive_count;
    uint64_t record_bytes; /* total size of the records of alive slots */
    char *alive;           /* alive_bytes(slots) bytes as written by alive_save, owned */
};

/* Contents of the runs for one topic: alive slots by section, whether or not their jobs are in
 * RAM. */
struct catalog_topic {
    struct slice name; /* owned */
    uint64_t stored[SECTIONS];
    uint64_t dead_bytes; /* total size of the records of SECTION_DEAD */
    uint64_t kept_bytes; /* and of SECTION_KEPT */
};

struct catalog {
    uint64_t generation; /* increases with every write; 0: never written */
    uint64_t seed;       /* for the checksums of runs and tables; generated once */
    struct store_identity identity;
    uint32_t next_run; /* this and higher numbers were never committed */
    uint32_t next_keys;
    uint32_t log_first; /* the oldest log file that counts; 0: as the log itself records it */
    uint64_t log_first_sequence; /* sequence of the first batch in that file */
    int64_t inner_ms, wall_ms;   /* time of writing */
    struct catalog_run *runs;    /* ascending by number */
    uint32_t run_count;
    uint32_t *keys; /* numbers of tables, ascending */
    uint32_t key_count;
    struct catalog_topic *topics;
    uint32_t topic_count;
};

/* Frees the contents. Also accepts a zeroed catalog. */
void catalog_fini(struct catalog *catalog);

/* Reads the newest intact catalog. Returns 0, -ENOENT if no catalog exists (a directory without
 * runs), or -EBADMSG if it is damaged. *damaged is the number of newer, unreadable catalogs that
 * were skipped (a crash does not leave any, because catalogs have another name until they are
 * complete). A catalog that cannot be read for a reason other than damage (memory, an I/O error, a
 * newer format) is never skipped. */
int catalog_read(const struct fs *fs, const char *dir, struct catalog *out, uint32_t *damaged,
                 char *error, size_t error_bytes);
/* Works as catalog_read, but treats catalogs of another identity as damaged. */
int catalog_read_of(const struct fs *fs, const char *dir, const struct store_identity *identity,
                    struct catalog *out, uint32_t *damaged, char *error, size_t error_bytes);
/* Writes the catalog durably as its `generation`, then its second copy, which may fail, then
 * removes older catalogs. Returns 0 or a negative errno. On failure *is_fatal is true if the
 * catalog may have reached the disk nevertheless (a sync failed), so that it is unknown which
 * catalog counts. Returns -EBADMSG, without writing, for a catalog that catalog_read would
 * reject. */
int catalog_write(const struct fs *fs, const char *dir, const struct catalog *catalog,
                  bool *is_fatal);
/* Appends the stored form, for tests and fuzzing. The encoding is canonical: decoded bytes encode
 * to the same bytes again. Returns false if out of memory. */
bool catalog_encode(const struct catalog *catalog, struct buffer *out);
int catalog_decode(struct slice bytes, struct catalog *out);
/* Returns what catalog_decode would return. */
int catalog_check(struct slice bytes);
void catalog_file_name(uint64_t generation, char out[32]);
void catalog_copy_name(uint64_t generation, char out[32]);
/* Returns the generation in the name of either copy, or 0 if it is not the name of a catalog. */
uint64_t catalog_file_generation(const char *name);
/* Checks whether one copy of a catalog is intact and returns its identity. Accepts the name of
 * either copy. Returns 0, -ENOENT, -EBADMSG or another negative errno. */
int catalog_look(const struct fs *fs, const char *dir, const char *name,
                 struct store_identity *identity);

#endif
