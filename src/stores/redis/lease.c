#include "redis/lease.h"

#include "base/hex.h"

enum { DELIVERY_AT = 2, CHECK_AT = 14 };

void redis_lease_write(char out[REDIS_LEASE_BYTES], const struct mac_key *key, uint32_t shard,
                       uint64_t delivery)
{
    hex_emit_u64(out, shard, DELIVERY_AT);
    hex_emit_u64(out + DELIVERY_AT, delivery, CHECK_AT - DELIVERY_AT);
    hex_emit_u64(out + CHECK_AT, mac_pair(key, shard, delivery), REDIS_LEASE_BYTES - CHECK_AT);
}

bool redis_lease_parse(struct slice text, const struct mac_key *key, uint32_t *shard,
                       uint64_t *delivery)
{
    uint64_t number, check;
    if (!redis_lease_find_shard(text, shard) ||
        !hex_parse_u64(text.at + DELIVERY_AT, CHECK_AT - DELIVERY_AT, &number) ||
        !hex_parse_u64(text.at + CHECK_AT, REDIS_LEASE_BYTES - CHECK_AT, &check))
        return false;
    *delivery = number;
    return mac_pair(key, *shard, number) == check;
}

bool redis_lease_find_shard(struct slice text, uint32_t *shard)
{
    uint64_t number;
    if (text.len != REDIS_LEASE_BYTES || !hex_parse_u64(text.at, DELIVERY_AT, &number))
        return false;
    *shard = (uint32_t)number;
    return true;
}
