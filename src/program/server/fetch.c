#include "server/fetch.h"

#include <stddef.h>

static struct fetch *fetch_of(struct work *work)
{
    return (struct fetch *)(void *)((char *)work - offsetof(struct fetch, work));
}

static void on_perform(struct work *work)
{
    struct fetch *fetch = fetch_of(work);
    buffer_clear(&fetch->text);
    fetch->error[0] = '\0';
    fetch->result = fetch->get(fetch->ctx, fetch);
}

static void on_done(struct work *work)
{
    struct fetch *fetch = fetch_of(work);
    fetch->is_under_way = false;
    fetch->got(fetch->ctx, fetch);
}

bool fetch_open(struct fetch *fetch, struct reactor *reactor, const char *name, size_t bytes_max)
{
    fetch->work = (struct work){.perform = on_perform, .done = on_done};
    buffer_init(&fetch->text, bytes_max);
    fetch->worker = worker_new(reactor, name);
    return fetch->worker;
}

void fetch_begin(struct fetch *fetch)
{
    if (fetch->is_under_way)
        return;
    fetch->is_under_way = true;
    worker_give(fetch->worker, &fetch->work);
}

void fetch_close(struct fetch *fetch)
{
    atomic_store(&fetch->is_ending, true);
    worker_free(fetch->worker);
    buffer_fini(&fetch->text);
    fetch->worker = NULL;
}
