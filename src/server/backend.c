#include "server/backend.h"

int backend_open(struct backend *backend, const struct config *config, backend_failed *failed,
                 void *ctx, char *error)
{
    *backend =
        (struct backend){.ops = config_is_redis(config) ? &backend_redis : &backend_embedded};
    return backend->ops->open(backend, config, failed, ctx, error);
}

int backend_attach(struct backend *backend, uint32_t part, struct reactor *reactor,
                   struct queue **out, char *error)
{
    return backend->ops->attach(backend, part, reactor, out, error);
}

void backend_stop(struct backend *backend, void (*stopped)(void *ctx), void *ctx)
{
    backend->ops->stop(backend, stopped, ctx);
}

void backend_free(struct backend *backend)
{
    if (backend->self)
        backend->ops->free(backend);
    backend->self = NULL;
}

const char *backend_store_name(void *ctx)
{
    struct backend *backend = ctx;
    return backend->ops->store_name(backend);
}

void backend_emit_metrics(void *ctx, struct buffer *out)
{
    struct backend *backend = ctx;
    if (backend->self)
        backend->ops->emit_metrics(backend, out);
}
