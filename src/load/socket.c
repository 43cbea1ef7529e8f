#include "load/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { ANSWER_WAIT_S = 5, READ_BYTES = 16384 };

int load_socket_open(const char *host, const char *port, bool blocks,
                     char problem[LOAD_TEXT_BYTES_MAX])
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "no address for '%.100s': %s", host,
                 gai_strerror(rc));
        return -1;
    }
    int fd = -1, failure = 0;
    for (struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0)
            break;
        failure = errno;
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    if (fd < 0) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "no server answers at '%.100s:%s': %s", host, port,
                 strerror(failure));
        return -1;
    }
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!blocks)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

static bool send_all(int fd, struct slice bytes)
{
    while (bytes.len > 0) {
        ssize_t sent = send(fd, bytes.at, bytes.len, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes = slice_make(bytes.at + sent, bytes.len - (size_t)sent);
    }
    return true;
}

bool load_socket_call(const char *host, const char *port, struct slice request,
                      struct buffer *answer, bool (*is_whole)(struct slice answer),
                      char problem[LOAD_TEXT_BYTES_MAX])
{
    int fd = load_socket_open(host, port, true, problem);
    if (fd < 0)
        return false;
    struct timeval wait = {.tv_sec = ANSWER_WAIT_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    bool whole = false, open = send_all(fd, request);
    while (open && !whole) {
        char *at = buffer_reserve(answer, READ_BYTES);
        ssize_t got = at ? recv(fd, at, READ_BYTES, 0) : -1;
        open = got > 0;
        if (open)
            answer->len += (size_t)got;
        whole = is_whole(buffer_slice(answer));
    }
    if (!whole)
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "no whole answer from '%.100s:%s' within %d s", host,
                 port, (int)ANSWER_WAIT_S);
    close(fd);
    return whole;
}
