#include "server/option.h"

#include "base/duration.h"
#include "base/error.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "http/site.h"

#include <stdio.h>
#include <string.h>

/* The year 3000, well below the largest due time of a job. */
#define CLOCK_MS_MAX INT64_C(32503680000000)

/* ---- parsing ---- */

/* Returns true if `text` is one of the words in "a|b|c"; sets *number, counted from 1. */
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

/* Parses on or off like a switch, or a start time. */
static bool parse_clock(const char *text, int64_t *out)
{
    bool is_on;
    int64_t ms;
    if (parse_switch(text, &is_on))
        *out = is_on ? OPTION_CLOCK_NOW : 0;
    else if (!timestamp_is_in_seconds(slice_of(text)) && timestamp_parse(slice_of(text), &ms) &&
             ms >= TIMESTAMP_BARE_MS_MIN && ms < CLOCK_MS_MAX)
        *out = ms;
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
    else if (duration_parse(slice_of(text), option->most, &sync.interval_ms) &&
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

static bool parse_origins(const char *text, char *out)
{
    struct slice bad;
    if (strlen(text) >= OPTION_TEXT_BYTES || !http_cors_check(slice_of(text), &bad))
        return false;
    strcpy(out, text);
    return true;
}

static bool parse_number(const struct option *option, const char *text, int64_t *out)
{
    uint64_t most = (uint64_t)option->most, natural = 0;
    int64_t number = 0;
    bool ok = option->kind == OPTION_DURATION
                  ? duration_parse(slice_of(text), option->most, &number)
              : option->kind == OPTION_BYTES ? text_parse_bytes(slice_of(text), most, &natural)
                                             : text_parse_u64(slice_of(text), most, &natural);
    if (option->kind != OPTION_DURATION)
        number = (int64_t)natural;
    if (!ok || number < option->least)
        return false;
    *out = number;
    return true;
}

/* Parses "0.01": at most one digit before the point and nine after it. */
static bool parse_share(const char *text, uint32_t *out)
{
    enum { ALL = 1000000000 };
    uint64_t share = 0, unit = ALL;
    if ((text[0] != '0' && text[0] != '1') || (text[1] && text[1] != '.'))
        return false;
    share = text[0] == '1' ? ALL : 0;
    for (const char *at = text[1] ? text + 2 : text + 1; *at; at++) {
        unit /= 10;
        if (*at < '0' || *at > '9' || unit == 0)
            return false;
        share += (uint64_t)(*at - '0') * unit;
    }
    if (share > ALL || (text[1] && !text[2]))
        return false;
    *out = (uint32_t)share;
    return true;
}

/* Parses one or more listeners separated by blanks. If `more`, they are added to the existing
 * ones. */
static bool parse_listen(const char *text, bool more, struct option_listen *out, char *why)
{
    struct option_listen listen = {0};
    if (more)
        listen = *out;
    for (text += strspn(text, " \t"); *text; text += strspn(text, " \t")) {
        struct slice one = slice_make(text, strcspn(text, " \t"));
        if (listen.count == OPTION_LISTEN_MAX)
            return error_text(why, ADDRESS_ERROR_BYTES, "give at most %d", OPTION_LISTEN_MAX);
        if (!address_parse(one, &listen.at[listen.count++], why))
            return false;
        text += one.len;
    }
    if (listen.count == 0)
        return address_parse(slice_of(""), out->at, why);
    *out = listen;
    return true;
}

bool option_set(const struct option *option, void *base, const char *text, bool more,
                char why[ADDRESS_ERROR_BYTES])
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
    case OPTION_ORIGINS:
        return parse_origins(text, field);
    case OPTION_LISTEN:
        return parse_listen(text, more, field, why);
    case OPTION_SYNC:
        return parse_sync(option, text, field);
    case OPTION_CHOICE:
        return choice_number(option->values, text, field);
    case OPTION_SWITCH:
        return parse_switch(text, field);
    case OPTION_CLOCK:
        return parse_clock(text, field);
    case OPTION_COUNT:
        if (!parse_number(option, text, &number))
            return false;
        *(uint32_t *)field = (uint32_t)number;
        return true;
    case OPTION_SHARE:
        return parse_share(text, field);
    case OPTION_RATE:
        if (text[0])
            return access_rate_parse(slice_of(text), field);
        *(struct access_rate *)field = (struct access_rate){0};
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

/* ---- descriptions of valid values ---- */

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
        snprintf(
            out, out_bytes,
            "give names without a port, separated by commas, such as queue.internal,*.internal");
        break;
    case OPTION_ORIGINS:
        snprintf(out, out_bytes,
                 "give origins as a browser sends them, separated by commas, such as "
                 "https://console.example,http://localhost:3000");
        break;
    case OPTION_LISTEN: /* address_parse has described it */
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
    case OPTION_CLOCK:
        snprintf(out, out_bytes,
                 "give true, false or a time from 1973 to 2999, such as "
                 "2030-01-01T00:00:00Z");
        break;
    case OPTION_COUNT:
        snprintf(out, out_bytes, "give a number from %lld to %lld", (long long)option->least,
                 (long long)option->most);
        break;
    case OPTION_BYTES:
        bytes_emit(least, sizeof least, option->least);
        bytes_emit(most, sizeof most, option->most);
        snprintf(out, out_bytes, "give a size from %s to %s, such as %s", least, most,
                 option->most > (64 << 20) ? "64MiB" : "64KiB");
        break;
    case OPTION_SHARE:
        snprintf(out, out_bytes, "give a number from 0 to 1, such as 0.01");
        break;
    case OPTION_RATE:
        snprintf(out, out_bytes, "give a rate such as 100/s, 90/m or 5K/h");
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

/* ---- comparison ---- */

size_t option_bytes(const struct option *option)
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
                  x->proxy_protocol == y->proxy_protocol && x->token == y->token &&
                  x->protocol == y->protocol;
    }
    return is_same;
}

bool option_is_same(const struct option *option, const void *a, const void *b)
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
