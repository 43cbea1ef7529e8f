#include "net/thread.h"

#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct start {
    void (*run)(void *ctx);
    void *ctx;
    const struct log_sink *sink;
    char name[16];
};

static void *thread_main(void *arg)
{
    struct start start = *(struct start *)arg;
    free(arg);
    (void)pthread_setname_np(pthread_self(), start.name);
    log_use_sink(start.sink);
    start.run(start.ctx);
    return NULL;
}

int thread_start(pthread_t *thread, const char *name, void (*run)(void *ctx), void *ctx)
{
    struct start *start = calloc(1, sizeof *start);
    if (!start)
        return ENOMEM;
    start->run = run;
    start->ctx = ctx;
    start->sink = log_sink();
    strncpy(start->name, name, sizeof start->name - 1);

    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, thread_main, start);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        free(start);
    return error;
}

void thread_join(pthread_t thread)
{
    int error = pthread_join(thread, NULL);
    assert(error == 0);
    (void)error;
}
