#include "target/http_multi.h"

#include "base/hash.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Idle connections are closed by their age and by their target, not by their number. */
enum { CONNECTIONS_KEPT_MAX = 10000, ROUNDS_MAX = 4, READY_MAX = 64 };

struct multi_socket {
    uint32_t armed, wanted; /* EPOLLIN, EPOLLOUT; what is wanted is armed */
    uint32_t serial;        /* how many connections had this descriptor, this one included */
    uint16_t port;          /* on our side, and a hash of the peer's address; 0: not known yet */
    uint64_t peer;
    uint32_t closed;            /* the serial of the last one that was closed */
    struct target_traffic last; /* what had gone by that in the end */
};

struct target_multi {
    CURLM *curl;
    struct reactor *reactor;
    struct guard *guard;
    target_multi_ended *ended;
    void *ctx;
    uv_timer_t timer;
    struct turn_end_call call;
    /* A set of its own: libcurl closes some sockets without telling, and the kernel takes those out
     * of a set by itself, which the loop's own tables would not notice. */
    int epoll;
    uv_poll_t ready;
    int handles;                  /* of the loop */
    struct multi_socket *sockets; /* by descriptor */
    size_t socket_cap;
    int *by_port; /* descriptors of connections by their port on our side, plus one; mostly empty */
    bool is_due;  /* libcurl wants to be called at once */
};

/* ---- what libcurl is told, and what it tells ---- */

static void drain(struct target_multi *multi)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(multi->curl, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        CURL *easy = message->easy_handle;
        CURLcode code = message->data.result;
        (void)curl_multi_remove_handle(multi->curl, easy);
        multi->ended(multi->ctx, easy, code);
    }
}

static void act(struct target_multi *multi, curl_socket_t socket, int what)
{
    int running;
    (void)curl_multi_socket_action(multi->curl, socket, what, &running);
    drain(multi);
}

/* ---- time ---- */

