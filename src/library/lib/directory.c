#include "lib/directory.h"

#include "base/log.h"
#include "local/local.h"
#include "net/thread.h"
#include "queue/ends.h"
#include "queue/status.h"
#include "queue/waiter.h"
#include "store/datadir.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ERROR_BYTES = 512 };

/* The phase of opening, set by the opening thread for the reactor threads. */
enum phase { PHASE_RECOVER, PHASE_RUN, PHASE_QUIT };

struct directory_reactor {
    struct directory *directory;
    uint32_t index;
    struct reactor *reactor;
    struct queue *queue;
    pthread_t thread;
    int failed; /* negative errno of recovery; `error` has the message */
    char error[ERROR_BYTES];
};

struct directory {
    struct tarry *owner;
    struct log_sink sink;
    struct local *local;
    uint32_t count; /* number of reactors */
    struct directory_reactor reactors[DATADIR_SHARDS_MAX];
    /* Used while opening. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum phase phase;
    uint32_t recovered;
    /* Used on the first reactor's thread. */
    struct waiters *waiters;
    struct deadline *expiry; /* of the next wait */
    struct list waiting;     /* waiting takes */
    struct ends *ends;
    struct list awaiting; /* waits for the end of a job */
    bool is_stopping;
};

/* ---- sleeping until a call has ended ---- */

enum { CALL_UNDER_WAY, CALL_WITH_SLEEPER, CALL_ENDED };

