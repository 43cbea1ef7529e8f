/*
 * arena: the memory of one decoded message, freed as a whole.
 *
 * A message of repeated empty fields becomes a hundred times as large when it is decoded, so the memory is limited by
 * the length of the message and a constant. Small messages use the arena's own bytes.
 */
#ifndef TARRY_GRPC_ARENA_H
#define TARRY_GRPC_ARENA_H

#include "base/slice.h"

#include <protobuf-c/protobuf-c.h>

struct arena_block;

struct arena {
    ProtobufCAllocator allocator;
    size_t used, limit; /* bytes given out, and their maximum */
    size_t own_used;
    struct arena_block *blocks; /* memory beyond `own` */
    bool is_full;               /* the limit was met */
    _Alignas(16) char own[8 * 1024];
};

/* Prepares the arena for one message of this length. */
void arena_init(struct arena *arena, size_t message_bytes);
void arena_fini(struct arena *arena);
/* Returns memory that lives as long as the arena, or NULL. */
void *arena_alloc(struct arena *arena, size_t bytes);

#endif
