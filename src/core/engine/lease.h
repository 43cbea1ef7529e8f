/*
 * lease: the token of a lease, as text. Pure.
 *
 * 48 hex digits: low half of the job's key hash under a mask, delivery number (56 bits), shard, and a check of all
 * three under the key of the store. The delivery number rises with every delivery of the shard, also across restarts,
 * so a token names one delivery for ever. A holder of tokens cannot forge further ones.
 */
#ifndef TARRY_ENGINE_LEASE_H
#define TARRY_ENGINE_LEASE_H

#include "base/hex.h"
#include "base/mac.h"
#include "engine/engine.h"

enum {
    LEASE_TEXT_BYTES = 48,
    LEASE_KEY_AT = 0,
    LEASE_DELIVERY_AT = 16,
    LEASE_SHARD_AT = 30,
    LEASE_CHECK_AT = 32,
    LEASE_DELIVERY_DIGITS = 14
};

/* Returns the part of a token that does not depend on the job. */
static inline uint64_t lease_place(uint64_t delivery, uint32_t shard)
{
    return delivery << 8 | shard;
}

/* Returns a mask for the hash half. Hash halves are not shown, because the seed of the hash, a part of the key,
 * might be found from many of them. */
static inline uint64_t lease_mask(const struct mac_key *key, uint64_t place)
{
    return mac_pair(key, place, UINT64_MAX);
}

static inline void lease_write(char out[LEASE_TEXT_BYTES], const struct mac_key *key,
                               const struct engine_lease *lease, uint32_t shard)
{
    uint64_t place = lease_place(lease->delivery, shard);
    hex_emit_u64(out + LEASE_KEY_AT, lease->key_low ^ lease_mask(key, place), 16);
    hex_emit_u64(out + LEASE_DELIVERY_AT, lease->delivery, LEASE_DELIVERY_DIGITS);
    hex_emit_u64(out + LEASE_SHARD_AT, shard, 2);
    hex_emit_u64(out + LEASE_CHECK_AT, mac_pair(key, lease->key_low, place), 16);
}

/* Finds the shard of a token, without a check. False: not the form of a token. */
static inline bool lease_find_shard(struct slice text, uint32_t *shard)
{
    uint64_t number;
    if (text.len != LEASE_TEXT_BYTES || !hex_parse_u64(text.at + LEASE_SHARD_AT, 2, &number))
        return false;
    *shard = (uint32_t)number;
    return true;
}

/* Parses a token. False: not a token of this store. */
static inline bool lease_parse(struct slice text, const struct mac_key *key,
                               struct engine_lease *lease, uint32_t *shard)
{
    struct engine_lease found;
    uint64_t check;
    if (!lease_find_shard(text, shard) ||
        !hex_parse_u64(text.at + LEASE_KEY_AT, 16, &found.key_low) ||
        !hex_parse_u64(text.at + LEASE_DELIVERY_AT, LEASE_DELIVERY_DIGITS, &found.delivery) ||
        !hex_parse_u64(text.at + LEASE_CHECK_AT, 16, &check))
        return false;
    uint64_t place = lease_place(found.delivery, *shard);
    found.key_low ^= lease_mask(key, place);
    *lease = found;
    return mac_pair(key, found.key_low, place) == check;
}

/* Returns the push, or a copy in *copy with the delivery that the lease of its parent proves. */
static inline const struct queue_push *lease_prove_parent(const struct queue_push *push,
                                                          const struct mac_key *key, uint32_t shard,
                                                          struct queue_push *copy,
                                                          struct queue_batch *room)
{
    struct engine_lease lease;
    uint32_t number;
    if (__builtin_expect(!push->batch || !push->batch->parent.len, 1) ||
        !lease_parse(push->batch->parent, key, &lease, &number) || number != shard)
        return push;
    *room = *push->batch;
    room->parent_key = lease.key_low;
    room->parent_delivery = lease.delivery;
    *copy = *push;
    copy->batch = room;
    return copy;
}

/* The change with the delivery that its lease proves; QUEUE_DELIVERY_NONE where the lease is not of this
 * shard. */
static inline struct queue_change lease_prove(const struct queue_change *change,
                                              const struct mac_key *key, uint32_t shard)
{
    struct queue_change proved = *change;
    struct engine_lease lease;
    uint32_t number;
    if (change->lease.len)
        proved.delivery = lease_parse(change->lease, key, &lease, &number) && number == shard
                              ? lease.delivery
                              : QUEUE_DELIVERY_NONE;
    return proved;
}

#endif
