/* Entering and leaving the queue: the lock, and whether the process still is the one that opened
 * the queue. */
#include "lib/state.h"

#include <sys/mman.h>
#include <unistd.h>

/* ---- fork ---- */

/* Number of calls of fork between the process that made the first queue and this one. qemu accepts
 * MADV_WIPEONFORK and does not wipe; the page alone detects a child that was made without fork. */
static atomic_uint forks;

static void forks_count(void)
{
    atomic_fetch_add(&forks, 1);
}

static void forks_watch(void)
{
    (void)pthread_atfork(NULL, NULL, forks_count);
}

/* Maps a page that the kernel wipes in a child. Reading it is free, whereas getpid is a system
 * call. */
void lib_fork_mark_make(struct tarry *queue)
{
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    (void)pthread_once(&watched, forks_watch);
    queue->forks = atomic_load(&forks);
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    queue->pid = getpid();
    if (page == MAP_FAILED)
        return;
    if (madvise(page, bytes, MADV_WIPEONFORK)) {
        munmap(page, bytes);
        return;
    }
    queue->fork_mark = page;
    *queue->fork_mark = 1;
}

void lib_fork_mark_free(struct tarry *queue)
{
    if (queue->fork_mark)
        munmap((void *)(uintptr_t)queue->fork_mark, (size_t)sysconf(_SC_PAGESIZE));
}

bool lib_is_forked(const struct tarry *queue)
{
    return queue->forks != atomic_load_explicit(&forks, memory_order_relaxed) ||
           (queue->fork_mark ? !*queue->fork_mark : queue->pid != getpid());
}

/* ---- entering and leaving ---- */

int lib_begin(struct tarry *queue)
{
    if (lib_is_forked(queue))
        return TARRY_FORKED;
    /* The order is the reverse of that in tarry_close, so that at least one of the two sees the
     * other. */
    atomic_fetch_add(&queue->callers, 1);
    if (!atomic_load(&queue->is_closing))
        return TARRY_OK;
    lib_end(queue);
    return TARRY_STOPPING;
}

void lib_end(struct tarry *queue)
{
    atomic_fetch_sub_explicit(&queue->callers, 1, memory_order_release);
}

int lib_enter(struct tarry *queue)
{
    if (lib_is_forked(queue))
        return TARRY_FORKED;
    atomic_fetch_add_explicit(&queue->callers, 1, memory_order_relaxed);
    pthread_mutex_lock(&queue->lock);
    if (atomic_load_explicit(&queue->is_closing, memory_order_relaxed)) {
        lib_unlock(queue);
        return TARRY_STOPPING;
    }
    if (!queue->memory)
        return TARRY_OK;
    queue->now = memory_now(queue->memory);
    memory_advance(queue->memory, queue->now);
    if (queue->is_ready && !list_is_empty(&queue->waiters))
        lib_serve(queue); /* waiters come before this call */
    return TARRY_OK;
}

void lib_leave(struct tarry *queue)
{
    if (!list_is_empty(&queue->waiters))
        lib_serve(queue);
    queue->is_ready = false;
    if (!list_is_empty(&queue->waiters))
        lib_set_alarm(queue);
    if (!queue->submitted_waiters && (queue->timer_ms != INT64_MAX || queue->is_wall_watched))
        lib_set_timer(queue, INT64_MAX);
    lib_unlock(queue);
}

void lib_unlock(struct tarry *queue)
{
    pthread_mutex_unlock(&queue->lock);
    atomic_fetch_sub_explicit(&queue->callers, 1, memory_order_release);
}
