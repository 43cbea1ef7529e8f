#include "targets/amqp/publisher.h"

#include "base/clock.h"
#include "base/hash.h"
#include "net/thread.h"
#include "targets/amqp/connection.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CHANNELS = 16,
    UNCONFIRMED_MAX = 8192, /* per channel; a power of two */
    RING_MASK = UNCONFIRMED_MAX - 1,
    POOL_BYTES = 4096,
    ITERATION_MESSAGES = 256, /* messages published before incoming frames are read */
    LOOK_MS = TARGET_AMQP_HEARTBEAT_S * 1000 / 2,
    IDLE_MS = 60000
};

/*
 * A channel with publisher confirms, and the messages that wait for their confirm.
 *
 * There is one for each exchange, so that a missing exchange affects only its own messages. If the
 * broker closes a channel because of one of several messages in flight, these are published again
 * one at a time (they may then arrive twice). The message at fault then closes the channel again,
 * and only that message fails.
 */
struct amqp_channel {
    uint16_t number;
    bool is_used, is_open;
    struct slice exchange; /* is_used: its exchange; points to exchange_text */
    char exchange_text[TARGET_AMQP_TEXT_BYTES_MAX];
    struct target_amqp_message **ring; /* indexed by delivery tag; NULL: settled */
    uint64_t first, next;              /* delivery tags: the oldest unsettled one, the next one */
    struct list careful;               /* messages to be published one at a time */
    uint64_t returned; /* position where the search for the next returned message starts */
    bool is_returning; /* the header of a returned message follows */
    unsigned return_code;
    struct list *settled;
};

struct target_amqp_publisher {
    struct target_amqp_connection connection;
    struct amqp_channel channels[CHANNELS];
    struct list own_settled;   /* collected by the thread during a loop iteration */
    struct list taken;         /* taken from the queue, not published yet */
    bool is_blocked;           /* connection.blocked: RabbitMQ accepts no messages now */
    struct outbox_pause pause; /* pause before the next connection attempt */
    int64_t used_ms;           /* time of the last message to send */

    struct target_amqp_publisher_events events;
    void *ctx;

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex; /* protects the following fields */
    struct list queue, settled;
    bool is_stopping, is_idle; /* is_idle: it sleeps and has to be woken */
    /* reason why nothing is sent now; empty if there is no problem */
    char trouble[TARGET_ERROR_BYTES];
};

/* ---- a channel ---- */

static void channel_init(struct amqp_channel *channel, uint16_t number, struct list *settled)
{
    *channel = (struct amqp_channel){.number = number, .first = 1, .next = 1, .settled = settled};
    list_init(&channel->careful);
}

static void channel_fini(struct amqp_channel *channel)
{
    free(channel->ring);
}

static bool channel_is_idle(const struct amqp_channel *channel)
{
    return channel->first == channel->next && list_is_empty(&channel->careful);
}

/* Returns the channel for an exchange. */
static struct amqp_channel *channel_find(struct amqp_channel *channels, struct slice exchange)
{
    struct amqp_channel *found = NULL;
    for (size_t i = 0; i < CHANNELS; i++)
        if (channels[i].is_used && slice_equals(channels[i].exchange, exchange))
            return &channels[i];
    for (size_t i = 0; !found && i < CHANNELS; i++)
        if (!channels[i].is_used || channel_is_idle(&channels[i]))
            found = &channels[i];
    if (!found) /* there are more exchanges than channels: they share one */
        return &channels[hash_64(exchange.at, exchange.len) % CHANNELS];
    assert(exchange.len <= TARGET_AMQP_TEXT_BYTES_MAX);
    if (exchange.len)
        memcpy(found->exchange_text, exchange.at, exchange.len);
    found->exchange = slice_make(found->exchange_text, exchange.len);
    found->is_used = true;
    return found;
}

/* Returns true if another message may be published. */
static bool channel_has_room(const struct amqp_channel *channel)
{
    return channel->next - channel->first < UNCONFIRMED_MAX;
}

