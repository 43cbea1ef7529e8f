/*
 * error: writes an error as text for people into the caller's memory.
 *
 * The text is truncated to the available space and always ends with NUL. `error` may be NULL if the
 * caller does not need the text. CONTRIBUTING.md documents the style of these texts.
 *
 *     return error_text(error, sizeof error, "bad host '%.*s', write a name",
 *                       ERROR_SHOWN(host, 64));
 */
#ifndef TARRY_BASE_ERROR_H
#define TARRY_BASE_ERROR_H

#include "base/slice.h"

/* Arguments for "%.*s": a slice, truncated to BYTES_MAX bytes. */
#define ERROR_SHOWN(SLICE, BYTES_MAX)                                                              \
    (int)((SLICE).len < (BYTES_MAX) ? (SLICE).len : (BYTES_MAX)), (SLICE).at ? (SLICE).at : ""

void error_write(char *error, size_t error_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline bool error_is_false(void)
{
    return false;
}

/* Writes the text and returns false: for functions that return whether they succeeded. (A macro, so
 * that the compiler sees the constant and does not warn about variables that are set on success
 * only.) */
#define error_text(...) (error_write(__VA_ARGS__), error_is_false())

/* Writes the text and returns `result`: for functions that return a negative errno. */
int error_result(int result, char *error, size_t error_bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
