/*
 * The server under test of beanstalkd's own testserv.c: what that file calls of beanstalkd's prot.c, net.c and
 * serv.c, done by starting another program. Linked with testserv.c, ct/ and util.c, time.c and linux.c of
 * beanstalkd's sources (tests/clients/beanstalk_suites.py).
 *
 * One data directory a test, so that a server that is started again finds its jobs. Of all cases the one that TRY_CASE
 * names is run: one waits for ever for a file of beanstalkd's.
 */
#include <stdint.h>

#include "internal.h"

#include "dat.h"

#include "server.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *ctdir(void);

struct Server srv = {.port = Portdef};
size_t job_data_size_limit = JOB_DATA_SIZE_LIMIT_DEFAULT;
int verbose;
const char version[] = "";
static bool is_draining;

/* Two cases have it fail inside the server, which another program cannot be made to do. */
int rawfalloc(int fd, int len)
{
    return posix_fallocate(fd, 0, len);
}

FAlloc *falloc = rawfalloc;

__attribute__((constructor)) static void pick_case(void)
{
    const char *name = getenv("TRY_CASE");
    for (Test *at = ctmaintest; name && at->f; at++)
        if (strcmp(at->name, name) == 0) {
            ctmaintest[0] = *at;
            ctmaintest[1].f = NULL;
            return;
        }
}

void enter_drain_mode(int sig)
{
    (void)sig;
    is_draining = true;
}

void prot_init(void)
{
}

void srv_acquire_wal(Server *server)
{
    (void)server;
}

int make_server_socket(char *host, char *port)
{
    return server_socket(host, port);
}

void srvserve(Server *server)
{
    char data[300];
    snprintf(data, sizeof data, "%s/data", ctdir());
    server_become(server->sock.fd, data, job_data_size_limit, is_draining);
}