/* Sets the result of a message for the reactor and moves it to `settled`. */
static void settle_message(struct list *settled, struct target_amqp_message *message,
                           enum target_outcome outcome, bool is_ailing, unsigned code,
                           const char *error)
{
    struct target_report *result = &message->result;
    result->outcome = outcome;
    result->is_ailing = is_ailing;
    result->retry_after_ms = -1;
    result->code = code;
    if (error != result->error) /* it may be the same buffer */
        snprintf(result->error, sizeof result->error, "%s", error);
    list_add_last(settled, &message->list);
}

static struct target_amqp_message *take_first(struct list *list)
{
    struct target_amqp_message *message = list_entry(list->next, struct target_amqp_message, list);
    list_remove(&message->list);
    return message;
}

/* ---- opening and publishing ---- */

/* Opens the channel on the broker and enables confirms; allocates the ring of messages in flight at
 * the first call. */
static bool open_channel(struct amqp_channel *channel, struct target_amqp_connection *connection,
                         char *error)
{
    static const char *const what = "no channel";
    if (!channel->ring)
        channel->ring = calloc(UNCONFIRMED_MAX, sizeof(struct target_amqp_message *));
    if (!channel->ring) {
        snprintf(error, TARGET_ERROR_BYTES, "%s, out of memory", what);
        return false;
    }
    target_amqp_connection_gather(connection, false); /* the call waits for its answer */
    if (amqp_channel_open(connection->state, channel->number))
        amqp_confirm_select(connection->state, channel->number);
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection->state);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) {
        target_amqp_connection_fault(reply, what, error);
        return false;
    }
    target_amqp_connection_gather(connection, true);
    channel->is_open = true;
    channel->is_returning = false;
    channel->first = channel->next = channel->returned = 1;
    return true;
}

/* Writes a message to the connection. Returns false if the connection is lost. */
static bool write_message(struct amqp_channel *channel, struct target_amqp_connection *connection,
                          struct target_amqp_message *message, char *error)
{
    amqp_pool_t pool;
    amqp_basic_properties_t properties;
    const struct slice *exchange = &message->exchange, *key = &message->routing_key,
                       *body = &message->body;
    int status = AMQP_STATUS_OK;
    init_amqp_pool(&pool, POOL_BYTES);
    if (!target_amqp_message_properties(message, &pool, &properties)) {
        settle_message(channel->settled, message, TARGET_REFUSED, false, 0,
                       "the properties of the original message cannot be read");
    } else {
        channel->ring[channel->next++ & RING_MASK] = message;
        status =
            amqp_basic_publish(connection->state, channel->number,
                               (amqp_bytes_t){exchange->len, (void *)(uintptr_t)exchange->at},
                               (amqp_bytes_t){key->len, (void *)(uintptr_t)key->at}, 1, 0,
                               &properties, (amqp_bytes_t){body->len, (void *)(uintptr_t)body->at});
    }
    empty_amqp_pool(&pool);
    if (status != AMQP_STATUS_OK)
        snprintf(error, TARGET_ERROR_BYTES, "connection lost, %s", amqp_error_string2(status));
    return status == AMQP_STATUS_OK;
}

/* Publishes a message, which then belongs to the channel. Returns false with `error` if the
 * connection is lost; the message then counts as possibly sent. */
static bool channel_publish(struct amqp_channel *channel, struct target_amqp_connection *connection,
                            struct target_amqp_message *message, char *error)
{
    if (!list_is_empty(&channel->careful)) {
        list_add_last(&channel->careful, &message->list);
        return true;
    }
    if (!channel->is_open && !open_channel(channel, connection, error)) {
        settle_message(channel->settled, message, TARGET_UNSENT, true, 0, error);
        return false;
    }
    return write_message(channel, connection, message, error);
}

/* Publishes the next of the messages that are sent one at a time, if no other is in flight. */
static bool channel_go_on(struct amqp_channel *channel, struct target_amqp_connection *connection,
                          char *error)
{
    while (!list_is_empty(&channel->careful) && channel->first == channel->next) {
        if (!channel->is_open && !open_channel(channel, connection, error))
            return false;
        struct target_amqp_message *message = take_first(&channel->careful);
        if (atomic_load(&message->is_abandoned))
            settle_message(channel->settled, message, TARGET_FAILED, false, 0, "given up");
        else if (!write_message(channel, connection, message, error))
            return false;
    }
    return true;
}

