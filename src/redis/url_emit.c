/* A URL written for people and logs: without user and password. */
#include "base/buffer.h"
#include "redis/url.h"

#include <assert.h>
#include <stdio.h>

static const char *scheme_name(enum redis_kind kind, bool is_unix)
{
    switch (kind) {
    case REDIS_SENTINEL:
        return "redis-sentinel";
    case REDIS_CLUSTER:
        return "redis-cluster";
    case REDIS_SINGLE:
        break;
    }
    return is_unix ? "redis+unix" : "redis";
}

static void emit_escaped(struct buffer *out, const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    for (; *text; text++)
        if (strchr(plain, *text))
            buffer_append_byte(out, *text);
        else
            buffer_append_format(out, "%%%02X", (unsigned)(unsigned char)*text);
}

static void emit_hosts(const struct redis_url *url, struct buffer *out)
{
    for (uint32_t i = 0; i < url->host_count; i++) {
        const struct redis_endpoint *endpoint = &url->hosts[i];
        bool is_ipv6 = strchr(endpoint->host, ':');
        buffer_append_format(out, is_ipv6 ? "%s[%s]:%u" : "%s%s:%u", i ? "," : "", endpoint->host,
                             (unsigned)endpoint->port);
    }
}

/* A slash in a master's name would begin the database. */
static void emit_master(const char *master, struct buffer *out)
{
    buffer_append_byte(out, '/');
    for (const char *slash; (slash = strchr(master, '/')); master = slash + 1) {
        char part[REDIS_MASTER_BYTES];
        (void)snprintf(part, sizeof part, "%.*s", (int)(slash - master), master);
        emit_escaped(out, part);
        buffer_append_text(out, "%2F");
    }
    emit_escaped(out, master);
}

void redis_url_emit(const struct redis_url *url, char *out, size_t out_bytes)
{
    struct buffer text = {.at = out, .cap = out_bytes - 1, .bytes_max = out_bytes - 1};
    bool is_unix = url->hosts[0].port == 0;
    assert(out_bytes > 0);
    buffer_append_format(&text, "%s://", scheme_name(url->kind, is_unix));
    if (is_unix)
        emit_escaped(&text, url->hosts[0].host);
    else
        emit_hosts(url, &text);
    if (url->kind == REDIS_SENTINEL)
        emit_master(url->master, &text);
    if (url->db && !is_unix)
        buffer_append_format(&text, "/%u", url->db);
    if (url->db && is_unix)
        buffer_append_format(&text, "?db=%u", url->db);
    if (strcmp(url->prefix, "tarry") != 0)
        buffer_append_format(&text, "%sprefix=%s", url->db && is_unix ? "&" : "?", url->prefix);
    out[text.len] = 0;
}
