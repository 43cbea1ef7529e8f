#include "redis/id.h"

#include <stdint.h>

enum { ULID_CHARS = 26, MARK = 1, BITS = 5 };

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

static int digit_of(char c)
{
    const char *at = c ? strchr(alphabet, c) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

/* False: not the canonical form of 128 bits. */
static bool pack(struct slice id, unsigned char out[16])
{
    unsigned pending = 0, bits = 0, count = 0;
    if (id.len != ULID_CHARS || id.at[0] > '7')
        return false;
    for (size_t i = 0; i < id.len; i++) {
        int digit = digit_of(id.at[i]);
        if (digit < 0)
            return false;
        pending = (pending << BITS | (unsigned)digit) & 0xfff;
        bits += i ? BITS : 3; /* 130 bits' room for 128: the first one has three */
        if (bits >= 8) {
            bits -= 8;
            out[count++] = (unsigned char)(pending >> bits);
        }
    }
    return true;
}

static void unpack(const unsigned char in[16], char out[ULID_CHARS])
{
    unsigned pending = 0, bits = 2;
    size_t at = 0;
    for (size_t i = 0; i < 16; i++) {
        pending = (pending << 8 | in[i]) & 0xfff;
        for (bits += 8; bits >= BITS; bits -= BITS)
            out[at++] = alphabet[pending >> (bits - BITS) & 31];
    }
}

struct slice redis_id_store(struct slice id, char room[REDIS_ID_PACKED_BYTES])
{
    if (!pack(id, (unsigned char *)room + 1))
        return id;
    room[0] = MARK;
    return slice_make(room, REDIS_ID_PACKED_BYTES);
}

bool redis_id_show(struct slice stored, char room[REDIS_ID_ROOM_BYTES], struct slice *id)
{
    if (stored.len == REDIS_ID_PACKED_BYTES && stored.at[0] == MARK) {
        unpack((const unsigned char *)stored.at + 1, room);
        *id = slice_make(room, ULID_CHARS);
        return true;
    }
    if (!job_id_is_valid(stored))
        return false;
    *id = stored;
    return true;
}
