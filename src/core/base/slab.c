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
    free(slab->rooms);
    *slab = (struct slab){.item_bytes = slab->item_bytes};
}

/* Doubles the room for chunks. */
static bool slab_grow_tables(struct slab *slab)
{
    uint32_t cap = slab->chunk_cap ? slab->chunk_cap * 2 : CHUNK_CAP_FIRST;
    char **chunks = realloc(slab->chunks, cap * sizeof *chunks);
    if (!chunks)
        return false;
    slab->chunks = chunks;
    struct slab_room *rooms = realloc(slab->rooms, cap * sizeof *rooms);
    if (!rooms)
        return false;
    slab->rooms = rooms;
    slab->chunk_cap = cap;
    return true;
}

static bool slab_add_chunk(struct slab *slab)
{
    if (slab->chunk_count > UINT32_MAX >> SLAB_CHUNK_BITS)
        return false; /* no ids left */
    if (slab->chunk_count == slab->chunk_cap && !slab_grow_tables(slab))
        return false;
    /* A small slab touches as little memory as it needs; a larger one benefits from large pages. */
    char *chunk = pages_take(chunk_bytes(slab), slab->chunk_count > 0);
    if (!chunk)
        return false;
    /* Id 0 is never used. */
    slab->rooms[slab->chunk_count] = (struct slab_room){.used = slab->chunk_count == 0};
    slab->chunks[slab->chunk_count++] = chunk;
    return true;
}

static bool has_room(const struct slab_room *room)
{
    return room->free_head || room->used < SLAB_CHUNK_ITEMS;
}

/* Adds an item to this chunk, which has room. Reuses a removed item before a new one. */
static uint32_t add_to(struct slab *slab, uint32_t chunk)
{
    struct slab_room *room = &slab->rooms[chunk];
    uint32_t id = room->free_head;

    if (id) {
        char *item = slab_at(slab, id);
        memcpy(&room->free_head, item, sizeof room->free_head);
        memset(item, 0, sizeof room->free_head);
    } else {
        id = chunk << SLAB_CHUNK_BITS | room->used++;
    }
    if (chunk == slab->spare)
        slab->spare = 0;
    room->live++;
    slab->live++;
    if (id > slab->top)
        slab->top = id;
    return id;
}

uint32_t slab_add(struct slab *slab)
{
    while (slab->lowest < slab->chunk_count && !has_room(&slab->rooms[slab->lowest]))
        slab->lowest++;
    if (slab->lowest == slab->chunk_count && !slab_add_chunk(slab))
        return 0;
    return add_to(slab, slab->lowest);
}

void slab_remove(struct slab *slab, uint32_t id)
{
    assert(id != 0 && id <= slab->top && slab->live > 0);
    uint32_t chunk = id >> SLAB_CHUNK_BITS;
    struct slab_room *room = &slab->rooms[chunk];
    char *item = slab_at(slab, id);

    assert(room->live > 0);
    if (chunk < slab->lowest)
        slab->lowest = chunk;
    slab->live--;
    if (--room->live == 0 && chunk > 0) {
        if (slab->spare) {
            pages_forget(slab->chunks[chunk], chunk_bytes(slab));
            *room = (struct slab_room){0};
            return;
        }
        slab->spare = chunk;
    }
    /* Zero it now, so that slab_add need not, and so that a scan over 1..top sees nothing of the
     * old item. */
    memset(item, 0, slab->item_bytes);
    memcpy(item, &room->free_head, sizeof room->free_head);
    room->free_head = id;
}

uint64_t slab_spare_bytes(const struct slab *slab)
{
    uint64_t items = 0;
    for (uint32_t i = 0; i < slab->chunk_count; i++)
        if (slab->chunks[i])
            items += slab->rooms[i].used - slab->rooms[i].live;
    return items * slab->item_bytes;
}
