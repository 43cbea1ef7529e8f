/* Backend with a data directory on this machine: one shard per reactor. */
#include "base/clock.h"
#include "base/json_write.h"
#include "local/local.h"
#include "local/test_clock.h"
#include "server/backend.h"

#include <stdio.h>

enum {
    STOP_MS = 15000,      /* time for the log to commit */
    LEASE_GRACE_MS = 2000 /* time for consumers to reconnect after a restart */
};

static int on_open(struct backend *backend, const struct config *config, backend_failed *failed,
                   void *ctx, char *error)
{
    const struct local_options options = {
        .data_dir = config->data,
        .shards = config->shards,
        .sync = config->sync.kind,
        .sync_interval_ms = config->sync.interval_ms,
        .wal_file_bytes = (uint32_t)config->wal_file_bytes,
        .body_bytes_max = (uint64_t)config->max_body_bytes,
        .topics_max = config->max_topics,
        .lease_grace_ms = LEASE_GRACE_MS,
        .test_clock_ms = config->test_clock_ms,
        .failed = failed,
        .failed_ctx = ctx,
    };
    struct local *local = NULL;
    int result = local_open(&options, &local, &backend->reactors, error, BACKEND_ERROR_BYTES);
    backend->self = local;
    backend->stop_ms = STOP_MS;
    snprintf(backend->place, sizeof backend->place, "%s", config->data);
    return result;
}

static int on_attach(struct backend *backend, uint32_t index, struct reactor *reactor,
                     struct queue **out, char *error)
{
    return local_attach(backend->self, index, reactor, out, error, BACKEND_ERROR_BYTES);
}

static void on_set_feed(struct backend *backend, struct feed *feed)
{
    local_set_feed(backend->self, feed);
}

static void on_stop(struct backend *backend, void (*stopped)(void *ctx), void *ctx)
{
    local_stop(backend->self, stopped, ctx);
}

static const char *on_store_name(struct backend *backend)
{
    return local_store_name(backend->self);
}

static void on_free(struct backend *backend)
{
    local_free(backend->self);
}

static void on_emit_metrics(struct backend *backend, struct metric_page *page)
{
    local_emit_metrics(backend->self, page);
}

static void on_backup(struct backend *backend, struct reactor *reactor, enum http_backup what,
                      struct slice id, http_tested *done, void *owner, uint64_t tag)
{
    static const enum local_backup names[] = {[HTTP_BACKUP_BEGIN] = LOCAL_BACKUP_BEGIN,
                                              [HTTP_BACKUP_RENEW] = LOCAL_BACKUP_RENEW,
                                              [HTTP_BACKUP_END] = LOCAL_BACKUP_END};
    local_backup(backend->self, reactor, names[what], id, done, owner, tag);
}

/* ---- test clock ---- */

_Static_assert(OPTION_CLOCK_NOW == LOCAL_TEST_CLOCK_NOW, "passed on as it is");

static struct clock *on_clock(struct backend *backend)
{
    return local_test_clock(backend->self);
}

static int64_t on_clock_start_ms(struct backend *backend)
{
    return local_test_clock_start_ms(backend->self);
}

static void on_clock_settle(struct backend *backend, const struct backend_clock_move *move,
                            backend_settled *settled, void *ctx)
{
    struct clock *clock = on_clock(backend);
    int64_t now_ms = clock_inner_ms_of(clock);
    if (move->to_ms > now_ms)
        clock_advance(clock, move->to_ms - now_ms);
    if (move->restarts)
        clock_step_wall(clock, on_clock_start_ms(backend) - clock_wall_ms_of(clock));
    local_settle(backend->self, move->keeps, settled, ctx);
}

static void on_clock_on_active(struct backend *backend, void (*active)(void *ctx), void *ctx)
{
    local_on_active(backend->self, active, ctx);
}

static const struct backend_clock embedded_clock = {.clock = on_clock,
                                                    .start_ms = on_clock_start_ms,
                                                    .settle = on_clock_settle,
                                                    .on_active = on_clock_on_active};

/* ---- GET /v1/server ---- */

static void write_shard(struct buffer *out, uint32_t shard, const struct shard_figures *figures)
{
    int64_t done_ms = figures->checkpoint_at_ms;
    buffer_append_byte(out, '{');
    json_write_member_number(out, "shard", shard);
    json_write_member_bool(out, "healthy", figures->healthy && !figures->moved);
    json_write_member_bool(out, "accepting", figures->accepting);
    json_write_member_number(out, "bytes_on_disk", figures->bytes_on_disk);
    json_write_member_number(out, "log_bytes", figures->log_bytes);
    json_write_member_number(out, "log_files", figures->log_files);
    json_write_member_number(out, "runs", figures->runs);
    json_write_member_number(out, "cold_jobs", figures->cold_jobs);
    json_write_member_number(out, "checkpoints", figures->checkpoints);
    json_write_member_number(out, "checkpoints_failed", figures->checkpoints_failed);
    json_write_member_time(out, "last_checkpoint_at", done_ms ? done_ms + clock_skew_ms() : 0);
    if (done_ms)
        json_write_member_number(out, "last_checkpoint_ms", (uint64_t)figures->checkpoint_took_ms);
    json_write_member_number(out, "spare_bytes", figures->spare_bytes);
    json_write_member_number(out, "recovery_ms", (uint64_t)figures->recovery_ms);
    buffer_append_byte(out, '}');
}

static void on_write_shards(struct backend *backend, struct buffer *out)
{
    const struct local *local = backend->self;
    for (uint32_t i = 0; i < local_shards(local); i++) {
        struct shard_figures figures = {0};
        local_figures(local, i, &figures);
        if (i)
            buffer_append_byte(out, ',');
        write_shard(out, i, &figures);
    }
}

static void on_disk(struct backend *backend, struct backend_disk *out)
{
    const struct local *local = backend->self;
    *out = (struct backend_disk){0};
    for (uint32_t i = 0; i < local_shards(local); i++) {
        struct shard_figures figures = {0};
        local_figures(local, i, &figures);
        out->used_bytes += figures.bytes_on_disk;
        if (figures.disk_bytes) { /* the same file system for all shards */
            out->free_bytes = figures.disk_free_bytes;
            out->bytes = figures.disk_bytes;
        }
    }
}

const struct backend_ops backend_embedded = {.open = on_open,
                                             .set_feed = on_set_feed,
                                             .attach = on_attach,
                                             .stop = on_stop,
                                             .store_name = on_store_name,
                                             .free = on_free,
                                             .emit_metrics = on_emit_metrics,
                                             .metrics = local_metrics,
                                             .write_shards = on_write_shards,
                                             .disk = on_disk,
                                             .backup = on_backup,
                                             .clock = &embedded_clock};