/* ---- answers ---- */

/* Settles the message of a delivery tag that the broker has confirmed or rejected. A message that
 * was returned before has failed in both cases. */
static void settle_one(struct amqp_channel *channel, uint64_t tag, bool is_acked)
{
    struct target_amqp_message *message = channel->ring[tag & RING_MASK];
    channel->ring[tag & RING_MASK] = NULL;
    if (!message)
        return;
    if (message->is_returned)
        settle_message(channel->settled, message, TARGET_FAILED, false, message->result.code,
                       message->result.error);
    else if (is_acked)
        settle_message(channel->settled, message, TARGET_DONE, false, 0, "");
    else
        settle_message(channel->settled, message, TARGET_FAILED, false, 0,
                       "rabbitmq rejected it (basic.nack), check whether a queue is full");
}

static void confirm(struct amqp_channel *channel, uint64_t tag, bool multiple, bool is_acked)
{
    if (tag == 0 && multiple)
        tag = channel->next - 1;
    if (tag < channel->first || tag >= channel->next)
        return;
    for (uint64_t at = multiple ? channel->first : tag; at <= tag; at++)
        settle_one(channel, at, is_acked);
    while (channel->first < channel->next && !channel->ring[channel->first & RING_MASK])
        channel->first++;
}

/* Marks a message as returned. Messages are returned in the order of publishing, each before its
 * confirm. */
static void mark_returned(struct amqp_channel *channel, const amqp_basic_properties_t *properties)
{
    channel->is_returning = false;
    if (channel->returned < channel->first)
        channel->returned = channel->first;
    for (uint64_t n = channel->next - channel->first; n > 0; n--) {
        if (channel->returned >= channel->next)
            channel->returned = channel->first;
        struct target_amqp_message *message = channel->ring[channel->returned++ & RING_MASK];
        if (!message || message->is_returned || !target_amqp_message_is(message, properties))
            continue;
        message->is_returned = true;
        message->result.code = channel->return_code;
        snprintf(message->result.error, sizeof message->result.error,
                 "unroutable, exchange '%.*s' has no queue for routing key '%.*s'",
                 (int)(message->exchange.len < 80 ? message->exchange.len : 80),
                 message->exchange.at,
                 (int)(message->routing_key.len < 80 ? message->routing_key.len : 80),
                 message->routing_key.at);
        return;
    }
}

/* Moves the messages in flight to `out`, in order; settles those already returned. */
static size_t take_unconfirmed(struct amqp_channel *channel, struct list *out)
{
    size_t count = 0;
    for (; channel->first < channel->next; channel->first++) {
        struct target_amqp_message *message = channel->ring[channel->first & RING_MASK];
        if (message && message->is_returned) {
            settle_one(channel, channel->first, false);
        } else if (message) {
            channel->ring[channel->first & RING_MASK] = NULL;
            list_add_last(out, &message->list);
            count++;
        }
    }
    return count;
}

/* Returns true for errors that affect all messages of the channel: no such exchange, or no
 * permission. */
static bool is_everybodys(unsigned code)
{
    return code == AMQP_NOT_FOUND || code == AMQP_ACCESS_REFUSED;
}

/* Handles a channel that the broker closed because of a message. To find the message at fault, the
 * messages are published again one at a time. */
static bool on_close(struct amqp_channel *channel, struct target_amqp_connection *connection,
                     const amqp_channel_close_t *close, char *error)
{
    struct list unconfirmed;
    amqp_channel_close_ok_t answer = {0};
    unsigned code = close->reply_code;
    list_init(&unconfirmed);
    target_amqp_connection_describe(error, code, close->reply_text);
    size_t count = take_unconfirmed(channel, &unconfirmed);
    channel->is_open = false;
    if (!is_everybodys(code) && count > 1) {
        while (!list_is_empty(&channel->careful))
            list_add_last(&unconfirmed, &take_first(&channel->careful)->list);
        while (!list_is_empty(&unconfirmed))
            list_add_last(&channel->careful, &take_first(&unconfirmed)->list);
    }
    while (!list_is_empty(&unconfirmed))
        settle_message(channel->settled, take_first(&unconfirmed),
                       code == AMQP_PRECONDITION_FAILED ? TARGET_REFUSED : TARGET_FAILED, false,
                       code, error);
    int status =
        amqp_send_method(connection->state, channel->number, AMQP_CHANNEL_CLOSE_OK_METHOD, &answer);
    if (status != AMQP_STATUS_OK)
        snprintf(error, TARGET_ERROR_BYTES, "connection lost, %s", amqp_error_string2(status));
    return status == AMQP_STATUS_OK;
}