static void on_timer(uv_timer_t *timer)
{
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static void on_turn_end(struct turn_end_call *call)
{
    struct target_multi *multi = list_entry(call, struct target_multi, call);
    for (int round = 0; multi->is_due && round < ROUNDS_MAX; round++) {
        multi->is_due = false;
        act(multi, CURL_SOCKET_TIMEOUT, 0);
    }
    if (multi->is_due)
        reactor_once_at_turn_end(multi->reactor, call);
}

static int on_time_wanted(CURLM *curl, long ms, void *ctx)
{
    struct target_multi *multi = ctx;
    (void)curl;
    if (ms > 0) {
        (void)uv_timer_start(&multi->timer, on_timer, (uint64_t)ms, 0);
        return 0;
    }
    (void)uv_timer_stop(&multi->timer);
    multi->is_due = ms == 0;
    if (multi->is_due)
        reactor_once_at_turn_end(multi->reactor, &multi->call);
    return 0;
}

/* ---- sockets ---- */

static bool make_room(struct target_multi *multi, size_t fd)
{
    size_t cap = multi->socket_cap ? multi->socket_cap : 64;
    if (fd < multi->socket_cap)
        return true;
    while (cap <= fd)
        cap *= 2;
    struct multi_socket *sockets = realloc(multi->sockets, cap * sizeof *sockets);
    if (!sockets)
        return false;
    memset(sockets + multi->socket_cap, 0, (cap - multi->socket_cap) * sizeof *sockets);
    multi->sockets = sockets;
    multi->socket_cap = cap;
    return true;
}

static void arm(struct target_multi *multi, curl_socket_t fd, uint32_t events)
{
    struct multi_socket *socket = &multi->sockets[fd];
    struct epoll_event event = {.events = events, .data.fd = fd};
    int what = !events ? EPOLL_CTL_DEL : socket->armed ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (socket->armed == events)
        return;
    socket->armed = events;
    (void)epoll_ctl(multi->epoll, what, fd, &event);
}

/* What nobody wants any more stays armed until it happens: mostly it is wanted again before. */
static void on_ready(struct target_multi *multi, int fd, uint32_t events)
{
    uint32_t wanted = multi->sockets[fd].wanted;
    int what = (events & wanted & EPOLLIN ? CURL_CSELECT_IN : 0) |
               (events & wanted & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
               (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    if (events & ~wanted)
        arm(multi, fd, wanted);
    if (wanted)
        act(multi, fd, what);
}

static void on_sockets(uv_poll_t *poll, int status, int events)
{
    struct target_multi *multi = poll->data;
    struct epoll_event ready[READY_MAX];
    (void)status;
    (void)events;
    int count = epoll_wait(multi->epoll, ready, READY_MAX, 0);
    for (int i = 0; i < count; i++)
        on_ready(multi, ready[i].data.fd, ready[i].events);
}

static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *ctx, void *unused)
{
    struct target_multi *multi = ctx;
    (void)easy;
    (void)unused;
    if ((size_t)fd >= multi->socket_cap)
        return 0;
    struct multi_socket *socket = &multi->sockets[fd];
    socket->wanted = what == CURL_POLL_REMOVE ? 0
                                              : (what & CURL_POLL_IN ? EPOLLIN : 0) |
                                                    (what & CURL_POLL_OUT ? EPOLLOUT : 0);
    if (socket->wanted & ~socket->armed)
        arm(multi, fd, socket->armed | socket->wanted);
    return 0;
}

/* What is known of the connection that had the descriptor before is kept: this one may be made for
 * a request that went by it. */
static void begin_connection(struct multi_socket *socket)
{
    *socket = (struct multi_socket){
        .serial = socket->serial + 1, .closed = socket->closed, .last = socket->last};
}

static int open_socket(struct target_multi *multi, const struct curl_sockaddr *address)
{
    if (guard_check_address(multi->guard, &address->addr) != GUARD_ALLOWED) {
        errno = EACCES;
        return -1;
    }
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    address->protocol);
    if (fd >= 0 && !make_room(multi, (size_t)fd)) {
        close(fd);
        errno = ENOMEM;
        return -1;
    }
    if (fd >= 0) /* whatever had this number is closed, and so gone from the set */
        begin_connection(&multi->sockets[fd]);
    return fd;
}

/* The last look at an address, whatever led to it. libcurl forgets why there is no socket. */
static curl_socket_t on_open(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct target_opening *opening = ctx;
    (void)purpose;
    int fd = open_socket(opening->multi, address);
    if (fd < 0)
        opening->error = errno;
    opening->fds[1] = opening->fds[0];
    opening->fds[0] = fd;
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* ---- what the peer took ---- */

/* libcurl calls it for each socket that it opened, whichever transfer used it last. */
static int on_close(void *ctx, curl_socket_t fd)
{
    struct target_multi *multi = ctx;
    if ((size_t)fd < multi->socket_cap) {
        struct multi_socket *socket = &multi->sockets[fd];
        bool is_told = target_traffic_read(fd, &socket->last);
        socket->closed = is_told ? socket->serial : 0;
        socket->port = 0;
    }
    return close(fd);
}

static uint16_t port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } own;
    socklen_t bytes = sizeof own;
    if (getsockname(fd, &own.any, &bytes) != 0)
        return 0;
    return ntohs(own.any.sa_family == AF_INET6 ? own.ipv6.sin6_port : own.ipv4.sin_port);
}

/* libcurl 7.88 does not tell by which socket a request will go, only between which addresses: one
 * that carried requests before is known by its port; a new one was opened for this transfer. */
static int find_socket(struct target_multi *multi, const struct target_opening *opening,
                       const char *peer_text, uint16_t port)
{
    uint64_t peer = hash_64(peer_text, strlen(peer_text));
    int known = multi->by_port[port] - 1;
    if (known >= 0 && multi->sockets[known].port == port && multi->sockets[known].peer == peer)
        return known;
    for (size_t i = 0; i < sizeof opening->fds / sizeof opening->fds[0]; i++) {
        int fd = opening->fds[i];
        if (fd < 0 || port_of(fd) != port)
            continue;
        multi->sockets[fd].port = port;
        multi->sockets[fd].peer = peer;
        multi->by_port[port] = fd + 1;
        return fd;
    }
    return -1;
}

void target_multi_mark(struct target_multi *multi, const struct target_opening *opening,
                       const char *peer, int port, struct target_mark *mark)
{
    *mark = (struct target_mark){.fd = -1};
    int fd =
        port > 0 && port <= UINT16_MAX ? find_socket(multi, opening, peer, (uint16_t)port) : -1;
    if (fd < 0 || !target_traffic_read(fd, &mark->traffic))
        return;
    mark->fd = fd;
    mark->serial = multi->sockets[fd].serial;
}

