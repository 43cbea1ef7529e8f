#include "redis/lease.h"

#include <assert.h>

enum { SHARD_DIGITS = 2, DELIVERY_DIGITS = REDIS_LEASE_BYTES - SHARD_DIGITS };

static void write_hex(char *out, uint64_t value, int digits)
{
    for (int i = digits - 1; i >= 0; i--, value >>= 4)
        out[i] = "0123456789abcdef"[value & 15];
    assert(value == 0);
}

static bool parse_hex(const char *text, int digits, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < digits; i++) {
        char c = text[i];
        if (c >= '0' && c <= '9')
            *value = *value << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            *value = *value << 4 | (uint64_t)(c - 'a' + 10);
        else
            return false;
    }
    return true;
}

void redis_lease_write(char out[REDIS_LEASE_BYTES], uint32_t shard, uint64_t delivery)
{
    write_hex(out, shard, SHARD_DIGITS);
    write_hex(out + SHARD_DIGITS, delivery, DELIVERY_DIGITS);
}

bool redis_lease_parse(struct slice text, uint32_t *shard, uint64_t *delivery)
{
    uint64_t number, value;
    if (text.len != REDIS_LEASE_BYTES || !parse_hex(text.at, SHARD_DIGITS, &number) ||
        !parse_hex(text.at + SHARD_DIGITS, DELIVERY_DIGITS, &value))
        return false;
    *shard = (uint32_t)number;
    *delivery = value;
    return true;
}
