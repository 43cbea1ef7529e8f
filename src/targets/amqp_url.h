/*
 * amqp_url: where a RabbitMQ is: amqp://HOST[:PORT][/VHOST][?NAME=VALUE&…]. Pure.
 *
 * No user and no password: they are in the policy file. No virtual host, or an empty one: "/".
 */
#ifndef TARRY_TARGETS_AMQP_URL_H
#define TARRY_TARGETS_AMQP_URL_H

#include "base/buffer.h"

enum { TARGET_AMQP_NAME_BYTES = 256 }; /* of hosts and of all short strings, with their NUL */

struct target_amqp_url {
    bool is_tls;
    uint16_t port;
    char host[TARGET_AMQP_NAME_BYTES]; /* without brackets */
    char vhost[TARGET_AMQP_NAME_BYTES];
    char origin[TARGET_AMQP_NAME_BYTES + 32]; /* "amqp://host:port", as credentials are named */
};

/* What follows "?" goes to *query; where that is NULL there may be none. False: `error`
 * (TARGET_ERROR_BYTES) says what is wrong and what would be right. */
bool target_amqp_url_parse(struct slice text, struct target_amqp_url *out, struct slice *query,
                           char *error);

#endif
