/*
 * policy: the parsed file of --deliver. Its format is documented in guard.h.
 *
 * Owned by the calling code. Each secret has its own allocation, which is wiped before it is freed.
 * No error text contains any part of a line that may contain a secret.
 */
#ifndef TARRY_GUARD_POLICY_H
#define TARRY_GUARD_POLICY_H

#include "base/vector.h"
#include "guard/guard.h"
#include "guard/network.h"

enum {
    POLICY_FILE_BYTES_MAX = 1 << 20,
    POLICY_LINE_BYTES_MAX = 4096,
    POLICY_RULES_MAX = 10000, /* lines with a rule */
    POLICY_HOST_BYTES = 256
};

struct policy_host {
    struct policy_host *next;
    bool is_address;
    struct guard_address address;
    /* lower case, no final dot; "*", or ".example.com" for a suffix */
    char name[POLICY_HOST_BYTES];
};

struct policy_key {
    struct policy_key *next;
    char name[GUARD_NAME_BYTES_MAX + 1];
    struct guard_key key;
};

struct policy_credential {
    struct policy_credential *next;
    char origin[GUARD_ORIGIN_BYTES];
    struct guard_credential credential;
};

struct policy_command {
    struct policy_command *next;
    char name[GUARD_NAME_BYTES_MAX + 1];
    char path[GUARD_PATH_BYTES_MAX];
};

VECTOR_DECLARE(policy_networks, struct guard_network)

/* The rules; lists are in the order of the file. */
struct policy {
    size_t rule_count;
    struct policy_host *hosts;
    struct policy_networks networks;
    struct policy_key *keys;
    struct policy_credential *credentials;
    struct policy_command *commands;
    char ca_file[GUARD_PATH_BYTES_MAX]; /* may be empty */
};

/* Returns 0, or negative errno with `error`. */
int policy_read(const char *path, struct policy **out, char error[GUARD_ERROR_BYTES]);
void policy_free(struct policy *policy);

/* Reads one line, which is modified; `where` is FILE:LINE. Returns 0, or negative errno with
 * `error`. */
int policy_read_line(struct policy *policy, char *line, const char *where,
                     char error[GUARD_ERROR_BYTES]);

#endif
