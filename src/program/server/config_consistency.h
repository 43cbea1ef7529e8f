/*
 * config_consistency: checks the combination of options that are valid individually, and derives
 * values that depend on several options. Pure.
 */
#ifndef TARRY_SERVER_CONFIG_CONSISTENCY_H
#define TARRY_SERVER_CONFIG_CONSISTENCY_H

#include "server/config.h"

/* Returns false with `error` (CONFIG_ERROR_BYTES), which names the conflict and the remedy. */
bool config_is_consistent(const struct config *config, char *error);

/* Parses the address of --beanstalk. Returns false with `error` (CONFIG_ERROR_BYTES). */
bool config_beanstalk(const struct config *config, struct listener_options *out, char *error);

/* Returns true if clients of this listener have a way to authenticate. */
bool config_can_prove(const struct config *config, const struct listener_options *listener);
/* Returns true if a valid certificate, which the handshake already requires, is sufficient
 * authentication on this listener. */
bool config_certificate_will_do(const struct config *config,
                                const struct listener_options *listener);

#endif
