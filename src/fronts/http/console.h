/*
 * console: the files of console/, put into the binary by cmake/console.cmake, as they are and packed
 * by gzip. They never change while the server runs, hold no secret and are anybody's to read: what
 * the page shows it asks of the API, by the token of who looks at it.
 */
#ifndef TARRY_HTTP_CONSOLE_H
#define TARRY_HTTP_CONSOLE_H

#include <stddef.h>

struct http_console_file {
    const char *name; /* "main.js" */
    const char *type; /* its content type */
    const char *tag;  /* of its bytes, in hexadecimal digits */
    const char *plain, *packed;
    size_t plain_bytes, packed_bytes;
};

#endif
