#include "http/private.h"

#include "base/clock.h"

#include <stdlib.h>

struct http_shared *http_shared_new(const char *version)
{
    struct http_shared *shared = calloc(1, sizeof *shared);
    if (!shared)
        return NULL;
    shared->version = version;
    shared->started_ms = clock_wall_ms();
    http_shared_set_memory(shared, 0);
    http_shared_set_metrics_topics(shared, 0);
    pthread_mutex_init(&shared->lock, NULL);
    return shared;
}

void http_shared_free(struct http_shared *shared)
{
    if (!shared)
        return;
    pthread_mutex_destroy(&shared->lock);
    free(shared);
}

void http_shared_set_ready(struct http_shared *shared, bool ready)
{
    atomic_store_explicit(&shared->is_ready, ready, memory_order_release);
}

void http_shared_set_metrics_topics(struct http_shared *shared, uint32_t topics)
{
    enum { TOPICS = 200 };
    shared->metrics_topics = topics ? topics : TOPICS;
}

void http_shared_add_metrics(struct http_shared *shared,
                             void (*emit)(void *ctx, struct buffer *out), void *ctx)
{
    shared->emit = emit;
    shared->emit_ctx = ctx;
}

void http_shared_set_hooks(struct http_shared *shared, const struct http_hooks *hooks)
{
    shared->hooks = hooks;
}
