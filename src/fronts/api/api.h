/*
 * api: the calls of tarry's own API and the files of the web console, as a part of the HTTP server.
 *
 * Each file has one noun and ends with the table of its calls.
 */
#ifndef TARRY_API_API_H
#define TARRY_API_API_H

#include <stdbool.h>

struct http_shared;

/* Adds the API. Call it before the first front is created. Returns false if out of memory. */
bool api_open(struct http_shared *shared);

#endif
