#include "redis/name.h"

#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void redis_name_draw(char out[REDIS_NAME_BYTES])
{
    snprintf(out, REDIS_NAME_BYTES, "%016" PRIx64 "%016" PRIx64, random_u64(), random_u64());
}

void redis_name_read(struct slice text, char out[REDIS_NAME_BYTES])
{
    out[0] = 0;
    for (size_t i = 0; i < text.len; i++)
        if (!text.at[i] || !strchr("0123456789abcdef", text.at[i]))
            return;
    if (text.len == REDIS_NAME_BYTES - 1)
        snprintf(out, REDIS_NAME_BYTES, "%.*s", (int)text.len, text.at);
}
