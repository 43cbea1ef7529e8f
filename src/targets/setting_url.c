#include "targets/setting_url.h"

#include "base/text.h"
#include "targets/target.h"
#include "targets/template.h"

#include <ctype.h>
#include <stdio.h>

static bool refuse(char *error, const char *why)
{
    (void)snprintf(error, TARGET_ERROR_BYTES, "%s", why);
    return false;
}

/* Up to the first of `marks`; *rest then begins with it. */
static struct slice take_until(struct slice *rest, const char *marks)
{
    size_t len = 0;
    while (len < rest->len && !strchr(marks, rest->at[len]))
        len++;
    struct slice head = slice_make(rest->at, len);
    *rest = slice_make(rest->at + len, rest->len - len);
    return head;
}

static bool check_bytes(struct slice url, char *error)
{
    for (size_t i = 0; i < url.len; i++) {
        char c = url.at[i];
        if (c <= ' ' || c > '~' || strchr("\\\"<>^`|", c))
            return refuse(error, "a byte in it cannot stand in a URL, write it percent-encoded");
    }
    if (memchr(url.at, '#', url.len))
        return refuse(error, "'#' and what follows is never sent, remove it or write it as %23");
    return true;
}

static bool is_scheme(struct slice scheme)
{
    for (size_t i = 0; i < scheme.len; i++)
        if (!isalnum((unsigned char)scheme.at[i]) && !strchr("+-.", scheme.at[i]))
            return false;
    return scheme.len > 0 && isalpha((unsigned char)scheme.at[0]);
}

static bool check_port(struct slice host, char *error)
{
    const char *colon = memrchr(host.at, ':', host.len);
    uint64_t port;
    if (!colon || (host.at[0] == '[' && host.at[host.len - 1] == ']'))
        return true;
    struct slice text = slice_make(colon + 1, host.len - (size_t)(colon + 1 - host.at));
    return (text_parse_u64(text, UINT16_MAX, &port) && port > 0) ||
           refuse(error, "the port is a number from 1 to 65535");
}

/* Of a list, each. */
static bool check_authority(struct slice authority, char *error)
{
    if (memchr(authority.at, '@', authority.len))
        return refuse(error, "a user or password in it, put the credential into the policy file");
    if (template_has_fields(authority))
        return refuse(error, "a template in the host, only path and query may hold one");
    if (memchr(authority.at, '%', authority.len))
        return refuse(error, "an escape in the host, write a name or an address");
    for (bool more = true; more;) {
        struct slice host = take_until(&authority, ",");
        more = authority.len > 0;
        authority = slice_make(authority.at + more, authority.len - more);
        if (host.len == 0)
            return refuse(error, "no host in it, write SCHEME://HOST/PATH");
        if (!check_port(host, error))
            return false;
    }
    return true;
}

bool target_setting_url_check(struct slice url, char *error)
{
    struct slice rest = url;
    if (url.len == 0)
        return refuse(error, "it is empty, write a URL or leave it out");
    if (slice_is(url, "null:"))
        return true;            /* the target without a peer has no host */
    if (slice_is(url, "null:")) /* reaches nobody */
        return true;
    if (!check_bytes(url, error))
        return false;
    struct slice scheme = take_until(&rest, ":/?{}");
    if (!is_scheme(scheme) || rest.len < 3 || memcmp(rest.at, "://", 3) != 0)
        return refuse(error, "write a URL such as https://shop.example/close-order");
    rest = slice_make(rest.at + 3, rest.len - 3);
    struct slice authority = take_until(&rest, "/?");
    if (!check_authority(authority, error))
        return false;
    return !template_leads_up(url) || refuse(error, "'.' or '..' in the path, write it without");
}
