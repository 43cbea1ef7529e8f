/*
 * slab: items of one size, named by 32-bit ids that are re-used once removed.
 *
 * Id 0 is never given: it means "none". Items live in chunks that never move, so a pointer from
 * slab_at stays good until that item is removed. The lowest chunk with room is filled first; the
 * memory of a chunk all of whose items were removed goes back to the system (but the first one's,
 * and one more's, which may be wanted again at once).
 * Owner: the caller's storage. One thread. What can go wrong: slab_add returns 0 when memory or ids
 * ran out.
 */
#ifndef TARRY_BASE_SLAB_H
#define TARRY_BASE_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 2^17: items of 80 bytes then fill whole pages of 2 MiB. */
enum { SLAB_CHUNK_BITS = 17, SLAB_CHUNK_ITEMS = 1 << SLAB_CHUNK_BITS };

/* Which items of a chunk are free: those never given since its memory was new, and a list. */
struct slab_room {
    uint32_t used;      /* given since then; items behind are zero */
    uint32_t free_head; /* removed ids, linked through their first 4 bytes */
    uint32_t live;
};

struct slab {
    char **chunks;
    struct slab_room *rooms; /* one a chunk */
    uint32_t chunk_count, chunk_cap;
    uint32_t item_bytes; /* at least 4, a multiple of 8 */
    uint32_t top;        /* ids 1..top have been given at some time */
    uint32_t lowest;     /* chunks before it have no room */
    uint32_t spare;      /* an empty chunk that keeps its memory; 0: none */
    uint32_t live;       /* ids in use now */
};

void slab_init(struct slab *slab, size_t item_bytes);
void slab_fini(struct slab *slab);

/* A zeroed item. Returns its id, or 0 when out of memory. */
uint32_t slab_add(struct slab *slab);

/* Takes an id back. The item is zeroed but for its first 4 bytes, so a scan can tell it is
 * nobody's. */
void slab_remove(struct slab *slab, uint32_t id);

/* Of its memory what items had and none has now: it is there for the next ones. */
uint64_t slab_spare_bytes(const struct slab *slab);

static inline void *slab_at(const struct slab *slab, uint32_t id)
{
    return slab->chunks[id >> SLAB_CHUNK_BITS] +
           (size_t)(id & (SLAB_CHUNK_ITEMS - 1)) * slab->item_bytes;
}

#endif
