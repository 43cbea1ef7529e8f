#include "targets/amqp_url.h"

#include "base/text.h"
#include "targets/target.h"

#include <stdio.h>

enum { PORT = 5672, PORT_TLS = 5671 };

static bool fail(char *error, const char *what, struct slice subject, const char *advice)
{
    snprintf(error, TARGET_ERROR_BYTES, "%s '%.*s', %s", what,
             (int)(subject.len < 80 ? subject.len : 80), subject.at ? subject.at : "", advice);
    return false;
}

/* What comes before the first `mark` (all of it where there is none); *text is what follows. */
static struct slice cut(struct slice *text, char mark, bool *found)
{
    const char *at = text->len ? memchr(text->at, mark, text->len) : NULL;
    struct slice before = at ? slice_make(text->at, (size_t)(at - text->at)) : *text;
    *found = at != NULL;
    *text = at ? slice_make(at + 1, text->len - before.len - 1) : (struct slice){0};
    return before;
}

static bool take_scheme(struct slice *text, bool *is_tls)
{
    static const char *const schemes[] = {"amqp://", "amqps://"};
    for (size_t i = 0; i < 2; i++) {
        size_t len = strlen(schemes[i]);
        if (text->len < len || strncasecmp(text->at, schemes[i], len) != 0)
            continue;
        *text = slice_make(text->at + len, text->len - len);
        *is_tls = i == 1;
        return true;
    }
    return false;
}

static bool host_is_well_formed(struct slice host, bool is_bracketed)
{
    const char *more = is_bracketed ? ":.%" : ".-_";
    for (size_t i = 0; i < host.len; i++) {
        char c = host.at[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              strchr(more, c)) ||
            c == '\0')
            return false;
    }
    return host.len > 0 && host.len < TARGET_AMQP_NAME_BYTES;
}

static bool parse_authority(struct slice authority, struct target_amqp_url *out, char *error)
{
    struct slice all = authority, host;
    bool is_bracketed = authority.len && authority.at[0] == '[', found, has_port;
    uint64_t port = out->is_tls ? PORT_TLS : PORT;
    if (memchr(authority.at ? authority.at : "", '@', authority.len))
        return fail(error, "user and password in the URL", slice_of("…@"),
                    "name them in the policy file: credential = amqp://host:port user password");
    if (is_bracketed) {
        authority = slice_make(authority.at + 1, authority.len - 1);
        host = cut(&authority, ']', &found);
        struct slice before = cut(&authority, ':', &has_port);
        if (!found || before.len > 0)
            return fail(error, "malformed address", all, "give amqp://[::1]:5672/vhost");
    } else {
        host = cut(&authority, ':', &has_port);
        if (host.len > 1 && host.at[host.len - 1] == '.') /* no certificate has it */
            host.len--;
    }
    if (!host_is_well_formed(host, is_bracketed))
        return fail(error, "malformed host", all, "give amqp://host:port/vhost");
    if (has_port && (!text_parse_u64(authority, 65535, &port) || port == 0))
        return fail(error, "malformed port", all, "give a number from 1 to 65535");
    memcpy(out->host, host.at, host.len);
    for (char *at = out->host; *at; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
    out->port = (uint16_t)port;
    snprintf(out->origin, sizeof(out->origin), is_bracketed ? "%s://[%s]:%u" : "%s://%s:%u",
             out->is_tls ? "amqps" : "amqp", out->host, out->port);
    return true;
}

static bool parse_vhost(struct slice path, struct target_amqp_url *out, char *error)
{
    struct buffer name;
    buffer_init(&name, TARGET_AMQP_NAME_BYTES - 1);
    bool ok = !(path.len && (memchr(path.at, '/', path.len) || memchr(path.at, '{', path.len))) &&
              text_percent_decode(path, false, &name) &&
              !(name.len && memchr(name.at, 0, name.len));
    if (ok && name.len)
        memcpy(out->vhost, name.at, name.len);
    else
        strcpy(out->vhost, "/");
    buffer_fini(&name);
    return ok || fail(error, "malformed virtual host", path,
                      "give one name, at most 255 bytes, '/' in it as %2f, without templates");
}

bool target_amqp_url_parse(struct slice text, struct target_amqp_url *out, struct slice *query,
                           char *error)
{
    struct target_amqp_url url = {0};
    struct slice rest = text;
    bool has_query, has_path;
    if (!take_scheme(&rest, &url.is_tls))
        return fail(error, "not a RabbitMQ", cut(&rest, ':', &has_query),
                    "give amqp://host:port/vhost or amqps://…");
    struct slice before = cut(&rest, '?', &has_query);
    if (has_query && !query)
        return fail(error, "parameters after", before, "leave out what follows '?'");
    struct slice authority = cut(&before, '/', &has_path);
    if (!parse_authority(authority, &url, error) || !parse_vhost(before, &url, error))
        return false;
    if (query)
        *query = rest;
    *out = url;
    return true;
}
