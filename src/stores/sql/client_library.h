/*
 * client_library: a database's own client library, loaded when a store asks for it, so the program needs none. Any thread.
 */
#ifndef TARRY_SQL_CLIENT_LIBRARY_H
#define TARRY_SQL_CLIENT_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct sql_client_library {
    const char *file;     /* libpq.so.5 */
    const char *database; /* whose library that is */
    const char *package;  /* of Debian */
    /* Its functions, and where their addresses go. */
    const struct sql_client_function {
        const char *name;
        void *into;
    } * functions;
    size_t count;
    bool is_loaded;
};

/* False, with a text for people: it is not installed, or too old. Once it is there it stays. */
bool sql_client_library_load(struct sql_client_library *library, char *error, size_t error_bytes);

#endif
