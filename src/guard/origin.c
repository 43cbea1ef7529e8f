/* Origins of credentials: "scheme://host:port" in one spelling. */
#include "base/text.h"
#include "guard/policy.h"

#include <ctype.h>
#include <stdio.h>

static const struct {
    const char *scheme;
    uint16_t port;
} ports[] = {
    {"http", 80},    {"https", 443},   {"amqp", 5672},   {"amqps", 5671},
    {"kafka", 9092}, {"kafkas", 9093}, {"stomp", 61613}, {"stomps", 61614},
};

static uint64_t default_port(struct slice scheme)
{
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++)
        if (slice_is(scheme, ports[i].scheme))
            return ports[i].port;
    return 0;
}

static bool is_scheme(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!isalnum((unsigned char)text.at[i]) && !strchr("+-.", text.at[i]))
            return false;
    return text.len > 0 && text.len < 32;
}

/* "host", "host:port", "[::1]:port". */
static bool split_authority(struct slice text, struct slice *host, struct slice *port)
{
    struct guard_address unused;
    const char *end = text.len && text.at[0] == '[' ? memchr(text.at, ']', text.len)
                                                    : memchr(text.at, ':', text.len);
    bool in_brackets = text.len && text.at[0] == '[';
    if (in_brackets && !end)
        return false;
    size_t len = end ? (size_t)(end - text.at) + in_brackets : text.len;
    *host = slice_make(text.at, len);
    *port = slice_make(text.at + len, text.len - len);
    if (port->len && port->at[0] != ':')
        return false;
    struct slice bare = in_brackets ? slice_make(host->at + 1, len - 2) : *host;
    return guard_address_parse(bare, &unused) != GUARD_SPELLS_NOTHING &&
           (!in_brackets || memchr(bare.at, ':', bare.len));
}

bool policy_origin(struct slice text, char out[POLICY_ORIGIN_BYTES])
{
    char lower[POLICY_ORIGIN_BYTES];
    struct slice host, port;
    size_t len = 0;
    while (len < text.len && len < sizeof lower) {
        lower[len] = (char)tolower((unsigned char)text.at[len]);
        len++;
    }
    const char *colon = memmem(lower, len, "://", 3);
    if (!colon)
        return false;
    struct slice scheme = slice_make(lower, (size_t)(colon - lower));
    struct slice rest = slice_make(colon + 3, len - scheme.len - 3);
    for (size_t i = 0; i < rest.len; i++)
        if (strchr("/?#,", rest.at[i]))
            rest.len = i;
    if (!is_scheme(scheme) || !split_authority(rest, &host, &port))
        return false;
    uint64_t number = default_port(scheme);
    if (port.len && !text_parse_u64(slice_make(port.at + 1, port.len - 1), UINT16_MAX, &number))
        return false;
    if (host.at[host.len - 1] == '.')
        host.len--;
    return number > 0 &&
           snprintf(out, POLICY_ORIGIN_BYTES, "%.*s://%.*s:%u", (int)scheme.len, scheme.at,
                    (int)host.len, host.at, (unsigned)number) < POLICY_ORIGIN_BYTES;
}
