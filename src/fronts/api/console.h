/*
 * console: the files of console/, embedded by cmake/console.cmake, plain and compressed with gzip.
 * They never change while the server runs, contain no secret, and are readable by everyone: the
 * page gets its data from the API with the user's token.
 */
#ifndef TARRY_API_CONSOLE_H
#define TARRY_API_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>

struct http_call;

struct api_console_file {
    const char *name; /* "main.js" */
    const char *type; /* its content type */
    const char *tag;  /* ETag: hash of its bytes in hexadecimal digits */
    const char *plain, *packed;
    size_t plain_bytes, packed_bytes;
};

/* Redirects a browser, which asks for text/html, to a page of the console. `location` is relative,
 * so that it also works behind a proxy with a path prefix. Returns false if the client is not a
 * browser or the build has no console; the caller then answers. */
bool api_console_redirect(struct http_call *call, const char *location);

#endif
