/* What becomes of a configuration that changed while the server serves: which options it takes over. */
#include "base/buffer.h"
#include "server/config.h"

/* All others want a restart. */
static const char *const live[] = {
    "allowed-host",    "cors-origin",  "tls-cert",  "tls-key",    "tls-client-ca",
    "tls-client-auth", "tls-min",      "log-level", "log-format", "grace",
    "max-connections", "idle-timeout", NULL};

bool config_is_live(const struct option *option)
{
    for (size_t i = 0; live[i]; i++)
        if (strcmp(live[i], option->name) == 0)
            return true;
    return false;
}

static size_t option_bytes(const struct option *option)
{
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_NAMES:
    case OPTION_ORIGINS:
        return OPTION_TEXT_BYTES;
    case OPTION_LISTEN:
        return sizeof(struct option_listen);
    case OPTION_SYNC:
        return sizeof(struct option_sync);
    case OPTION_CHOICE:
    case OPTION_COUNT:
    case OPTION_SHARE:
        return sizeof(uint32_t);
    case OPTION_BYTES:
    case OPTION_DURATION:
    case OPTION_CLOCK:
        return sizeof(int64_t);
    case OPTION_RATE:
        return sizeof(struct access_rate);
    case OPTION_SWITCH:
        return sizeof(bool);
    }
    return 0;
}

static bool is_same_listen(const struct option_listen *a, const struct option_listen *b)
{
    char one[ADDRESS_TEXT_BYTES], other[ADDRESS_TEXT_BYTES];
    bool is_same = a->count == b->count;
    for (uint32_t i = 0; is_same && i < a->count; i++) {
        const struct listener_options *x = &a->at[i], *y = &b->at[i];
        address_emit(x, one);
        address_emit(y, other);
        is_same = strcmp(one, other) == 0 && x->kind == y->kind && x->mode == y->mode &&
                  strcmp(x->group, y->group) == 0 && x->tls == y->tls && x->plain == y->plain &&
                  x->proxy_protocol == y->proxy_protocol && x->token == y->token;
    }
    return is_same;
}

static bool is_same_value(const struct option *option, const void *a, const void *b)
{
    const struct option_sync *x = a, *y = b;
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_NAMES:
    case OPTION_ORIGINS:
        return strcmp(a, b) == 0;
    case OPTION_LISTEN:
        return is_same_listen(a, b);
    case OPTION_SYNC:
        return x->kind == y->kind && x->interval_ms == y->interval_ms;
    default:
        return memcmp(a, b, option_bytes(option)) == 0;
    }
}

void config_take(const struct config *before, struct config *fresh, uint64_t *taken, uint64_t *kept)
{
    size_t count;
    const struct option *options = config_options(&count);
    *taken = *kept = 0;
    for (size_t i = 0; i < count; i++) {
        const void *was = (const char *)before + options[i].offset;
        void *is_now = (char *)fresh + options[i].offset;
        if (is_same_value(&options[i], was, is_now))
            continue;
        if (config_is_live(&options[i])) {
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
