/* Jobs in a data directory of this machine: one shard on each reactor. */
#include "local/local.h"
#include "server/backend.h"

#include <stdio.h>

enum { STOP_MS = 15000 /* for the log to commit */ };

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

static void on_backup(struct backend *backend, struct reactor *reactor, enum http_backup what,
                      struct slice id, http_tested *done, void *owner, uint64_t tag)
{
    static const enum local_backup names[] = {[HTTP_BACKUP_BEGIN] = LOCAL_BACKUP_BEGIN,
                                              [HTTP_BACKUP_RENEW] = LOCAL_BACKUP_RENEW,
                                              [HTTP_BACKUP_END] = LOCAL_BACKUP_END};
    local_backup(backend->self, reactor, names[what], id, done, owner, tag);
}

const struct backend_ops backend_embedded = {.open = on_open,
                                             .attach = on_attach,
                                             .stop = on_stop,
                                             .store_name = on_store_name,
                                             .free = on_free,
                                             .backup = on_backup};