/* Handles a frame of this channel. Returns false if the connection can no longer be used. */
static bool channel_take_frame(struct amqp_channel *channel,
                               struct target_amqp_connection *connection, const amqp_frame_t *frame,
                               char *error)
{
    if (frame->frame_type == AMQP_FRAME_HEADER && channel->is_returning)
        mark_returned(channel, frame->payload.properties.decoded);
    if (frame->frame_type != AMQP_FRAME_METHOD)
        return true;
    const void *method = frame->payload.method.decoded;
    switch (frame->payload.method.id) {
    case AMQP_BASIC_ACK_METHOD: {
        const amqp_basic_ack_t *ack = method;
        confirm(channel, ack->delivery_tag, ack->multiple, true);
        return true;
    }
    case AMQP_BASIC_NACK_METHOD: {
        const amqp_basic_nack_t *nack = method;
        confirm(channel, nack->delivery_tag, nack->multiple, false);
        return true;
    }
    case AMQP_BASIC_RETURN_METHOD:
        channel->is_returning = true;
        channel->return_code = ((const amqp_basic_return_t *)method)->reply_code;
        return true;
    case AMQP_CHANNEL_CLOSE_METHOD:
        return on_close(channel, connection, method, error);
    default:
        return true;
    }
}

/* Handles a lost connection: messages that may have been sent fail, including those waiting to be
 * sent again. */
static void channel_lose(struct amqp_channel *channel, const char *error)
{
    struct list lost;
    list_init(&lost);
    take_unconfirmed(channel, &lost);
    while (!list_is_empty(&channel->careful))
        list_add_last(&lost, &take_first(&channel->careful)->list);
    while (!list_is_empty(&lost))
        settle_message(channel->settled, take_first(&lost), TARGET_FAILED, true, 0, error);
    channel->is_open = channel->is_used = false;
}

/* ---- between the threads ---- */

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

static void set_trouble(struct target_amqp_publisher *publisher, const char *trouble)
{
    pthread_mutex_lock(&publisher->mutex);
    snprintf(publisher->trouble, sizeof publisher->trouble, "%s", trouble);
    pthread_mutex_unlock(&publisher->mutex);
}

static void hand_back(struct target_amqp_publisher *publisher)
{
    if (list_is_empty(&publisher->own_settled))
        return;
    pthread_mutex_lock(&publisher->mutex);
    bool is_first = list_is_empty(&publisher->settled);
    move_all(&publisher->own_settled, &publisher->settled);
    pthread_mutex_unlock(&publisher->mutex);
    if (is_first)
        publisher->events.settled(publisher->ctx);
}

static bool is_stopping(struct target_amqp_publisher *publisher)
{
    pthread_mutex_lock(&publisher->mutex);
    bool stopping = publisher->is_stopping;
    pthread_mutex_unlock(&publisher->mutex);
    return stopping;
}

/* Moves at most ITERATION_MESSAGES from the queue to the thread. */
static void take_some(struct target_amqp_publisher *publisher)
{
    pthread_mutex_lock(&publisher->mutex);
    for (size_t n = 0; n < ITERATION_MESSAGES && !list_is_empty(&publisher->queue); n++) {
        struct target_amqp_message *message = first_of(&publisher->queue);
        message->is_queued = false;
        list_remove(&message->list);
        list_add_last(&publisher->taken, &message->list);
    }
    pthread_mutex_unlock(&publisher->mutex);
}

