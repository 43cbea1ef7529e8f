/* delay: the headers that say when a message is due. Pure. */
#ifndef TARRY_AMQP_DELAY_H
#define TARRY_AMQP_DELAY_H

#include "queue/queue.h"

#include <amqp.h>

#define AMQP_IN_HEADER_DELAY "x-delay"
#define AMQP_IN_HEADER_AT "x-deliver-at"

/* The entry of that name; NULL: there is none. */
amqp_table_entry_t *amqp_in_find_header(const amqp_table_t *headers, const char *name);

/* False: `why` (AMQP_IN_ERROR_BYTES) says what is wrong. */
bool amqp_in_delay_read(const amqp_table_t *headers, struct queue_when *out, char *why);

/* x-delay as it goes out: negative. */
void amqp_in_delay_negate(amqp_table_t *headers);

#endif
