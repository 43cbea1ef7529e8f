#include "redis/generation.h"

#include "base/text.h"

#include "redis/redis.h"

#include <stdio.h>

enum { DIGITS_MAX = 9 };

void redis_generation_write(const struct redis_generation *generation,
                            char out[REDIS_GENERATION_BYTES])
{
    if (generation->number)
        (void)snprintf(out, REDIS_GENERATION_BYTES, "%u@%u", (unsigned)generation->shards,
                       (unsigned)generation->number);
    else
        (void)snprintf(out, REDIS_GENERATION_BYTES, "%u", (unsigned)generation->shards);
}

/* Reads digits off the front. Returns false if there are no digits, or too many. */
static bool parse_number(struct slice *text, uint32_t *out)
{
    size_t len = 0;
    *out = 0;
    for (; len < text->len && text_is_digit(text->at[len]) && len <= DIGITS_MAX; len++)
        *out = *out * 10 + (uint32_t)(text->at[len] - '0');
    *text = slice_make(text->at + len, text->len - len);
    return len > 0 && len <= DIGITS_MAX;
}

bool redis_generation_parse(struct slice text, struct redis_generation *out)
{
    *out = (struct redis_generation){0};
    if (!parse_number(&text, &out->shards) || out->shards < 1 || out->shards > REDIS_SHARDS_MAX)
        return false;
    if (!text.len)
        return true;
    if (text.at[0] != '@')
        return false;
    text = slice_make(text.at + 1, text.len - 1);
    return parse_number(&text, &out->number) && !text.len && out->number > 0;
}
