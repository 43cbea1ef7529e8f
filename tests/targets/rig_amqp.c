/* A small AMQP 0-9-1 broker on a thread: greets, opens what it is asked to, confirms each publish.
 * What a real one does besides is tried in tests/e2e/test_rabbitmq.py. */
#include "rig.h"

#include <arpa/inet.h>
#include <endian.h>
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

enum { TALKS_MAX = 64, CHANNELS_MAX = 64, BYTES_MAX = 1 << 20, LOOK_MS = 20 };
enum { FRAME_METHOD = 1, FRAME_HEADER, FRAME_BODY, FRAME_END = 0xce, FRAME_EDGES = 8 };
#define METHOD(CLASS, ID) ((CLASS) << 16 | (ID))

/* One connection. */
struct talk {
    int fd;
    bool is_greeted;
    uint64_t tags[CHANNELS_MAX], body_left[CHANNELS_MAX];
    size_t len;
    unsigned char bytes[BYTES_MAX];
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

static uint32_t read_u32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return be32toh(value);
}

/* ---- what it says ---- */

static bool say(const struct talk *talk, uint16_t channel, uint32_t method, const void *arguments,
                size_t bytes)
{
    unsigned char frame[256] = {FRAME_METHOD};
    const uint16_t number = htobe16(channel);
    const uint32_t length = htobe32((uint32_t)(4 + bytes)), named = htobe32(method);
    memcpy(frame + 1, &number, sizeof number);
    memcpy(frame + 3, &length, sizeof length);
    memcpy(frame + 7, &named, sizeof named);
    memcpy(frame + 11, arguments, bytes);
    frame[11 + bytes] = FRAME_END;
    return send(talk->fd, frame, 12 + bytes, MSG_NOSIGNAL) >= 0;
}

static bool greet(struct talk *talk)
{
    /* version, no properties, PLAIN, en_US */
    static const char start[] = "\0\x09\0\0\0\0\0\0\0\x05PLAIN\0\0\0\x05"
                                "en_US";
    talk->is_greeted = true;
    return say(talk, 0, METHOD(10, 10), start, sizeof start - 1);
}

static bool confirm(struct talk *talk, uint16_t channel)
{
    unsigned char arguments[9] = {0};
    const uint64_t tag = htobe64(++talk->tags[channel]);
    memcpy(arguments, &tag, sizeof tag);
    peer.count++;
    return say(talk, channel, METHOD(60, 80), arguments, sizeof arguments);
}

/* ---- what it hears ---- */

static bool take_method(struct talk *talk, uint16_t channel, uint32_t method)
{
    static const char tune[] = "\x07\xff\0\x02\0\0\0\0", none[8] = "";
    switch (method) {
    case METHOD(10, 11): /* start-ok */
        return say(talk, 0, METHOD(10, 30), tune, 8);
    case METHOD(10, 40): /* open */
        return say(talk, 0, METHOD(10, 41), none, 1);
    case METHOD(20, 10): /* channel.open */
        talk->tags[channel] = 0;
        return say(talk, channel, METHOD(20, 11), none, 4);
    case METHOD(85, 10): /* confirm.select */
        return say(talk, channel, METHOD(85, 11), none, 0);
    case METHOD(10, 50): /* close */
        (void)say(talk, 0, METHOD(10, 51), none, 0);
        return false;
    default:
        return true;
    }
}

static bool take_frame(struct talk *talk, const unsigned char *frame, uint32_t payload)
{
    uint16_t channel = (uint16_t)(frame[1] << 8 | frame[2]);
    if (channel >= CHANNELS_MAX || frame[7 + payload] != FRAME_END)
        return false;
    if (frame[0] == FRAME_METHOD)
        return take_method(talk, channel, read_u32(frame + 7));
    if (frame[0] == FRAME_HEADER)
        talk->body_left[channel] = (uint64_t)read_u32(frame + 11) << 32 | read_u32(frame + 15);
    else if (frame[0] == FRAME_BODY)
        talk->body_left[channel] -= payload;
    else
        return true; /* a heartbeat */
    return talk->body_left[channel] > 0 || confirm(talk, channel);
}

static size_t frame_bytes(const struct talk *talk)
{
    if (!talk->is_greeted)
        return 8; /* "AMQP" and the version */
    return talk->len < FRAME_EDGES ? FRAME_EDGES : read_u32(talk->bytes + 3) + FRAME_EDGES;
}

static bool answer(struct talk *talk)
{
    for (size_t used; !peer.is_stalled && talk->len >= (used = frame_bytes(talk));) {
        if (!(talk->is_greeted ? take_frame(talk, talk->bytes, (uint32_t)used - FRAME_EDGES)
                               : greet(talk)))
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

/* ---- its thread ---- */

static void hang_up(size_t i)
{
    close(peer.talks[i]->fd);
    free(peer.talks[i]);
    peer.talks[i] = peer.talks[--peer.talk_count];
}

static void take_call(void)
{
    struct talk *talk = calloc(1, sizeof *talk);
    int fd = accept(peer.listener, NULL, NULL);
    if (!talk || fd < 0 || peer.talk_count == TALKS_MAX) {
        free(talk);
        if (fd >= 0)
            close(fd);
        return;
    }
    talk->fd = fd;
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
    snprintf(text, sizeof text, "amqp://127.0.0.1:%u/", peer.port);
    return text;
}

const struct target_rig rig_amqp = {.name = "amqp",
                                    .start = start,
                                    .stop = stop,
                                    .stall = stall,
                                    .count = count,
                                    .to = to,
                                    .setting = "",
                                    .back_ms = 8000};
