#include "support/postgres_server.h"

#include <assert.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Runs a command of a shell, in the server's directory and as its user. */
static int run(const struct postgres_server *server, const char *command)
{
    char text[1024];
    const char *as =
        geteuid() == 0 ? "setpriv --reuid=postgres --regid=postgres --clear-groups" : "";

    (void)snprintf(
        text, sizeof text,
        "cd %s && PATH=\"$PATH:$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)\" %s %s",
        server->dir, as, command);
    return system(text); /* NOLINT: the texts are this file's own */
}

static void give_to_its_user(const struct postgres_server *server)
{
    const struct passwd *user = geteuid() == 0 ? getpwnam("postgres") : NULL;

    if (user && chown(server->dir, user->pw_uid, user->pw_gid) != 0)
        abort();
}

struct postgres_server *postgres_server_new(void)
{
    struct postgres_server *server = calloc(1, sizeof *server);

    assert(server);
    (void)snprintf(server->dir, sizeof server->dir, "/tmp/tarry-postgres-XXXXXX");
    if (!mkdtemp(server->dir))
        abort();
    give_to_its_user(server);
    if (run(server, "initdb -D data -A trust -U tarry -E UTF8 --locale=C --no-sync >made 2>&1") !=
            0 ||
        run(server, "pg_ctl -D data -l log -w -o '-k \"$PWD\" -c listen_addresses= "
                    "-c fsync=off' start >/dev/null 2>&1") != 0) {
        fprintf(stderr, "postgres does not start: %s/log, or made there, says why\n", server->dir);
        abort();
    }
    (void)snprintf(server->url, sizeof server->url, "postgres:///postgres?host=%s&user=tarry",
                   server->dir);
    return server;
}

void postgres_server_free(struct postgres_server *server)
{
    char command[128];

    if (!server)
        return;
    (void)run(server, "pg_ctl -D data -m immediate stop >/dev/null 2>&1");
    (void)snprintf(command, sizeof command, "rm -rf %s", server->dir);
    if (system(command) != 0) /* NOLINT */
        fprintf(stderr, "%s is left over\n", server->dir);
    free(server);
}
