#include "job/ulid.h"

#include <assert.h>

static const uint64_t MS_MAX = (UINT64_C(1) << 48) - 1;

static void draw_chance(struct ulid *ulid)
{
    ulid->chance_high = (uint16_t)random_next(&ulid->random);
    ulid->chance_low = random_next(&ulid->random);
}

void ulid_init(struct ulid *ulid, uint64_t seed)
{
    *ulid = (struct ulid){.random = {.state = seed}};
    draw_chance(ulid);
}

/* Computes the next 128-bit number. If all 80 random bits are used up, it continues in the next
 * millisecond. */
static void step(struct ulid *ulid)
{
    if (++ulid->chance_low == 0 && ++ulid->chance_high == 0) {
        ulid->ms++;
        draw_chance(ulid);
    }
}

/* Writes the lowest bits of `value`, five per character. */
static void write_base32(char *out, int characters, unsigned __int128 value)
{
    static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

    while (characters-- > 0) {
        out[characters] = digits[value & 31];
        value >>= 5;
    }
}

void ulid_write(struct ulid *ulid, int64_t now_ms, char out[ULID_BYTES])
{
    if (now_ms > 0 && (uint64_t)now_ms > ulid->ms) {
        ulid->ms = (uint64_t)now_ms;
        draw_chance(ulid);
    } else {
        step(ulid);
    }
    assert(ulid->ms <= MS_MAX);
    write_base32(out, 10, ulid->ms);
    write_base32(out + 10, 16, (unsigned __int128)ulid->chance_high << 64 | ulid->chance_low);
}
