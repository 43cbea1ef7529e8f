#include "server/option.h"

#include "base/duration.h"
#include "base/text.h"
#include "http/host.h"
#include "server/address.h"

#include <stdio.h>
#include <string.h>

/* True if `text` is one of the words in "a|b|c"; *number from 1. */
static bool choice_number(const char *values, const char *text, uint32_t *number)
{
    size_t len = strlen(text);
    uint32_t n = 1;
    if (len == 0 || strchr(text, '|'))
        return false;
    for (const char *at = values;; at = strchr(at, '|') + 1, n++) {
        if (strncmp(at, text, len) == 0 && (at[len] == '|' || at[len] == '\0')) {
            *number = n;
            return true;
        }
        if (!strchr(at, '|'))
            return false;
    }
}

static bool parse_switch(const char *text, bool *out)
{
    uint32_t number;
    if (choice_number("true|yes|on|1", text, &number))
        *out = true;
    else if (choice_number("false|no|off|0", text, &number))
        *out = false;
    else
        return false;
    return true;
}

static bool parse_sync(const struct option *option, const char *text, struct option_sync *out)
{
    struct option_sync sync = {0};
    if (strcmp(text, "always") == 0)
        sync.kind = WAL_SYNC_ALWAYS;
    else if (strcmp(text, "never") == 0)
        sync.kind = WAL_SYNC_NEVER;
    else if (!duration_lacks_unit(slice_of(text)) &&
             duration_parse(slice_of(text), option->most, &sync.interval_ms) &&
             sync.interval_ms >= option->least)
        sync.kind = WAL_SYNC_INTERVAL;
    else
        return false;
    *out = sync;
    return true;
}

static bool parse_names(const char *text, char *out)
{
    struct slice bad;
    if (strlen(text) >= OPTION_TEXT_BYTES || !http_host_names_check(slice_of(text), &bad))
        return false;
    strcpy(out, text);
    return true;
}

static bool parse_number(const struct option *option, const char *text, int64_t *out)
{
    uint64_t most = (uint64_t)option->most, natural = 0;
    int64_t number = 0;
    bool ok = option->kind == OPTION_DURATION
                  ? !duration_lacks_unit(slice_of(text)) &&
                        duration_parse(slice_of(text), option->most, &number)
              : option->kind == OPTION_BYTES ? text_parse_bytes(slice_of(text), most, &natural)
                                             : text_parse_u64(slice_of(text), most, &natural);
    if (option->kind != OPTION_DURATION)
        number = (int64_t)natural;
    if (!ok || number < option->least)
        return false;
    *out = number;
    return true;
}

bool option_set(const struct option *option, void *base, const char *text)
{
    void *field = (char *)base + option->offset;
    int64_t number = 0;
    switch (option->kind) {
    case OPTION_TEXT:
        if (strlen(text) >= OPTION_TEXT_BYTES)
            return false;
        strcpy(field, text);
        return true;
    case OPTION_NAMES:
        return parse_names(text, field);
    case OPTION_ADDRESS:
        return address_parse(slice_of(text), field);
    case OPTION_SYNC:
        return parse_sync(option, text, field);
    case OPTION_CHOICE:
        return choice_number(option->values, text, field);
    case OPTION_SWITCH:
        return parse_switch(text, field);
    case OPTION_COUNT:
        if (!parse_number(option, text, &number))
            return false;
        *(uint32_t *)field = (uint32_t)number;
        return true;
    case OPTION_BYTES:
    case OPTION_DURATION:
        if (!parse_number(option, text, &number))
            return false;
        *(int64_t *)field = number;
        return true;
    }
    return false;
}

static void bytes_emit(char *out, size_t out_bytes, int64_t bytes)
{
    if (bytes >= (1 << 20) && bytes % (1 << 20) == 0)
        snprintf(out, out_bytes, "%lldMiB", (long long)(bytes / (1 << 20)));
    else
        snprintf(out, out_bytes, "%lld", (long long)bytes);
}

void option_describe(const struct option *option, char *out, size_t out_bytes)
{
    char least[32], most[32];
    struct buffer text;
    switch (option->kind) {
    case OPTION_TEXT:
        snprintf(out, out_bytes, "give at most %d bytes", OPTION_TEXT_BYTES - 1);
        break;
    case OPTION_NAMES:
        snprintf(out, out_bytes,
                 "give names without a port, such as queue.internal or *.internal, with commas "
                 "between");
        break;
    case OPTION_ADDRESS:
        snprintf(out, out_bytes,
                 "give an address and a port, such as 127.0.0.1:8279 or [::1]:8279");
        break;
    case OPTION_SYNC:
        snprintf(out, out_bytes, "give always, never or a time from 1ms to 1m, such as 50ms");
        break;
    case OPTION_CHOICE:
        snprintf(out, out_bytes, "give %s%s", strchr(option->values, '|') ? "one of " : "",
                 option->values);
        break;
    case OPTION_SWITCH:
        snprintf(out, out_bytes, "give true or false");
        break;
    case OPTION_COUNT:
        snprintf(out, out_bytes, "give a number from %lld to %lld", (long long)option->least,
                 (long long)option->most);
        break;
    case OPTION_BYTES:
        bytes_emit(least, sizeof(least), option->least);
        bytes_emit(most, sizeof(most), option->most);
        snprintf(out, out_bytes, "give a size from %s to %s, such as %s", least, most,
                 option->most > (64 << 20) ? "64MiB" : "64KiB");
        break;
    case OPTION_DURATION:
        buffer_init(&text, out_bytes);
        buffer_append_text(&text, "give a time from ");
        duration_emit(&text, option->least);
        buffer_append_text(&text, " to ");
        duration_emit(&text, option->most);
        buffer_append_text(&text, ", such as 30s");
        snprintf(out, out_bytes, "%.*s", (int)text.len, text.at);
        buffer_fini(&text);
        break;
    }
}
