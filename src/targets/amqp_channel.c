#include "targets/amqp_channel.h"

#include "base/hash.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { POOL_BYTES = 4096, RING_MASK = TARGET_AMQP_UNCONFIRMED_MAX - 1 };

bool target_amqp_channel_init(struct target_amqp_channel *channel, uint16_t number,
                              struct list *settled)
{
    *channel =
        (struct target_amqp_channel){.number = number, .first = 1, .next = 1, .settled = settled};
    list_init(&channel->careful);
    return true;
}

void target_amqp_channel_fini(struct target_amqp_channel *channel)
{
    free(channel->ring);
}

bool target_amqp_channel_is_idle(const struct target_amqp_channel *channel)
{
    return channel->first == channel->next && list_is_empty(&channel->careful);
}

struct target_amqp_channel *target_amqp_channel_find(struct target_amqp_channel *channels,
                                                     struct slice exchange)
{
    struct target_amqp_channel *found = NULL;
    for (size_t i = 0; i < TARGET_AMQP_CHANNELS; i++)
        if (channels[i].is_used && slice_equals(channels[i].exchange, exchange))
            return &channels[i];
    for (size_t i = 0; !found && i < TARGET_AMQP_CHANNELS; i++)
        if (!channels[i].is_used || target_amqp_channel_is_idle(&channels[i]))
            found = &channels[i];
    if (!found) /* more exchanges than channels at a time: they share */
        return &channels[hash_64(exchange.at, exchange.len) % TARGET_AMQP_CHANNELS];
    assert(exchange.len <= TARGET_AMQP_TEXT_BYTES_MAX);
    if (exchange.len)
        memcpy(found->exchange_text, exchange.at, exchange.len);
    found->exchange = slice_make(found->exchange_text, exchange.len);
    found->is_used = true;
    return found;
}

bool target_amqp_channel_has_room(const struct target_amqp_channel *channel)
{
    return channel->next - channel->first < TARGET_AMQP_UNCONFIRMED_MAX;
}

void target_amqp_settle(struct list *settled, struct target_amqp_message *message,
                        enum target_outcome outcome, bool is_ailing, unsigned code,
                        const char *error)
{
    message->outcome = outcome;
    message->is_ailing = is_ailing;
    message->code = code;
    if (error != message->error) /* it may have stood there already */
        snprintf(message->error, sizeof(message->error), "%s", error);
    list_add_last(settled, &message->list);
}

static struct target_amqp_message *take_first(struct list *list)
{
    struct target_amqp_message *message = list_entry(list->next, struct target_amqp_message, list);
    list_remove(&message->list);
    return message;
}

/* ---- opening and publishing ---- */

static bool open_channel(struct target_amqp_channel *channel, struct target_amqp_link *link,
                         char *error)
{
    static const char *const what = "no channel";
    if (!channel->ring)
        channel->ring = calloc(TARGET_AMQP_UNCONFIRMED_MAX, sizeof(struct target_amqp_message *));
    if (!channel->ring) {
        snprintf(error, TARGET_ERROR_BYTES, "%s, out of memory", what);
        return false;
    }
    target_amqp_link_gather(link, false); /* a call waits for its answer */
    if (amqp_channel_open(link->state, channel->number))
        amqp_confirm_select(link->state, channel->number);
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(link->state);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) {
        target_amqp_link_fault(reply, what, error);
        return false;
    }
    target_amqp_link_gather(link, true);
    channel->is_open = true;
    channel->is_returning = false;
    channel->first = channel->next = channel->returned = 1;
    return true;
}

/* Gives it to the connection. False: that is lost. */
static bool write_message(struct target_amqp_channel *channel, struct target_amqp_link *link,
                          struct target_amqp_message *message, char *error)
{
    amqp_pool_t pool;
    amqp_basic_properties_t properties;
    const struct slice *exchange = &message->exchange, *key = &message->routing_key,
                       *body = &message->body;
    int status = AMQP_STATUS_OK;
    init_amqp_pool(&pool, POOL_BYTES);
    if (!target_amqp_message_properties(message, &pool, &properties)) {
        target_amqp_settle(channel->settled, message, TARGET_REFUSED, false, 0,
                           "the properties it came with cannot be read");
    } else {
        channel->ring[channel->next++ & RING_MASK] = message;
        status =
            amqp_basic_publish(link->state, channel->number,
                               (amqp_bytes_t){exchange->len, (void *)(uintptr_t)exchange->at},
                               (amqp_bytes_t){key->len, (void *)(uintptr_t)key->at}, 1, 0,
                               &properties, (amqp_bytes_t){body->len, (void *)(uintptr_t)body->at});
    }
    empty_amqp_pool(&pool);
    if (status != AMQP_STATUS_OK)
        snprintf(error, TARGET_ERROR_BYTES, "connection lost, %s", amqp_error_string2(status));
    return status == AMQP_STATUS_OK;
}

