/*
 * rocketmq_message: what RocketMQ gets of a job: topic, tags, keys, properties. Pure.
 */
#ifndef TARRY_TARGETS_ROCKETMQ_MESSAGE_H
#define TARRY_TARGETS_ROCKETMQ_MESSAGE_H

#include "targets/target.h"

enum { ROCKETMQ_TOPIC_BYTES_MAX = 127, ROCKETMQ_PROPERTIES_BYTES_MAX = 32767 };

struct rocketmq_message {
    char topic[ROCKETMQ_TOPIC_BYTES_MAX + 1];
    struct buffer tags, keys;
    struct buffer properties; /* as the protocol has them: NAME \1 VALUE \2 … */
};

/* NULL, or why the job cannot be one, for people. To be ended by rocketmq_message_fini either way. */
const char *rocketmq_message_fill(struct rocketmq_message *out, const struct target_message *from);
void rocketmq_message_fini(struct rocketmq_message *message);

#endif
