/* A small RocketMQ, name server and broker at one port: names itself as every topic's broker, takes
 * each message. */
#include "peer.h"
#include "rig.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTHS = 8, ROUTE = 105, SEND = 310 };

static uint32_t number_at(const char *at)
{
    uint32_t number;
    memcpy(&number, at, sizeof number);
    return ntohl(number);
}

/* A number of a header whose members are not nested. */
static long member(const char *header, const char *name)
{
    const char *at = strstr(header, name);
    return at ? strtol(at + strlen(name), NULL, 10) : -1;
}

static bool show(const struct peer_talk *talk, long opaque, const char *body)
{
    char frame[1024];
    int header = snprintf(frame + LENGTHS, sizeof frame - LENGTHS,
                          "{\"code\":0,\"flag\":1,\"language\":\"JAVA\",\"opaque\":%ld,"
                          "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":407}",
                          opaque);
    size_t len = strlen(body);
    uint32_t all = htonl((uint32_t)(4 + (size_t)header + len)), head = htonl((uint32_t)header);
    memcpy(frame, &all, sizeof all);
    memcpy(frame + 4, &head, sizeof head);
    memcpy(frame + LENGTHS + header, body, len);
    return peer_write(talk, frame, LENGTHS + (size_t)header + len);
}

/* Sends the route like a name server before 4.9.4: the key of the master's address is without quotes. */
static bool write_route(const struct peer_talk *talk, long opaque)
{
    char body[512];
    snprintf(body, sizeof body,
             "{\"brokerDatas\":[{\"brokerAddrs\":{0:\"%s\"},\"brokerName\":\"a\"}],"
             "\"queueDatas\":[{\"brokerName\":\"a\",\"perm\":6,\"readQueueNums\":4,"
             "\"writeQueueNums\":4}]}",
             peer_url("x", "") + strlen("x://"));
    return show(talk, opaque, body);
}

static ssize_t answer(struct peer_talk *talk)
{
    char header[4096];
    if (talk->len < LENGTHS || talk->len < 4 + number_at(talk->bytes))
        return 0;
    size_t len = number_at(talk->bytes + 4);
    if (len >= sizeof header)
        return -1;
    memcpy(header, talk->bytes + LENGTHS, len);
    header[len] = 0;
    long code = member(header, "\"code\":"), opaque = member(header, "\"opaque\":");
    if (code == SEND)
        peer_took();
    bool output = code == SEND    ? show(talk, opaque, "")
                  : code == ROUTE ? write_route(talk, opaque)
                                  : false;
    return output ? (ssize_t)(4 + number_at(talk->bytes)) : -1;
}

static void start(void)
{
    peer_start(answer, 0);
}

static const char *to(void)
{
    return peer_url("rocketmq", "");
}

const struct target_rig rig_rocketmq = {
    .name = "rocketmq", .start = start, .to = to, PEER_RIG, .back_ms = 6000};
