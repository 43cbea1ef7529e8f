#include "targets/amqp_worker.h"

#include "base/clock.h"
#include "net/thread.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TURN_MESSAGES = 256, /* published before it looks at what came back */
    LOOK_MS = TARGET_AMQP_HEARTBEAT_S * 1000 / 2,
    IDLE_MS = 60000,
    PAUSE_MS = 100,
    PAUSE_MS_MAX = 5000
};

static void move_all(struct list *from, struct list *to)
{
    if (list_is_empty(from))
        return;
    struct list *first = from->next, *last = from->prev;
    list_init(from);
    first->prev = to->prev;
    to->prev->next = first;
    last->next = to;
    to->prev = last;
}

static struct target_amqp_message *first_of(struct list *list)
{
    return list_entry(list->next, struct target_amqp_message, list);
}

int target_amqp_worker_init(struct target_amqp_worker *worker, struct guard *guard,
                            const struct target_amqp_url *url, const char *version,
                            const struct target_amqp_told *told, void *ctx)
{
    *worker = (struct target_amqp_worker){.told = *told, .ctx = ctx, .pause_ms = PAUSE_MS};
    int fault = target_amqp_link_init(&worker->link, guard, url, version, "tarry delivery");
    if (fault != 0)
        return fault;
    list_init(&worker->own_settled);
    list_init(&worker->taken);
    list_init(&worker->queue);
    list_init(&worker->settled);
    pthread_mutex_init(&worker->mutex, NULL);
    for (uint16_t i = 0; i < TARGET_AMQP_CHANNELS; i++)
        target_amqp_channel_init(&worker->channels[i], (uint16_t)(i + 1), &worker->own_settled);
    return 0;
}

void target_amqp_worker_fini(struct target_amqp_worker *worker)
{
    for (size_t i = 0; i < TARGET_AMQP_CHANNELS; i++)
        target_amqp_channel_fini(&worker->channels[i]);
    target_amqp_link_fini(&worker->link);
    pthread_mutex_destroy(&worker->mutex);
}

/* ---- between the threads ---- */

static void set_trouble(struct target_amqp_worker *worker, const char *trouble)
{
    pthread_mutex_lock(&worker->mutex);
    snprintf(worker->trouble, sizeof(worker->trouble), "%s", trouble);
    pthread_mutex_unlock(&worker->mutex);
}

static void hand_back(struct target_amqp_worker *worker)
{
    if (list_is_empty(&worker->own_settled))
        return;
    pthread_mutex_lock(&worker->mutex);
    bool is_first = list_is_empty(&worker->settled);
    move_all(&worker->own_settled, &worker->settled);
    pthread_mutex_unlock(&worker->mutex);
    if (is_first)
        worker->told.settled(worker->ctx);
}

static bool is_stopping(struct target_amqp_worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    bool stopping = worker->is_stopping;
    pthread_mutex_unlock(&worker->mutex);
    return stopping;
}

/* At most TURN_MESSAGES of the queue are the thread's from now on. */
static void take_some(struct target_amqp_worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    for (size_t n = 0; n < TURN_MESSAGES && !list_is_empty(&worker->queue); n++) {
        struct target_amqp_message *message = first_of(&worker->queue);
        message->stage = TARGET_AMQP_TAKEN;
        list_remove(&message->list);
        list_add_last(&worker->taken, &message->list);
    }
    pthread_mutex_unlock(&worker->mutex);
}

/* What was taken and not published goes to the front of the queue again. */
static void put_back(struct target_amqp_worker *worker)
{
    struct list rest;
    list_init(&rest);
    pthread_mutex_lock(&worker->mutex);
    while (!list_is_empty(&worker->taken)) {
        struct target_amqp_message *message = first_of(&worker->taken);
        list_remove(&message->list);
        message->stage = TARGET_AMQP_QUEUED;
        if (atomic_load(&message->is_abandoned))
            target_amqp_settle(&worker->own_settled, message, TARGET_FAILED, false, 0, "given up");
        else
            list_add_last(&rest, &message->list);
    }
    move_all(&worker->queue, &rest);
    move_all(&rest, &worker->queue);
    pthread_mutex_unlock(&worker->mutex);
}

static void settle_queue(struct target_amqp_worker *worker, const char *error)
{
    pthread_mutex_lock(&worker->mutex);
    while (!list_is_empty(&worker->queue)) {
        struct target_amqp_message *message = first_of(&worker->queue);
        list_remove(&message->list);
        message->stage = TARGET_AMQP_TAKEN;
        target_amqp_settle(&worker->own_settled, message, TARGET_UNSENT, true, 0, error);
    }
    pthread_mutex_unlock(&worker->mutex);
}

