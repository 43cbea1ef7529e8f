#include "target/http_multi.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Idle connections are closed by their age and by their target, not by their number. */
enum { CONNECTIONS_KEPT_MAX = 10000, ROUNDS_MAX = 4, READY_MAX = 64 };

struct multi_socket {
    uint32_t armed, wanted; /* EPOLLIN, EPOLLOUT; what is wanted is armed */
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
        multi->sockets[fd] = (struct multi_socket){0};
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
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* ---- life ---- */

void target_multi_bind(struct target_multi *multi, CURL *easy, struct target_opening *opening)
{
    opening->multi = multi;
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, opening);
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
    uv_close((uv_handle_t *)&multi->timer, on_closed);
    uv_close((uv_handle_t *)&multi->ready, on_closed);
}