bool target_amqp_channel_publish(struct target_amqp_channel *channel, struct target_amqp_link *link,
                                 struct target_amqp_message *message, char *error)
{
    if (!list_is_empty(&channel->careful)) {
        list_add_last(&channel->careful, &message->list);
        return true;
    }
    if (!channel->is_open && !open_channel(channel, link, error)) {
        target_amqp_settle(channel->settled, message, TARGET_UNSENT, true, 0, error);
        return false;
    }
    return write_message(channel, link, message, error);
}

bool target_amqp_channel_go_on(struct target_amqp_channel *channel, struct target_amqp_link *link,
                               char *error)
{
    while (!list_is_empty(&channel->careful) && channel->first == channel->next) {
        if (!channel->is_open && !open_channel(channel, link, error))
            return false;
        struct target_amqp_message *message = take_first(&channel->careful);
        if (atomic_load(&message->is_abandoned))
            target_amqp_settle(channel->settled, message, TARGET_FAILED, false, 0, "given up");
        else if (!write_message(channel, link, message, error))
            return false;
    }
    return true;
}

/* ---- what comes back ---- */

static void settle_one(struct target_amqp_channel *channel, uint64_t tag, bool is_acked)
{
    struct target_amqp_message *message = channel->ring[tag & RING_MASK];
    channel->ring[tag & RING_MASK] = NULL;
    if (!message)
        return;
    if (message->is_returned)
        target_amqp_settle(channel->settled, message, TARGET_FAILED, false, message->code,
                           message->error);
    else if (is_acked)
        target_amqp_settle(channel->settled, message, TARGET_DONE, false, 0, "");
    else
        target_amqp_settle(channel->settled, message, TARGET_FAILED, false, 0,
                           "rabbitmq does not take it (basic.nack), is a queue full");
}

static void confirm(struct target_amqp_channel *channel, uint64_t tag, bool multiple, bool is_acked)
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

/* They come back in the order they were published, each before its confirm. */
static void mark_returned(struct target_amqp_channel *channel,
                          const amqp_basic_properties_t *properties)
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
        message->code = channel->return_code;
        snprintf(message->error, sizeof(message->error),
                 "unroutable, exchange '%.*s' has no queue for routing key '%.*s'",
                 (int)(message->exchange.len < 80 ? message->exchange.len : 80),
                 message->exchange.at,
                 (int)(message->routing_key.len < 80 ? message->routing_key.len : 80),
                 message->routing_key.at);
        return;
    }
}

/* What was under way, in its order, to `out`; those returned already are settled. */
static size_t take_unconfirmed(struct target_amqp_channel *channel, struct list *out)
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

/* No such exchange, or no permission: all of the channel's messages have the same trouble. */
static bool is_everybodys(unsigned code)
{
    return code == AMQP_NOT_FOUND || code == AMQP_ACCESS_REFUSED;
}

static bool on_close(struct target_amqp_channel *channel, struct target_amqp_link *link,
                     const amqp_channel_close_t *close, char *error)
{
    struct list unconfirmed;
    amqp_channel_close_ok_t answer = {0};
    unsigned code = close->reply_code;
    list_init(&unconfirmed);
    target_amqp_link_say(error, code, close->reply_text);
    size_t count = take_unconfirmed(channel, &unconfirmed);
    channel->is_open = false;
    if (!is_everybodys(code) && count > 1) {
        while (!list_is_empty(&channel->careful))
            list_add_last(&unconfirmed, &take_first(&channel->careful)->list);
        while (!list_is_empty(&unconfirmed))
            list_add_last(&channel->careful, &take_first(&unconfirmed)->list);
    }
    while (!list_is_empty(&unconfirmed))
        target_amqp_settle(channel->settled, take_first(&unconfirmed),
                           code == AMQP_PRECONDITION_FAILED ? TARGET_REFUSED : TARGET_FAILED, false,
                           code, error);
    int status =
        amqp_send_method(link->state, channel->number, AMQP_CHANNEL_CLOSE_OK_METHOD, &answer);
    if (status != AMQP_STATUS_OK)
        snprintf(error, TARGET_ERROR_BYTES, "connection lost, %s", amqp_error_string2(status));
    return status == AMQP_STATUS_OK;
}

bool target_amqp_channel_take_frame(struct target_amqp_channel *channel,
                                    struct target_amqp_link *link, const amqp_frame_t *frame,
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
        return on_close(channel, link, method, error);
    default:
        return true;
    }
}

void target_amqp_channel_lose(struct target_amqp_channel *channel, const char *error)
{
    struct list lost;
    list_init(&lost);
    take_unconfirmed(channel, &lost);
    while (!list_is_empty(&channel->careful))
        list_add_last(&lost, &take_first(&channel->careful)->list);
    while (!list_is_empty(&lost))
        target_amqp_settle(channel->settled, take_first(&lost), TARGET_FAILED, true, 0, error);
    channel->is_open = channel->is_used = false;
}
