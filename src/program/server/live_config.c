#include "server/live_config.h"

#include "server/config.h"

#include "base/buffer.h"
#include "base/log.h"
#include "base/trouble.h"

#include <stdlib.h>

/* Decides which options a changed configuration can apply while the server runs. */

/* Options that may change without a restart. */
static const char *const live_names[] = {
    "allowed-host",    "cors-origin",  "tls-cert",  "tls-key",    "tls-client-ca",
    "tls-client-auth", "tls-min",      "log-level", "log-format", "grace",
    "max-connections", "idle-timeout", NULL};

static bool is_live(const struct option *option)
{
    for (size_t i = 0; live_names[i]; i++)
        if (strcmp(live_names[i], option->name) == 0)
            return true;
    return false;
}

void config_take(const struct config *before, struct config *fresh, struct config_rows *taken,
                 struct config_rows *kept)
{
    size_t count;
    const struct option *options = config_options(&count);
    *taken = *kept = (struct config_rows){0};
    for (size_t i = 0; i < count; i++) {
        const void *was = (const char *)before + options[i].offset;
        void *is_now = (char *)fresh + options[i].offset;
        if (option_is_same(&options[i], was, is_now))
            continue;
        if (is_live(&options[i])) {
            config_rows_add(taken, i);
            continue;
        }
        config_rows_add(kept, i);
        memcpy(is_now, was, option_bytes(&options[i]));
    }
}

void config_names(const struct config_rows *rows, char *out, size_t out_bytes)
{
    struct buffer text = {.at = out, .cap = out_bytes - 1, .bytes_max = out_bytes - 1};
    size_t count;
    const struct option *options = config_options(&count);
    for (size_t i = 0; i < count; i++)
        if (config_rows_have(rows, i))
            buffer_append_format(&text, "%s%s", text.len ? "," : "", options[i].name);
    out[text.len] = '\0';
}

/* ---- live config ---- */

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
    struct config_rows taken, kept;
    struct config *fresh = read_again(live);
    trouble_note(TROUBLE_CONFIGURATION, 0, !fresh);
    *is_changed = false;
    if (!fresh)
        return false;
    config_take(live->now, fresh, &taken, &kept);
    config_names(&taken, detail, CONFIG_NAMES_BYTES);
    config_names(&kept, left, sizeof left);
    if (!config_rows_are_empty(&taken)) {
        live->fresh[live->count++] = fresh;
        live->now = fresh;
        *is_changed = true;
        log_set((enum log_level)fresh->log_level, fresh->log_format == CONFIG_LOG_JSON);
    } else {
        free(fresh);
    }
    log_event(config_rows_are_empty(&kept) ? LOG_INFO : LOG_WARN, "configuration read again",
              LOG_TEXT("changed", detail), LOG_TEXT("needs_restart", left));
    return true;
}

void live_config_close(struct live_config *live)
{
    for (uint32_t i = 0; i < live->count; i++)
        free(live->fresh[i]);
}
