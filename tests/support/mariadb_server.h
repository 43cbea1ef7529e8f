/*
 * mariadb_server: a real MariaDB of a test's own, on a Unix socket in a directory of its own.
 */
#ifndef TARRY_TESTS_SUPPORT_MARIADB_SERVER_H
#define TARRY_TESTS_SUPPORT_MARIADB_SERVER_H

#include <sys/types.h>

struct mariadb_server {
    char dir[64];
    char url[160]; /* for its superuser */
    pid_t process;
};

/* Starts it; aborts the test where that fails. */
struct mariadb_server *mariadb_server_new(void);
/* Stops it and removes its directory. */
void mariadb_server_free(struct mariadb_server *server);

#endif
