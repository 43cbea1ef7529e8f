#include "grpc/held.h"

#include "base/hash.h"
#include "base/vector.h"

#include <stdlib.h>

bool held_add(struct held *held, struct slice lease, uint64_t end)
{
    if (lease.len > QUEUE_LEASE_TEXT_BYTES_MAX)
        return false;
    if (held->count == HELD_MAX) {
        held->count--;
        memmove(held->leases, held->leases + 1, held->count * sizeof *held->leases);
    }
    if (held->count == held->cap) {
        struct held_lease *grown =
            vector_grow(held->leases, sizeof *grown, held->count + 1, &held->cap);
        if (!grown)
            return false;
        held->leases = grown;
    }
    struct held_lease *new = &held->leases[held->count++];
    new->hash = hash_64(lease.at, lease.len);
    new->end = end;
    new->len = (uint8_t)lease.len;
    memcpy(new->text, lease.at, lease.len);
    return true;
}

void held_remove(struct held *held, struct slice lease)
{
    uint64_t hash = hash_64(lease.at, lease.len);
    for (size_t i = 0; i < held->count; i++) {
        if (held->leases[i].hash != hash || !slice_equals(held_text(&held->leases[i]), lease))
            continue;
        held->count--;
        memmove(&held->leases[i], &held->leases[i + 1], (held->count - i) * sizeof *held->leases);
        return;
    }
}

void held_cut(struct held *held, uint64_t written)
{
    size_t kept = 0;
    for (size_t i = 0; i < held->count; i++)
        if (held->leases[i].end <= written)
            held->leases[kept++] = held->leases[i];
    held->count = kept;
}

void held_fini(struct held *held)
{
    free(held->leases);
    *held = (struct held){0};
}