/* Sleeps; a message that comes wakes it. */
static void rest(struct target_amqp_worker *worker, int64_t wait_ms, bool also_if_queued)
{
    pthread_mutex_lock(&worker->mutex);
    bool may = !worker->is_stopping && (also_if_queued || list_is_empty(&worker->queue));
    worker->is_idle = may;
    pthread_mutex_unlock(&worker->mutex);
    target_amqp_link_wait(&worker->link, may ? wait_ms : 0);
    pthread_mutex_lock(&worker->mutex);
    worker->is_idle = false;
    pthread_mutex_unlock(&worker->mutex);
}

/* ---- the connection ---- */

static void lose(struct target_amqp_worker *worker, const char *error)
{
    for (size_t i = 0; i < TARGET_AMQP_CHANNELS; i++)
        target_amqp_channel_lose(&worker->channels[i], error);
    put_back(worker);
    target_amqp_link_close(&worker->link, false);
    worker->is_blocked = false;
    set_trouble(worker, error);
    worker->next_open_ms = clock_boot_us() / 1000 + worker->pause_ms;
    worker->pause_ms = worker->pause_ms * 2 < PAUSE_MS_MAX ? worker->pause_ms * 2 : PAUSE_MS_MAX;
}

/* Waits for something to send, for the time of the next try, then tries. */
static void try_open(struct target_amqp_worker *worker)
{
    char error[TARGET_ERROR_BYTES];
    int64_t left_ms = worker->next_open_ms - clock_boot_us() / 1000;
    if (left_ms > 0) {
        rest(worker, left_ms, true);
        return;
    }
    pthread_mutex_lock(&worker->mutex);
    bool is_wanted = !list_is_empty(&worker->queue);
    pthread_mutex_unlock(&worker->mutex);
    if (!is_wanted) {
        rest(worker, -1, false);
    } else if (target_amqp_link_open(&worker->link, error)) {
        worker->is_blocked = false;
        worker->used_ms = clock_boot_us() / 1000;
        set_trouble(worker, "");
    } else {
        lose(worker, error);
        settle_queue(worker, error);
    }
}

static bool publish_taken(struct target_amqp_worker *worker, char *error)
{
    while (!list_is_empty(&worker->taken)) {
        struct target_amqp_message *message = first_of(&worker->taken);
        struct target_amqp_channel *channel =
            target_amqp_channel_find(worker->channels, message->exchange);
        if (!target_amqp_channel_has_room(channel))
            break;
        list_remove(&message->list);
        if (!target_amqp_channel_publish(channel, &worker->link, message, error))
            return false;
    }
    for (size_t i = 0; i < TARGET_AMQP_CHANNELS; i++)
        if (!target_amqp_channel_go_on(&worker->channels[i], &worker->link, error))
            return false;
    return true;
}

static bool publish(struct target_amqp_worker *worker, char *error)
{
    if (worker->is_blocked)
        return true;
    if (list_is_empty(&worker->taken))
        take_some(worker);
    if (!list_is_empty(&worker->taken))
        worker->used_ms = clock_boot_us() / 1000;
    target_amqp_link_gather(&worker->link, true);
    bool ok = publish_taken(worker, error);
    target_amqp_link_gather(&worker->link, false);
    return ok;
}

/* A frame of channel 0: what concerns the connection as a whole. */
static bool take_connection_frame(struct target_amqp_worker *worker, const amqp_frame_t *frame,
                                  char *error)
{
    if (frame->frame_type != AMQP_FRAME_METHOD)
        return true;
    if (frame->payload.method.id == AMQP_CONNECTION_CLOSE_METHOD) {
        target_amqp_link_closed_by_peer(&worker->link, frame->payload.method.decoded, error);
        return false;
    }
    if (frame->payload.method.id == AMQP_CONNECTION_BLOCKED_METHOD) {
        const amqp_connection_blocked_t *blocked = frame->payload.method.decoded;
        snprintf(error, TARGET_ERROR_BYTES, "rabbitmq takes no messages (connection.blocked): %.*s",
                 (int)(blocked->reason.len < 100 ? blocked->reason.len : 100),
                 (const char *)blocked->reason.bytes);
        worker->is_blocked = true;
        put_back(worker);
        set_trouble(worker, error);
    } else if (frame->payload.method.id == AMQP_CONNECTION_UNBLOCKED_METHOD) {
        worker->is_blocked = false;
        set_trouble(worker, "");
    }
    return true;
}

