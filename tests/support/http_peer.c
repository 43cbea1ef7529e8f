#include "support/http_peer.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 4096, PATHS_MAX = 64, PATH_BYTES = 64, REQUEST_BYTES = 80 * 1024 };

struct seen {
    char path[PATH_BYTES];
    int count;
    size_t bytes;
    char last[REQUEST_BYTES];
};

struct http_peer {
    pthread_mutex_t lock;
    pthread_t accepting, accepting_mute;
    int listening, mute, dead; /* sockets; `dead` is bound and does not listen */
    int stop[2];               /* a pipe that is closed to stop */
    int connections;
    char bomb[16 * 1024];
    size_t bomb_bytes;
    char long_text[10 * 1024];
    pthread_t threads[CONNECTIONS_MAX];
    size_t seen_count;
    struct seen seen[PATHS_MAX];
};

struct connection {
    struct http_peer *peer;
    int fd;
    bool is_mute;
    char head[REQUEST_BYTES];
    size_t len;
};

/* ---- bytes ---- */

/* False: the peer is stopped, or the other end is gone. */
static bool wait_ms(struct connection *connection, int ms)
{
    struct pollfd polls[] = {{.fd = connection->peer->stop[0]},
                             {.fd = connection->fd, .events = POLLRDHUP}};
    return poll(polls, 2, ms) == 0;
}

