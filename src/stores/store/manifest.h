/*
 * manifest: the text of DIR/MANIFEST, which describes a data directory.
 *
 * One line `key=value` per field, in the order of the struct, and a last line with the checksum of
 * everything before it. A text is valid only if emitting the parsed fields gives the same bytes:
 * each field is present once, there is nothing else, and every changed bit is detected. Does no
 * I/O.
 */
#ifndef TARRY_STORE_MANIFEST_H
#define TARRY_STORE_MANIFEST_H

#include "base/slice.h"
#include "store/identity.h"

#include <stdint.h>

enum {
    DATADIR_FORMAT = 1,
    DATADIR_SHARDS_MAX = 64,
    DATADIR_NAME_BYTES = STORE_NAME_BYTES,
    MANIFEST_BYTES_MAX = 4096
};

struct datadir_manifest {
    uint32_t format; /* values above DATADIR_FORMAT are rejected */
    uint32_t shards;
    uint64_t hash_seed;
    char boot_id[37];       /* boot id of the last start; empty: no start was completed */
    int64_t boot_offset_ms; /* inner clock minus boot time at the last start */
    int64_t skew_ms;        /* wall clock minus inner clock, as last known; never too low */
    /* The store's name, in hex: generated once, and shared by every copy. */
    char name[DATADIR_NAME_BYTES + 1];
    bool is_opened; /* a start was completed: every shard has a log */
    /* For a directory whose server uses a test clock: the start of that clock, and its last known
     * inner time. 0: an ordinary directory, whose text omits both fields, so that a version without
     * test clocks rejects only the others. */
    int64_t test_start_ms, test_inner_ms;
    bool is_new; /* just created; not in the text */
    /* The fault of MANIFEST, which was read from its copy, or of the copy: "is missing".
     * NULL: nothing. Not in the text. */
    const char *fault, *copy_fault;
};

/* Writes the text in the manifest's format. Returns its length, below MANIFEST_BYTES_MAX. */
size_t manifest_emit(const struct datadir_manifest *manifest, char out[MANIFEST_BYTES_MAX]);

/* Parses a text. Returns 0; -EBADMSG if it is damaged or not a manifest; -EPROTONOSUPPORT for a
 * newer format, and then sets only `format` in *out. */
int manifest_parse(struct slice text, struct datadir_manifest *out);

/* Generates the store's name. */
void manifest_draw_name(struct datadir_manifest *manifest);

#endif
