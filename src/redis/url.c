#include "redis/url.h"

#include "base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/un.h>

/* However wrong a URL is, a part of it may be a password. So errors quote nothing of it, but only
 * what stands in our own tables. */

enum { PORT_REDIS = 6379, PORT_SENTINEL = 26379, DB_MAX = INT32_MAX };

struct scheme {
    const char *name;
    enum redis_kind kind;
    bool is_unix, has_master, has_db;
    uint16_t port;
};

static const struct scheme schemes[] = {
    {.name = "redis", .kind = REDIS_SINGLE, .has_db = true, .port = PORT_REDIS},
    {.name = "redis-sentinel",
     .kind = REDIS_SENTINEL,
     .has_master = true,
     .has_db = true,
     .port = PORT_SENTINEL},
    {.name = "redis-cluster", .kind = REDIS_CLUSTER, .port = PORT_REDIS},
    {.name = "redis+unix", .kind = REDIS_SINGLE, .is_unix = true, .has_db = true},
    {.name = "unix", .kind = REDIS_SINGLE, .is_unix = true, .has_db = true},
};
enum { SCHEMES = sizeof schemes / sizeof schemes[0] };

struct parse {
    struct redis_url url;
    const struct scheme *scheme;
    bool has_db;
    char *error;
    size_t error_bytes;
};

static bool refuse(struct parse *parse, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(struct parse *parse, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(parse->error, parse->error_bytes, format, arguments);
    va_end(arguments);
    return false;
}

/* What stands in front of the first `mark`, which is taken away with it; all where there is none.
 */
static struct slice cut(struct slice *rest, char mark, bool *found)
{
    const char *at = rest->len ? memchr(rest->at, mark, rest->len) : NULL;
    struct slice front = *rest;
    if (found)
        *found = at;
    if (!at) {
        *rest = slice_make(rest->at + rest->len, 0);
        return front;
    }
    front.len = (size_t)(at - rest->at);
    *rest = slice_make(at + 1, rest->len - front.len - 1);
    return front;
}

/* Into a text of ours. `what` names it. */
static bool decode(struct parse *parse, struct slice from, const char *what, char *into,
                   size_t into_bytes)
{
    struct buffer text = {.at = into, .cap = into_bytes - 1, .bytes_max = into_bytes - 1};
    if (!text_percent_decode(from, false, &text)) {
        if (text.failed)
            return refuse(parse, "the %s is too long: at most %zu bytes", what, into_bytes - 1);
        return refuse(parse, "a '%%' in the %s is not followed by two hex digits: write it as %%25",
                      what);
    }
    if (memchr(into, 0, text.len))
        return refuse(parse, "the %s holds a zero byte: leave it out", what);
    into[text.len] = 0;
    return true;
}

/* ---- the text as a whole ---- */

/* What people forget to encode is found here, before any of it is taken for something else. */
static bool check_text(struct parse *parse, const char *text)
{
    size_t ats = 0;
    for (const char *at = text; *at; at++) {
        if ((unsigned char)*at <= ' ' || *at == 0x7f)
            return refuse(parse, "the URL holds a blank or a control character: write a blank as "
                                 "%%20");
        if (*at == '#')
            return refuse(parse, "the URL holds a '#': write it as %%23");
        ats += *at == '@';
    }
    if (ats > 1)
        return refuse(parse, "the URL holds more than one '@': user and password stand once, "
                             "before the first host, and an '@' in them is written as %%40");
    return true;
}

static bool parse_scheme(struct parse *parse, struct slice *rest)
{
    static const char *const names[] = {"redis",      "redis-sentinel", "redis-cluster",
                                        "redis+unix", "unix",           NULL};
    static const char shapes[] = "write redis://host:6379, redis-sentinel://host:26379/master, "
                                 "redis-cluster://host:6379,host:6379 or redis+unix:///path";
    struct slice name = *rest;
    const char *mark = strstr(rest->at, "://");
    if (!mark)
        return refuse(parse, "not a URL: %s", shapes);
    name.len = (size_t)(mark - rest->at);
    *rest = slice_of(mark + 3);
    for (size_t i = 0; i < SCHEMES; i++)
        if (slice_is(name, schemes[i].name)) {
            parse->scheme = &schemes[i];
            parse->url.kind = schemes[i].kind;
            return true;
        }
    if (slice_is(name, "rediss") || slice_is(name, "rediss-sentinel") ||
        slice_is(name, "rediss-cluster"))
        return refuse(parse, "TLS is not in this build, as the hiredis it is made with has none: "
                             "write redis:// and keep the way to Redis private, by a tunnel "
                             "(stunnel, WireGuard) for example");
    char word[24];
    (void)snprintf(word, sizeof word, "%.*s", (int)(name.len < 23 ? name.len : 23), name.at);
    const char *meant = text_nearest(word, names);
    return refuse(parse, "unknown kind of URL%s%s%s: %s", meant ? ", did you mean '" : "",
                  meant ? meant : "", meant ? "://'" : "", shapes);
}

static bool parse_user(struct parse *parse, struct slice *rest)
{
    struct redis_url *url = &parse->url;
    struct slice hosts = *rest, user;
    bool has_user, has_password;
    size_t len = 0;
    while (len < rest->len && rest->at[len] != '/' && rest->at[len] != '?')
        len++;
    hosts.len = len;
    user = cut(&hosts, '@', &has_user);
    if (!has_user) {
        /* A socket's path may hold an '@'. */
        if (!parse->scheme->is_unix && memchr(rest->at, '@', rest->len))
            return refuse(parse, "user and password hold a '/' or '?', or an option an '@': write "
                                 "'/' as %%2F, '?' as %%3F and '@' as %%40");
        return true;
    }
    *rest = slice_make(hosts.at, (size_t)(rest->at + rest->len - hosts.at));
    struct slice name = cut(&user, ':', &has_password);
    if (!has_password)
        return refuse(parse, "a ':' is missing before the '@': write user:password@ or :password@");
    if (memchr(user.at, ':', user.len))
        return refuse(parse, "user and password hold more than one ':': write those of the "
                             "password as %%3A");
    return decode(parse, name, "user", url->user, sizeof url->user) &&
           decode(parse, user, "password", url->password, sizeof url->password);
}

/* ---- hosts ---- */

static bool is_host(struct slice host, bool in_brackets)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    static const char address[] = "0123456789abcdefABCDEF:.";
    for (size_t i = 0; i < host.len; i++)
        if (!strchr(in_brackets ? address : name, host.at[i]))
            return false;
    return host.len > 0 && (!in_brackets || memchr(host.at, ':', host.len));
}

