/* A small AMQP 0-9-1 broker: greets, opens requested channels, confirms each publish. The rest of a
 * real one is tested in tests/e2e/delivery/test_rabbitmq.py. */
#include "peer.h"
#include "rig.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

enum { CHANNELS_MAX = 64, GREETING_BYTES = 8 }; /* "AMQP" and the version */
enum { FRAME_METHOD = 1, FRAME_HEADER, FRAME_BODY, FRAME_END = 0xce, FRAME_EDGES = 8 };
#define METHOD(CLASS, ID) ((CLASS) << 16 | (ID))

struct state {
    bool is_greeted;
    uint64_t tags[CHANNELS_MAX], body_left[CHANNELS_MAX];
};

static uint32_t read_u32(const void *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return be32toh(value);
}

/* ---- methods to the client ---- */

static bool show(const struct peer_talk *talk, uint16_t channel, uint32_t method,
                 const void *arguments, size_t bytes)
{
    unsigned char frame[256] = {FRAME_METHOD};
    const uint16_t number = htobe16(channel);
    const uint32_t length = htobe32((uint32_t)(4 + bytes)), named = htobe32(method);
    memcpy(frame + 1, &number, sizeof number);
    memcpy(frame + 3, &length, sizeof length);
    memcpy(frame + 7, &named, sizeof named);
    memcpy(frame + 11, arguments, bytes);
    frame[11 + bytes] = FRAME_END;
    return peer_write(talk, frame, 12 + bytes);
}

static bool greet(struct peer_talk *talk)
{
    /* version, no properties, PLAIN, en_US */
    static const char start[] = "\0\x09\0\0\0\0\0\0\0\x05PLAIN\0\0\0\x05"
                                "en_US";
    struct state *state = talk->state;
    state->is_greeted = true;
    return show(talk, 0, METHOD(10, 10), start, sizeof start - 1);
}

static bool confirm(struct peer_talk *talk, uint16_t channel)
{
    struct state *state = talk->state;
    unsigned char arguments[9] = {0};
    const uint64_t tag = htobe64(++state->tags[channel]);
    memcpy(arguments, &tag, sizeof tag);
    peer_took();
    return show(talk, channel, METHOD(60, 80), arguments, sizeof arguments);
}

/* ---- methods of the client ---- */

static bool take_method(struct peer_talk *talk, uint16_t channel, uint32_t method)
{
    static const char tune[] = "\x07\xff\0\x02\0\0\0\0", none[8] = "";
    struct state *state = talk->state;
    switch (method) {
    case METHOD(10, 11): /* start-ok */
        return show(talk, 0, METHOD(10, 30), tune, 8);
    case METHOD(10, 40): /* open */
        return show(talk, 0, METHOD(10, 41), none, 1);
    case METHOD(20, 10): /* channel.open */
        state->tags[channel] = 0;
        return show(talk, channel, METHOD(20, 11), none, 4);
    case METHOD(85, 10): /* confirm.select */
        return show(talk, channel, METHOD(85, 11), none, 0);
    case METHOD(10, 50): /* close */
        (void)show(talk, 0, METHOD(10, 51), none, 0);
        return false;
    default:
        return true;
    }
}

static bool take_frame(struct peer_talk *talk, uint32_t payload)
{
    const unsigned char *frame = (const unsigned char *)talk->bytes;
    struct state *state = talk->state;
    uint16_t channel = (uint16_t)(frame[1] << 8 | frame[2]);
    if (channel >= CHANNELS_MAX || frame[7 + payload] != FRAME_END)
        return false;
    if (frame[0] == FRAME_METHOD)
        return take_method(talk, channel, read_u32(frame + 7));
    if (frame[0] == FRAME_HEADER)
        state->body_left[channel] = (uint64_t)read_u32(frame + 11) << 32 | read_u32(frame + 15);
    else if (frame[0] == FRAME_BODY)
        state->body_left[channel] -= payload;
    else
        return true; /* a heartbeat */
    return state->body_left[channel] > 0 || confirm(talk, channel);
}

static ssize_t answer(struct peer_talk *talk)
{
    const struct state *state = talk->state;
    if (!state->is_greeted) {
        if (talk->len < GREETING_BYTES)
            return 0;
        return greet(talk) ? GREETING_BYTES : -1;
    }
    uint32_t payload = talk->len < FRAME_EDGES ? 0 : read_u32(talk->bytes + 3);
    if (talk->len < FRAME_EDGES || talk->len - FRAME_EDGES < payload)
        return 0;
    return take_frame(talk, payload) ? (ssize_t)payload + FRAME_EDGES : -1;
}

static void start(void)
{
    peer_start(answer, sizeof(struct state));
}

static const char *to(void)
{
    return peer_url("amqp", "/");
}

const struct target_rig rig_amqp = {
    .name = "amqp", .start = start, .to = to, PEER_RIG, .back_ms = 8000};