/* Returns unpublished messages to the front of the queue. */
static void put_back(struct target_amqp_publisher *publisher)
{
    struct list rest;
    list_init(&rest);
    pthread_mutex_lock(&publisher->mutex);
    while (!list_is_empty(&publisher->taken)) {
        struct target_amqp_message *message = first_of(&publisher->taken);
        list_remove(&message->list);
        message->is_queued = true;
        if (atomic_load(&message->is_abandoned))
            settle_message(&publisher->own_settled, message, TARGET_FAILED, false, 0, "given up");
        else
            list_add_last(&rest, &message->list);
    }
    move_all(&publisher->queue, &rest);
    move_all(&rest, &publisher->queue);
    pthread_mutex_unlock(&publisher->mutex);
}

static void settle_queue(struct target_amqp_publisher *publisher, bool is_ailing, const char *error)
{
    pthread_mutex_lock(&publisher->mutex);
    while (!list_is_empty(&publisher->queue)) {
        struct target_amqp_message *message = first_of(&publisher->queue);
        list_remove(&message->list);
        message->is_queued = false;
        settle_message(&publisher->own_settled, message, TARGET_UNSENT, is_ailing, 0, error);
    }
    pthread_mutex_unlock(&publisher->mutex);
}

/* Sleeps until a message arrives or the time has passed. */
static void publisher_rest(struct target_amqp_publisher *publisher, int64_t wait_ms,
                           bool also_if_queued)
{
    pthread_mutex_lock(&publisher->mutex);
    bool may = !publisher->is_stopping && (also_if_queued || list_is_empty(&publisher->queue));
    publisher->is_idle = may;
    pthread_mutex_unlock(&publisher->mutex);
    target_amqp_connection_wait(&publisher->connection, may ? wait_ms : 0);
    pthread_mutex_lock(&publisher->mutex);
    publisher->is_idle = false;
    pthread_mutex_unlock(&publisher->mutex);
}

/* ---- the connection ---- */

static void connection_lose(struct target_amqp_publisher *publisher, const char *error)
{
    for (size_t i = 0; i < CHANNELS; i++)
        channel_lose(&publisher->channels[i], error);
    put_back(publisher);
    target_amqp_connection_close(&publisher->connection, false);
    publisher->is_blocked = false;
    set_trouble(publisher, error);
    outbox_pause_longer(&publisher->pause, clock_boot_us() / 1000);
}

/* Waits for a message to send and for the end of the pause, then connects. */
static void try_open(struct target_amqp_publisher *publisher)
{
    char error[TARGET_ERROR_BYTES];
    int64_t left_ms = publisher->pause.until_ms - clock_boot_us() / 1000;
    if (left_ms > 0) {
        publisher_rest(publisher, left_ms, true);
        return;
    }
    pthread_mutex_lock(&publisher->mutex);
    bool is_wanted = !list_is_empty(&publisher->queue);
    pthread_mutex_unlock(&publisher->mutex);
    if (!is_wanted) {
        publisher_rest(publisher, -1, false);
    } else if (target_amqp_connection_open(&publisher->connection, error)) {
        publisher->is_blocked = false;
        publisher->used_ms = clock_boot_us() / 1000;
        set_trouble(publisher, "");
    } else {
        connection_lose(publisher, error);
        settle_queue(publisher, true, error);
    }
}

/* Publishes messages taken from the queue, in order, as long as channels have room. */
static bool publish_taken(struct target_amqp_publisher *publisher, char *error)
{
    while (!list_is_empty(&publisher->taken)) {
        struct target_amqp_message *message = first_of(&publisher->taken);
        struct amqp_channel *channel = channel_find(publisher->channels, message->exchange);
        if (!channel_has_room(channel))
            break;
        list_remove(&message->list);
        if (!channel_publish(channel, &publisher->connection, message, error))
            return false;
    }
    for (size_t i = 0; i < CHANNELS; i++)
        if (!channel_go_on(&publisher->channels[i], &publisher->connection, error))
            return false;
    return true;
}

/* Publishes the messages of one loop iteration together: the kernel collects them into full
 * packets. */
static bool publish_messages(struct target_amqp_publisher *publisher, char *error)
{
    if (publisher->is_blocked)
        return true;
    if (list_is_empty(&publisher->taken))
        take_some(publisher);
    if (!list_is_empty(&publisher->taken))
        publisher->used_ms = clock_boot_us() / 1000;
    target_amqp_connection_gather(&publisher->connection, true);
    bool ok = publish_taken(publisher, error);
    target_amqp_connection_gather(&publisher->connection, false);
    return ok;
}

