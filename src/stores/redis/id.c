#include "redis/id.h"

#include "base/hex.h"

#include <stdint.h>

enum { ULID_CHARS = 26, UUID_CHARS = 36, ULID_MARK = 1, UUID_MARK = 2, BITS = 5 };

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

static int digit_of(char c)
{
    const char *at = c ? strchr(alphabet, c) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

/* Returns false if the id is not the canonical form of 128 bits. */
static bool pack_ulid(struct slice id, unsigned char out[16])
{
    unsigned pending = 0, bits = 0, count = 0;
    if (id.len != ULID_CHARS || id.at[0] > '7')
        return false;
    for (size_t i = 0; i < id.len; i++) {
        int digit = digit_of(id.at[i]);
        if (digit < 0)
            return false;
        pending = (pending << BITS | (unsigned)digit) & 0xfff;
        bits += i ? BITS : 3; /* 26 digits hold 130 bits: the first one contributes three */
        if (bits >= 8) {
            bits -= 8;
            out[count++] = (unsigned char)(pending >> bits);
        }
    }
    return true;
}

static void unpack_ulid(const unsigned char in[16], char out[ULID_CHARS])
{
    unsigned pending = 0, bits = 2;
    size_t at = 0;
    for (size_t i = 0; i < 16; i++) {
        pending = (pending << 8 | in[i]) & 0xfff;
        for (bits += 8; bits >= BITS; bits -= BITS)
            out[at++] = alphabet[pending >> (bits - BITS) & 31];
    }
}

/* Returns whether a hyphen precedes byte i. */
static bool has_hyphen(size_t i)
{
    return i == 4 || i == 6 || i == 8 || i == 10;
}

/* Returns false if the id is not 8-4-4-4-12 hex digits in lower case. */
static bool pack_uuid(struct slice id, unsigned char out[16])
{
    const char *at = id.at;
    if (id.len != UUID_CHARS)
        return false;
    for (size_t i = 0; i < 16; i++) {
        if (has_hyphen(i) && *at++ != '-')
            return false;
        uint64_t byte;
        if (!hex_parse_u64(at, 2, &byte))
            return false;
        out[i] = (unsigned char)byte;
        at += 2;
    }
    return true;
}

static void unpack_uuid(const unsigned char in[16], char out[UUID_CHARS])
{
    for (size_t i = 0; i < 16; i++) {
        if (has_hyphen(i))
            *out++ = '-';
        hex_emit_u64(out, in[i], 2);
        out += 2;
    }
}

struct slice redis_id_store(struct slice id, char room[REDIS_ID_PACKED_BYTES])
{
    unsigned char *bytes = (unsigned char *)room + 1;
    if (pack_ulid(id, bytes))
        room[0] = ULID_MARK;
    else if (pack_uuid(id, bytes))
        room[0] = UUID_MARK;
    else
        return id;
    return slice_make(room, REDIS_ID_PACKED_BYTES);
}

bool redis_id_show(struct slice stored, char room[REDIS_ID_ROOM_BYTES], struct slice *id)
{
    if (stored.len == REDIS_ID_PACKED_BYTES && stored.at[0] == ULID_MARK) {
        unpack_ulid((const unsigned char *)stored.at + 1, room);
        *id = slice_make(room, ULID_CHARS);
        return true;
    }
    if (stored.len == REDIS_ID_PACKED_BYTES && stored.at[0] == UUID_MARK) {
        unpack_uuid((const unsigned char *)stored.at + 1, room);
        *id = slice_make(room, UUID_CHARS);
        return true;
    }
    bool is_once = stored.len && stored.at[0] == ' ';
    if (!job_id_is_valid(is_once ? slice_make(stored.at + 1, stored.len - 1) : stored))
        return false;
    *id = stored;
    return true;
}

/* ---- lease ---- */

enum { DELIVERY_AT = 2, CHECK_AT = 14 };

void redis_lease_write(char out[REDIS_LEASE_BYTES], const struct mac_key *key, uint32_t shard,
                       uint64_t delivery)
{
    hex_emit_u64(out, shard, DELIVERY_AT);
    hex_emit_u64(out + DELIVERY_AT, delivery, CHECK_AT - DELIVERY_AT);
    hex_emit_u64(out + CHECK_AT, mac_pair(key, shard, delivery), REDIS_LEASE_BYTES - CHECK_AT);
}

bool redis_lease_find_shard(struct slice text, uint32_t *shard)
{
    uint64_t number;
    if (text.len != REDIS_LEASE_BYTES || !hex_parse_u64(text.at, DELIVERY_AT, &number))
        return false;
    *shard = (uint32_t)number;
    return true;
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
