#include "server/store_state.h"

#include "base/clock.h"
#include "base/json_write.h"

/* ---- disk growth ---- */

static uint32_t place(const struct disk_growth *growth, uint32_t i)
{
    return (growth->first + i) % DISK_GROWTH_SAMPLES;
}

bool disk_growth_wants(const struct disk_growth *growth, int64_t now_ms)
{
    return !growth->count ||
           now_ms - growth->samples[place(growth, growth->count - 1)].at_ms >= DISK_GROWTH_APART_MS;
}

void disk_growth_note(struct disk_growth *growth, int64_t now_ms, uint64_t bytes)
{
    if (growth->count == DISK_GROWTH_SAMPLES) {
        growth->first = place(growth, 1);
        growth->count--;
    }
    uint32_t at = place(growth, growth->count++);
    growth->samples[at].at_ms = now_ms;
    growth->samples[at].bytes = bytes;
}

/* Measures from the last sample that is at least an hour old, because that was the usage an hour
 * ago; otherwise from the oldest sample. */
bool disk_growth_per_hour(const struct disk_growth *growth, int64_t now_ms, uint64_t bytes,
                          int64_t *per_hour)
{
    int64_t hour_ago_ms = now_ms - DISK_GROWTH_HOUR_MS;
    if (!growth->count)
        return false;
    uint32_t i = 0;
    while (i + 1 < growth->count && growth->samples[place(growth, i + 1)].at_ms <= hour_ago_ms)
        i++;
    uint32_t at = place(growth, i);
    int64_t from_ms = growth->samples[at].at_ms;
    if (from_ms < hour_ago_ms)
        from_ms = hour_ago_ms;
    if (now_ms - from_ms < DISK_GROWTH_KNOWN_MS)
        return false;
    double grown = (double)bytes - (double)growth->samples[at].bytes;
    *per_hour = (int64_t)(grown * DISK_GROWTH_HOUR_MS / (double)(now_ms - from_ms));
    return true;
}

/* ---- store state ---- */

#define FORECAST_HOURS_MAX                                                                         \
    (10LL * 365 * 24) /* beyond this, the disk does not fill up in any relevant time */

/* Returns false if the growth is not known yet. */
static bool growth_of(struct store_state *state, uint64_t used_bytes, int64_t *per_hour)
{
    pthread_mutex_lock(&state->lock);
    bool is_known = disk_growth_per_hour(&state->growth, clock_inner_ms(), used_bytes, per_hour);
    pthread_mutex_unlock(&state->lock);
    return is_known;
}

static void write_forecast(struct buffer *out, uint64_t free_bytes, bool is_known, int64_t per_hour)
{
    double hours = per_hour > 0 ? (double)free_bytes / (double)per_hour : 0;
    json_write_member(out, "bytes_per_hour");
    if (is_known)
        buffer_append_i64(out, per_hour);
    else
        buffer_append_text(out, "null");
    json_write_member(out, "full_at");
    if (is_known && per_hour > 0 && hours < FORECAST_HOURS_MAX)
        json_write_time(out, clock_wall_ms() + (int64_t)(hours * DISK_GROWTH_HOUR_MS));
    else
        buffer_append_text(out, "null");
}

static void write_disk(struct store_state *state, struct buffer *out)
{
    uint64_t used_bytes, free_bytes;
    int64_t per_hour = 0;
    json_write_member(out, "disk");
    if (!state->backend->ops->disk) {
        buffer_append_text(out, "null");
        return;
    }
    state->backend->ops->disk(state->backend, &used_bytes, &free_bytes);
    buffer_append_byte(out, '{');
    json_write_member_number(out, "bytes_used", used_bytes);
    json_write_member_number(out, "bytes_free", free_bytes);
    bool is_known = growth_of(state, used_bytes, &per_hour);
    write_forecast(out, free_bytes, is_known, per_hour);
    buffer_append_byte(out, '}');
}

static void write_store(void *ctx, struct buffer *out)
{
    struct store_state *state = ctx;
    json_write_member_text(out, "place", slice_of(state->backend->place));
    json_write_member(out, "shards");
    buffer_append_byte(out, '[');
    state->backend->ops->write_shards(state->backend, out);
    buffer_append_byte(out, ']');
    write_disk(state, out);
}

void store_state_look(struct store_state *state)
{
    int64_t now_ms = clock_inner_ms();
    uint64_t used_bytes, free_bytes;
    if (!state->backend->ops->disk)
        return;
    pthread_mutex_lock(&state->lock);
    if (disk_growth_wants(&state->growth, now_ms)) {
        state->backend->ops->disk(state->backend, &used_bytes, &free_bytes);
        disk_growth_note(&state->growth, now_ms, used_bytes);
    }
    pthread_mutex_unlock(&state->lock);
}

void store_state_open(struct store_state *state, struct backend *backend)
{
    *state = (struct store_state){.backend = backend};
    state->hooks = (struct http_server_hooks){.ctx = state, .write_store = write_store};
    pthread_mutex_init(&state->lock, NULL);
}

void store_state_close(struct store_state *state)
{
    if (state->backend)
        pthread_mutex_destroy(&state->lock);
    *state = (struct store_state){0};
}
