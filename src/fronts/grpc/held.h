/*
 * held: the leases of the jobs that a stream has sent and that are not settled.
 *
 * The caller owns the structure; zeroed: empty. At most HELD_MAX: beyond that, the oldest ones are forgotten. Pure.
 */
#ifndef TARRY_GRPC_HELD_H
#define TARRY_GRPC_HELD_H

#include "queue/queue.h"

enum { HELD_MAX = 10000 };

struct held_lease {
    uint64_t hash;
    uint64_t end; /* of its job in the bytes of the stream */
    uint8_t len;
    char text[QUEUE_LEASE_TEXT_BYTES_MAX];
};

struct held {
    struct held_lease *leases;
    size_t count, cap;
};

/* Adds a lease. Returns false if out of memory: then it is not renewed or ended with the others. */
bool held_add(struct held *held, struct slice lease, uint64_t end);
void held_remove(struct held *held, struct slice lease);
/* Removes the leases of jobs that end after `written`. */
void held_cut(struct held *held, uint64_t written);
void held_fini(struct held *held);

static inline struct slice held_text(const struct held_lease *lease)
{
    return slice_make(lease->text, lease->len);
}

#endif
