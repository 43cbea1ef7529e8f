/*
 * rocketmq_message: the RocketMQ message of a job: topic, tags, keys, properties. Pure.
 */
#ifndef TARRY_TARGETS_ROCKETMQ_MESSAGE_H
#define TARRY_TARGETS_ROCKETMQ_MESSAGE_H

#include "targets/target.h"

enum { ROCKETMQ_TOPIC_BYTES_MAX = 127, ROCKETMQ_PROPERTIES_BYTES_MAX = 32767 };

struct rocketmq_message {
    char topic[ROCKETMQ_TOPIC_BYTES_MAX + 1];
    struct buffer tags, keys;
    struct buffer properties; /* in the protocol's format: NAME \1 VALUE \2 … */
};

/* Returns NULL, or the reason why no topic can have this name. */
const char *rocketmq_topic_fault(struct slice name);
/* Returns NULL, or the reason why the job cannot be sent, as a text for users. Call
 * rocketmq_message_fini in both cases. */
const char *rocketmq_message_fill(struct rocketmq_message *out, const struct target_message *from);
void rocketmq_message_fini(struct rocketmq_message *message);

#endif
