/* A small HTTP server: takes each POST and answers 200. */
#include "calls.h"
#include "rig.h"

static ssize_t answer(struct peer_talk *talk)
{
    size_t bytes = calls_request_bytes(talk);
    if (bytes == 0)
        return 0;
    peer_took();
    return calls_write(talk, "") ? (ssize_t)bytes : -1;
}

static void start(void)
{
    peer_start(answer, 0);
}

static const char *to(void)
{
    return peer_url("http", "/taken/{id}");
}

const struct target_rig rig_http = {
    .name = "http", .start = start, .to = to, PEER_RIG, .back_ms = 3000};
