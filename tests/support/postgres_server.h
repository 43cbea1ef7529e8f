/*
 * postgres_server: a real PostgreSQL of a test's own, on a Unix socket in a directory of its own.
 *
 * PostgreSQL refuses to run as root: then it runs as the user 'postgres', whom its package makes. The
 * programs are found on PATH, or where Debian puts them.
 */
#ifndef TARRY_TESTS_SUPPORT_POSTGRES_SERVER_H
#define TARRY_TESTS_SUPPORT_POSTGRES_SERVER_H

struct postgres_server {
    char dir[64];
    char url[128]; /* of its database, for its superuser */
};

/* Starts it; aborts the test where that fails. */
struct postgres_server *postgres_server_new(void);
/* Stops it and removes its directory. */
void postgres_server_free(struct postgres_server *server);

#endif
