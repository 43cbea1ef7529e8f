#include "peer.h"

#include <arpa/inet.h>
#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { TALKS_MAX = 1024, BACKLOG = 512, LOOK_MS = 20 };

static struct {
    pthread_t thread;
    int listener;
    uint16_t port;
    peer_answer *answer;
    size_t state_bytes;
    atomic_bool is_running, is_stalled;
    atomic_size_t count;
    struct peer_talk *talks[TALKS_MAX];
    size_t talk_count;
} peer;

static void free_talk(struct peer_talk *talk)
{
    if (talk)
        free(talk->state);
    free(talk);
}

static void hang_up(size_t i)
{
    close(peer.talks[i]->fd);
    free_talk(peer.talks[i]);
    peer.talks[i] = peer.talks[--peer.talk_count];
}

static struct peer_talk *new_talk(int fd)
{
    struct peer_talk *talk = malloc(sizeof *talk);
    if (!talk)
        return NULL;
    talk->fd = fd;
    talk->len = 0;
    talk->state = calloc(1, peer.state_bytes + 1);
    if (talk->state)
        return talk;
    free_talk(talk);
    return NULL;
}

static void take_call(void)
{
    int fd = accept(peer.listener, NULL, NULL);
    if (fd < 0)
        return;
    struct peer_talk *talk = peer.talk_count < TALKS_MAX ? new_talk(fd) : NULL;
    if (talk)
        peer.talks[peer.talk_count++] = talk;
    else
        close(fd);
}

static bool answer_all(struct peer_talk *talk)
{
    ssize_t used;
    while (!peer.is_stalled && talk->len > 0 && (used = peer.answer(talk)) != 0) {
        if (used < 0)
            return false;
        assert((size_t)used <= talk->len);
        talk->len -= (size_t)used;
        memmove(talk->bytes, talk->bytes + used, talk->len);
    }
    return true;
}

static bool receive(struct peer_talk *talk)
{
    ssize_t got = recv(talk->fd, talk->bytes + talk->len, sizeof talk->bytes - talk->len, 0);
    if (got <= 0)
        return false;
    talk->len += (size_t)got;
    return answer_all(talk);
}

static void *serve(void *ctx)
{
    struct pollfd polls[TALKS_MAX + 1];
    (void)ctx;
    while (peer.is_running) {
        size_t count = peer.talk_count;
        polls[count] = (struct pollfd){.fd = peer.listener, .events = POLLIN};
        for (size_t i = 0; i < count; i++)
            polls[i] = (struct pollfd){.fd = peer.talks[i]->fd, .events = POLLIN};
        poll(polls, count + 1, LOOK_MS);
        for (size_t i = count; i-- > 0;)
            if (polls[i].revents ? !receive(peer.talks[i]) : !answer_all(peer.talks[i]))
                hang_up(i);
        if (polls[count].revents)
            take_call();
    }
    close(peer.listener);
    while (peer.talk_count > 0)
        hang_up(0);
    return NULL;
}

static void begin_to_listen(void)
{
    const int on = 1;
    struct sockaddr_in place = {.sin_family = AF_INET,
                                .sin_port = htons(peer.port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof place;
    peer.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(peer.listener >= 0);
    setsockopt(peer.listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    assert_int_equal(bind(peer.listener, (struct sockaddr *)&place, bytes), 0);
    assert_int_equal(listen(peer.listener, BACKLOG), 0);
    getsockname(peer.listener, (struct sockaddr *)&place, &bytes);
    peer.port = ntohs(place.sin_port);
}

void peer_start(peer_answer *answer, size_t state_bytes)
{
    begin_to_listen();
    peer.answer = answer;
    peer.state_bytes = state_bytes;
    peer.is_running = true;
    peer.is_stalled = false;
    assert_int_equal(pthread_create(&peer.thread, NULL, serve, NULL), 0);
}

void peer_stop(void)
{
    peer.is_running = false;
    pthread_join(peer.thread, NULL);
}

void peer_stall(bool on)
{
    peer.is_stalled = on;
}

size_t peer_count(void)
{
    return peer.count;
}

const char *peer_url(const char *scheme, const char *path)
{
    static char text[64];
    snprintf(text, sizeof text, "%s://127.0.0.1:%u%s", scheme, peer.port, path);
    return text;
}

void peer_took(void)
{
    peer.count++;
}

bool peer_write(const struct peer_talk *talk, const void *bytes, size_t len)
{
    return send(talk->fd, bytes, len, MSG_NOSIGNAL) >= 0;
}