/* Handles a frame of channel 0, which concerns the whole connection. */
static bool take_connection_frame(struct target_amqp_publisher *publisher,
                                  const amqp_frame_t *frame, char *error)
{
    if (frame->frame_type != AMQP_FRAME_METHOD)
        return true;
    if (frame->payload.method.id == AMQP_CONNECTION_CLOSE_METHOD) {
        target_amqp_connection_closed_by_peer(&publisher->connection, frame->payload.method.decoded,
                                              error);
        return false;
    }
    if (frame->payload.method.id == AMQP_CONNECTION_BLOCKED_METHOD) {
        const amqp_connection_blocked_t *blocked = frame->payload.method.decoded;
        snprintf(error, TARGET_ERROR_BYTES,
                 "rabbitmq accepts no messages (connection.blocked): %.*s",
                 (int)(blocked->reason.len < 100 ? blocked->reason.len : 100),
                 (const char *)blocked->reason.bytes);
        publisher->is_blocked = true;
        put_back(publisher);
        set_trouble(publisher, error);
    } else if (frame->payload.method.id == AMQP_CONNECTION_UNBLOCKED_METHOD) {
        publisher->is_blocked = false;
        set_trouble(publisher, "");
    }
    return true;
}

/* Reads all available frames; each one shows that the broker is alive. */
static bool read_frames(struct target_amqp_publisher *publisher, char *error)
{
    amqp_frame_t frame;
    int got;
    while ((got = target_amqp_connection_next(&publisher->connection, &frame, error)) == 1) {
        bool ok = true;
        publisher->pause.failures = 0; /* the connection works */
        if (frame.channel == 0)
            ok = take_connection_frame(publisher, &frame, error);
        else if (frame.channel <= CHANNELS)
            ok = channel_take_frame(&publisher->channels[frame.channel - 1], &publisher->connection,
                                    &frame, error);
        if (!ok)
            return false;
    }
    target_amqp_connection_release(&publisher->connection);
    return got == 0;
}

/* Returns true if more can be sent immediately: a message that goes alone, or one for which there
 * is room again. */
static bool may_go_on(struct target_amqp_publisher *publisher)
{
    if (publisher->is_blocked)
        return false;
    for (size_t i = 0; i < CHANNELS; i++)
        if (publisher->channels[i].first == publisher->channels[i].next &&
            !list_is_empty(&publisher->channels[i].careful))
            return true;
    return !list_is_empty(&publisher->taken) &&
           channel_has_room(
               channel_find(publisher->channels, first_of(&publisher->taken)->exchange));
}

/* Returns true if there was nothing to send for a minute. Connections cost wake-ups for
 * heartbeats. */
static bool is_out_of_use(const struct target_amqp_publisher *publisher)
{
    for (size_t i = 0; i < CHANNELS; i++)
        if (!channel_is_idle(&publisher->channels[i]))
            return false;
    return !publisher->is_blocked && list_is_empty(&publisher->taken) &&
           clock_boot_us() / 1000 - publisher->used_ms >= IDLE_MS;
}

static void close_idle(struct target_amqp_publisher *publisher)
{
    target_amqp_connection_close(&publisher->connection, true);
    for (size_t i = 0; i < CHANNELS; i++)
        channel_lose(&publisher->channels[i], "");
    publisher->is_blocked = false;
    publisher->pause.failures = 0;
    set_trouble(publisher, "");
}

/* Runs one iteration of a connection: checks the policy, sends, reads, and sleeps if idle. */
static void publisher_work(struct target_amqp_publisher *publisher)
{
    char error[TARGET_ERROR_BYTES];
    if (!target_amqp_connection_is_allowed(&publisher->connection, error) ||
        !publish_messages(publisher, error) || !read_frames(publisher, error))
        connection_lose(publisher, error);
    hand_back(publisher);
    if (publisher->connection.state && is_out_of_use(publisher))
        close_idle(publisher);
    else if (publisher->connection.state && !may_go_on(publisher))
        publisher_rest(publisher, LOOK_MS,
                       publisher->is_blocked || !list_is_empty(&publisher->taken));
}

