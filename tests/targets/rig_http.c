/* A small HTTP server: takes each POST and answers 200. */
#include "peer.h"
#include "rig.h"

#include <stdlib.h>
#include <string.h>

/* The size of the request that the bytes begin with; 0: not all of it is there. */
static size_t request_bytes(struct peer_talk *talk)
{
    char *end = memmem(talk->bytes, talk->len, "\r\n\r\n", 4);
    if (!end)
        return 0;
    end[2] = '\0'; /* the body is not searched */
    const char *field = strcasestr(talk->bytes, "\r\ncontent-length:");
    end[2] = '\r';
    size_t bytes = (size_t)(end - talk->bytes) + 4 + (field ? strtoul(field + 17, NULL, 10) : 0);
    return bytes <= talk->len ? bytes : 0;
}

static ssize_t answer(struct peer_talk *talk)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    size_t bytes = request_bytes(talk);
    if (bytes == 0)
        return 0;
    peer_took();
    return peer_write(talk, text, sizeof text - 1) ? (ssize_t)bytes : -1;
}

static void start(void)
{
    peer_start(answer, 0);
}

static const char *to(void)
{
    return peer_url("http", "/taken/{id}");
}

const struct target_rig rig_http = {.name = "http",
                                    .start = start,
                                    .stop = peer_stop,
                                    .stall = peer_stall,
                                    .count = peer_count,
                                    .to = to,
                                    .setting = "",
                                    .back_ms = 3000};