/* What the peer sends acknowledges what has reached it. So where it had closed before the request
 * was sent (over TLS libcurl does not look), or something came later (the end of the connection, for
 * one), and nothing of the request is acknowledged, it had closed before the request was there. A
 * bare reset tells nothing: it may have come from a peer that had begun to
 * read. */
bool target_multi_took_nothing(const struct target_multi *multi, const struct target_mark *mark)
{
    if (mark->fd < 0 || (size_t)mark->fd >= multi->socket_cap)
        return false;
    const struct multi_socket *socket = &multi->sockets[mark->fd];
    const struct target_traffic *then = &mark->traffic, *last = &socket->last;
    if (socket->closed != mark->serial || last->acked != then->acked)
        return false;
    return then->has_ended || last->sent == then->sent || last->received > then->received;
}

/* ---- life ---- */

void target_multi_bind(struct target_multi *multi, CURL *easy, struct target_opening *opening)
{
    *opening = (struct target_opening){.multi = multi, .fds = {-1, -1}};
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, opening);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, multi);
}

bool target_multi_add(struct target_multi *multi, CURL *easy)
{
    return curl_multi_add_handle(multi->curl, easy) == CURLM_OK;
}

void target_multi_remove(struct target_multi *multi, CURL *easy)
{
    (void)curl_multi_remove_handle(multi->curl, easy);
}

static void set_options(struct target_multi *multi)
{
    CURLM *curl = multi->curl;
    curl_multi_setopt(curl, CURLMOPT_SOCKETFUNCTION, on_socket_wanted);
    curl_multi_setopt(curl, CURLMOPT_SOCKETDATA, multi);
    curl_multi_setopt(curl, CURLMOPT_TIMERFUNCTION, on_time_wanted);
    curl_multi_setopt(curl, CURLMOPT_TIMERDATA, multi);
    curl_multi_setopt(curl, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT_MAX);
    /* HTTP/2 carries one request at a time: with several, libcurl 7.88 loses sight of answers that
     * came while it read another's, and they wait for their time-out. */
    curl_multi_setopt(curl, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
}

/* NULL: nothing is left behind. */
static struct target_multi *allocate(struct reactor *reactor)
{
    struct target_multi *multi = calloc(1, sizeof *multi);
    if (!multi)
        return NULL;
    multi->curl = curl_multi_init();
    multi->epoll = epoll_create1(EPOLL_CLOEXEC);
    multi->by_port = calloc(UINT16_MAX + 1, sizeof *multi->by_port);
    if (multi->curl && multi->by_port && multi->epoll >= 0 &&
        uv_poll_init(reactor_loop(reactor), &multi->ready, multi->epoll) == 0)
        return multi;
    if (multi->curl)
        (void)curl_multi_cleanup(multi->curl);
    if (multi->epoll >= 0)
        close(multi->epoll);
    free(multi->by_port);
    free(multi);
    return NULL;
}

struct target_multi *target_multi_new(struct reactor *reactor, struct guard *guard,
                                      target_multi_ended *ended, void *ctx)
{
    struct target_multi *multi = allocate(reactor);
    if (!multi)
        return NULL;
    multi->reactor = reactor;
    multi->guard = guard;
    multi->ended = ended;
    multi->ctx = ctx;
    multi->call.run = on_turn_end;
    list_init(&multi->call.list);
    (void)uv_timer_init(reactor_loop(reactor), &multi->timer);
    multi->timer.data = multi->ready.data = multi;
    multi->handles = 2;
    set_options(multi);
    (void)uv_poll_start(&multi->ready, UV_READABLE, on_sockets);
    return multi;
}

static void on_closed(uv_handle_t *handle)
{
    struct target_multi *multi = handle->data;
    if (--multi->handles > 0)
        return;
    close(multi->epoll);
    free(multi);
}

void target_multi_free(struct target_multi *multi)
{
    if (!multi)
        return;
    (void)curl_multi_cleanup(multi->curl);
    reactor_cancel_at_turn_end(&multi->call);
    free(multi->sockets);
    free(multi->by_port);
    uv_close((uv_handle_t *)&multi->timer, on_closed);
    uv_close((uv_handle_t *)&multi->ready, on_closed);
}