static bool read_frames(struct target_amqp_worker *worker, char *error)
{
    amqp_frame_t frame;
    int got;
    while ((got = target_amqp_link_next(&worker->link, &frame, error)) == 1) {
        bool ok = true;
        worker->pause_ms = PAUSE_MS; /* it works */
        if (frame.channel == 0)
            ok = take_connection_frame(worker, &frame, error);
        else if (frame.channel <= TARGET_AMQP_CHANNELS)
            ok = target_amqp_channel_take_frame(&worker->channels[frame.channel - 1], &worker->link,
                                                &frame, error);
        if (!ok)
            return false;
    }
    target_amqp_link_release(&worker->link);
    return got == 0;
}

/* Something is left to do at once: what goes one at a time, or what there is room for again. */
static bool may_go_on(struct target_amqp_worker *worker)
{
    if (worker->is_blocked)
        return false;
    for (size_t i = 0; i < TARGET_AMQP_CHANNELS; i++)
        if (worker->channels[i].first == worker->channels[i].next &&
            !list_is_empty(&worker->channels[i].careful))
            return true;
    return !list_is_empty(&worker->taken) &&
           target_amqp_channel_has_room(
               target_amqp_channel_find(worker->channels, first_of(&worker->taken)->exchange));
}

/* For a minute there was nothing to send: a connection wakes up for its heartbeats. */
static bool is_out_of_use(const struct target_amqp_worker *worker)
{
    for (size_t i = 0; i < TARGET_AMQP_CHANNELS; i++)
        if (!target_amqp_channel_is_idle(&worker->channels[i]))
            return false;
    return !worker->is_blocked && list_is_empty(&worker->taken) &&
           clock_boot_us() / 1000 - worker->used_ms >= IDLE_MS;
}

static void close_idle(struct target_amqp_worker *worker)
{
    target_amqp_link_close(&worker->link, true);
    for (size_t i = 0; i < TARGET_AMQP_CHANNELS; i++)
        target_amqp_channel_lose(&worker->channels[i], "");
    worker->is_blocked = false;
    worker->pause_ms = PAUSE_MS;
    set_trouble(worker, "");
}

static void work(struct target_amqp_worker *worker)
{
    char error[TARGET_ERROR_BYTES];
    if (!target_amqp_link_is_allowed(&worker->link, error) || !publish(worker, error) ||
        !read_frames(worker, error))
        lose(worker, error);
    hand_back(worker);
    if (worker->link.state && is_out_of_use(worker))
        close_idle(worker);
    else if (worker->link.state && !may_go_on(worker))
        rest(worker, LOOK_MS, worker->is_blocked || !list_is_empty(&worker->taken));
}

static void run(void *ctx)
{
    struct target_amqp_worker *worker = ctx;
    while (!is_stopping(worker)) {
        if (worker->link.state)
            work(worker);
        else
            try_open(worker);
        hand_back(worker);
    }
    target_amqp_link_close(&worker->link, !atomic_load(&worker->link.is_cut));
    lose(worker, "given up, tarry closes the connection");
    settle_queue(worker, "given up, tarry closes the connection");
    hand_back(worker);
    worker->told.ended(worker->ctx);
}

/* ---- the reactor's side ---- */

int target_amqp_worker_start(struct target_amqp_worker *worker)
{
    return -thread_start(&worker->thread, "amqp", run, worker);
}

void target_amqp_worker_stop(struct target_amqp_worker *worker, bool at_once)
{
    pthread_mutex_lock(&worker->mutex);
    worker->is_stopping = true;
    pthread_mutex_unlock(&worker->mutex);
    if (at_once)
        target_amqp_link_cut(&worker->link);
    else
        target_amqp_link_wake(&worker->link);
}

void target_amqp_worker_send(struct target_amqp_worker *worker, struct list *messages)
{
    pthread_mutex_lock(&worker->mutex);
    bool is_idle = worker->is_idle;
    move_all(messages, &worker->queue);
    pthread_mutex_unlock(&worker->mutex);
    if (is_idle)
        target_amqp_link_wake(&worker->link);
}

void target_amqp_worker_take_settled(struct target_amqp_worker *worker, struct list *out)
{
    pthread_mutex_lock(&worker->mutex);
    move_all(&worker->settled, out);
    pthread_mutex_unlock(&worker->mutex);
}

bool target_amqp_worker_give_up(struct target_amqp_worker *worker,
                                struct target_amqp_message *message, char *trouble)
{
    pthread_mutex_lock(&worker->mutex);
    bool is_unsent = message->stage == TARGET_AMQP_QUEUED;
    if (is_unsent)
        list_remove(&message->list);
    else
        atomic_store(&message->is_abandoned, true);
    snprintf(trouble, TARGET_ERROR_BYTES, "%s", worker->trouble);
    pthread_mutex_unlock(&worker->mutex);
    return is_unsent;
}
