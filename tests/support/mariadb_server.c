#include "support/mariadb_server.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { START_S = 300 }; /* beside other work */

static int run(const char *command)
{
    return system(command); /* NOLINT: the texts are this file's own */
}

static pid_t start(const struct mariadb_server *server, const char *mysql)
{
    pid_t process = fork();

    if (process == 0) {
        /* It has another name, because the scripts of the system's own service stop each process
         * named mariadbd. When it starts, it deletes the temporary tables in its TMPDIR, also those
         * of other servers. */
        char command[2048], program[1024] = "./test-mariadbd --no-defaults";
        if (mysql)
            (void)snprintf(program, sizeof program, "%s/mysqld --mysqlx=OFF --port=0", mysql);
        (void)snprintf(command, sizeof command,
                       "cd %s && PATH=\"$PATH:/usr/sbin\" && export TMPDIR=\"$PWD\" && %s"
                       "exec %s --user=$(id -un) "
                       "--datadir=%s/data --socket=%s/sock --pid-file=%s/pid --skip-networking "
                       "--innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M "
                       "--innodb-doublewrite=0 --skip-log-bin >log 2>&1",
                       server->dir, mysql ? "" : "ln -s $(command -v mariadbd) test-mariadbd && ",
                       program, server->dir, server->dir, server->dir);
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(127);
    }
    return process;
}

static void await(const struct mariadb_server *server)
{
    char sock[128];
    struct stat found;
    time_t until = time(NULL) + START_S;

    (void)snprintf(sock, sizeof sock, "%s/sock", server->dir);
    while (stat(sock, &found) != 0) {
        if (time(NULL) > until || waitpid(server->process, NULL, WNOHANG) != 0) {
            fprintf(stderr, "mariadb does not start: %s/log says why\n", server->dir);
            abort();
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    }
}

struct mariadb_server *mariadb_server_new(const char *mysql)
{
    struct mariadb_server *server = calloc(1, sizeof *server);
    char command[2048];

    assert(server);
    (void)snprintf(server->dir, sizeof server->dir, "/tmp/tarry-mariadb-XXXXXX");
    if (!mkdtemp(server->dir))
        abort();
    if (mysql)
        (void)snprintf(command, sizeof command, "cp -r %s/data %s/data >%s/made 2>&1", mysql,
                       server->dir, server->dir);
    else
        (void)snprintf(command, sizeof command,
                       "TMPDIR=%s mariadb-install-db --no-defaults --user=$(id -un) "
                       "--datadir=%s/data --auth-root-authentication-method=normal "
                       "--skip-test-db >%s/made 2>&1",
                       server->dir, server->dir, server->dir);
    if (run(command) != 0) {
        fprintf(stderr, "mariadb cannot be set up: %s/made says why\n", server->dir);
        abort();
    }
    server->process = start(server, mysql);
    await(server);
    (void)snprintf(server->url, sizeof server->url, "mysql://root@localhost/?socket=%s/sock",
                   server->dir);
    return server;
}

void mariadb_server_free(struct mariadb_server *server)
{
    char command[128];

    if (!server)
        return;
    (void)kill(server->process, SIGKILL);
    (void)waitpid(server->process, NULL, 0);
    (void)snprintf(command, sizeof command, "rm -rf %s", server->dir);
    if (run(command) != 0)
        fprintf(stderr, "%s is left over\n", server->dir);
    free(server);
}