static bool put(struct connection *connection, const void *at, size_t len)
{
    const char *bytes = at;
    while (len > 0) {
        struct pollfd polls[] = {{.fd = connection->peer->stop[0]},
                                 {.fd = connection->fd, .events = POLLOUT}};
        if (poll(polls, 2, -1) <= 0 || polls[0].revents)
            return false;
        ssize_t sent = send(connection->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0)
            return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

static bool show(struct connection *connection, const char *text)
{
    return put(connection, text, strlen(text));
}

static void drip(struct connection *connection, const char *text)
{
    while (*text && put(connection, text++, 1) && wait_ms(connection, 60))
        ;
    while (wait_ms(connection, 60) && put(connection, "x", 1))
        ;
}

static void hang(struct connection *connection)
{
    (void)wait_ms(connection, -1);
}

static void repeat(struct connection *connection, const char *text)
{
    while (show(connection, text))
        ;
}

static void flood(struct connection *connection)
{
    char bytes[16384];
    memset(bytes, 'f', sizeof bytes);
    while (put(connection, bytes, sizeof bytes))
        ;
}

static void reset(struct connection *connection)
{
    struct linger at_once = {.l_onoff = 1};
    (void)setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

/* Answers, and of every third connection also closes: its end leaves together with the answer, so that
 * the next request can never cross it. */
static bool answer_fickly(struct connection *connection, int number)
{
    bool leaves = number % 3 == 0;
    (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_CORK, &(int){leaves}, sizeof(int));
    return show(connection, "HTTP/1.1 204 Done\r\n\r\n") && !leaves;
}

/* A megabyte of zeroes in a kilobyte, again and again: members of gzip follow each other. */
static void bomb(struct connection *connection)
{
    struct http_peer *peer = connection->peer;
    while (peer->bomb_bytes > 0 && put(connection, peer->bomb, peer->bomb_bytes))
        ;
}

static void make_bomb(struct http_peer *peer)
{
    memset(peer->long_text, 'a', sizeof peer->long_text - 1);
    FILE *file = popen("head -c 1000000 /dev/zero | gzip -9", "r");
    peer->bomb_bytes = file ? fread(peer->bomb, 1, sizeof peer->bomb, file) : 0;
    if (!file || pclose(file) != 0 || peer->bomb_bytes == 0)
        abort();
}

/* ---- manners ---- */

/* True: the connection may carry another request. */
static bool behave(struct connection *connection, const char *path, int number)
{
#define IS(NAME) (strcmp(path, "/" NAME) == 0)
    if (IS("drip-head"))
        drip(connection, "HTTP/1.1 200 OK but this line takes a very long time to arrive\r\n");
    else if (IS("drip-body") && show(connection, "HTTP/1.1 200 OK\r\n\r\n"))
        drip(connection, "slowly");
    else if (IS("hang"))
        hang(connection);
    else if (IS("hang-200") && show(connection, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"))
        hang(connection);
    else if (IS("hang-500") && show(connection, "HTTP/1.1 500 Bad\r\nContent-Length: 10\r\n\r\n"))
        hang(connection);
    else if (IS("flood-200") &&
             show(connection, "HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n"))
        flood(connection);
    else if (IS("flood-410") && show(connection, "HTTP/1.1 410 Gone\r\n\r\n"))
        flood(connection);
    else if (IS("headers-200") && show(connection, "HTTP/1.1 200 OK\r\n"))
        repeat(connection, "X-More: and more and more and more and more and more\r\n");
    else if (IS("header-500") && show(connection, "HTTP/1.1 500 Bad\r\nX-Long: "))
        flood(connection);
    else if (IS("status-long") && show(connection, "HTTP/1.1 200 "))
        for (int i = 0; i < 32 && show(connection, connection->peer->long_text); i++)
            ;
    else if (IS("trailer-500"))
        return show(connection, "HTTP/1.1 500 Bad\r\nTransfer-Encoding: chunked\r\n\r\n"
                                "1\r\nx\r\n0\r\nHTTP/1.1 200 OK: x\r\n\r\n");
    else if (IS("flood-1xx"))
        repeat(connection, "HTTP/1.1 100 Continue\r\n\r\n");
    else if (IS("redirect"))
        return show(connection, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/stolen\r\n"
                                "Content-Length: 0\r\n\r\n");
    else if (IS("reset") && show(connection, "HTTP/1.1 2"))
        reset(connection);
    else if (IS("reset-200") && show(connection, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"))
        reset(connection);
    else if (IS("silent"))
        return false;
    else if (IS("fickle"))
        return answer_fickly(connection, number);
    else if (IS("garbage"))
        return show(connection, "\x01\x02 this is no HTTP\r\n\r\n");
    else if (IS("short-200"))
        return show(connection, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nxyz") && false;
    else if (IS("long-200"))
        return show(connection, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nxyz and more");
    else if (IS("bomb-content") &&
             show(connection, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"))
        bomb(connection);
    else if (IS("bomb-transfer") &&
             show(connection, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"))
        bomb(connection);
    else if (IS("101"))
        return show(connection, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n"
                                "Connection: upgrade\r\n\r\n");
    else if (IS("503-in-7"))
        return show(connection,
                    "HTTP/1.1 503 Busy\r\nretry-after:  7 \r\nContent-Length: 0\r\n\r\n");
    else if (IS("429-far"))
        return show(connection,
                    "HTTP/1.1 429 Slow\r\nRetry-After: Fri, 31 Dec 2199 23:59:59 GMT\r\n"
                    "Content-Length: 0\r\n\r\n");
    else if (strspn(path + 1, "0123456789") == 3) {
        char answer[96];
        (void)snprintf(answer, sizeof answer, "HTTP/1.1 %.3s So\r\n%s\r\n", path + 1,
                       strcmp(path, "/204") ? "Content-Length: 0\r\n" : "");
        return show(connection, answer);
    }
    return false;
#undef IS
}

/* ---- requests ---- */

static struct seen *find(struct http_peer *peer, const char *path, bool make)
{
    for (size_t i = 0; i < peer->seen_count; i++)
        if (strcmp(peer->seen[i].path, path) == 0)
            return &peer->seen[i];
    if (!make || peer->seen_count == PATHS_MAX)
        return NULL;
    struct seen *seen = &peer->seen[peer->seen_count++];
    (void)snprintf(seen->path, sizeof seen->path, "%s", path);
    return seen;
}

static int note(struct connection *connection, const char *path, size_t bytes)
{
    struct http_peer *peer = connection->peer;
    int number = 0;
    pthread_mutex_lock(&peer->lock);
    struct seen *seen = find(peer, path, true);
    if (seen) {
        number = ++seen->count;
        seen->bytes = bytes;
        memcpy(seen->last, connection->head, bytes);
    }
    pthread_mutex_unlock(&peer->lock);
    return number;
}

static bool read_more(struct connection *connection)
{
    struct pollfd polls[] = {{.fd = connection->peer->stop[0]},
                             {.fd = connection->fd, .events = POLLIN}};
    size_t room = sizeof connection->head - 1 - connection->len;
    if (room == 0 || poll(polls, 2, -1) <= 0 || polls[0].revents)
        return false;
    ssize_t got = recv(connection->fd, connection->head + connection->len, room, 0);
    if (got <= 0)
        return false;
    connection->len += (size_t)got;
    connection->head[connection->len] = '\0';
    return true;
}

/* The length of a whole request at the front; 0: more is needed. */
static size_t whole(const struct connection *connection)
{
    const char *end = strstr(connection->head, "\r\n\r\n");
    const char *length = strcasestr(connection->head, "\r\nContent-Length:");
    if (!end)
        return 0;
    size_t bytes = (size_t)(end - connection->head) + 4;
    if (length && length < end)
        bytes += strtoul(length + 17, NULL, 10);
    return connection->len >= bytes ? bytes : 0;
}

static bool serve_one(struct connection *connection)
{
    char path[PATH_BYTES] = "";
    size_t bytes;
    while (!(bytes = whole(connection)))
        if (!read_more(connection))
            return false;
    (void)sscanf(connection->head, "POST %63s", path);
    int number = note(connection, path, bytes);
    memmove(connection->head, connection->head + bytes, connection->len - bytes + 1);
    connection->len -= bytes;
    return behave(connection, path, number);
}

static void *run_connection(void *arg)
{
    struct connection *connection = arg;
    if (connection->is_mute)
        hang(connection);
    else
        while (serve_one(connection))
            ;
    close(connection->fd);
    munmap(connection, sizeof *connection);
    return NULL;
}

/* ---- life ---- */

/* Allocates outside of the heap, which tests of the other end measure. */
static void *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        abort();
    return at;
}

static void accept_all(struct http_peer *peer, int listening, bool is_mute)
{
    struct pollfd polls[] = {{.fd = peer->stop[0]}, {.fd = listening, .events = POLLIN}};
    while (poll(polls, 2, -1) > 0 && !polls[0].revents) {
        struct connection *connection = map(sizeof *connection);
        connection->peer = peer;
        connection->is_mute = is_mute;
        connection->fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        pthread_mutex_lock(&peer->lock);
        if (connection->fd < 0 || peer->connections == CONNECTIONS_MAX)
            abort();
        pthread_create(&peer->threads[peer->connections++], NULL, run_connection, connection);
        pthread_mutex_unlock(&peer->lock);
    }
}

static void *run_listener(void *arg)
{
    struct http_peer *peer = arg;
    accept_all(peer, peer->listening, false);
    return NULL;
}

static void *run_mute(void *arg)
{
    struct http_peer *peer = arg;
    accept_all(peer, peer->mute, true);
    return NULL;
}

static int bind_any(int backlog)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)(void *)&address, sizeof address) != 0 ||
        (backlog > 0 && listen(fd, backlog) != 0))
        abort();
    return fd;
}

struct http_peer *http_peer_start(void)
{
    struct http_peer *peer = calloc(1, sizeof *peer);
    pthread_mutex_init(&peer->lock, NULL);
    if (pipe(peer->stop) != 0)
        abort();
    make_bomb(peer);
    peer->listening = bind_any(1024);
    peer->mute = bind_any(1024);
    peer->dead = bind_any(0);
    pthread_create(&peer->accepting, NULL, run_listener, peer);
    pthread_create(&peer->accepting_mute, NULL, run_mute, peer);
    return peer;
}

void http_peer_stop(struct http_peer *peer)
{
    close(peer->stop[1]);
    pthread_join(peer->accepting, NULL);
    pthread_join(peer->accepting_mute, NULL);
    for (int i = 0; i < peer->connections; i++)
        pthread_join(peer->threads[i], NULL);
    close(peer->stop[0]);
    close(peer->listening);
    close(peer->mute);
    close(peer->dead);
    pthread_mutex_destroy(&peer->lock);
    free(peer);
}

static uint16_t port_of(int fd)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    (void)getsockname(fd, (struct sockaddr *)(void *)&address, &len);
    return ntohs(address.sin_port);
}

uint16_t http_peer_port(const struct http_peer *peer)
{
    return port_of(peer->listening);
}

uint16_t http_peer_mute_port(const struct http_peer *peer)
{
    return port_of(peer->mute);
}

uint16_t http_peer_dead_port(const struct http_peer *peer)
{
    return port_of(peer->dead);
}

int http_peer_requests(struct http_peer *peer, const char *path)
{
    pthread_mutex_lock(&peer->lock);
    struct seen *seen = find(peer, path, false);
    int count = seen ? seen->count : 0;
    pthread_mutex_unlock(&peer->lock);
    return count;
}

int http_peer_connections(struct http_peer *peer)
{
    pthread_mutex_lock(&peer->lock);
    int count = peer->connections;
    pthread_mutex_unlock(&peer->lock);
    return count;
}

size_t http_peer_last(struct http_peer *peer, const char *path, char *into, size_t bytes)
{
    pthread_mutex_lock(&peer->lock);
    struct seen *seen = find(peer, path, false);
    size_t len = seen && seen->bytes < bytes ? seen->bytes : 0;
    memcpy(into, seen ? seen->last : "", len);
    into[len] = '\0';
    pthread_mutex_unlock(&peer->lock);
    return len;
}
