/* A small STOMP broker on a thread: greets, takes each SEND, answers with its receipt. */
#include "rig.h"

#include <arpa/inet.h>
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

enum { TALKS_MAX = 64, BYTES_MAX = 1 << 20, LOOK_MS = 20 };

/* One connection. */
struct talk {
    int fd;
    size_t len;
    char bytes[BYTES_MAX];
};

static struct {
    pthread_t thread;
    int listener;
    uint16_t port;
    atomic_bool is_running, is_stalled;
    atomic_size_t count;
    struct talk *talks[TALKS_MAX];
    size_t talk_count;
} peer;

static void hang_up(size_t i)
{
    close(peer.talks[i]->fd);
    free(peer.talks[i]);
    peer.talks[i] = peer.talks[--peer.talk_count];
}

/* A text with its NUL is a frame. */
static bool say(const struct talk *talk, const char *frame)
{
    return send(talk->fd, frame, strlen(frame) + 1, MSG_NOSIGNAL) >= 0;
}

static bool answer_frame(const struct talk *talk, const char *frame)
{
    char receipt[128];
    unsigned long number;
    frame += strspn(frame, "\r\n");
    if (strncmp(frame, "CONNECT\n", 8) == 0)
        return say(talk, "CONNECTED\nversion:1.2\n\n");
    const char *header = strstr(frame, "\nreceipt:");
    if (strncmp(frame, "SEND\n", 5) != 0 || !header || sscanf(header, "\nreceipt:%lu", &number) < 1)
        return strncmp(frame, "DISCONNECT\n", 11) == 0;
    peer.count++;
    snprintf(receipt, sizeof receipt, "RECEIPT\nreceipt-id:%lu\n\n", number);
    return say(talk, receipt);
}

/* Bodies of the suite hold no NUL: one ends a frame. */
static bool answer(struct talk *talk)
{
    char *end;
    while (!peer.is_stalled && (end = memchr(talk->bytes, 0, talk->len))) {
        size_t used = (size_t)(end - talk->bytes) + 1;
        if (!answer_frame(talk, talk->bytes))
            return false;
        memmove(talk->bytes, talk->bytes + used, talk->len - used);
        talk->len -= used;
    }
    return true;
}

static bool hear(struct talk *talk)
{
    ssize_t got = recv(talk->fd, talk->bytes + talk->len, BYTES_MAX - talk->len, 0);
    if (got <= 0)
        return false;
    talk->len += (size_t)got;
    return answer(talk);
}

static void take_call(void)
{
    struct talk *talk = malloc(sizeof *talk);
    int fd = accept(peer.listener, NULL, NULL);
    if (!talk || fd < 0 || peer.talk_count == TALKS_MAX) {
        free(talk);
        if (fd >= 0)
            close(fd);
        return;
    }
    talk->fd = fd;
    talk->len = 0;
    peer.talks[peer.talk_count++] = talk;
}

static void *serve(void *ctx)
{
    struct pollfd polls[TALKS_MAX + 1];
    (void)ctx;
    while (peer.is_running) {
        size_t count = peer.talk_count;
        polls[TALKS_MAX] = (struct pollfd){.fd = peer.listener, .events = POLLIN};
        for (size_t i = 0; i < TALKS_MAX; i++)
            polls[i] = (struct pollfd){.fd = i < count ? peer.talks[i]->fd : -1, .events = POLLIN};
        poll(polls, TALKS_MAX + 1, LOOK_MS);
        for (size_t i = count; i-- > 0;)
            if (polls[i].revents ? !hear(peer.talks[i]) : !answer(peer.talks[i]))
                hang_up(i);
        if (polls[TALKS_MAX].revents)
            take_call();
    }
    close(peer.listener);
    while (peer.talk_count > 0)
        hang_up(0);
    return NULL;
}

static void start(void)
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
    assert_int_equal(listen(peer.listener, TALKS_MAX), 0);
    getsockname(peer.listener, (struct sockaddr *)&place, &bytes);
    peer.port = ntohs(place.sin_port);
    peer.is_running = true;
    peer.is_stalled = false;
    assert_int_equal(pthread_create(&peer.thread, NULL, serve, NULL), 0);
}

static void stop(void)
{
    peer.is_running = false;
    pthread_join(peer.thread, NULL);
}

static void stall(bool on)
{
    peer.is_stalled = on;
}

static size_t count(void)
{
    return peer.count;
}

static const char *to(void)
{
    static char text[64];
    snprintf(text, sizeof text, "stomp://127.0.0.1:%u", peer.port);
    return text;
}

const struct target_rig rig_stomp = {.name = "stomp",
                                     .start = start,
                                     .stop = stop,
                                     .stall = stall,
                                     .count = count,
                                     .to = to,
                                     .setting = "",
                                     .back_ms = 3000};
