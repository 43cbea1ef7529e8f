/*
 * policy: the file behind --deliver, read. What it looks like stands in guard.h.
 *
 * Owner: the caller. Secrets stand each in an allocation of its own, which is wiped before it is
 * freed; no error text holds any part of a line that may hold one.
 */
#ifndef TARRY_GUARD_POLICY_H
#define TARRY_GUARD_POLICY_H

#include "base/vector.h"
#include "guard/guard.h"
#include "guard/network.h"

enum {
    POLICY_FILE_BYTES_MAX = 1 << 20,
    POLICY_LINE_BYTES_MAX = 4096,
    POLICY_RULES_MAX = 10000, /* lines that say something */
    POLICY_HOST_BYTES = 256
};

struct policy_host {
    struct policy_host *next;
    bool is_address;
    struct guard_address address;
    char name[POLICY_HOST_BYTES]; /* lower case, no final dot; "*", ".example.com" for a suffix */
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

/* Lists in the file's order. */
struct policy {
    size_t rule_count;
    struct policy_host *hosts;
    struct policy_networks networks;
    struct policy_key *keys;
    struct policy_credential *credentials;
    struct policy_command *commands;
    char ca_file[GUARD_PATH_BYTES_MAX]; /* empty: none */
};

/* 0 or negative errno with `error`. */
int policy_read(const char *path, struct policy **out, char error[GUARD_ERROR_BYTES]);
void policy_free(struct policy *policy);

/* One line, which is changed; `where` is FILE:LINE. 0 or negative errno with `error`. */
int policy_read_line(struct policy *policy, char *line, const char *where,
                     char error[GUARD_ERROR_BYTES]);

#endif
