#include "redis/url.h"

#include "base/error.h"
#include "base/text.h"
#include "base/url.h"

#include <assert.h>
#include <stdio.h>
#include <sys/un.h>

/* Any part of an invalid URL may be a password. So errors never quote the URL, only entries of our
 * own tables. */

#define REDIS_URL_SHAPES                                                                           \
    "write redis://host:6379, redis-sentinel://host:26379/master, "                                \
    "redis-cluster://host:6379,host:6379 or redis+unix:///path; with TLS rediss://"

enum { PORT_REDIS = 6379, PORT_SENTINEL = 26379, DB_MAX = INT32_MAX };

_Static_assert((int)REDIS_HOSTS_MAX == (int)URL_HOSTS_MAX &&
                   (int)REDIS_HOST_BYTES > (int)URL_HOST_BYTES_MAX,
               "what base/url.h takes has room here");

/* The schemes. The first of each kind is used for output. */
static const struct redis_scheme {
    const char *name;
    enum redis_kind kind;
    uint16_t port; /* if the URL contains no port */
    bool is_unix;
    bool has_tls;
} schemes[] = {
    {.name = "redis", .kind = REDIS_SINGLE, .port = PORT_REDIS},
    {.name = "redis-sentinel", .kind = REDIS_SENTINEL, .port = PORT_SENTINEL},
    {.name = "redis-cluster", .kind = REDIS_CLUSTER, .port = PORT_REDIS},
    {.name = "redis+unix", .kind = REDIS_SINGLE, .is_unix = true},
    {.name = "unix", .kind = REDIS_SINGLE, .is_unix = true},
    {.name = "rediss", .kind = REDIS_SINGLE, .port = PORT_REDIS, .has_tls = true},
    {.name = "rediss-sentinel", .kind = REDIS_SENTINEL, .port = PORT_SENTINEL, .has_tls = true},
    {.name = "rediss-cluster", .kind = REDIS_CLUSTER, .port = PORT_REDIS, .has_tls = true},
};
enum { SCHEMES = sizeof schemes / sizeof schemes[0] };

struct url_reading {
    struct redis_url url;
    const struct redis_scheme *scheme;
    bool has_db;
    char *error;
    size_t error_bytes;
};

/* Writes what is wrong with the URL; evaluates to false. */
#define URL_REFUSE(READING, ...) error_text((READING)->error, (READING)->error_bytes, __VA_ARGS__)

/* Decodes into a text of ours. `what` names it in errors. */
static bool decode(struct url_reading *in, struct slice from, const char *what, char *into,
                   size_t into_bytes)
{
    struct buffer text = {.at = into, .cap = into_bytes - 1, .bytes_max = into_bytes - 1};
    if (!text_percent_decode(from, false, &text)) {
        if (text.failed)
            return URL_REFUSE(in, "the %s is too long: at most %zu bytes", what, into_bytes - 1);
        return URL_REFUSE(
            in, "a '%%' in the %s is not followed by two hex digits: write it as %%25", what);
    }
    if (memchr(into, 0, text.len))
        return URL_REFUSE(in, "the %s contains a zero byte: leave it out", what);
    into[text.len] = 0;
    return true;
}

/* ---- scheme, user, hosts ---- */

static bool read_scheme(struct url_reading *in, struct slice name)
{
    const char *names[SCHEMES + 1] = {NULL};
    char word[24];
    for (size_t i = 0; i < SCHEMES; i++) {
        names[i] = schemes[i].name;
        if (url_scheme_is(&(struct url){.scheme = name}, schemes[i].name))
            in->scheme = &schemes[i];
    }
    if (in->scheme) {
        in->url.kind = in->scheme->kind;
        in->url.tls.is_on = in->scheme->has_tls;
        return true;
    }
    (void)snprintf(word, sizeof word, "%.*s", ERROR_SHOWN(name, 23));
    const char *meant = text_nearest(word, names);
    return URL_REFUSE(in, "unknown kind of URL%s%s%s: " REDIS_URL_SHAPES,
                      meant ? ", did you mean '" : "", meant ? meant : "", meant ? "://'" : "");
}

static bool refuse_socket_with_host(struct url_reading *in)
{
    const char *name = in->scheme->name;
    return URL_REFUSE(in,
                      "a socket has no host: write %s:///path/of/socket, with user and password "
                      "%s://user:password@/path/of/socket",
                      name, name);
}

/* Splits the text. Detects characters that users forget to encode, before they are
 * misinterpreted. */
