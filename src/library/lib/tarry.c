/* The library's handle: opening, closing, and its clock. */
#include "base/random.h"
#include "job/job.h"
#include "lib/directory.h"
#include "lib/state.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TOPICS_MAX = 10000, SYNC_INTERVAL_MS_MAX = 60000, SHARDS_MAX = 64 };
enum { WAL_FILE_BYTES_LEAST = 4 << 20, WAL_FILE_BYTES_MOST = 1 << 30 };
/* Latest time of a test clock. Any time that can be requested, up to ten years later, is still
 * representable. */
static const int64_t CLOCK_MS_MAX = INT64_C(1) << 47;

static void tarry_on_ready(void *ctx, struct slice topic)
{
    (void)topic;
    ((struct tarry *)ctx)->is_ready = true;
}

/* ---- open and close ---- */

static int open_failed(char *error, size_t error_bytes, int code, const char *text)
{
    if (error && error_bytes)
        snprintf(error, error_bytes, "%s", text);
    return code;
}

static void queue_init(struct tarry *queue, const struct tarry_options *options)
{
    pthread_mutex_init(&queue->lock, NULL);
    list_init(&queue->waiters);
    list_init(&queue->done);
    list_init(&queue->callback_threads);
    queue->leader_ms = queue->timer_ms = queue->waits_ms = INT64_MAX;
    queue->epoll_fd = queue->event_fd = queue->timer_fd = queue->wall_fd = -1;
    queue->wake_fd = queue->watch_fd = -1;
    queue->clock = (struct clock)CLOCK_INIT;
    queue->has_test_clock = options->flags & TARRY_TEST_CLOCK;
    if (queue->has_test_clock) {
        int64_t ms = options->test_clock_ms ? options->test_clock_ms : clock_wall_ms();
        clock_hold(&queue->clock, ms, ms);
    }
    ulid_init(&queue->ulid, random_u64());
    queue->options = (struct memory_options){
        .body_bytes_max = options->body_max ? options->body_max : JOB_BODY_BYTES_MAX,
        .bytes_max = options->memory_max,
        .topics_max = options->topics_max ? options->topics_max : TOPICS_MAX,
        .clock = &queue->clock,
        .ready = tarry_on_ready,
        .ctx = queue};
    lib_fork_mark_make(queue);
}

static void queue_free(struct tarry *queue)
{
    memory_free(queue->memory);
    lib_leader_fds_close(queue);
    pthread_mutex_destroy(&queue->lock);
    lib_fork_mark_free(queue);
    free(queue);
}

/* Returns what is wrong with the storage options, or NULL if they are valid. */
static const char *directory_fault(const struct tarry_options *options, bool may_hold)
{
    bool has_interval = options->sync == TARRY_SYNC_INTERVAL;
    if (!options->dir &&
        (options->sync || options->sync_interval_ms || options->shards || options->wal_file_bytes))
        return "bad value in 'sync', 'sync_interval_ms', 'shards' or 'wal_file_bytes': they are "
               "for a queue in a directory, set 'dir'";
    if (options->dir && !options->dir[0])
        return "bad value in 'dir': give the path of a directory, or NULL";
    if (options->dir && options->memory_max)
        return "bad value in 'memory_max': it is for a queue in memory, set it to 0";
    if (options->dir && options->flags & TARRY_TEST_CLOCK && !may_hold)
        return "bad value in 'flags': a queue in a directory has no test clock";
    if (options->sync > TARRY_SYNC_NEVER)
        return "bad value in 'sync': give TARRY_SYNC_ALWAYS, TARRY_SYNC_INTERVAL or "
               "TARRY_SYNC_NEVER";
    if (has_interval != (options->sync_interval_ms != 0) || options->sync_interval_ms < 0 ||
        options->sync_interval_ms > SYNC_INTERVAL_MS_MAX)
        return "bad value in 'sync_interval_ms': give 1 to 60000 with TARRY_SYNC_INTERVAL, and 0 "
               "without";
    if (options->wal_file_bytes && (options->wal_file_bytes < WAL_FILE_BYTES_LEAST ||
                                    options->wal_file_bytes > WAL_FILE_BYTES_MOST))
        return "bad value in 'wal_file_bytes': give 4194304 to 1073741824, or 0";
    if (options->shards > SHARDS_MAX)
        return "bad value in 'shards': give 1 to 64, or 0 for the number of the directory";
    return NULL;
}

int tarry_open(const struct tarry_options *options, tarry **out, char *error, size_t error_bytes)
{
    return lib_open(options, false, out, error, error_bytes);
}

