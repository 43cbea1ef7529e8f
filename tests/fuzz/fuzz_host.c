/* Names in Host: names of the server, and names that it may have. The first
 * byte is the length of the list of names, the rest is the Host. */
#include "http/site.h"

#include "claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static bool is_had(const struct http_hosts *hosts, struct slice host)
{
    bool is_malformed = false;
    bool is_had = http_hosts_have(hosts, host, &is_malformed);
    CLAIM("what is no Host is nobody's", !(is_had && is_malformed));
    return is_had;
}

static void check_strangers(const struct http_hosts *hosts, struct slice host)
{
    static const char more[] = ".evil.example";
    char longer[300];
    if (host.len + sizeof more > sizeof longer || memchr(host.at, ':', host.len))
        return;
    memcpy(longer, host.at, host.len);
    memcpy(longer + host.len, more, sizeof more);
    CLAIM("what only begins like an own name is a stranger",
          !is_had(hosts, slice_make(longer, host.len + sizeof more - 1)));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct http_hosts loopback, all, none;
    struct slice bad;
    if (len == 0)
        return 0;
    size_t names_len = bytes[0] < len ? bytes[0] : len - 1;
    char *names = malloc(names_len + 1);
    if (!names)
        return 0;
    memcpy(names, bytes + 1, names_len);
    names[names_len] = '\0';
    struct slice host = slice_make(bytes + 1 + names_len, len - 1 - names_len);
    bool is_right = http_host_names_check(slice_of(names), &bad);
    CLAIM("what is wrong is named", is_right || (bad.len && bad.at >= names));

    http_hosts_init(&loopback, true, is_right ? names : NULL, NULL);
    http_hosts_init(&all, false, is_right ? names : NULL, NULL);
    http_hosts_init(&none, true, NULL, NULL);
    CLAIM("more addresses, not fewer names", !is_had(&loopback, host) || is_had(&all, host));
    CLAIM("more names, not fewer", !is_had(&none, host) || is_had(&loopback, host));
    if (is_had(&none, host))
        check_strangers(&none, host);
    free(names);
    return 0;
}
