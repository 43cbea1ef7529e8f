#include "redis/state.h"

enum {
    CORE_FLAGS_AT = 1,
    CORE_SEALED_AT = 2,
    CORE_SHARDS_AT = 3,
    CORE_BYTES_MIN = 70,
    FLAG_HELD = 2,
    FLAG_PAUSED = 1,
    FLAG_TIMED = 4, /* in the first byte */
    FIGURES_AT = 2,
    FIGURE_BYTES = 6,
    TOPIC_BYTES = FIGURES_AT + (REDIS_FIGURES + 2) * FIGURE_BYTES
};

static int64_t read_figure(const unsigned char *at)
{
    const int64_t sign = INT64_C(1) << 47;
    int64_t number = 0;
    for (int i = 0; i < FIGURE_BYTES; i++)
        number = number << 8 | at[i];
    return number & sign ? number - 2 * sign : number;
}

bool redis_core_state_read(struct slice value, struct redis_core_state *out)
{
    if (value.len < CORE_BYTES_MIN)
        return false;
    const unsigned char *at = (const void *)value.at;
    *out = (struct redis_core_state){.layout = at[0]};
    if (out->layout > REDIS_LAYOUT)
        return true;
    out->is_held = at[CORE_FLAGS_AT] & FLAG_HELD;
    out->sealed = at[CORE_SEALED_AT];
    at += CORE_SHARDS_AT;
    out->shards = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    return true;
}

bool redis_topic_state_read(struct slice value, struct redis_topic_state *out)
{
    if (value.len < TOPIC_BYTES)
        return false;
    const unsigned char *at = (const void *)value.at;
    out->is_paused = at[1] & FLAG_PAUSED && !(at[0] & FLAG_TIMED);
    for (size_t i = 0; i < REDIS_FIGURES; i++)
        out->figure[i] = read_figure(at + FIGURES_AT + i * FIGURE_BYTES);
    out->settings = slice_make(value.at + TOPIC_BYTES, value.len - TOPIC_BYTES);
    return true;
}
