/*
 * mariadb_server: a real MariaDB or MySQL of a test's own, on a Unix socket in a directory of its own.
 */
#ifndef TARRY_TESTS_SUPPORT_MARIADB_SERVER_H
#define TARRY_TESTS_SUPPORT_MARIADB_SERVER_H

#include <sys/types.h>

struct mariadb_server {
    char dir[64];
    char url[160]; /* for its superuser */
    pid_t process;
};

/* Starts it; aborts the test where that fails. `mysql`: the directory of a MySQL, as tests/e2e/support/mysql.py
 * prints it; NULL: Debian's MariaDB. */
struct mariadb_server *mariadb_server_new(const char *mysql);
/* Stops it and removes its directory. */
void mariadb_server_free(struct mariadb_server *server);

#endif
