/* mutate: small random damage to bytes, for tests and fuzz replay alike. The same state does the
 * same damage. */
#ifndef TARRY_TESTS_MUTATE_H
#define TARRY_TESTS_MUTATE_H

#include "base/buffer.h"
#include "base/random.h"

static inline char mutate_byte(struct random *random, struct slice palette)
{
    if (palette.len > 0 && random_below(random, 4) > 0)
        return palette.at[random_below(random, palette.len)];
    return (char)random_next(random);
}

/* A piece of the bytes is put in again elsewhere. */
static inline void mutate_repeat(struct buffer *bytes, struct random *random)
{
    size_t from = (size_t)random_below(random, bytes->len);
    size_t len = (size_t)random_below(random, bytes->len - from < 32 ? bytes->len - from + 1 : 33);
    size_t to = (size_t)random_below(random, bytes->len + 1);
    char piece[32];

    memcpy(piece, bytes->at + from, len);
    if (len == 0 || !buffer_reserve(bytes, len))
        return;
    memmove(bytes->at + to + len, bytes->at + to, bytes->len - to);
    memcpy(bytes->at + to, piece, len);
    bytes->len += len;
}

static inline void mutate_once(struct buffer *bytes, struct random *random, struct slice palette)
{
    if (bytes->len == 0) {
        buffer_append_byte(bytes, mutate_byte(random, palette));
        return;
    }
    size_t at = (size_t)random_below(random, bytes->len);
    size_t left = bytes->len - at;
    size_t len = 1 + (size_t)random_below(random, left < 8 ? left : 8);

    switch (random_below(random, 6)) {
    case 0:
        bytes->at[at] = mutate_byte(random, palette);
        break;
    case 1:
        bytes->at[at] = (char)(bytes->at[at] ^ 1 << random_below(random, 8));
        break;
    case 2:
        memmove(bytes->at + at, bytes->at + at + len, left - len);
        bytes->len -= len;
        break;
    case 3:
        bytes->len = at;
        break;
    case 4:
        if (!buffer_reserve(bytes, 1))
            break;
        memmove(bytes->at + at + 1, bytes->at + at, left);
        bytes->at[at] = mutate_byte(random, palette);
        bytes->len++;
        break;
    default:
        mutate_repeat(bytes, random);
    }
}

/* Makes one to eight damages; the bytes are the buffer's content and stay below its ceiling. */
static inline void mutate(struct buffer *bytes, struct random *random, struct slice palette)
{
    for (uint64_t rounds = 1 + random_below(random, 8); rounds > 0; rounds--)
        mutate_once(bytes, random, palette);
    bytes->failed = false;
}

#endif
