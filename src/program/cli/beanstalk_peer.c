#include "cli/beanstalk_peer.h"

#include "cli/cli.h"
#include "cli/progress.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum { PORT = 11300, CONNECT_MS = 10 * 1000, ANSWER_MS = 60 * 1000 };

static bool peer_fail(struct beanstalk_peer *peer, const char *why)
{
    if (!peer->is_broken) {
        progress_clear();
        cli_error("cannot continue with beanstalkd at '%s', %s", peer->shown, why);
    }
    peer->is_broken = true;
    return false;
}

/* Connects by curl, which resolves the name and selects an address that answers. */
static CURLcode connect_to(struct beanstalk_peer *peer, const char *place)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    curl_easy_setopt(peer->curl, CURLOPT_URL, place);
    curl_easy_setopt(peer->curl, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(peer->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(peer->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(peer->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    CURLcode code = curl_easy_perform(peer->curl);
    if (code == CURLE_OK)
        code = curl_easy_getinfo(peer->curl, CURLINFO_ACTIVESOCKET, &fd);
    peer->fd = fd;
    return code;
}

bool beanstalk_peer_open(struct beanstalk_peer *peer, const struct url_host *host)
{
    struct buffer place;
    *peer = (struct beanstalk_peer){.fd = -1, .curl = curl_easy_init()};
    buffer_init(&place, BEANSTALK_SHOWN_BYTES);
    buffer_append_text(&place, "http://");
    size_t scheme_bytes = place.len;
    url_emit_host(host, PORT, &place);
    buffer_append_byte(&place, '\0');
    if (!peer->curl || place.failed) {
        buffer_fini(&place);
        return cli_error("out of memory"), false;
    }
    memcpy(peer->shown, place.at + scheme_bytes, place.len - scheme_bytes);
    CURLcode code = connect_to(peer, place.at);
    buffer_fini(&place);
    if (code != CURLE_OK)
        cli_error("cannot reach beanstalkd at '%s', %s", peer->shown, curl_easy_strerror(code));
    return code == CURLE_OK;
}

void beanstalk_peer_close(struct beanstalk_peer *peer)
{
    curl_easy_cleanup(peer->curl);
}

/* Waits for the socket. Ctrl-C does not interrupt an exchange: a command in progress is
 * completed. */
static bool wait_for(struct beanstalk_peer *peer, short events)
{
    struct pollfd poll_fd = {.fd = peer->fd, .events = events};
    int ready;
    do
        ready = poll(&poll_fd, 1, ANSWER_MS);
    while (ready < 0 && errno == EINTR);
    return ready > 0 ||
           peer_fail(peer, ready == 0 ? "it has not answered for a minute, check that it works"
                                      : strerror(errno));
}

static bool is_momentary(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

bool beanstalk_peer_send(struct beanstalk_peer *peer, struct slice commands)
{
    for (size_t at = 0; at < commands.len && !peer->is_broken;) {
        ssize_t sent = send(peer->fd, commands.at + at, commands.len - at, MSG_NOSIGNAL);
        if (sent > 0)
            at += (size_t)sent;
        else if (!is_momentary(errno))
            return peer_fail(peer, strerror(errno));
        else if (!wait_for(peer, POLLOUT))
            break;
    }
    return !peer->is_broken;
}

/* Receives more bytes, after moving the unread ones to the front. */
static bool receive(struct beanstalk_peer *peer)
{
    memmove(peer->in, peer->in + peer->in_at, peer->in_bytes - peer->in_at);
    peer->in_bytes -= peer->in_at;
    peer->in_at = 0;
    for (;;) {
        ssize_t got =
            recv(peer->fd, peer->in + peer->in_bytes, sizeof peer->in - peer->in_bytes, 0);
        if (got > 0) {
            peer->in_bytes += (size_t)got;
            return true;
        }
        if (got == 0)
            return peer_fail(peer, "it has closed the connection");
        if (!is_momentary(errno))
            return peer_fail(peer, strerror(errno));
        if (!wait_for(peer, POLLIN))
            return false;
    }
}

bool beanstalk_peer_line(struct beanstalk_peer *peer, char line[BEANSTALK_LINE_MAX])
{
    for (;;) {
        const char *at = peer->in + peer->in_at;
        size_t there = peer->in_bytes - peer->in_at;
        const char *end = there ? memmem(at, there, "\r\n", 2) : NULL;
        size_t len = end ? (size_t)(end - at) : there;
        if (len >= BEANSTALK_LINE_MAX)
            return peer_fail(peer, "it answers something else, check that it is beanstalkd");
        if (!end && !receive(peer))
            return false;
        if (!end)
            continue;
        memcpy(line, at, len);
        line[len] = '\0';
        peer->in_at += len + 2;
        return true;
    }
}

bool beanstalk_peer_body(struct beanstalk_peer *peer, uint64_t bytes, struct buffer *out)
{
    for (uint64_t left = bytes + 2; left > 0;) { /* plus the line end after the body */
        if (peer->in_at == peer->in_bytes && !receive(peer))
            return false;
        size_t there = peer->in_bytes - peer->in_at;
        size_t taken = there < left ? there : (size_t)left;
        uint64_t body_left = left > 2 ? left - 2 : 0;
        if (out)
            buffer_append(out, peer->in + peer->in_at,
                          taken < body_left ? taken : (size_t)body_left);
        peer->in_at += taken;
        left -= taken;
    }
    return true;
}