static bool split(struct url_reading *in, struct slice text, struct url *out)
{
    const char *mark = memmem(text.at, text.len, "://", 3);
    if (!mark)
        return URL_REFUSE(in, "not a URL: " REDIS_URL_SHAPES);
    if (!read_scheme(in, slice_make(text.at, (size_t)(mark - text.at))))
        return false;
    enum url_fault fault = url_parse(text, out);
    const char *rest = mark + 3 + strcspn(mark + 3, "/?");
    if (fault == URL_BAD_BYTE || fault == URL_FRAGMENT || fault == URL_BAD_USER)
        return URL_REFUSE(in, "%s", url_fault_text(fault));
    if (in->scheme->is_unix && (fault || out->host_count))
        return refuse_socket_with_host(in);
    if (!in->scheme->is_unix && strchr(rest, '@')) /* but the path of a socket may contain one */
        return URL_REFUSE(in, "user or password contains '/' or '?', or an option contains '@': "
                              "write '/' as %%2F, '?' as %%3F and '@' as %%40");
    if (fault == URL_NO_HOST || (!in->scheme->is_unix && !fault && !out->host_count))
        return URL_REFUSE(in, "a host is missing: write %s://host:%u, an IPv6 address as [::1]:%u",
                          in->scheme->name, (unsigned)in->scheme->port, (unsigned)in->scheme->port);
    return !fault || URL_REFUSE(in, "%s", url_fault_text(fault));
}

static bool read_user(struct url_reading *in, const struct url *from)
{
    struct redis_url *url = &in->url;
    if (from->has_user && !from->has_password)
        return URL_REFUSE(in,
                          "a ':' is missing before the '@': write user:password@ or :password@");
    return decode(in, from->user, "user", url->user, sizeof url->user) &&
           decode(in, from->password, "password", url->password, sizeof url->password);
}

static bool read_hosts(struct url_reading *in, const struct url *from)
{
    if (in->url.kind == REDIS_SINGLE && from->host_count > 1)
        return URL_REFUSE(in, "redis:// has one host: for several write redis-sentinel:// or "
                              "redis-cluster://");
    for (size_t i = 0; i < from->host_count; i++) {
        struct redis_endpoint *endpoint = &in->url.hosts[in->url.host_count++];
        memcpy(endpoint->host, from->hosts[i].name.at, from->hosts[i].name.len);
        endpoint->port = from->hosts[i].port ? from->hosts[i].port : in->scheme->port;
    }
    return true;
}

/* ---- path and options ---- */

static bool read_db(struct url_reading *in, struct slice text)
{
    uint64_t db;
    if (in->has_db)
        return URL_REFUSE(in, "the database is given twice: leave one out");
    if (!text_parse_u64(text, DB_MAX, &db))
        return URL_REFUSE(in, "the database is not a number: write 0 or leave it out");
    if (in->url.kind == REDIS_CLUSTER && db > 0)
        return URL_REFUSE(in, "a cluster has only database 0: leave the database out");
    in->has_db = true;
    in->url.db = (uint32_t)db;
    return true;
}

static bool read_socket_path(struct url_reading *in, struct slice path)
{
    static const size_t bytes_max = sizeof((struct sockaddr_un *)0)->sun_path;
    if (path.len < 2)
        return URL_REFUSE(in, "the path of the socket is missing: write %s:///path/of/socket",
                          in->scheme->name);
    in->url.host_count = 1;
    return decode(in, path, "path of the socket", in->url.hosts[0].host, bytes_max);
}

/* Reads "/MASTER" for sentinels, then "/DATABASE". */
static bool read_path(struct url_reading *in, struct slice path)
{
    if (in->scheme->is_unix)
        return read_socket_path(in, path);
    path = path.len ? slice_make(path.at + 1, path.len - 1) : path;
    if (in->url.kind == REDIS_SENTINEL) {
        const char *slash = path.len ? memchr(path.at, '/', path.len) : NULL;
        struct slice master = slice_make(path.at, slash ? (size_t)(slash - path.at) : path.len);
        if (master.len == 0)
            return URL_REFUSE(in, "the master's name is missing: write "
                                  "redis-sentinel://host:26379/mymaster");
        if (!decode(in, master, "master's name", in->url.master, sizeof in->url.master))
            return false;
        size_t used = master.len + (slash != NULL);
        path = slice_make(path.at + used, path.len - used);
    }
    return path.len == 0 || read_db(in, path);
}

static bool read_prefix(struct url_reading *in, struct slice value)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    char prefix[REDIS_PREFIX_BYTES];
    if (!decode(in, value, "prefix", prefix, sizeof prefix))
        return false;
    if (prefix[0] == 0 || prefix[strspn(prefix, allowed)] != 0)
        return URL_REFUSE(in, "the prefix is not 1 to %d of letters, digits, '.', '_' and '-'",
                          REDIS_PREFIX_BYTES - 1);
    memcpy(in->url.prefix, prefix, sizeof prefix);
    return true;
}

static bool read_sentinel_user(struct url_reading *in, struct slice value)
{
    return decode(in, value, "sentinel-user", in->url.sentinel_user, sizeof in->url.sentinel_user);
}

static bool read_sentinel_password(struct url_reading *in, struct slice value)
{
    return decode(in, value, "sentinel-password", in->url.sentinel_password,
                  sizeof in->url.sentinel_password);
}

static bool read_ca(struct url_reading *in, struct slice value)
{
    return decode(in, value, "ca", in->url.tls.ca_file, sizeof in->url.tls.ca_file);
}

