#include "targets/http/multi.h"

#include "base/hash.h"
#include "net/activity.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Idle connections are closed by age and by target, not by number. */
enum { CONNECTIONS_KEPT_MAX = 10000, ROUNDS_MAX = 4, READY_MAX = 64, PLACES_MIN = 64 };

struct multi_socket {
    uint32_t armed, wanted; /* EPOLLIN, EPOLLOUT; all wanted events are armed */
    uint16_t port;          /* local port of a connection that has carried a request, or 0 */
};

/* The last connection with these low bits of its port that has carried a request. */
struct multi_connection {
    uint64_t peer;              /* hash of its address */
    uint32_t serial;            /* 0 if the slot is empty */
    int fd;                     /* -1 if closed */
    uint16_t port;              /* local port */
    struct target_traffic last; /* of a closed connection: its final traffic */
};

struct target_multi {
    CURLM *curl;
    struct reactor *reactor;
    struct guard *guard;
    target_multi_ended *ended;
    void *ctx;
    uv_timer_t timer;
    struct iteration_end_call call;
    /* An epoll set for libcurl's sockets. libcurl closes some sockets without notice, and the
     * kernel removes those from the set automatically; the loop's own tables would not notice. */
    int epoll;
    uv_poll_t ready;
    int handles;                  /* handles registered in the loop */
    struct multi_socket *sockets; /* indexed by descriptor */
    size_t socket_cap;
    struct multi_connection *connections; /* indexed by the low bits of their port */
    size_t connection_cap, connection_count;
    uint32_t serial; /* the last serial number assigned */
    bool is_due;     /* libcurl has to be called immediately */
};

/* ---- calls of libcurl and its results ---- */

/* Passes on each transfer that libcurl has completed. */
static void take_ended(struct target_multi *multi)
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

static void socket_act(struct target_multi *multi, curl_socket_t socket, int what)
{
    int running;
    activity_begin("deliveries");
    (void)curl_multi_socket_action(multi->curl, socket, what, &running);
    take_ended(multi);
}

/* ---- time ---- */

static void on_timer(uv_timer_t *timer)
{
    socket_act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static void on_iteration_end(struct iteration_end_call *call)
{
    struct target_multi *multi = list_entry(call, struct target_multi, call);
    for (int round = 0; multi->is_due && round < ROUNDS_MAX; round++) {
        multi->is_due = false;
        socket_act(multi, CURL_SOCKET_TIMEOUT, 0);
    }
    if (multi->is_due)
        reactor_once_at_iteration_end(multi->reactor, call);
}

/* Sets the timer that libcurl requests; a time of 0 means the end of this loop iteration. */
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
        reactor_once_at_iteration_end(multi->reactor, &multi->call);
    return 0;
}

/* ---- sockets ---- */

/* Makes room for this descriptor in the table of sockets. Returns false when out of memory. */
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

static void socket_arm(struct target_multi *multi, curl_socket_t fd, uint32_t events)
{
    struct multi_socket *socket = &multi->sockets[fd];
    struct epoll_event event = {.events = events, .data.fd = fd};
    int what = !events ? EPOLL_CTL_DEL : socket->armed ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (socket->armed == events)
        return;
    socket->armed = events;
    (void)epoll_ctl(multi->epoll, what, fd, &event);
}

/* Reports events to libcurl. Events that are no longer wanted stay armed until they occur, because
 * mostly they are wanted again before. */
