#include "local/lease.h"

#include "base/hex.h"

enum { KEY_AT = 0, DELIVERY_AT = 16, SHARD_AT = 30, CHECK_AT = 32, DELIVERY_DIGITS = 14 };

/* What a token names besides the job. */
static uint64_t lease_place(uint64_t delivery, uint32_t shard)
{
    return delivery << 8 | shard;
}

/* Hash halves are not shown: from many of them the hash's seed might be found, which is a part of
 * the key. */
static uint64_t lease_mask(const struct mac_key *key, uint64_t place)
{
    return mac_pair(key, place, UINT64_MAX);
}

void lease_write(char out[LEASE_TEXT_BYTES], const struct mac_key *key,
                 const struct engine_lease *lease, uint32_t shard)
{
    uint64_t place = lease_place(lease->delivery, shard);
    hex_emit_u64(out + KEY_AT, lease->key_low ^ lease_mask(key, place), 16);
    hex_emit_u64(out + DELIVERY_AT, lease->delivery, DELIVERY_DIGITS);
    hex_emit_u64(out + SHARD_AT, shard, 2);
    hex_emit_u64(out + CHECK_AT, mac_pair(key, lease->key_low, place), 16);
}

bool lease_parse(struct slice text, const struct mac_key *key, struct engine_lease *lease,
                 uint32_t *shard)
{
    struct engine_lease found;
    uint64_t check;
    if (!lease_find_shard(text, shard) || !hex_parse_u64(text.at + KEY_AT, 16, &found.key_low) ||
        !hex_parse_u64(text.at + DELIVERY_AT, DELIVERY_DIGITS, &found.delivery) ||
        !hex_parse_u64(text.at + CHECK_AT, 16, &check))
        return false;
    uint64_t place = lease_place(found.delivery, *shard);
    found.key_low ^= lease_mask(key, place);
    *lease = found;
    return mac_pair(key, found.key_low, place) == check;
}

bool lease_find_shard(struct slice text, uint32_t *shard)
{
    uint64_t number;
    if (text.len != LEASE_TEXT_BYTES || !hex_parse_u64(text.at + SHARD_AT, 2, &number))
        return false;
    *shard = (uint32_t)number;
    return true;
}
