#include "targets/http/traffic.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

enum { TCP_CLOSE_WAIT = 8 }; /* from netinet/tcp.h, which has an older struct tcp_info */

bool target_traffic_read(int fd, struct target_traffic *out)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        bytes < offsetof(struct tcp_info, tcpi_bytes_sent) + sizeof info.tcpi_bytes_sent)
        return false;
    *out = (struct target_traffic){.sent = info.tcpi_bytes_sent,
                                   .acked = info.tcpi_bytes_acked,
                                   .received = info.tcpi_bytes_received,
                                   .has_ended = info.tcpi_state == TCP_CLOSE_WAIT};
    return true;
}
