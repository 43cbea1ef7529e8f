/*
 * console: the files of console/, embedded by cmake/console.cmake, plain and compressed with gzip.
 * They never change while the server runs, contain no secret, and are readable by everyone: the
 * page gets its data from the API with the user's token.
 */
#ifndef TARRY_API_CONSOLE_H
#define TARRY_API_CONSOLE_H

#include <stddef.h>

struct api_console_file {
    const char *name; /* "main.js" */
    const char *type; /* its content type */
    const char *tag;  /* ETag: hash of its bytes in hexadecimal digits */
    const char *plain, *packed;
    size_t plain_bytes, packed_bytes;
};

#endif
