/*
 * amqp_channel: a channel with publisher confirms, and the messages that wait for theirs.
 *
 * One for each exchange, so that an exchange which is missing troubles only its own messages. Where
 * a channel is closed by the broker because of one of several messages under way, those are
 * published again one at a time (they may then arrive twice): the one to blame closes it again, by
 * itself, and only that one fails.
 *
 * One thread: the worker's. Messages that are settled (outcome set) go to `settled`.
 */
#ifndef TARRY_TARGETS_AMQP_CHANNEL_H
#define TARRY_TARGETS_AMQP_CHANNEL_H

#include "targets/amqp_link.h"
#include "targets/amqp_message.h"

enum { TARGET_AMQP_UNCONFIRMED_MAX = 8192 }; /* of a channel; a power of two */

struct target_amqp_channel {
    uint16_t number;
    bool is_used, is_open;
    struct slice exchange; /* is_used: whose channel it is; points to exchange_text */
    char exchange_text[TARGET_AMQP_TEXT_BYTES_MAX];
    struct target_amqp_message **ring; /* by delivery tag; NULL: settled */
    uint64_t first, next;              /* delivery tags: the oldest that is not settled, the next */
    struct list careful;               /* to be published one at a time */
    uint64_t returned;                 /* where to look for the next returned one */
    bool is_returning;                 /* the header of a returned message comes next */
    unsigned return_code;
    struct list *settled;
};

/* False: out of memory. */
bool target_amqp_channel_init(struct target_amqp_channel *channel, uint16_t number,
                              struct list *settled);
void target_amqp_channel_fini(struct target_amqp_channel *channel);

/* The channel for an exchange. */
struct target_amqp_channel *target_amqp_channel_find(struct target_amqp_channel *channels,
                                                     struct slice exchange);
/* Room for one more? */
bool target_amqp_channel_has_room(const struct target_amqp_channel *channel);
bool target_amqp_channel_is_idle(const struct target_amqp_channel *channel);

/* The message is the channel's from now on. False: the connection is lost, `error` says why; the
 * message is among those that may have been sent. */
bool target_amqp_channel_publish(struct target_amqp_channel *channel, struct target_amqp_link *link,
                                 struct target_amqp_message *message, char *error);
/* Publishes the next one of those that go one at a time, where it is time for it. */
bool target_amqp_channel_go_on(struct target_amqp_channel *channel, struct target_amqp_link *link,
                               char *error);
/* A frame of this channel. False: the connection is of no more use. */
bool target_amqp_channel_take_frame(struct target_amqp_channel *channel,
                                    struct target_amqp_link *link, const amqp_frame_t *frame,
                                    char *error);
/* The connection is gone: what may have been sent is settled as failed, what waits to be sent
 * again too. */
void target_amqp_channel_lose(struct target_amqp_channel *channel, const char *error);

void target_amqp_settle(struct list *settled, struct target_amqp_message *message,
                        enum target_outcome outcome, bool is_ailing, unsigned code,
                        const char *error);

#endif
