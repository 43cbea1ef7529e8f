/*
 * http_traffic: what has gone by a TCP connection, as the kernel counts it. Any thread.
 *
 * A file of its own: the loop's headers have an older struct tcp_info.
 */
#ifndef TARRY_TARGETS_HTTP_TRAFFIC_H
#define TARRY_TARGETS_HTTP_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

struct target_traffic { /* bytes; the peer's end of the connection counts as one received */
    uint64_t sent, acked, received;
    bool has_ended; /* the peer has closed its side */
};

/* False: the kernel does not tell, or it is no TCP socket. */
bool target_traffic_read(int fd, struct target_traffic *out);

#endif
