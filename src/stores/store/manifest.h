/*
 * manifest: the text of DIR/MANIFEST, which says what a data directory is.
 *
 * A line `key=value` for each field, in the order of the struct, and a last line with the checksum
 * of all before it. A text is valid only if emitting what was read gives the same bytes: each field
 * is present once, nothing else is, and no bit can change unnoticed. Pure.
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
    uint32_t format; /* a newer one than DATADIR_FORMAT is refused */
    uint32_t shards;
    uint64_t hash_seed;
    char boot_id[37];       /* of the last start; empty: none was completed */
    int64_t boot_offset_ms; /* inner clock minus boot time at the last start */
    int64_t skew_ms; /* wall clock minus inner clock, when it was last known; never too low */
    /* The store's own, in hex: drawn once, and kept by every copy. */
    char name[DATADIR_NAME_BYTES + 1];
    bool is_opened; /* a start was completed: every shard has a log */
    /* Of a directory whose server goes by a test clock: where that began, and its inner time when it was last
     * known. 0: an ordinary one, in whose text there is nothing of it, so that a version which knows of no
     * test clock refuses the others. */
    int64_t test_start_ms, test_inner_ms;
    bool is_new; /* just made; not in the text */
};

/* Writes the text of its format. Returns its length, below MANIFEST_BYTES_MAX. */
size_t manifest_emit(const struct datadir_manifest *manifest, char out[MANIFEST_BYTES_MAX]);

/* 0; -EBADMSG: it is no manifest, or damaged; -EPROTONOSUPPORT: of a newer format, which alone is
 * then in *out. */
int manifest_parse(struct slice text, struct datadir_manifest *out);

/* Draws the store's name. */
void manifest_draw_name(struct datadir_manifest *manifest);

#endif