/* Runs the thread: connected or connecting until it is stopped, then aborts what is left. */
static void publisher_run(void *ctx)
{
    struct target_amqp_publisher *publisher = ctx;
    while (!is_stopping(publisher)) {
        if (publisher->connection.state)
            publisher_work(publisher);
        else
            try_open(publisher);
        hand_back(publisher);
    }
    target_amqp_connection_close(&publisher->connection,
                                 !atomic_load(&publisher->connection.is_cut));
    connection_lose(publisher, "abandoned, tarry closes the connection");
    settle_queue(publisher, true, "abandoned, tarry closes the connection");
    hand_back(publisher);
    publisher->events.ended(publisher->ctx);
}

/* ---- for the reactor ---- */

struct target_amqp_publisher *target_amqp_publisher_new(
    struct guard *guard, const struct target_amqp_place *place, const char *version,
    const struct target_amqp_publisher_events *events, void *ctx)
{
    struct target_amqp_publisher *publisher = calloc(1, sizeof *publisher);
    if (!publisher || target_amqp_connection_init(&publisher->connection, guard, place, version,
                                                  "tarry delivery") != 0) {
        free(publisher);
        return NULL;
    }
    publisher->events = *events;
    publisher->ctx = ctx;
    list_init(&publisher->own_settled);
    list_init(&publisher->taken);
    list_init(&publisher->queue);
    list_init(&publisher->settled);
    pthread_mutex_init(&publisher->mutex, NULL);
    for (uint16_t i = 0; i < CHANNELS; i++)
        channel_init(&publisher->channels[i], (uint16_t)(i + 1), &publisher->own_settled);
    return publisher;
}

void target_amqp_publisher_free(struct target_amqp_publisher *publisher)
{
    if (!publisher)
        return;
    if (publisher->has_thread)
        thread_join(publisher->thread);
    for (size_t i = 0; i < CHANNELS; i++)
        channel_fini(&publisher->channels[i]);
    target_amqp_connection_fini(&publisher->connection);
    pthread_mutex_destroy(&publisher->mutex);
    free(publisher);
}

void target_amqp_publisher_stop(struct target_amqp_publisher *publisher, bool at_once)
{
    if (!publisher->has_thread) {
        publisher->events.ended(publisher->ctx);
        return;
    }
    pthread_mutex_lock(&publisher->mutex);
    publisher->is_stopping = true;
    pthread_mutex_unlock(&publisher->mutex);
    if (at_once)
        target_amqp_connection_cut(&publisher->connection);
    else
        target_amqp_connection_wake(&publisher->connection);
}

/* Starts the thread. Returns false if it could not be started. */
static bool publisher_start(struct target_amqp_publisher *publisher)
{
    if (!publisher->has_thread)
        publisher->has_thread =
            thread_start(&publisher->thread, "amqp", publisher_run, publisher) == 0;
    return publisher->has_thread;
}

void target_amqp_publisher_send(struct target_amqp_publisher *publisher, struct list *messages)
{
    bool has_thread = publisher_start(publisher);
    pthread_mutex_lock(&publisher->mutex);
    bool is_idle = publisher->is_idle;
    move_all(messages, &publisher->queue);
    pthread_mutex_unlock(&publisher->mutex);
    if (!has_thread) { /* so this thread may use its lists */
        settle_queue(publisher, false, "not sent, no thread could be started");
        hand_back(publisher);
    } else if (is_idle) {
        target_amqp_connection_wake(&publisher->connection);
    }
}

void target_amqp_publisher_take_settled(struct target_amqp_publisher *publisher, struct list *out)
{
    pthread_mutex_lock(&publisher->mutex);
    move_all(&publisher->settled, out);
    pthread_mutex_unlock(&publisher->mutex);
}

bool target_amqp_publisher_give_up(struct target_amqp_publisher *publisher,
                                   struct target_amqp_message *message, char *trouble)
{
    pthread_mutex_lock(&publisher->mutex);
    bool is_unsent = message->is_queued;
    if (is_unsent)
        list_remove(&message->list);
    else
        atomic_store(&message->is_abandoned, true);
    snprintf(trouble, TARGET_ERROR_BYTES, "%s", publisher->trouble);
    pthread_mutex_unlock(&publisher->mutex);
    return is_unsent;
}
