#include "base/slab.h"

#include "base/pages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ITEM_BYTES_MAX = 1 << 20, CHUNK_CAP_FIRST = 16 };

void slab_init(struct slab *slab, size_t item_bytes)
{
    assert(item_bytes > 0 && item_bytes <= ITEM_BYTES_MAX);
    *slab = (struct slab){.item_bytes = (uint32_t)((item_bytes + 7) & ~(size_t)7)};
}

static size_t chunk_bytes(const struct slab *slab)
{
    return (size_t)SLAB_CHUNK_ITEMS * slab->item_bytes;
}

void slab_fini(struct slab *slab)
{
    for (uint32_t i = 0; i < slab->chunk_count; i++)
        pages_give(slab->chunks[i], chunk_bytes(slab), i > 0);
    free(slab->chunks);
    *slab = (struct slab){.item_bytes = slab->item_bytes};
}

static bool slab_add_chunk(struct slab *slab)
{
    if (slab->chunk_count == slab->chunk_cap) {
        uint32_t cap = slab->chunk_cap ? slab->chunk_cap * 2 : CHUNK_CAP_FIRST;
        char **chunks = realloc(slab->chunks, cap * sizeof *chunks);
        if (!chunks)
            return false;
        slab->chunks = chunks;
        slab->chunk_cap = cap;
    }
    /* A small slab touches as little as it needs; one that has grown is worth large pages. */
    char *chunk = pages_take(chunk_bytes(slab), slab->chunk_count > 0);
    if (!chunk)
        return false;
    slab->chunks[slab->chunk_count++] = chunk;
    return true;
}

static uint32_t slab_add_reused(struct slab *slab)
{
    uint32_t id = slab->free_head;
    char *item = slab_at(slab, id);

    memcpy(&slab->free_head, item, sizeof slab->free_head);
    memset(item, 0, sizeof slab->free_head);
    slab->live++;
    return id;
}

uint32_t slab_add(struct slab *slab)
{
    if (slab->free_head != 0)
        return slab_add_reused(slab);
    if (slab->top == UINT32_MAX)
        return 0;
    uint32_t id = slab->top + 1;
    if (id >> SLAB_CHUNK_BITS >= slab->chunk_count && !slab_add_chunk(slab))
        return 0;
    slab->top = id;
    slab->live++;
    return id;
}

void slab_remove(struct slab *slab, uint32_t id)
{
    assert(id != 0 && id <= slab->top && slab->live > 0);
    char *item = slab_at(slab, id);

    /* Zeroed now, so that slab_add need not, and so that a scan over 1..top sees nothing of the old
     * item. */
    memset(item, 0, slab->item_bytes);
    memcpy(item, &slab->free_head, sizeof slab->free_head);
    slab->free_head = id;
    slab->live--;
}
