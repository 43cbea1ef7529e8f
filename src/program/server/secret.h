/* secret: a password kept in a file, so that it need not stand on a command line. */
#ifndef TARRY_SERVER_SECRET_H
#define TARRY_SERVER_SECRET_H

#include <stdbool.h>
#include <stddef.h>

/* Whether others than its owner may read or write the file. */
bool secret_is_open_to_others(int fd);
/* The file's first line into `out`. 0 or negative errno with `error`; -EINVAL: empty or too long;
 * -EPERM: it is open to others. */
int secret_read(const char *path, char *out, size_t out_bytes, char *error, size_t error_bytes);

/*
 * `url` with the password put in, percent-encoded, behind the user it names: "redis://tarry:@host"
 * becomes "redis://tarry:secret@host". 0, or -EINVAL with `error`: it has one already, or grows too
 * long.
 */
int secret_into_url(const char *url, const char *secret, char *out, size_t out_bytes, char *error,
                    size_t error_bytes);

#endif
