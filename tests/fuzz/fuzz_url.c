/* URLs: what is taken lies within the text; curl takes it too, and sees the same scheme, user, host and port. */
#include "base/text.h"
#include "base/url.h"

#include "claim.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static bool lies_within(struct slice section, struct slice text)
{
    return section.len == 0 ||
           (section.at >= text.at && section.at + section.len <= text.at + text.len);
}

/* Compares curl's part (NULL: no such part) with ours, regardless of the case of letters. */
static bool is_section(CURLU *handle, CURLUPart what, struct slice ours)
{
    char *theirs = NULL;
    bool same = curl_url_get(handle, what, &theirs, 0) == CURLUE_OK
                    ? strlen(theirs) == ours.len &&
                          (ours.len == 0 || strncasecmp(theirs, ours.at, ours.len) == 0)
                    : ours.len == 0;
    curl_free(theirs);
    return same;
}

/* curl writes an IPv6 address in its shortest form. */
static bool is_address(CURLU *handle, struct slice ours)
{
    char text[INET6_ADDRSTRLEN] = "", *theirs = NULL;
    struct in6_addr one, other;
    bool same = false;
    (void)snprintf(text, sizeof text, "%.*s", (int)ours.len, ours.at);
    if (curl_url_get(handle, CURLUPART_HOST, &theirs, 0) == CURLUE_OK && *theirs == '[') {
        theirs[strlen(theirs) - 1] = '\0';
        same = inet_pton(AF_INET6, text, &one) == 1 &&
               inet_pton(AF_INET6, theirs + 1, &other) == 1 &&
               memcmp(&one, &other, sizeof one) == 0;
    }
    curl_free(theirs);
    return same;
}

/* Compares one host: curl has no lists of hosts. */
static void ask_curl(const struct url *url, const char *text)
{
    const struct url_host *host = &url->hosts[0];
    char port[8];
    CURLU *handle = curl_url();
    CLAIM("curl has a handle", handle);
    CLAIM("curl takes it, too",
          curl_url_set(handle, CURLUPART_URL, text, CURLU_NON_SUPPORT_SCHEME | CURLU_PATH_AS_IS) ==
              CURLUE_OK);
    (void)snprintf(port, sizeof port, "%u", (unsigned)host->port);
    CLAIM("curl sees the same scheme", is_section(handle, CURLUPART_SCHEME, url->scheme));
    CLAIM("curl sees the same user", is_section(handle, CURLUPART_USER, url->user));
    CLAIM("curl sees the same password", is_section(handle, CURLUPART_PASSWORD, url->password));
    CLAIM("curl sees the same host", host->is_ipv6
                                         ? is_address(handle, host->name)
                                         : is_section(handle, CURLUPART_HOST, host->name));
    CLAIM("curl sees the same port",
          is_section(handle, CURLUPART_PORT, slice_of(host->port ? port : "")));
    curl_url_cleanup(handle);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct url url = {.host_count = 77};
    struct slice text = slice_make(bytes, len);
    enum url_fault fault = url_parse(text, &url);
    CLAIM("each fault has its sentence", *url_fault_text(fault));
    if (fault) {
        CLAIM("refused: nothing is written", url.host_count == 77);
        return 0;
    }
    const struct slice sections[] = {url.scheme,    url.user, url.password,
                                     url.authority, url.path, url.query};
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        CLAIM("a part lies within the text", lies_within(sections[i], text));
    CLAIM("no more hosts than there may be", url.host_count <= URL_HOSTS_MAX);
    for (size_t i = 0; i < url.host_count; i++)
        CLAIM("a host has a name within the text",
              url.hosts[i].name.len && lies_within(url.hosts[i].name, text));
    if (url.host_count == 1) {
        char *copy = strndup((const char *)bytes, len);
        CLAIM("there is memory", copy);
        ask_curl(&url, copy);
        free(copy);
    }
    return 0;
}
