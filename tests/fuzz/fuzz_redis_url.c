/* URLs of Redis: a refusal has a reason without the text; an accepted URL can be written, without
 * its secrets, and read again as the same place. */
#include "redis/url.h"

#include "claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_text(const char *text, size_t bytes)
{
    CLAIM("every text ends", memchr(text, 0, bytes));
}

static void check_url(const struct redis_url *url)
{
    CLAIM("there is a kind", url->kind >= REDIS_SINGLE && url->kind <= REDIS_CLUSTER);
    CLAIM("there is a host", url->host_count >= 1 && url->host_count <= REDIS_HOSTS_MAX);
    CLAIM("a single server is one", url->kind != REDIS_SINGLE || url->host_count == 1);
    for (uint32_t i = 0; i < url->host_count; i++) {
        check_text(url->hosts[i].host, sizeof url->hosts[i].host);
        CLAIM("no host is empty", url->hosts[i].host[0]);
        CLAIM("without a port it is a path", url->hosts[i].port || url->hosts[i].host[0] == '/');
    }
    check_text(url->user, sizeof url->user);
    check_text(url->password, sizeof url->password);
    check_text(url->sentinel_user, sizeof url->sentinel_user);
    check_text(url->sentinel_password, sizeof url->sentinel_password);
    check_text(url->master, sizeof url->master);
    check_text(url->prefix, sizeof url->prefix);
    CLAIM("a sentinel watches a master", (url->kind == REDIS_SENTINEL) == (url->master[0] != 0));
    CLAIM("there is a prefix", url->prefix[0]);
    CLAIM("a cluster has one database", url->kind != REDIS_CLUSTER || url->db == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct redis_url url = {.db = 77}, again;
    char error[256] = "", written[8192];
    char *text = malloc(len + 1);
    if (!text)
        abort();
    if (len)
        memcpy(text, bytes, len);
    text[len] = 0;
    if (!redis_url_parse(text, &url, error, sizeof error)) {
        CLAIM("refused: nothing is written", url.db == 77 && url.kind == 0);
        CLAIM("refused: it says why, and there is room for it",
              error[0] && strlen(error) < sizeof error - 1);
        free(text);
        return 0;
    }
    free(text);
    check_url(&url);
    redis_url_emit(&url, written, sizeof written);
    CLAIM("what is written can be read", redis_url_parse(written, &again, error, sizeof error));
    memset(url.user, 0, sizeof url.user);
    memset(url.password, 0, sizeof url.password);
    memset(url.sentinel_user, 0, sizeof url.sentinel_user);
    memset(url.sentinel_password, 0, sizeof url.sentinel_password);
    CLAIM("it is the same place", again.kind == url.kind && again.host_count == url.host_count &&
                                      again.db == url.db && !strcmp(again.master, url.master) &&
                                      !strcmp(again.prefix, url.prefix));
    for (uint32_t i = 0; i < url.host_count; i++)
        CLAIM("of the same hosts", again.hosts[i].port == url.hosts[i].port &&
                                       !strcmp(again.hosts[i].host, url.hosts[i].host));
    CLAIM("without secrets", !again.user[0] && !again.password[0] && !again.sentinel_user[0] &&
                                 !again.sentinel_password[0]);
    return 0;
}
