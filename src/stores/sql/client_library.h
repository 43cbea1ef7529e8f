/*
 * client_library: loads a database's own client library when a store needs it, so that the program
 * does not depend on it. Any thread.
 */
#ifndef TARRY_SQL_CLIENT_LIBRARY_H
#define TARRY_SQL_CLIENT_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct sql_client_library {
    const char *file;     /* for example libpq.so.5 */
    const char *database; /* name of its database */
    const char *package;  /* name of its Debian package */
    /* Functions to load, and where to store their addresses. */
    const struct sql_client_function {
        const char *name;
        void *into;
    } * functions;
    size_t count;
    bool is_loaded;
};

/* Loads the library. Returns false with a message for the user if it is not installed or too old. A
 * loaded library is never unloaded. */
bool sql_client_library_load(struct sql_client_library *library, char *error, size_t error_bytes);

#endif