int lib_open(const struct tarry_options *from, bool may_hold, struct tarry **out, char *error,
             size_t error_bytes)
{
    struct tarry_options options = {0};
    *out = NULL;
    if (from && !lib_read(&options, sizeof options, from))
        return open_failed(
            error, error_bytes, TARRY_BAD_OPTION,
            "bad options: set 'size' to sizeof(struct tarry_options), and unused members to zero");
    if (options.flags & ~(uint32_t)TARRY_TEST_CLOCK)
        return open_failed(error, error_bytes, TARRY_BAD_OPTION,
                           "bad value in 'flags' of the options: give TARRY_TEST_CLOCK or 0");
    if (options.test_clock_ms < 0 || options.test_clock_ms > CLOCK_MS_MAX)
        return open_failed(error, error_bytes, TARRY_BAD_OPTION,
                           "bad value in 'test_clock_ms': give milliseconds since 1970, at most "
                           "140737488355328");
    if (options.body_max > UINT32_MAX / 2)
        return open_failed(error, error_bytes, TARRY_BAD_OPTION,
                           "bad value in 'body_max': give at most 2147483647");
    const char *fault = directory_fault(&options, may_hold);
    if (fault)
        return open_failed(error, error_bytes, TARRY_BAD_OPTION, fault);
    struct tarry *queue = calloc(1, sizeof *queue);
    if (!queue)
        return open_failed(error, error_bytes, TARRY_NO_MEMORY,
                           "cannot open a queue: out of memory");
    queue_init(queue, &options);
    int code = TARRY_OK;
    if (options.dir)
        code = directory_open(queue, &options, error, error_bytes);
    else if (!(queue->memory = memory_new(&queue->options)))
        code =
            open_failed(error, error_bytes, TARRY_NO_MEMORY, "cannot open a queue: out of memory");
    if (code)
        queue_free(queue);
    else
        *out = queue;
    return code;
}

int tarry_close(tarry *queue)
{
    if (!queue)
        return TARRY_OK;
    if (lib_is_forked(queue)) {
        if (queue->directory)
            directory_leave(queue->directory);
        return TARRY_FORKED;
    }
    pthread_mutex_lock(&queue->lock);
    int code = lib_is_in_callback(queue) ? TARRY_IN_CALLBACK
               : queue->is_closing       ? TARRY_STOPPING
                                         : TARRY_OK;
    if (code) {
        pthread_mutex_unlock(&queue->lock);
        return code;
    }
    atomic_store(&queue->is_closing, true);
    while (!list_is_empty(&queue->waiters))
        lib_waiter_end(queue, list_entry(queue->waiters.next, struct waiter, list), TARRY_STOPPING);
    pthread_mutex_unlock(&queue->lock);
    if (queue->directory)
        directory_end_waits(queue->directory);
    /* Remaining callers are leaving or in a callback, and hold nothing that this thread needs. */
    const struct timespec pause = {.tv_nsec = 1000000};
    while (atomic_load(&queue->callers))
        nanosleep(&pause, NULL);
    lib_submitted_free(queue);
    if (queue->directory)
        directory_close(queue->directory);
    queue_free(queue);
    return TARRY_OK;
}

/* ---- time ---- */

int64_t tarry_now_ms(tarry *queue)
{
    return clock_inner_ms_of(&queue->clock);
}

/* Returns the time of the next event, at most `until_ms`. */
static int64_t next_moment(const struct tarry *queue, int64_t until_ms)
{
    int64_t next_ms = memory_next_ms(queue->memory);
    if (queue->waits_ms < next_ms)
        next_ms = queue->waits_ms;
    return next_ms < until_ms ? next_ms : until_ms;
}

int64_t tarry_next_ms(tarry *queue)
{
    if (queue->directory || lib_enter(queue))
        return -1;
    lib_serve(queue);
    int64_t next_ms = next_moment(queue, INT64_MAX);
    int64_t rest_ms = next_ms == INT64_MAX             ? -1
                      : next_ms <= queue->now.inner_ms ? 0
                                                       : next_ms - queue->now.inner_ms;
    lib_leave(queue);
    return rest_ms;
}

int tarry_advance(tarry *queue, int64_t ms)
{
    if (!queue->has_test_clock || queue->directory || ms < 0 || ms > POLICY_DELAY_MS_MAX)
        return TARRY_BAD_OPTION;
    int code = lib_enter(queue);
    if (code)
        return code;
    if (ms > CLOCK_MS_MAX - queue->now.inner_ms) {
        lib_leave(queue);
        return TARRY_BAD_OPTION;
    }
    int64_t until_ms = queue->now.inner_ms + ms;
    for (;;) {
        lib_serve(queue);
        int64_t next_ms = next_moment(queue, until_ms);
        if (next_ms > queue->now.inner_ms)
            clock_advance(&queue->clock, next_ms - queue->now.inner_ms);
        queue->now = memory_now(queue->memory);
        memory_advance(queue->memory, queue->now);
        if (queue->now.inner_ms >= until_ms)
            break;
    }
    lib_leave(queue);
    return TARRY_OK;
}
