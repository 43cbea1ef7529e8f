/* A small STOMP broker: greets, takes each SEND, answers with its receipt. */
#include "peer.h"
#include "rig.h"

#include <stdio.h>
#include <string.h>

/* A text with its NUL is a frame. */
static bool show(const struct peer_talk *talk, const char *frame)
{
    return peer_write(talk, frame, strlen(frame) + 1);
}

static bool answer_frame(const struct peer_talk *talk, const char *frame)
{
    char receipt[128];
    unsigned long number;
    frame += strspn(frame, "\r\n");
    if (strncmp(frame, "CONNECT\n", 8) == 0)
        return show(talk, "CONNECTED\nversion:1.2\n\n");
    const char *header = strstr(frame, "\nreceipt:");
    if (strncmp(frame, "SEND\n", 5) != 0 || !header || sscanf(header, "\nreceipt:%lu", &number) < 1)
        return strncmp(frame, "DISCONNECT\n", 11) == 0;
    peer_took();
    snprintf(receipt, sizeof receipt, "RECEIPT\nreceipt-id:%lu\n\n", number);
    return show(talk, receipt);
}

/* Bodies of the suite hold no NUL: one ends a frame. */
static ssize_t answer(struct peer_talk *talk)
{
    const char *end = memchr(talk->bytes, 0, talk->len);
    if (!end)
        return 0;
    return answer_frame(talk, talk->bytes) ? end - talk->bytes + 1 : -1;
}

static void start(void)
{
    peer_start(answer, 0);
}

static const char *to(void)
{
    return peer_url("stomp", "");
}

const struct target_rig rig_stomp = {
    .name = "stomp", .start = start, .to = to, PEER_RIG, .back_ms = 3000};
