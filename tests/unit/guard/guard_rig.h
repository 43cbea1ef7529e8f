/* guard_rig: a guard with a policy of the test's own. */
#ifndef TARRY_TESTS_GUARD_RIG_H
#define TARRY_TESTS_GUARD_RIG_H

#include "guard/guard.h"

#include "unit/cases.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POLICY_PATH_BYTES = 64 };

static inline void guard_rig_rewrite(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static inline void guard_rig_write(char path[POLICY_PATH_BYTES], const char *text, mode_t mode)
{
    strcpy(path, "/tmp/tarry-policy-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    guard_rig_rewrite(path, text, mode);
}

/* The policy's file is gone afterwards. */
static inline struct guard *guard_rig_open(const char *text)
{
    char path[POLICY_PATH_BYTES], error[GUARD_ERROR_BYTES] = "";
    struct guard *guard = NULL;
    guard_rig_write(path, text, 0600);
    if (guard_open(path, &guard, error) != 0)
        fail_msg("'%s' is refused: %s", text, error);
    unlink(path);
    return guard;
}

static inline enum guard_decision guard_rig_evaluate(struct guard *guard, const char *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
        return guard_check_address(guard, (struct sockaddr *)&v4);
    if (inet_pton(AF_INET6, address, &v6.sin6_addr) == 1)
        return guard_check_address(guard, (struct sockaddr *)&v6);
    fail_msg("'%s' is a slip in the table", address);
    return GUARD_NOT_AN_ADDRESS;
}

#endif
