#include "grpc/arena.h"

#include <stdlib.h>

enum { ARENA_BYTES_MORE = 2 * 1024 * 1024, ARENA_PART = 3 };

struct arena_block {
    struct arena_block *next;
    size_t pad;
};

static void *own_alloc(struct arena *arena, size_t bytes)
{
    char *at = arena->own + arena->own_used;
    if (bytes > sizeof arena->own - arena->own_used)
        return NULL;
    arena->own_used += bytes;
    return at;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    if (bytes > arena->limit - arena->used || bytes > SIZE_MAX - 64) {
        arena->is_full = true;
        return NULL;
    }
    bytes = (bytes + 15) & ~(size_t)15;
    arena->used += bytes < arena->limit - arena->used ? bytes : arena->limit - arena->used;
    void *own = own_alloc(arena, bytes);
    if (own)
        return own;
    struct arena_block *block = malloc(sizeof *block + bytes);
    if (!block)
        return NULL;
    block->next = arena->blocks;
    arena->blocks = block;
    return block + 1;
}

static void *alloc_for_message(void *data, size_t bytes)
{
    return arena_alloc(data, bytes);
}

static void free_of_message(void *data, void *pointer)
{
    (void)data;
    (void)pointer; /* freed with the arena */
}

void arena_init(struct arena *arena, size_t message_bytes)
{
    arena->allocator = (ProtobufCAllocator){
        .alloc = alloc_for_message, .free = free_of_message, .allocator_data = arena};
    arena->used = arena->own_used = 0;
    arena->limit = ARENA_PART * message_bytes + ARENA_BYTES_MORE;
    arena->blocks = NULL;
    arena->is_full = false;
}

void arena_fini(struct arena *arena)
{
    while (arena->blocks) {
        struct arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}
