#include "targets/target.h"

#include "base/text.h"
#include "guard/address.h"

#include <ctype.h>
#include <stdio.h>

enum { ENDPOINT_HOSTS_MAX = 16 };

/* ---- kinds ---- */

static const struct target_ops *const kinds[] = {
    &target_http, &target_amqp, &target_kafka, &target_stomp, &target_null,
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* What stands before the first colon. */
static struct slice scheme_of(struct slice to)
{
    const char *colon = to.len ? memchr(to.at, ':', to.len) : NULL;
    return slice_make(to.at, colon ? (size_t)(colon - to.at) : 0);
}

static bool equals_folded(struct slice text, const char *lower)
{
    size_t i = 0;
    while (i < text.len && lower[i] && tolower((unsigned char)text.at[i]) == lower[i])
        i++;
    return i == text.len && !lower[i];
}

const struct target_ops *target_find(struct slice to)
{
    struct slice scheme = scheme_of(to);
    for (size_t i = 0; scheme.len > 0 && i < KINDS; i++)
        for (const char *const *name = kinds[i]->schemes; *name; name++)
            if (equals_folded(scheme, *name))
                return kinds[i];
    return NULL;
}

void target_emit_schemes(struct buffer *out)
{
    bool first = true;
    for (size_t i = 0; i < KINDS; i++)
        for (const char *const *name = kinds[i]->schemes; *name; name++) {
            buffer_append_text(out, first ? "" : ", ");
            buffer_append_text(out, *name);
            first = false;
        }
}

const char *target_outcome_name(enum target_outcome outcome)
{
    static const char *const names[] = {[TARGET_DONE] = "done",
                                        [TARGET_FAILED] = "failed",
                                        [TARGET_REFUSED] = "refused",
                                        [TARGET_UNSENT] = "unsent"};
    return outcome >= TARGET_DONE && outcome <= TARGET_UNSENT ? names[outcome] : "unknown";
}

/* ---- endpoints ---- */

/* Where a scheme listens, and whether its path names the endpoint too (a virtual host). */
static const struct {
    const char *scheme;
    uint16_t port;
    bool has_path;
} places[] = {
    {"http", 80, false},    {"https", 443, false},   {"amqp", 5672, true},
    {"amqps", 5671, true},  {"kafka", 9092, false},  {"kafkas", 9093, false},
    {"stomp", 61613, true}, {"stomps", 61614, true},
};

/* What stands before an '@' may be a password: it is not shown. */
static bool fail(char *error, const char *what, struct slice subject, const char *advice)
{
    const char *at = subject.len ? memrchr(subject.at, '@', subject.len) : NULL;
    if (at)
        subject = slice_make(at, subject.len - (size_t)(at - subject.at));
    int len = subject.len < 96 ? (int)subject.len : 96;
    snprintf(error, TARGET_ERROR_BYTES, "%s '%s%.*s', %s", what, at ? "…" : "", len,
             len ? subject.at : "", advice);
    return false;
}

static void append_lower(struct buffer *out, struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        buffer_append_byte(out, (char)tolower((unsigned char)text.at[i]));
}

/* The host's end: behind the bracket, before the colon of the port. */
static size_t host_len(struct slice place)
{
    if (place.len > 0 && place.at[0] == '[') {
        const char *end = memchr(place.at, ']', place.len);
        return end ? (size_t)(end - place.at) + 1 : 0;
    }
    const char *colon = place.len ? memchr(place.at, ':', place.len) : NULL;
    return colon ? (size_t)(colon - place.at) : place.len;
}

static bool is_host(struct slice host)
{
    struct guard_address unused;
    bool in_brackets = host.len > 0 && host.at[0] == '[';
    if (in_brackets)
        host = slice_make(host.at + 1, host.len - 2);
    return host.len > 0 && guard_address_parse(host, &unused) != GUARD_SPELLS_NOTHING &&
           in_brackets == (memchr(host.at, ':', host.len) != NULL);
}

/* "host", "host:port", "[::1]:port" */
static bool append_place(struct slice place, uint16_t port, struct buffer *out, char *error)
{
    uint64_t number = port;
    struct slice host = slice_make(place.at, host_len(place));
    struct slice rest = slice_make(place.at + host.len, place.len - host.len);
    if (!is_host(host))
        return fail(error, "no host in", place, "give a name or an address, without a user");
    if (rest.len > 0 &&
        (rest.at[0] != ':' ||
         !text_parse_u64(slice_make(rest.at + 1, rest.len - 1), UINT16_MAX, &number) ||
         number == 0))
        return fail(error, "bad port in", place, "give a number from 1 to 65535");
    if (host.at[host.len - 1] == '.')
        host.len--;
    append_lower(out, host);
    buffer_append_format(out, ":%u", (unsigned)number);
    return true;
}

static bool append_places(struct slice places_text, uint16_t port, struct buffer *out, char *error)
{
    for (int count = 0; count < ENDPOINT_HOSTS_MAX; count++) {
        const char *comma = places_text.len ? memchr(places_text.at, ',', places_text.len) : NULL;
        size_t len = comma ? (size_t)(comma - places_text.at) : places_text.len;
        if (count > 0)
            buffer_append_byte(out, ',');
        if (!append_place(slice_make(places_text.at, len), port, out, error))
            return false;
        if (!comma)
            return true;
        places_text = slice_make(comma + 1, places_text.len - len - 1);
    }
    return fail(error, "too many hosts in", places_text, "give at most 16");
}

static size_t span_without(struct slice text, const char *stops)
{
    size_t len = 0;
    while (len < text.len && !strchr(stops, text.at[len]))
        len++;
    return len;
}

static bool append_endpoint(struct slice to, struct buffer *out, char *error)
{
    struct slice scheme = scheme_of(to);
    if (equals_folded(scheme, "null")) {
        buffer_append_text(out, "null:");
        return true;
    }
    struct slice rest = slice_make(to.at + scheme.len, to.len - scheme.len);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (!equals_folded(scheme, places[i].scheme))
            continue;
        if (rest.len < 3 || memcmp(rest.at, "://", 3) != 0)
            break;
        rest = slice_make(rest.at + 3, rest.len - 3);
        struct slice hosts = slice_make(rest.at, span_without(rest, "/?#"));
        append_lower(out, scheme);
        buffer_append_text(out, "://");
        if (!append_places(hosts, places[i].port, out, error))
            return false;
        struct slice path = slice_make(rest.at + hosts.len, rest.len - hosts.len);
        if (places[i].has_path)
            buffer_append(out, path.at, span_without(path, "?#"));
        return true;
    }
    struct buffer advice;
    buffer_init(&advice, 160);
    buffer_append_text(&advice, "it begins with one of ");
    target_emit_schemes(&advice);
    buffer_append_byte(&advice, '\0');
    fail(error, "no destination", to, advice.failed ? "give a URL" : advice.at);
    buffer_fini(&advice);
    return false;
}

bool target_endpoint(struct slice to, struct buffer *out, char error[TARGET_ERROR_BYTES])
{
    size_t before = out->len;
    if (append_endpoint(to, out, error) && !out->failed)
        return true;
    if (out->failed)
        fail(error, "destination too long", to, "shorten its host");
    out->len = before;
    return false;
}
