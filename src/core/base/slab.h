/*
 * slab: items of one size, identified by 32-bit ids that are reused after removal.
 *
 * Id 0 is never assigned: it means "no item". Items are stored in chunks that never move, so a
 * pointer from slab_at stays valid until that item is removed. The lowest chunk with room is filled
 * first. A chunk is freed when all its items have been removed, except for the first chunk and one
 * more, which may be needed again soon. The caller owns the structure. One thread. slab_add returns
 * 0 when memory or ids run out.
 */
#ifndef TARRY_BASE_SLAB_H
#define TARRY_BASE_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Chunk sizes: with 2^17 items of 80 bytes a chunk fills whole pages of 2 MiB. */
enum { SLAB_CHUNK_BITS = 17, SLAB_CHUNK_ITEMS = 1 << SLAB_CHUNK_BITS };

/* The free items of a chunk: a list, and those not assigned since its memory was allocated. */
struct slab_room {
    uint32_t used;      /* assigned since then; the items after them are zero */
    uint32_t free_head; /* removed ids, linked through their first 4 bytes */
    uint32_t live;
};

struct slab {
    char **chunks;
    struct slab_room *rooms; /* one per chunk */
    uint32_t chunk_count, chunk_cap;
    uint32_t item_bytes; /* at least 4, a multiple of 8 */
    uint32_t top;        /* ids 1..top have been assigned at some time */
    uint32_t lowest;     /* chunks before this one have no room */
    uint32_t spare;      /* an empty chunk that keeps its memory; 0: no such chunk */
    uint32_t live;       /* ids in use now */
};

void slab_init(struct slab *slab, size_t item_bytes);
void slab_fini(struct slab *slab);

/* Adds a zeroed item. Returns its id, or 0 when out of memory. */
uint32_t slab_add(struct slab *slab);

/* Removes an item. Zeroes it except for its first 4 bytes, so that a scan recognizes it as
 * unused. */
void slab_remove(struct slab *slab, uint32_t id);

/* Returns the memory of removed items, which is available for new items. */
uint64_t slab_spare_bytes(const struct slab *slab);

static inline void *slab_at(const struct slab *slab, uint32_t id)
{
    return slab->chunks[id >> SLAB_CHUNK_BITS] +
           (size_t)(id & (SLAB_CHUNK_ITEMS - 1)) * slab->item_bytes;
}

#endif
