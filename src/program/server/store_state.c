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

/* Measures from the last sample that is at least `window_ms` old, because that was the usage then;
 * otherwise from the oldest sample. */
static bool growth_over(const struct disk_growth *growth, int64_t window_ms, int64_t now_ms,
                        uint64_t bytes, int64_t *per_hour)
{
    int64_t begin_ms = now_ms - window_ms;
    if (!growth->count)
        return false;
    uint32_t i = 0;
    while (i + 1 < growth->count && growth->samples[place(growth, i + 1)].at_ms <= begin_ms)
        i++;
    uint32_t at = place(growth, i);
    int64_t from_ms = growth->samples[at].at_ms;
    if (from_ms < begin_ms)
        from_ms = begin_ms;
    if (now_ms - from_ms < DISK_GROWTH_KNOWN_MS)
        return false;
    double grown = (double)bytes - (double)growth->samples[at].bytes;
    *per_hour = (int64_t)(grown * DISK_GROWTH_HOUR_MS / (double)(now_ms - from_ms));
    return true;
}

bool disk_growth_per_hour(const struct disk_growth *growth, int64_t now_ms, uint64_t bytes,
                          int64_t *per_hour)
{
    return growth_over(growth, DISK_GROWTH_HOUR_MS, now_ms, bytes, per_hour);
}

#define FORECAST_HOURS_MAX                                                                         \
    (10LL * 365 * 24) /* beyond this, the disk does not fill up in any relevant time */

int64_t disk_growth_full_in_ms(const struct disk_growth *growth, int64_t now_ms, uint64_t bytes,
                               uint64_t free_bytes)
{
    int64_t hourly, recently;
    if (!growth_over(growth, DISK_GROWTH_HOUR_MS, now_ms, bytes, &hourly) ||
        !growth_over(growth, DISK_GROWTH_KNOWN_MS, now_ms, bytes, &recently))
        return 0;
    int64_t per_hour = hourly < recently ? hourly : recently;
    if (per_hour <= 0)
        return 0;
    double hours = (double)free_bytes / (double)per_hour;
    return hours < FORECAST_HOURS_MAX ? (int64_t)(hours * DISK_GROWTH_HOUR_MS) + 1 : 0;
}

/* ---- store state ---- */

static uint64_t taken_bytes(const struct backend_disk *disk)
{
    return disk->bytes - disk->free_bytes;
}

static int64_t full_in_ms(struct store_state *state, const struct backend_disk *disk)
{
    pthread_mutex_lock(&state->lock);
    int64_t ms = disk_growth_full_in_ms(&state->taken, clock_inner_ms(), taken_bytes(disk),
                                        disk->free_bytes);
    pthread_mutex_unlock(&state->lock);
    return ms;
}

/* Hook of the fronts. */
static int64_t disk_full_in_ms(void *ctx)
{
    struct store_state *state = ctx;
    struct backend_disk disk;
    if (!state->backend->ops->disk)
        return 0;
    state->backend->ops->disk(state->backend, &disk);
    return full_in_ms(state, &disk);
}

static void write_forecast(struct store_state *state, struct buffer *out,
                           const struct backend_disk *disk)
{
    int64_t per_hour = 0, full_ms = full_in_ms(state, disk);
    pthread_mutex_lock(&state->lock);
    bool is_known =
        disk_growth_per_hour(&state->used, clock_inner_ms(), disk->used_bytes, &per_hour);
    pthread_mutex_unlock(&state->lock);
    json_write_member(out, "bytes_per_hour");
    if (is_known)
        buffer_append_i64(out, per_hour);
    else
        buffer_append_text(out, "null");
    json_write_member_time(out, "full_at", full_ms ? clock_wall_ms() + full_ms : 0);
}

static void write_disk(struct store_state *state, struct buffer *out)
{
    struct backend_disk disk;
    json_write_member(out, "disk");
    if (!state->backend->ops->disk) {
        buffer_append_text(out, "null");
        return;
    }
    state->backend->ops->disk(state->backend, &disk);
    buffer_append_byte(out, '{');
    json_write_member_number(out, "bytes_used", disk.used_bytes);
    json_write_member_number(out, "bytes_free", disk.free_bytes);
    write_forecast(state, out, &disk);
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
    struct backend_disk disk;
    if (!state->backend->ops->disk)
        return;
    pthread_mutex_lock(&state->lock);
    if (disk_growth_wants(&state->used, now_ms)) {
        state->backend->ops->disk(state->backend, &disk);
        disk_growth_note(&state->used, now_ms, disk.used_bytes);
        disk_growth_note(&state->taken, now_ms, taken_bytes(&disk));
    }
    pthread_mutex_unlock(&state->lock);
}

void store_state_open(struct store_state *state, struct backend *backend)
{
    *state = (struct store_state){.backend = backend};
    state->hooks = (struct http_server_hooks){
        .ctx = state, .write_store = write_store, .disk_full_in_ms = disk_full_in_ms};
    pthread_mutex_init(&state->lock, NULL);
}

void store_state_close(struct store_state *state)
{
    if (state->backend)
        pthread_mutex_destroy(&state->lock);
    *state = (struct store_state){0};
}
