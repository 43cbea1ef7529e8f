#include "server/live_config.h"

#include "base/log.h"
#include "base/trouble.h"

#include <stdlib.h>

static struct config *read_again(const struct live_config *live)
{
    char error[CONFIG_ERROR_BYTES] = "out of memory";
    struct config *fresh = malloc(sizeof *fresh);
    if (fresh && live->count < LIVE_CONFIG_RELOADS_MAX &&
        config_load(fresh, live->arg_count, live->args, getenv, error))
        return fresh;
    free(fresh);
    log_event(LOG_ERROR, "configuration not read", LOG_TEXT("error", error),
              LOG_TEXT("result", "nothing was changed"),
              LOG_TEXT("advice", "run 'tarry serve --check' to list all faults"));
    return NULL;
}

bool live_config_reload(struct live_config *live, bool *is_changed, char *detail)
{
    char left[CONFIG_NAMES_BYTES];
    uint64_t taken = 0, kept = 0;
    struct config *fresh = read_again(live);
    trouble_note(TROUBLE_CONFIGURATION, 0, !fresh);
    *is_changed = false;
    if (!fresh)
        return false;
    config_take(live->now, fresh, &taken, &kept);
    config_names(taken, detail, CONFIG_NAMES_BYTES);
    config_names(kept, left, sizeof left);
    if (taken) {
        live->fresh[live->count++] = fresh;
        live->now = fresh;
        *is_changed = true;
        log_set((enum log_level)fresh->log_level, fresh->log_format == CONFIG_LOG_JSON);
    } else {
        free(fresh);
    }
    log_event(kept ? LOG_WARN : LOG_INFO, "configuration read again", LOG_TEXT("changed", detail),
              LOG_TEXT("needs_restart", left));
    return true;
}

void live_config_close(struct live_config *live)
{
    for (uint32_t i = 0; i < live->count; i++)
        free(live->fresh[i]);
}
