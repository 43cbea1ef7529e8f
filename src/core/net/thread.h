/*
 * thread: the only file that starts threads.
 *
 * A thread receives no signals: they are for the main thread of the process. Its name is shown in
 * the system's lists, truncated to 15 bytes. It logs to the same destination as the thread that
 * starts it (base/log.h).
 */
#ifndef TARRY_NET_THREAD_H
#define TARRY_NET_THREAD_H

#include <pthread.h>

/* Starts a thread. Returns 0, or the error number if the system cannot create a thread. `ctx` must
 * live until thread_join. */
int thread_start(pthread_t *thread, const char *name, void (*run)(void *ctx), void *ctx);
void thread_join(pthread_t thread);

#endif