static void on_ready(struct target_multi *multi, int fd, uint32_t events)
{
    uint32_t wanted = multi->sockets[fd].wanted;
    int what = (events & wanted & EPOLLIN ? CURL_CSELECT_IN : 0) |
               (events & wanted & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
               (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    if (events & ~wanted)
        socket_arm(multi, fd, wanted);
    if (wanted)
        socket_act(multi, fd, what);
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

/* Records the events that libcurl wants on a socket; others stay armed. */
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
        socket_arm(multi, fd, socket->armed | socket->wanted);
    return 0;
}

/* Opens a socket to an address if the guard allows it. Returns -1 with errno otherwise. */
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
    /* the previous socket with this number is closed, and so not in the set any more */
    if (fd >= 0)
        multi->sockets[fd] = (struct multi_socket){0};
    return fd;
}

/* Opens a socket for libcurl: the last check of an address, whatever its source. The error is
 * recorded, because libcurl does not keep it. */
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

/* ---- what the peer received ---- */

static struct multi_connection *place_of(const struct target_multi *multi, uint16_t port)
{
    return &multi->connections[port & (multi->connection_cap - 1)];
}

/* Allocates four slots for each connection, so that collisions are rare. */
static bool make_places(struct target_multi *multi)
{
    size_t cap = multi->connection_cap ? multi->connection_cap * 2 : PLACES_MIN;
    struct multi_connection *old = multi->connections;
    size_t old_cap = multi->connection_cap;
    if (multi->connection_count * 4 < old_cap || old_cap > UINT16_MAX)
        return true;
    struct multi_connection *connections = calloc(cap, sizeof *connections);
    if (!connections)
        return false;
    multi->connections = connections;
    multi->connection_cap = cap;
    for (size_t i = 0; i < old_cap; i++)
        if (old[i].serial)
            *place_of(multi, old[i].port) = old[i];
    free(old);
    return true;
}

/* Closes a socket; libcurl calls it for each socket that it opened, whichever transfer used it
 * last. */
static int on_close(void *ctx, curl_socket_t fd)
{
    struct target_multi *multi = ctx;
    uint16_t port = (size_t)fd < multi->socket_cap ? multi->sockets[fd].port : 0;
    struct multi_connection *connection = port ? place_of(multi, port) : NULL;
    if (port) {
        multi->sockets[fd].port = 0;
        multi->connection_count--;
    }
    if (connection && connection->fd == fd && connection->port == port) {
        connection->fd = -1;
        if (!target_traffic_read(fd, &connection->last))
            connection->serial = 0;
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

/* Finds the connection of a request. libcurl 7.88 does not report the socket, only the addresses. A
 * connection that carried requests before is found by its port; a new one was opened for this
 * transfer. */
static struct multi_connection *find_connection(struct target_multi *multi,
                                                const struct target_opening *opening,
                                                const char *peer_text, uint16_t port)
{
    uint64_t peer = hash_64(peer_text, strlen(peer_text));
    struct multi_connection *known = multi->connections ? place_of(multi, port) : NULL;
    if (known && known->serial && known->fd >= 0 && known->port == port && known->peer == peer)
        return known;
    for (size_t i = 0; i < sizeof opening->fds / sizeof opening->fds[0]; i++) {
        int fd = opening->fds[i];
        if (fd < 0 || port_of(fd) != port || multi->sockets[fd].port || !make_places(multi))
            continue;
        multi->connection_count++;
        multi->sockets[fd].port = port;
        known = place_of(multi, port);
        *known = (struct multi_connection){
            .fd = fd, .port = port, .peer = peer, .serial = ++multi->serial};
        return known;
    }
    return NULL;
}

void target_multi_mark(struct target_multi *multi, const struct target_opening *opening,
                       const char *peer, int port, struct target_mark *mark)
{
    *mark = (struct target_mark){0};
    uint32_t before = multi->serial;
    struct multi_connection *connection =
        port > 0 && port <= UINT16_MAX ? find_connection(multi, opening, peer, (uint16_t)port)
                                       : NULL;
    if (!connection || !target_traffic_read(connection->fd, &mark->traffic))
        return;
    mark->is_first = multi->serial != before;
    mark->port = connection->port;
    mark->serial = connection->serial;
}

/* Decides from the acknowledged bytes. Everything that the peer sends acknowledges what has reached
 * it. There are two cases: the peer had closed before the request was sent (with TLS, libcurl does
 * not check that), or something arrived later, such as the end of the connection. If nothing of the
 * request is acknowledged in these cases, the peer had closed before the request arrived. A bare
 * reset proves nothing: it may come from a peer that had begun to read. */
bool target_multi_took_nothing(const struct target_multi *multi, const struct target_mark *mark)
{
    if (!mark->serial)
        return false;
    const struct multi_connection *connection = place_of(multi, mark->port);
    const struct target_traffic *then = &mark->traffic, *last = &connection->last;
    if (connection->serial != mark->serial || connection->fd >= 0 || last->acked != then->acked)
        return false;
    return then->has_ended || last->sent == then->sent || last->received > then->received;
}

/* ---- life ---- */

bool target_multi_add(struct target_multi *multi, CURL *easy, struct target_opening *opening)
{
    *opening = (struct target_opening){.multi = multi, .fds = {-1, -1}};
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, opening);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, multi);
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
    /* One request at a time with HTTP/2: with several, libcurl 7.88 misses answers that arrive
     * while it reads another one, and they wait for their timeout. */
    curl_multi_setopt(curl, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
}

/* Allocates the handles. Returns NULL on failure, with everything freed. */
static struct target_multi *allocate(struct reactor *reactor)
{
    struct target_multi *multi = calloc(1, sizeof *multi);
    if (!multi)
        return NULL;
    multi->curl = curl_multi_init();
    multi->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (multi->curl && multi->epoll >= 0 &&
        uv_poll_init(reactor_loop(reactor), &multi->ready, multi->epoll) == 0)
        return multi;
    if (multi->curl)
        (void)curl_multi_cleanup(multi->curl);
    if (multi->epoll >= 0)
        close(multi->epoll);
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
    multi->call.run = on_iteration_end;
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
    reactor_cancel_at_iteration_end(&multi->call);
    free(multi->sockets);
    free(multi->connections);
    uv_close((uv_handle_t *)&multi->timer, on_closed);
    uv_close((uv_handle_t *)&multi->ready, on_closed);
}
