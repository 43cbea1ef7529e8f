/* private_file: files with jobs or passwords, readable only by their owner. */
#ifndef TARRY_CLI_PRIVATE_FILE_H
#define TARRY_CLI_PRIVATE_FILE_H

#include <stdio.h>

/*
 * Opens `path` as fopen would by `mode`, "w", "a" or "r+", with `flags` of open(2) added. Creates
 * the file with mode 0600 regardless of the umask. Returns NULL and sets errno on failure.
 */
FILE *private_file_open(const char *path, const char *mode, int flags);

#endif