static bool read_cert(struct url_reading *in, struct slice value)
{
    return decode(in, value, "cert", in->url.tls.certificate_file,
                  sizeof in->url.tls.certificate_file);
}

static bool read_key(struct url_reading *in, struct slice value)
{
    return decode(in, value, "key", in->url.tls.key_file, sizeof in->url.tls.key_file);
}

static bool read_tls_name(struct url_reading *in, struct slice value)
{
    return decode(in, value, "tls-name", in->url.tls.name, sizeof in->url.tls.name);
}

static const struct {
    const char *name;
    bool (*read)(struct url_reading *in, struct slice value);
    bool for_sentinel, for_tls;
} options[] = {
    {"prefix", read_prefix, false, false},
    {"db", read_db, false, false},
    {"sentinel-user", read_sentinel_user, true, false},
    {"sentinel-password", read_sentinel_password, true, false},
    {"ca", read_ca, false, true},
    {"cert", read_cert, false, true},
    {"key", read_key, false, true},
    {"tls-name", read_tls_name, false, true},
};
enum { OPTIONS = sizeof options / sizeof options[0] };

static bool read_option(struct url_reading *in, struct slice name, struct slice value,
                        bool has_value, unsigned *seen)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        const char *option = options[i].name;
        if (!slice_is(name, option))
            continue;
        if (*seen & 1u << i)
            return URL_REFUSE(in, "'%s' is given twice: leave one out", option);
        if (!has_value)
            return URL_REFUSE(in, "'%s' has no value: write %s=…", option, option);
        if (options[i].for_sentinel && in->url.kind != REDIS_SENTINEL)
            return URL_REFUSE(in, "'%s' is only for redis-sentinel://: leave it out", option);
        if (options[i].for_tls && !in->url.tls.is_on)
            return URL_REFUSE(in, "'%s' is only for TLS: leave it out, or write rediss://", option);
        *seen |= 1u << i;
        return options[i].read(in, value);
    }
    return URL_REFUSE(in, "unknown option: use prefix, db, "
                          "sentinel-user, sentinel-password, ca, cert, key and tls-name, and write "
                          "an '&' in a value as %%26");
}

static bool read_options(struct url_reading *in, struct slice query)
{
    struct slice name, value;
    bool has_value;
    unsigned seen = 0;
    while (url_next_pair(&query, &name, &value, &has_value))
        if (!read_option(in, name, value, has_value, &seen))
            return false;
    return true;
}

bool redis_url_parse(const char *text, struct redis_url *out, char *error, size_t error_bytes)
{
    struct url_reading in = {.url.prefix = "tarry", .error = error, .error_bytes = error_bytes};
    struct url url;
    if (!split(&in, slice_of(text), &url) || !read_user(&in, &url) || !read_hosts(&in, &url) ||
        !read_path(&in, url.path) || !read_options(&in, url.query))
        return false;
    *out = in.url;
    return true;
}

/* ---- text for people and logs ---- */

static const char *scheme_name(enum redis_kind kind, bool is_unix, bool has_tls)
{
    size_t i = 0;
    while (schemes[i].kind != kind || schemes[i].is_unix != is_unix ||
           schemes[i].has_tls != has_tls)
        i++;
    return schemes[i].name;
}

void redis_endpoint_name(const struct redis_endpoint *endpoint, char out[REDIS_ENDPOINT_NAME_BYTES])
{
    const char *form = strchr(endpoint->host, ':') ? "[%s]:%u" : "%s:%u";
    (void)snprintf(out, REDIS_ENDPOINT_NAME_BYTES, endpoint->port ? form : "%s", endpoint->host,
                   (unsigned)endpoint->port);
}

void redis_url_emit(const struct redis_url *url, char *out, size_t out_bytes)
{
    struct buffer text = {.at = out, .cap = out_bytes - 1, .bytes_max = out_bytes - 1};
    bool is_unix = url->hosts[0].port == 0;
    char name[REDIS_ENDPOINT_NAME_BYTES];
    assert(out_bytes > 0);
    buffer_append_format(&text, "%s://", scheme_name(url->kind, is_unix, url->tls.is_on));
    if (is_unix)
        text_percent_encode(slice_of(url->hosts[0].host), "/", &text);
    for (uint32_t i = 0; !is_unix && i < url->host_count; i++) {
        redis_endpoint_name(&url->hosts[i], name);
        buffer_append_format(&text, "%s%s", i ? "," : "", name);
    }
    if (url->kind == REDIS_SENTINEL) {
        buffer_append_byte(&text, '/');
        text_percent_encode(slice_of(url->master), "",
                            &text); /* a slash would begin the database */
    }
    if (url->db && !is_unix)
        buffer_append_format(&text, "/%u", url->db);
    if (url->db && is_unix)
        buffer_append_format(&text, "?db=%u", url->db);
    if (strcmp(url->prefix, "tarry") != 0)
        buffer_append_format(&text, "%sprefix=%s", url->db && is_unix ? "&" : "?", url->prefix);
    out[text.len] = 0;
}
