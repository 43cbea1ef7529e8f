#include "local/lease.h"

static void write_hex(char *out, uint64_t value, int digits)
{
    for (int i = digits - 1; i >= 0; i--, value >>= 4)
        out[i] = "0123456789abcdef"[value & 15];
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

void lease_write(char out[LEASE_TEXT_BYTES], const struct engine_lease *lease, uint32_t shard)
{
    write_hex(out, lease->key_low, 16);
    write_hex(out + 16, lease->delivery, 14);
    write_hex(out + 30, shard, 2);
}

bool lease_parse(struct slice text, struct engine_lease *lease, uint32_t *shard)
{
    uint64_t number;
    if (text.len != LEASE_TEXT_BYTES || !parse_hex(text.at, 16, &lease->key_low) ||
        !parse_hex(text.at + 16, 14, &lease->delivery) || !parse_hex(text.at + 30, 2, &number))
        return false;
    *shard = (uint32_t)number;
    return true;
}
