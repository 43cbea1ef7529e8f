#include "http/channel.h"

#include "net/tls.h"

#include <stdlib.h>

/* Approximate memory of an idle session, as measured (docs/performance.md). */
enum { SESSION_BYTES = 16 * 1024 };

struct http_channel *http_channel_new(void)
{
    return calloc(1, sizeof(struct http_channel));
}

void http_channel_free(struct http_channel *channel, struct http_front *front)
{
    if (!channel)
        return;
    if (channel->session)
        http_budget_remove(front, SESSION_BYTES);
    tls_session_free(channel->session);
    http_front_give_back(front, &channel->sealed);
    free(channel);
}

bool http_channel_is_open(const struct http_channel *channel)
{
    return channel->session && tls_state_of(channel->session) != TLS_HANDSHAKE &&
           tls_state_of(channel->session) != TLS_FAILED;
}

const char *http_channel_why(const struct http_channel *channel)
{
    return channel->session ? tls_why(channel->session) : "out of memory";
}

struct slice http_channel_certificate(const struct http_channel *channel)
{
    return channel && http_channel_is_open(channel) ? slice_of(tls_peer_name(channel->session))
                                                    : (struct slice){0};
}

bool http_channel_chose(const struct http_channel *channel, const char *protocol)
{
    return channel && channel->session && slice_is(tls_protocol(channel->session), protocol);
}

/* Creates the session from the current context; the certificate may change between connections. */
static bool begin_session(struct http_channel *channel, struct http_front *front)
{
    struct http_shared *shared = front->shared;
    pthread_mutex_lock(&shared->tls_lock);
    if (shared->tls)
        channel->session = tls_session_accept(shared->tls);
    pthread_mutex_unlock(&shared->tls_lock);
    if (channel->session)
        http_budget_add(front, SESSION_BYTES);
    return channel->session;
}

enum http_opened http_channel_open(struct http_channel *channel, struct http_front *front,
                                   const char *bytes, size_t len, char *into, size_t *got)
{
    *got = 0;
    if (!channel->session && !begin_session(channel, front))
        return HTTP_OPENED_BAD;
    http_front_lend(front, &channel->sealed);
    tls_feed(channel->session, bytes, len);
    ssize_t more;
    do {
        more = tls_read(channel->session, into + *got, len + HTTP_RECORD_BYTES - *got,
                        &channel->sealed);
        if (more > 0)
            *got += (size_t)more;
    } while (more > 0);
    if (channel->sealed.len == 0)
        http_front_give_back(front, &channel->sealed);
    if (more == 0)
        return HTTP_OPENED;
    if (tls_state_of(channel->session) == TLS_ENDED)
        return HTTP_OPENED_END;
    return tls_is_plain_http(channel->session) ? HTTP_OPENED_PLAIN : HTTP_OPENED_BAD;
}

bool http_channel_seal(struct http_channel *channel, struct http_front *front, struct buffer *out)
{
    if (out->len == 0)
        return true;
    http_front_lend(front, &channel->sealed);
    bool is_sealed =
        channel->session && tls_write(channel->session, out->at, out->len, &channel->sealed);
    http_front_give_back(front, out);
    return is_sealed;
}

bool http_channel_end(struct http_channel *channel, struct http_front *front)
{
    if (channel->is_ended || !http_channel_is_open(channel))
        return false;
    channel->is_ended = true;
    http_front_lend(front, &channel->sealed);
    tls_close(channel->session, &channel->sealed);
    return channel->sealed.len > 0;
}
