/* fsck_redis: 'tarry fsck' for a queue in Redis. */
#ifndef TARRY_CLI_FSCK_REDIS_H
#define TARRY_CLI_FSCK_REDIS_H

#include <stdbool.h>

/* Checks the queue and prints the findings. Returns the exit code. `password_file` may be NULL. */
int fsck_redis(const char *store, const char *password_file, bool repair, bool json);

#endif
