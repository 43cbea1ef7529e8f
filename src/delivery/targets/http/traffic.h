/*
 * http_traffic: the traffic of a TCP connection as counted by the kernel. Any thread.
 *
 * It has its own file because the loop's headers contain an older struct tcp_info.
 */
#ifndef TARRY_TARGETS_HTTP_TRAFFIC_H
#define TARRY_TARGETS_HTTP_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

struct target_traffic { /* in bytes; the peer's end of the connection counts as one received byte */
    uint64_t sent, acked, received;
    bool has_ended; /* the peer has closed its side */
};

/* Returns false if the kernel does not support it or it is not a TCP socket. */
bool target_traffic_read(int fd, struct target_traffic *out);

#endif
