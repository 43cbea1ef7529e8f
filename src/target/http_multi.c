#include "target/http_multi.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Idle connections are closed by their age and by their target, not by their number. */
enum { CONNECTIONS_KEPT_MAX = 10000, ROUNDS_MAX = 4 };

struct multi_socket {
    uv_poll_t poll;
    struct target_multi *multi;
    int armed, wanted; /* UV_READABLE, UV_WRITABLE; what is wanted is armed */
};

struct target_multi {
    CURLM *curl;
    struct reactor *reactor;
    struct guard *guard;
    target_multi_ended *ended;
    void *ctx;
    uv_timer_t timer;
    struct turn_end_call call;
    struct multi_socket **sockets; /* by descriptor */
    size_t socket_cap;
    bool is_due; /* libcurl wants to be called at once */
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

static struct multi_socket *find(const struct target_multi *multi, curl_socket_t fd)
{
    return (size_t)fd < multi->socket_cap ? multi->sockets[fd] : NULL;
}

static void on_ready(uv_poll_t *poll, int status, int events);

static void arm(struct multi_socket *socket, int events)
{
    if (socket->armed == events)
        return;
    socket->armed = events;
    if (events == 0)
        (void)uv_poll_stop(&socket->poll);
    else
        (void)uv_poll_start(&socket->poll, events, on_ready);
}

/* What nobody wants any more stays armed until it happens: mostly it is wanted again before. */
static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct multi_socket *socket = poll->data;
    struct target_multi *multi = socket->multi;
    uv_os_fd_t fd;
    int what = status < 0 ? CURL_CSELECT_ERR : 0;
    if (events & UV_READABLE & socket->wanted)
        what |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE & socket->wanted)
        what |= CURL_CSELECT_OUT;
    if (status < 0 || (events & ~socket->wanted))
        arm(socket, status < 0 ? 0 : socket->wanted);
    if (what && uv_fileno((uv_handle_t *)poll, &fd) == 0)
        act(multi, fd, what);
}

static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *ctx, void *unused)
{
    struct target_multi *multi = ctx;
    struct multi_socket *socket = find(multi, fd);
    (void)easy;
    (void)unused;
    if (!socket)
        return 0; /* closed already */
    socket->wanted = what == CURL_POLL_REMOVE ? 0
                                              : (what & CURL_POLL_IN ? UV_READABLE : 0) |
                                                    (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    if (socket->wanted & ~socket->armed)
        arm(socket, socket->armed | socket->wanted);
    return 0;
}

static bool make_room(struct target_multi *multi, size_t fd)
{
    size_t cap = multi->socket_cap ? multi->socket_cap : 64;
    if (fd < multi->socket_cap)
        return true;
    while (cap <= fd)
        cap *= 2;
    struct multi_socket **sockets = realloc(multi->sockets, cap * sizeof *sockets);
    if (!sockets)
        return false;
    memset(sockets + multi->socket_cap, 0, (cap - multi->socket_cap) * sizeof *sockets);
    multi->sockets = sockets;
    multi->socket_cap = cap;
    return true;
}

static bool watch(struct target_multi *multi, int fd)
{
    struct multi_socket *socket = calloc(1, sizeof *socket);
    if (!socket || !make_room(multi, (size_t)fd) ||
        uv_poll_init(reactor_loop(multi->reactor), &socket->poll, fd) != 0) {
        free(socket);
        return false;
    }
    socket->poll.data = socket;
    socket->multi = multi;
    assert(!multi->sockets[fd]);
    multi->sockets[fd] = socket;
    return true;
}

/* The last look at an address, whatever led to it. */
static curl_socket_t on_open(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct target_multi *multi = ctx;
    (void)purpose;
    if (guard_check_address(multi->guard, &address->addr) != GUARD_ALLOWED) {
        errno = EACCES;
        return CURL_SOCKET_BAD;
    }
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    address->protocol);
    if (fd >= 0 && !watch(multi, fd)) {
        close(fd);
        return CURL_SOCKET_BAD;
    }
    return fd;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static int on_close(void *ctx, curl_socket_t fd)
{
    struct target_multi *multi = ctx;
    struct multi_socket *socket = find(multi, fd);
    if (socket) {
        multi->sockets[fd] = NULL;
        (void)uv_poll_stop(&socket->poll);
        uv_close((uv_handle_t *)&socket->poll, on_closed);
    }
    return close(fd);
}

/* ---- life ---- */

void target_multi_bind(struct target_multi *multi, CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, multi);
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
    curl_multi_setopt(curl, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
}

struct target_multi *target_multi_new(struct reactor *reactor, struct guard *guard,
                                      target_multi_ended *ended, void *ctx)
{
    struct target_multi *multi = calloc(1, sizeof *multi);
    if (!multi)
        return NULL;
    *multi = (struct target_multi){.reactor = reactor, .guard = guard, .ended = ended, .ctx = ctx};
    multi->curl = curl_multi_init();
    if (!multi->curl) {
        free(multi);
        return NULL;
    }
    list_init(&multi->call.list);
    multi->call.run = on_turn_end;
    (void)uv_timer_init(reactor_loop(reactor), &multi->timer);
    multi->timer.data = multi;
    set_options(multi);
    return multi;
}

void target_multi_free(struct target_multi *multi)
{
    if (!multi)
        return;
    (void)curl_multi_cleanup(multi->curl);
    reactor_cancel_at_turn_end(&multi->call);
    for (size_t fd = 0; fd < multi->socket_cap; fd++)
        assert(!multi->sockets[fd]);
    free(multi->sockets);
    uv_close((uv_handle_t *)&multi->timer, on_closed);
}
