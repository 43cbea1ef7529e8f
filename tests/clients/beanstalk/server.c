#include "server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    FIRST_INHERITED = 3,
    JOB_BYTES_MAX = 1 << 20 /* as --max-body has it; beanstalkd's is 2^30 */
};

static int listen_at(const struct sockaddr *address, socklen_t bytes)
{
    int fd = socket(address->sa_family, SOCK_STREAM, 0), on = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address, bytes) == 0 && listen(fd, 1024) == 0)
        return fd;
    close(fd);
    return -1;
}

int server_socket(const char *host, const char *port)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((unsigned short)atoi(port ? port : "0"))};
    if (strncmp(host, "unix:", 5) != 0) {
        inet_aton(host, &address.sin_addr);
        return listen_at((const struct sockaddr *)&address, sizeof address);
    }
    snprintf(local.sun_path, sizeof local.sun_path, "%s", host + 5);
    unlink(local.sun_path);
    return listen_at((const struct sockaddr *)&local, sizeof local);
}

void server_become(int fd, const char *data, size_t job_bytes_max, bool is_draining)
{
    char pid[32], size[32];
    const char *program = getenv("TARRY_BIN");
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    snprintf(size, sizeof size, "%zu",
             job_bytes_max < JOB_BYTES_MAX ? job_bytes_max : JOB_BYTES_MAX);
    if (!program || (fd != FIRST_INHERITED && dup2(fd, FIRST_INHERITED) < 0))
        exit(1);
    fcntl(FIRST_INHERITED, F_SETFD, 0);
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", pid, 1);
    execl(program, program, "serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level",
          "error", "--beanstalk", "fd:3", "--beanstalk-max-job", size,
          is_draining ? "--drain" : NULL, NULL);
    perror(program);
    exit(1);
}
