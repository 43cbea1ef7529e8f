/*
 * config_consistency: whether options, each of which is good by itself, go together, and what follows from several. Pure.
 */
#ifndef TARRY_SERVER_CONFIG_CONSISTENCY_H
#define TARRY_SERVER_CONFIG_CONSISTENCY_H

#include "server/config.h"

/* False: `error` (CONFIG_ERROR_BYTES) says what does not, and what to do. */
bool config_is_consistent(const struct config *config, char *error);

/* Where --beanstalk says. False: `error` (CONFIG_ERROR_BYTES) says why that cannot be. */
bool config_beanstalk(const struct config *config, struct listener_options *out, char *error);

/* Is there a way for clients of this listener to prove themselves? */
bool config_can_prove(const struct config *config, const struct listener_options *listener);
/* Is a good certificate, without which no handshake ends, all that is asked for there? */
bool config_certificate_will_do(const struct config *config,
                                const struct listener_options *listener);

#endif
