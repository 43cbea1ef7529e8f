#include "net/worker.h"

#include "net/thread.h"

#include <stdbool.h>
#include <stdlib.h>

struct worker {
    struct reactor *home;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct work *first, **last;
    bool ending;
};

static void on_done(struct letter *letter)
{
    struct work *work = (struct work *)(void *)letter;
    work->done(work);
}

static void perform_all(void *ctx)
{
    struct worker *worker = ctx;
    pthread_mutex_lock(&worker->lock);
    while (worker->first || !worker->ending) {
        struct work *work = worker->first;
        if (!work) {
            pthread_cond_wait(&worker->given, &worker->lock);
            continue;
        }
        worker->first = work->next;
        if (!worker->first)
            worker->last = &worker->first;
        pthread_mutex_unlock(&worker->lock);
        work->perform(work);
        reactor_post(work->reactor, &work->letter);
        pthread_mutex_lock(&worker->lock);
    }
    pthread_mutex_unlock(&worker->lock);
}

struct worker *worker_new(struct reactor *home, const char *name)
{
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return NULL;
    worker->home = home;
    worker->last = &worker->first;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->given, NULL);
    if (thread_start(&worker->thread, name, perform_all, worker) != 0) {
        pthread_cond_destroy(&worker->given);
        pthread_mutex_destroy(&worker->lock);
        free(worker);
        return NULL;
    }
    return worker;
}

void worker_give(struct worker *worker, struct work *work)
{
    work->letter.run = on_done;
    work->reactor = worker->home;
    work->next = NULL;
    pthread_mutex_lock(&worker->lock);
    *worker->last = work;
    worker->last = &work->next;
    pthread_mutex_unlock(&worker->lock);
    /* Signal after unlocking: if woken while the lock is held, the thread would block on it and
     * sleep again. */
    pthread_cond_signal(&worker->given);
}

void worker_free(struct worker *worker)
{
    if (!worker)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->ending = true;
    pthread_cond_signal(&worker->given);
    pthread_mutex_unlock(&worker->lock);
    thread_join(worker->thread);
    pthread_cond_destroy(&worker->given);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}