static bool parse_host(struct parse *parse, struct slice text)
{
    struct redis_endpoint *endpoint = &parse->url.hosts[parse->url.host_count];
    bool in_brackets = text.len && text.at[0] == '[', has_port = false;
    struct slice host, port = text;
    uint64_t number = parse->scheme->port;
    if (in_brackets) {
        bool is_closed;
        port = slice_make(text.at + 1, text.len - 1);
        host = cut(&port, ']', &is_closed);
        if (!is_closed || (port.len && port.at[0] != ':'))
            return refuse(parse, "an IPv6 address is not closed by ']': write [::1]:%u",
                          (unsigned)parse->scheme->port);
        has_port = port.len;
        port = has_port ? slice_make(port.at + 1, port.len - 1) : port;
    } else {
        host = cut(&port, ':', &has_port);
        if (has_port && memchr(port.at, ':', port.len))
            return refuse(parse,
                          "a host holds more than one ':': an IPv6 address stands in "
                          "brackets, as in [::1]:%u",
                          (unsigned)parse->scheme->port);
    }
    if (host.len == 0)
        return refuse(parse, "a host is missing: write %s://host:%u", parse->scheme->name,
                      (unsigned)parse->scheme->port);
    if (!is_host(host, in_brackets))
        return refuse(parse, "a host holds what is in no name: letters, digits, '.', '-', '_', or "
                             "an IPv6 address in brackets");
    if (host.len >= sizeof endpoint->host)
        return refuse(parse, "a host is too long: at most %zu bytes", sizeof endpoint->host - 1);
    if (has_port && (!text_parse_u64(port, UINT16_MAX, &number) || number == 0))
        return refuse(parse, "the port of host %u is not a number from 1 to 65535",
                      parse->url.host_count + 1);
    memcpy(endpoint->host, host.at, host.len);
    endpoint->port = (uint16_t)number;
    parse->url.host_count++;
    return true;
}

static bool parse_hosts(struct parse *parse, struct slice hosts)
{
    bool more = true;
    while (more) {
        struct slice host = cut(&hosts, ',', &more);
        if (parse->url.host_count == REDIS_HOSTS_MAX)
            return refuse(parse, "too many hosts: %d are enough to find the others",
                          REDIS_HOSTS_MAX);
        if (!parse_host(parse, host))
            return false;
    }
    if (parse->url.kind == REDIS_SINGLE && parse->url.host_count > 1)
        return refuse(parse, "redis:// has one host: for several write redis-sentinel:// or "
                             "redis-cluster://");
    return true;
}

/* ---- path and options ---- */

static bool set_db(struct parse *parse, struct slice text)
{
    uint64_t db;
    if (parse->has_db)
        return refuse(parse, "the database is given twice: leave one out");
    if (!text_parse_u64(text, DB_MAX, &db))
        return refuse(parse, "the database is not a number: write 0 or leave it out");
    if (!parse->scheme->has_db && db > 0)
        return refuse(parse, "a cluster has database 0 alone: leave the database out");
    parse->has_db = true;
    parse->url.db = (uint32_t)db;
    return true;
}

