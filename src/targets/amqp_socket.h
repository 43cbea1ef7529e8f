/* amqp_socket: the way to a RabbitMQ: an address that the guard allowed, TCP, and TLS where asked.
 */
#ifndef TARRY_TARGETS_AMQP_SOCKET_H
#define TARRY_TARGETS_AMQP_SOCKET_H

#include "guard/guard.h"
#include "targets/amqp_url.h"

#include <amqp.h>
#include <stdatomic.h>

/* Gives `state` a connected socket; returns its descriptor, which belongs to `state`. -1: `error`
 * (TARGET_ERROR_BYTES) says why. Blocks for at most 5 s an address; over TCP *is_cut and something
 * to read on `wake_fd` end it. */
int target_amqp_socket_open(amqp_connection_state_t state, struct guard *guard,
                            const struct target_amqp_url *url, int wake_fd,
                            const atomic_bool *is_cut, char *error);

#endif
