#include "targets/place.h"

#include "base/error.h"
#include "base/text.h"
#include "targets/target.h"
#include "targets/template.h"

#include <stdio.h>

static bool place_refuse(char *error, const char *why)
{
    return error_text(error, TARGET_ERROR_BYTES, "%s", why);
}

/* Returns true for bytes that url_parse accepts, but that must be escaped in a URL (RFC 3986,
 * appendix A). */
static bool has_unsafe_bytes(struct slice to)
{
    for (size_t i = 0; i < to.len; i++)
        if (strchr("\"<>^`|", to.at[i]))
            return true;
    return false;
}

/* Returns true if the host is invalid because it contains a template. Only for the error text: it
 * is rejected anyway. */
static bool has_template_in_host(struct slice to)
{
    const char *slashes = to.len ? memmem(to.at, to.len, "://", 3) : NULL;
    size_t begin = slashes ? (size_t)(slashes - to.at) + 3 : to.len, end = begin;
    while (end < to.len && to.at[end] != '/' && to.at[end] != '?')
        end++;
    return template_has_fields(slice_make(to.at + begin, end - begin));
}

/* Describes what is wrong with a destination and how to correct it, if more is known than for
 * any URL. */
static const char *words_for(enum url_fault fault, struct slice to)
{
    if (fault == URL_NO_SCHEME)
        return "write a URL such as https://shop.example/close-order";
    if (fault == URL_NO_HOST)
        return "no host in it, write SCHEME://HOST/PATH";
    if (fault == URL_BAD_USER)
        return "it has a user or password, move the credential to the policy file";
    if ((fault == URL_BAD_HOST || fault == URL_BAD_PORT) && has_template_in_host(to))
        return "it has a template in the host, only path and query may contain one";
    return url_fault_text(fault);
}

bool target_place_read(struct slice to, struct url *url, char *error)
{
    enum url_fault fault = url_parse(to, url);
    if (!fault && url->has_user)
        fault = URL_BAD_USER;
    if (!fault && url->host_count == 0)
        fault = URL_NO_HOST;
    if (fault)
        return place_refuse(error, words_for(fault, to));
    if (to.len > TARGET_TO_BYTES_MAX)
        return place_refuse(error, "it is too long, a URL has at most 2048 bytes");
    if (has_unsafe_bytes(to))
        return place_refuse(
            error, "it contains a byte that a URL cannot contain, write it percent-encoded");
    return true;
}

/* Copies the host from the "host:port" of the origin, which url_emit_host has normalized, without
 * port and brackets. */
static void take_host(const struct url *url, size_t at, struct target_place *out)
{
    const char *host = out->origin + url->scheme.len + 3;
    size_t len = (size_t)(strrchr(host, ':') - host);
    if (url->hosts[at].is_ipv6) {
        host++;
        len -= 2;
    }
    memcpy(out->host, host, len);
    out->host[len] = '\0';
}

static bool take_place(const struct url *url, size_t host, struct target_place *out, char *error)
{
    out->port = guard_port(url, host);
    if (!guard_origin(url, host, out->origin))
        return place_refuse(error, url_fault_text(URL_BAD_HOST));
    take_host(url, host, out);
    return true;
}

bool target_place_parse(struct slice to, const char *const *schemes, struct url *url,
                        struct target_place *out, char *error)
{
    if (!target_place_read(to, url, error))
        return false;
    out->is_tls = url_scheme_is(url, schemes[1]);
    if (!out->is_tls && !url_scheme_is(url, schemes[0]))
        return error_text(error, TARGET_ERROR_BYTES, "not a URL of %s or %s", schemes[0],
                          schemes[1]);
    return take_place(url, 0, out, error);
}

bool target_places_parse(struct slice to, const char *const *schemes, struct url *url,
                         struct target_places *out, char *error)
{
    if (!target_place_parse(to, schemes, url, &out->at[0], error))
        return false;
    for (out->count = 1; out->count < url->host_count; out->count++) {
        out->at[out->count].is_tls = out->at[0].is_tls;
        if (!take_place(url, out->count, &out->at[out->count], error))
            return false;
    }
    return true;
}

bool target_place_name(const struct url *url, char out[TARGET_NAME_BYTES])
{
    struct slice path = url->path;
    struct buffer name;
    if (path.len > 0)
        path = slice_make(path.at + 1, path.len - 1);
    buffer_init(&name, TARGET_NAME_BYTES - 1);
    bool good = text_percent_decode(path, false, &name);
    for (size_t i = 0; i < name.len; i++)
        good = good && (unsigned char)name.at[i] >= ' ' && name.at[i] != 0x7f;
    if (good)
        (void)snprintf(out, TARGET_NAME_BYTES, "%.*s", (int)name.len, name.len ? name.at : "");
    buffer_fini(&name);
    return good;
}