static bool parse_socket(struct parse *parse, struct slice hosts, struct slice path)
{
    static const size_t bytes_max = sizeof((struct sockaddr_un *)0)->sun_path;
    if (hosts.len)
        return refuse(parse,
                      "a socket has no host: write %s:///path/of/socket, with user and "
                      "password %s://user:password@/path/of/socket",
                      parse->scheme->name, parse->scheme->name);
    if (path.len < 2)
        return refuse(parse, "the path of the socket is missing: write %s:///path/of/socket",
                      parse->scheme->name);
    parse->url.host_count = 1;
    return decode(parse, path, "path of the socket", parse->url.hosts[0].host, bytes_max);
}

static bool parse_path(struct parse *parse, struct slice path)
{
    struct redis_url *url = &parse->url;
    path = path.len ? slice_make(path.at + 1, path.len - 1) : path;
    if (parse->scheme->has_master) {
        struct slice master = cut(&path, '/', NULL);
        if (master.len == 0)
            return refuse(parse, "the master's name is missing: write "
                                 "redis-sentinel://host:26379/mymaster");
        if (!decode(parse, master, "master's name", url->master, sizeof url->master))
            return false;
    }
    return path.len == 0 || set_db(parse, path);
}

static bool set_prefix(struct parse *parse, struct slice value)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    char prefix[REDIS_PREFIX_BYTES];
    if (!decode(parse, value, "prefix", prefix, sizeof prefix))
        return false;
    if (prefix[0] == 0 || prefix[strspn(prefix, allowed)] != 0)
        return refuse(parse, "the prefix is not 1 to %d of letters, digits, '.', '_' and '-'",
                      REDIS_PREFIX_BYTES - 1);
    memcpy(parse->url.prefix, prefix, sizeof prefix);
    return true;
}

static bool set_sentinel_user(struct parse *parse, struct slice value)
{
    return decode(parse, value, "sentinel-user", parse->url.sentinel_user,
                  sizeof parse->url.sentinel_user);
}

static bool set_sentinel_password(struct parse *parse, struct slice value)
{
    return decode(parse, value, "sentinel-password", parse->url.sentinel_password,
                  sizeof parse->url.sentinel_password);
}

static const struct {
    const char *name;
    bool (*set)(struct parse *parse, struct slice value);
    bool for_sentinel;
} options[] = {
    {"prefix", set_prefix, false},
    {"db", set_db, false},
    {"sentinel-user", set_sentinel_user, true},
    {"sentinel-password", set_sentinel_password, true},
};
enum { OPTIONS = sizeof options / sizeof options[0] };

static bool parse_option(struct parse *parse, struct slice option, unsigned *seen)
{
    bool has_value;
    struct slice name = cut(&option, '=', &has_value);
    for (size_t i = 0; i < OPTIONS; i++) {
        if (!slice_is(name, options[i].name))
            continue;
        if (*seen & 1u << i)
            return refuse(parse, "'%s' is given twice: leave one out", options[i].name);
        if (!has_value)
            return refuse(parse, "'%s' has no value: write %s=…", options[i].name, options[i].name);
        if (options[i].for_sentinel && parse->url.kind != REDIS_SENTINEL)
            return refuse(parse, "'%s' is for redis-sentinel:// alone: leave it out",
                          options[i].name);
        *seen |= 1u << i;
        return options[i].set(parse, option);
    }
    return refuse(parse, "there is an option that is not known: those there are are prefix, db, "
                         "sentinel-user and sentinel-password, and an '&' in a value is written "
                         "as %%26");
}

static bool parse_options(struct parse *parse, struct slice query)
{
    unsigned seen = 0;
    while (query.len) {
        struct slice option = cut(&query, '&', NULL);
        if (!parse_option(parse, option, &seen))
            return false;
    }
    return true;
}

/* ---- all of it ---- */

static bool parse_all(struct parse *parse, const char *text)
{
    struct slice rest = slice_of(text), path, hosts;
    if (!check_text(parse, text) || !parse_scheme(parse, &rest) || !parse_user(parse, &rest))
        return false;
    path = cut(&rest, '?', NULL);
    hosts = path;
    hosts = cut(&hosts, '/', NULL);
    path = slice_make(path.at + hosts.len, path.len - hosts.len);
    if (parse->scheme->is_unix ? !parse_socket(parse, hosts, path)
                               : !parse_hosts(parse, hosts) || !parse_path(parse, path))
        return false;
    return parse_options(parse, rest);
}

bool redis_url_parse(const char *text, struct redis_url *out, char *error, size_t error_bytes)
{
    struct parse parse = {.url.prefix = "tarry", .error = error, .error_bytes = error_bytes};
    if (!parse_all(&parse, text))
        return false;
    *out = parse.url;
    return true;
}
