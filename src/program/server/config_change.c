/* Decides which options a changed configuration can apply while the server runs. */
#include "base/buffer.h"
#include "server/config_options.h"

/* Options that may change without a restart. */
static const char *const live[] = {
    "allowed-host",    "cors-origin",  "tls-cert",  "tls-key",    "tls-client-ca",
    "tls-client-auth", "tls-min",      "log-level", "log-format", "grace",
    "max-connections", "idle-timeout", NULL};

static bool is_live(const struct option *option)
{
    for (size_t i = 0; live[i]; i++)
        if (strcmp(live[i], option->name) == 0)
            return true;
    return false;
}

void config_take(const struct config *before, struct config *fresh, uint64_t *taken, uint64_t *kept)
{
    size_t count;
    const struct option *options = config_options(&count);
    *taken = *kept = 0;
    for (size_t i = 0; i < count; i++) {
        const void *was = (const char *)before + options[i].offset;
        void *is_now = (char *)fresh + options[i].offset;
        if (option_is_same(&options[i], was, is_now))
            continue;
        if (is_live(&options[i])) {
            *taken |= UINT64_C(1) << i;
            continue;
        }
        *kept |= UINT64_C(1) << i;
        memcpy(is_now, was, option_bytes(&options[i]));
    }
}

void config_names(uint64_t rows, char *out, size_t out_bytes)
{
    struct buffer text = {.at = out, .cap = out_bytes - 1, .bytes_max = out_bytes - 1};
    size_t count;
    const struct option *options = config_options(&count);
    for (size_t i = 0; i < count; i++)
        if (rows & UINT64_C(1) << i)
            buffer_append_format(&text, "%s%s", text.len ? "," : "", options[i].name);
    out[text.len] = '\0';
}