static void futex(atomic_uint *at, int operation, unsigned value)
{
    (void)syscall(SYS_futex, (void *)at, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

int directory_wait(struct directory_call *call)
{
    unsigned state = CALL_UNDER_WAY;
    (void)atomic_compare_exchange_strong_explicit(&call->state, &state, CALL_WITH_SLEEPER,
                                                  memory_order_acq_rel, memory_order_acquire);
    while (atomic_load_explicit(&call->state, memory_order_acquire) != CALL_ENDED)
        futex(&call->state, FUTEX_WAIT, CALL_WITH_SLEEPER);
    return call->code;
}

/* Ends a call. As soon as the state is stored, the caller may return and the call may be freed:
 * from then on only its address is used. */
static void call_end(struct directory_call *call)
{
    if (call->ended) {
        call->ended(call);
        return;
    }
    unsigned before = atomic_exchange_explicit(&call->state, CALL_ENDED, memory_order_acq_rel);
    if (before == CALL_WITH_SLEEPER)
        futex(&call->state, FUTEX_WAKE, 1);
}

/* ---- calls ---- */

static void call_replied(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct directory_call *call = owner;
    (void)tag;
    call->replied(call, reply);
    call_end(call);
}

static void call_there(struct letter *letter)
{
    struct directory_call *call = (struct directory_call *)(void *)letter;
    queue_submit(call->directory->reactors[0].queue, &call->command,
                 (struct queue_reply_to){.done = call_replied, .owner = call});
}

static void call_send(struct directory *directory, struct directory_call *call,
                      void (*run)(struct letter *letter))
{
    call->directory = directory;
    call->letter.run = run;
    atomic_init(&call->state, CALL_UNDER_WAY);
    reactor_post(directory->reactors[0].reactor, &call->letter);
}

void directory_post(struct directory *directory, struct directory_call *call)
{
    call_send(directory, call, call_there);
}

int directory_run(struct directory *directory, struct directory_call *call)
{
    directory_post(directory, call);
    return directory_wait(call);
}

/* ---- takes ---- */

static void nobody_minds(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    (void)reply;
}

static struct directory_take *take_of(struct directory_call *call)
{
    return list_entry(call, struct directory_take, call);
}

static void take_end(struct directory_take *take, int code)
{
    list_remove(&take->list);
    take->waiter->code = take->call.code = code;
    call_end(&take->call);
}

/* Returns leased jobs that were not handed to a caller. */
static void leases_return(struct directory *directory, const struct queue_job *jobs, size_t count)
{
    enum { AT_ONCE = 32 };
    struct queue_answer answers[AT_ONCE];
    for (size_t i = 0; i < count; i++) {
        answers[i % AT_ONCE] =
            (struct queue_answer){.verb = QUEUE_RETURN, .delay_ms = -1, .lease = jobs[i].lease};
        if (i % AT_ONCE == AT_ONCE - 1 || i + 1 == count)
            queue_answer(directory->reactors[0].queue, answers, i % AT_ONCE + 1,
                         (struct queue_reply_to){.done = nobody_minds});
    }
}

/* Ends a pop after its jobs were acked. Jobs that were acked belong to its caller; the others
 * are freed. */
static void pop_is_acked(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct directory_take *take = owner;
    struct waiter *waiter = take->waiter;
    size_t count = 0;
    int code = lib_code(reply->status);
    (void)tag;
    for (size_t i = 0; i < waiter->count; i++) {
        struct memory_job *job = waiter->jobs[i];
        int of_job = code ? code : lib_code(reply->results[i].status);
        if (!of_job)
            waiter->jobs[count++] = job;
        else
            memory_job_free(job);
        job->is_taken = false;
        if (of_job && !code && of_job != TARRY_LEASE_ENDED)
            code = of_job;
    }
    waiter->count = count;
    take_end(take, count ? TARRY_OK : code);
}

static void pop_ack(struct directory_take *take)
{
    struct waiter *waiter = take->waiter;
    struct queue *queue = take->call.directory->reactors[0].queue;
    struct queue_answer *answers = calloc(waiter->count, sizeof *answers);
    struct queue_reply_to reply_to = {.done = pop_is_acked, .owner = take};
    if (!answers) {
        pop_is_acked(take, 0, &(struct queue_reply){.status = QUEUE_NO_MEMORY});
        return;
    }
    for (size_t i = 0; i < waiter->count; i++)
        answers[i] =
            (struct queue_answer){.verb = QUEUE_ACK, .lease = waiter->jobs[i]->shown.lease};
    queue_answer(queue, answers, waiter->count, reply_to);
    free(answers);
}

/* Copies the jobs out of the reply. Jobs for which there is no memory are returned and are ready
 * again. */
static void take_answered(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct directory_take *take = owner;
    struct waiter *waiter = take->waiter;
    size_t *count = &waiter->count;
    (void)tag;
    (void)refused;
    list_remove(&take->list);
    while (*count < reply->job_count &&
           (waiter->jobs[*count] = memory_job_copy(&reply->jobs[*count])))
        waiter->jobs[(*count)++]->is_taken = true;
    leases_return(take->call.directory, reply->jobs + *count, reply->job_count - *count);
    if (waiter->pops && *count)
        pop_ack(take);
    else
        take_end(take, reply->job_count && !*count ? TARRY_NO_MEMORY : lib_code(reply->status));
}

static void take_there(struct letter *letter)
{
    struct directory_take *take = take_of((struct directory_call *)(void *)letter);
    struct directory *directory = take->call.directory;
    int64_t wait_ms = take->wait_ms, now_ms = clock_inner_ms_of(&directory->owner->clock);
    if (directory->is_stopping) {
        take_end(take, TARRY_STOPPING);
        return;
    }
    if (wait_ms)
        list_add_last(&directory->waiting, &take->list);
    wait_ms = wait_ms < 0 || wait_ms >= POLICY_DELAY_MS_MAX ? INT64_MAX : wait_ms ? wait_ms + 1 : 0;
    take->handle = waiter_take(directory->waiters, take->waiter->take, wait_ms, now_ms,
                               take_answered, take, 0);
    if (!take->handle)
        take_end(take, TARRY_NO_MEMORY);
}

void directory_post_take(struct directory *directory, struct directory_take *take)
{
    list_init(&take->list);
    call_send(directory, &take->call, take_there);
}

/* ---- waits for the end of a job ---- */

static struct directory_await *await_of(struct directory_call *call)
{
    return list_entry(call, struct directory_await, call);
}

static void await_end(struct directory_await *await, int code)
{
    list_remove(&await->list);
    await->waiter->code = await->call.code = code;
    call_end(&await->call);
}

/* Gives the job of the reply to the waiter and ends the wait. */
static void await_give(struct directory_await *await, const struct queue_job *job)
{
    struct waiter *waiter = await->waiter;
    waiter->jobs[0] = memory_job_copy(job);
    waiter->count = waiter->jobs[0] ? 1 : 0;
    await_end(await, waiter->count ? TARRY_OK : TARRY_NO_MEMORY);
}

static void await_shown(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct directory_await *await = owner;
    (void)tag;
    if (reply->job_count)
        await_give(await, &reply->jobs[0]);
    else
        await_end(await, lib_code(reply->status));
}

/* Reads the job as it is, because it has not ended in time or may have ended before. It can no longer be interrupted. */
static void await_show(struct directory_await *await)
{
    list_remove(&await->list);
    queue_get_finished(await->call.directory->reactors[0].queue, await->waiter->topic,
                       await->waiter->id,
                       (struct queue_reply_to){.done = await_shown, .owner = await});
}

static void await_done(void *owner, uint64_t tag, const struct ends_job *jobs, size_t count)
{
    struct directory_await *await = owner;
    (void)tag;
    (void)count;
    await->wait = NULL;
    if (jobs[0].job)
        await_give(await, jobs[0].job);
    else if (jobs[0].status == QUEUE_CANCELLED)
        await_show(await);
    else
        await_end(await,
                  jobs[0].status == QUEUE_EXISTED ? TARRY_NOT_FOUND : lib_code(jobs[0].status));
}

/* Continues after the reply of the push, whose id may have been generated. */
static void await_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct directory_await *await = owner;
    struct ends_wait *wait = await->wait;
    struct queue_result result = {.status = reply->status};
    (void)tag;
    if (reply->result_count)
        result = reply->results[0];
    bool is_pushed = queue_status_is_success(result.status);
    bool awaits = is_pushed && queue_push_awaits(&result);
    await->is_pushing = false;
    if (is_pushed && queue_push_is_known(&result) && !await->stopped) {
        ends_pushed_before(wait);
        return;
    }
    if (awaits && !await->stopped) {
        ends_pushed(wait, true); /* if its time is over, this ends it */
        return;
    }
    ends_pushed(wait, awaits);
    if (!is_pushed)
        await_end(await, lib_code(result.status));
    else if (await->stopped)
        await_end(await, await->stopped);
    else
        await_show(await);
}

static void await_there(struct letter *letter)
{
    struct directory_await *await = await_of((struct directory_call *)(void *)letter);
    struct directory *directory = await->call.directory;
    struct waiter *waiter = await->waiter;
    struct queue *queue = directory->reactors[0].queue;
    int64_t wait_ms = await->wait_ms, now_ms = clock_inner_ms_of(&directory->owner->clock);
    const struct queue_reply_to *ended;
    const struct queue_find name = {.topic = waiter->topic, .id = waiter->id};
    const struct ends_order order = {.names = &name,
                                     .count = 1,
                                     .wait_ms = wait_ms < 0 || wait_ms >= POLICY_DELAY_MS_MAX
                                                    ? INT64_MAX / 2
                                                : wait_ms ? wait_ms + 1
                                                          : 0,
                                     .done = await_done,
                                     .owner = await};
    if (directory->is_stopping) {
        await_end(await, TARRY_STOPPING);
        return;
    }
    if (waiter->push)
        await->wait = ends_wait_push(directory->ends, &order, now_ms, &ended);
    else
        await->wait = ends_wait(directory->ends, &order, now_ms);
    if (!await->wait) {
        await_end(await, TARRY_NO_MEMORY);
        return;
    }
    list_add_last(&directory->awaiting, &await->list);
    if (!waiter->push)
        return;
    await->is_pushing = true;
    await->push.ended = ended;
    queue_push(queue, &await->push, 1,
               (struct queue_reply_to){.done = await_pushed, .owner = await});
}

void directory_post_await(struct directory *directory, struct directory_await *await)
{
    list_init(&await->list);
    call_send(directory, &await->call, await_there);
}

/* Ends the waits for jobs with this tag, or all if `tag` is 0. One whose push has no reply yet ends with the reply. */
static size_t end_awaits(struct directory *directory, uint64_t tag, int code)
{
    size_t count = 0;
    for (struct list *at = directory->awaiting.next, *next; at != &directory->awaiting; at = next) {
        struct directory_await *await = list_entry(at, struct directory_await, list);
        next = at->next;
        if (tag && await->waiter->tag != tag)
            continue;
        count++;
        if (!await->stopped)
            ends_cancel(await->wait);
        await->stopped = code;
        if (!await->is_pushing)
            await_end(await, code);
    }
    return count;
}

/* Ends the waits with this tag, or all waits if `tag` is 0. Returns their number. */
static size_t end_waits(struct directory *directory, uint64_t tag, int code)
{
    size_t count = end_awaits(directory, tag, code);
    for (struct list *at = directory->waiting.next, *next; at != &directory->waiting; at = next) {
        struct directory_take *take = list_entry(at, struct directory_take, list);
        next = at->next;
        if (tag && take->waiter->tag != tag)
            continue;
        waiter_cancel(directory->waiters, take->handle);
        take_end(take, code);
        count++;
    }
    return count;
}

/* ---- orders: requests to the first reactor's thread ---- */

struct order {
    struct directory_call call;
    uint64_t tag;
    size_t count;
    struct memory_job *const *jobs;
};

static void order_run(struct directory *directory, struct order *order,
                      void (*run)(struct letter *letter))
{
    call_send(directory, &order->call, run);
    (void)directory_wait(&order->call);
}

static void interrupt_there(struct letter *letter)
{
    struct order *order = (struct order *)(void *)letter;
    order->count = end_waits(order->call.directory, order->tag, TARRY_INTERRUPTED);
    call_end(&order->call);
}

size_t directory_interrupt(struct directory *directory, uint64_t tag)
{
    struct order order = {.tag = tag};
    order_run(directory, &order, interrupt_there);
    return order.count;
}

static void end_waits_there(struct letter *letter)
{
    struct order *order = (struct order *)(void *)letter;
    struct directory *directory = order->call.directory;
    directory->is_stopping = true;
    (void)end_waits(directory, 0, TARRY_STOPPING);
    call_end(&order->call);
}

void directory_end_waits(struct directory *directory)
{
    order_run(directory, &(struct order){0}, end_waits_there);
}

static void dropped_there(struct letter *letter)
{
    struct order *order = (struct order *)(void *)letter;
    struct queue_info info;
    queue_info(order->call.directory->reactors[0].queue, &info);
    for (int reason = 0; reason < QUEUE_DROPS; reason++)
        order->count += info.finished_dropped[reason];
    call_end(&order->call);
}

uint64_t directory_dropped(struct directory *directory)
{
    struct order order = {0};
    order_run(directory, &order, dropped_there);
    return order.count;
}

static void return_jobs_there(struct letter *letter)
{
    struct order *order = (struct order *)(void *)letter;
    for (size_t i = 0; i < order->count; i++)
        leases_return(order->call.directory, &order->jobs[i]->shown, 1);
    call_end(&order->call);
}

void directory_return_jobs(struct directory *directory, struct memory_job *const *jobs,
                           size_t count)
{
    order_run(directory, &(struct order){.jobs = jobs, .count = count}, return_jobs_there);
}

/* ---- waits that time out ---- */

static void on_expiry(void *ctx)
{
    struct directory *directory = ctx;
    int64_t now_ms = clock_inner_ms_of(&directory->owner->clock);
    waiters_expire(directory->waiters, now_ms);
    ends_expire(directory->ends, now_ms);
}

/* Sets the timer for the next wait that ends. Called at the end of each iteration of the event
 * loop. */
static bool expiry_set(void *ctx)
{
    struct directory *directory = ctx;
    int64_t next_ms = waiters_next_ms(directory->waiters);
    if (ends_next_ms(directory->ends) < next_ms)
        next_ms = ends_next_ms(directory->ends);
    deadline_set(directory->expiry, clock_process_ms(&directory->owner->clock, next_ms));
    return false;
}

/* ---- opening ---- */

static void reactor_thread(void *ctx)
{
    struct directory_reactor *mine = ctx;
    struct directory *directory = mine->directory;
    mine->failed = local_attach(directory->local, mine->index, mine->reactor, &mine->queue,
                                mine->error, sizeof mine->error);
    pthread_mutex_lock(&directory->lock);
    directory->recovered++;
    pthread_cond_broadcast(&directory->changed);
    while (directory->phase == PHASE_RECOVER)
        pthread_cond_wait(&directory->changed, &directory->lock);
    bool runs = directory->phase == PHASE_RUN;
    pthread_mutex_unlock(&directory->lock);
    if (runs)
        reactor_run(mine->reactor);
}

static void phase_set(struct directory *directory, enum phase phase)
{
    pthread_mutex_lock(&directory->lock);
    directory->phase = phase;
    pthread_cond_broadcast(&directory->changed);
    pthread_mutex_unlock(&directory->lock);
}

static void threads_join(struct directory *directory, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        thread_join(directory->reactors[i].thread);
}

static void recovered_wait(struct directory *directory)
{
    pthread_mutex_lock(&directory->lock);
    while (directory->recovered < directory->count)
        pthread_cond_wait(&directory->changed, &directory->lock);
    pthread_mutex_unlock(&directory->lock);
}

static int open_failed(char *error, int failed, const char *words)
{
    snprintf(error, ERROR_BYTES, "%s", words);
    return failed;
}

static int reactors_new(struct directory *directory, char *error)
{
    for (uint32_t i = 0; i < directory->count; i++) {
        struct directory_reactor *mine = &directory->reactors[i];
        mine->directory = directory;
        mine->index = i;
        mine->reactor = reactor_new(i);
        if (!mine->reactor)
            return open_failed(
                error, -ENOMEM,
                "cannot make an event loop, the process is out of memory or file descriptors");
    }
    return 0;
}

/* Creates the objects that only the first reactor has, before it runs. */
static int waiters_make(struct directory *directory, char *error)
{
    struct directory_reactor *first = &directory->reactors[0];
    directory->waiters = waiters_new(first->queue, SIZE_MAX);
    directory->ends = ends_new(first->queue, SIZE_MAX);
    directory->expiry = deadline_new(first->reactor, on_expiry, directory);
    if (!directory->waiters || !directory->ends || !directory->expiry)
        return open_failed(error, -ENOMEM,
                           "cannot make a timer, the process is out of memory or file descriptors");
    reactor_at_iteration_end(first->reactor, expiry_set, directory);
    return 0;
}

/* Recovers each shard on the thread of its reactor, which runs the shard afterwards. */
static int threads_start(struct directory *directory, char *error)
{
    uint32_t started = 0;
    int failed = 0;
    for (; started < directory->count && !failed; started += !failed) {
        char name[32];
        snprintf(name, sizeof name, "tarry %u", started);
        failed = -thread_start(&directory->reactors[started].thread, name, reactor_thread,
                               &directory->reactors[started]);
    }
    if (failed)
        snprintf(error, ERROR_BYTES, "cannot start a thread: %s", strerror(-failed));
    else
        recovered_wait(directory);
    for (uint32_t i = 0; i < started && !failed; i++)
        if (directory->reactors[i].failed)
            failed =
                open_failed(error, directory->reactors[i].failed, directory->reactors[i].error);
    if (!failed)
        failed = waiters_make(directory, error);
    phase_set(directory, failed ? PHASE_QUIT : PHASE_RUN);
    if (failed)
        threads_join(directory, started);
    return failed;
}

/* Frees the directory, also after a failed opening. No thread may be running. */
static void directory_free(struct directory *directory)
{
    deadline_free(directory->expiry);
    waiters_free(directory->waiters);
    ends_free(directory->ends);
    local_free(directory->local);
    for (uint32_t i = 0; i < directory->count; i++)
        reactor_free(directory->reactors[i].reactor);
    pthread_cond_destroy(&directory->changed);
    pthread_mutex_destroy(&directory->lock);
    free(directory);
}

static struct local_options local_options_of(struct tarry *queue,
                                             const struct tarry_options *options)
{
    static const enum wal_sync syncs[] = {[0] = WAL_SYNC_ALWAYS,
                                          [TARRY_SYNC_ALWAYS] = WAL_SYNC_ALWAYS,
                                          [TARRY_SYNC_INTERVAL] = WAL_SYNC_INTERVAL,
                                          [TARRY_SYNC_NEVER] = WAL_SYNC_NEVER};
    return (struct local_options){.data_dir = options->dir,
                                  .shards = options->shards,
                                  .sync = syncs[options->sync],
                                  .sync_interval_ms = options->sync_interval_ms,
                                  .wal_file_bytes = options->wal_file_bytes,
                                  .body_bytes_max = queue->options.body_bytes_max,
                                  .topics_max = queue->options.topics_max,
                                  .clock = &queue->clock};
}

static int open_code(int failed)
{
    return failed == -EBUSY    ? TARRY_IN_USE
           : failed == -ENOMEM ? TARRY_NO_MEMORY
           : failed == -ENOSPC ? TARRY_NO_SPACE
                               : TARRY_UNAVAILABLE;
}

int directory_open(struct tarry *queue, const struct tarry_options *options, char *error,
                   size_t error_bytes)
{
    struct directory *directory = calloc(1, sizeof *directory);
    char words[ERROR_BYTES] = "cannot open a queue: out of memory";
    int failed = -ENOMEM;
    if (directory) {
        *directory = (struct directory){.owner = queue, .sink = {options->log, options->log_owner}};
        pthread_mutex_init(&directory->lock, NULL);
        pthread_cond_init(&directory->changed, NULL);
        list_init(&directory->waiting);
        list_init(&directory->awaiting);
        const struct log_sink *before = log_use_sink(&directory->sink);
        struct local_options local = local_options_of(queue, options);
        failed = local_open(&local, &directory->local, &directory->count, words, sizeof words);
        if (!failed)
            failed = reactors_new(directory, words);
        if (!failed)
            failed = threads_start(directory, words);
        if (failed)
            directory_free(directory);
        log_use_sink(before);
    }
    if (failed && error && error_bytes)
        snprintf(error, error_bytes, "%s", words);
    if (!failed)
        queue->directory = directory;
    return failed ? open_code(failed) : TARRY_OK;
}

/* ---- closing ---- */

static void on_stopped(void *ctx)
{
    call_end(ctx);
}

void directory_close(struct directory *directory)
{
    struct directory_call stop = {.state = CALL_UNDER_WAY};
    const struct log_sink *before = log_use_sink(&directory->sink);
    local_stop(directory->local, on_stopped, &stop);
    (void)directory_wait(&stop);
    for (uint32_t i = 0; i < directory->count; i++)
        reactor_stop(directory->reactors[i].reactor);
    threads_join(directory, directory->count);
    directory_free(directory);
    log_use_sink(before);
}

void directory_leave(struct directory *directory)
{
    local_leave(directory->local);
}
