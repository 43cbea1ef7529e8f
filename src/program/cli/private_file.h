/* private_file: files that hold jobs or passwords, which nobody but their owner may read. */
#ifndef TARRY_CLI_PRIVATE_FILE_H
#define TARRY_CLI_PRIVATE_FILE_H

#include <stdio.h>

/*
 * Opens `path` as fopen would by `mode`, "w", "a" or "r+"; `flags` of open(2) are added. A file that
 * is made has mode 0600 whatever the umask. NULL with errno.
 */
FILE *private_file_open(const char *path, const char *mode, int flags);

#endif
