/*
 * error: an error as text for people, written where the caller wants it.
 *
 * The text is cut where it is longer than the room for it, and always ended by NUL. `error` may be
 * NULL where nobody wants it. How such a text reads stands in CONTRIBUTING.md.
 *
 *     return error_text(error, sizeof error, "bad host '%.*s', write a name",
 *                       ERROR_SHOWN(host, 64));
 */
#ifndef TARRY_BASE_ERROR_H
#define TARRY_BASE_ERROR_H

#include "base/slice.h"

/* For "%.*s": a slice, cut to so many bytes. */
#define ERROR_SHOWN(SLICE, BYTES_MAX)                                                              \
    (int)((SLICE).len < (BYTES_MAX) ? (SLICE).len : (BYTES_MAX)), (SLICE).at ? (SLICE).at : ""

void error_write(char *error, size_t error_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline bool error_is_false(void)
{
    return false;
}

/* Is false: for functions whose answer is whether all went well. (A macro, so that the compiler sees
 * it and does not warn of what is set on success only.) */
#define error_text(...) (error_write(__VA_ARGS__), error_is_false())

/* Returns `result`: for functions whose answer is a negative errno. */
int error_result(int result, char *error, size_t error_bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
