/* secret: a password in a file, so that it does not appear on a command line. */
#ifndef TARRY_SERVER_SECRET_H
#define TARRY_SERVER_SECRET_H

#include <stdbool.h>
#include <stddef.h>

/* Returns true if other users than the owner may read or write the file. */
bool secret_is_open_to_others(int fd);
/* Reads the first line of the file into `out`. Returns 0, or negative errno with `error`: -EINVAL
 * if it is empty or too long, -EPERM if other users have access. */
int secret_read(const char *path, char *out, size_t out_bytes, char *error, size_t error_bytes);

/*
 * Inserts the password, percent-encoded, after the user name of `url`: "redis://tarry:@host"
 * becomes "redis://tarry:secret@host". Returns 0, or -EINVAL with `error` if the URL already has a
 * password or becomes too long.
 */
int secret_into_url(const char *url, const char *secret, char *out, size_t out_bytes, char *error,
                    size_t error_bytes);

#endif
