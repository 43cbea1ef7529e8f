/*
 * live_config: the configuration that the server goes by, and how it is read again while it serves. Those
 * before it stay: others still point into them.
 *
 * The first reactor's thread, after the reactors run; what `now` points at never changes.
 */
#ifndef TARRY_SERVER_LIVE_CONFIG_H
#define TARRY_SERVER_LIVE_CONFIG_H

#include "server/config.h"

enum { LIVE_CONFIG_RELOADS_MAX = 1024 };

struct live_config { /* set `now` and the arguments that it was read from; the rest zeroed */
    const struct config *now; /* the first one is the caller's */
    int arg_count;
    char *const *args;
    struct config *fresh[LIVE_CONFIG_RELOADS_MAX]; /* read since */
    uint32_t count;
};

/*
 * Reads it again, from where it came, and goes by what may change while it serves, from the log's level
 * on; says what changed, and what wants a restart. `detail` (CONFIG_NAMES_BYTES) is the first in short.
 * False: it will not do, nothing is changed.
 */
bool live_config_reload(struct live_config *live, bool *is_changed, char *detail);
void live_config_close(struct live_config *live);

#endif
