/*
 * live_config: the current configuration, and reloading it while the server runs. Previous
 * configurations are kept, because there are still pointers into them.
 *
 * Used on the first reactor's thread while the reactors run; the configuration that `now` points to
 * never changes.
 */
#ifndef TARRY_SERVER_LIVE_CONFIG_H
#define TARRY_SERVER_LIVE_CONFIG_H

#include "server/config.h"

enum { LIVE_CONFIG_RELOADS_MAX = 1024 };

struct live_config {          /* set `now` and the arguments it was read from; zero the rest */
    const struct config *now; /* the first one belongs to the calling code */
    int arg_count;
    char *const *args;
    struct config *fresh[LIVE_CONFIG_RELOADS_MAX]; /* loaded later */
    uint32_t count;
};

/*
 * Reloads the configuration from the same sources and applies the options that may change at run
 * time, beginning with the log level. Logs which options changed and which need a restart. `detail`
 * (CONFIG_NAMES_BYTES) is a short form of the changed ones. Returns false if it is invalid; then
 * nothing is changed.
 */
bool live_config_reload(struct live_config *live, bool *is_changed, char *detail);
void live_config_close(struct live_config *live);

#endif
