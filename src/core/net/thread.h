/*
 * thread: the one file that starts threads.
 *
 * A thread takes no signals: they are for the thread that runs the process. Its name shows in the
 * system's lists, cut at 15 bytes. Its log goes where that of the thread that starts it goes (base/log.h).
 */
#ifndef TARRY_NET_THREAD_H
#define TARRY_NET_THREAD_H

#include <pthread.h>

/* 0, or the error number when the system has no thread left. `ctx` must live until thread_join. */
int thread_start(pthread_t *thread, const char *name, void (*run)(void *ctx), void *ctx);
void thread_join(pthread_t thread);

#endif
