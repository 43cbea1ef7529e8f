#include "guard/guard.h"

#include "guard/policy.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct guard {
    char *path; /* NULL if off */
    pthread_rwlock_t lock;
    struct policy *policy; /* NULL if off */
    _Atomic uint64_t generation;
};

const char *guard_decision_name(enum guard_decision decision)
{
    static const char *const names[] = {
        [GUARD_ALLOWED] = "allowed",
        [GUARD_OFF] = "off",
        [GUARD_HOST_NOT_NAMED] = "host_not_allowed",
        [GUARD_NETWORK_FORBIDDEN] = "network_forbidden",
        [GUARD_NOT_AN_ADDRESS] = "not_an_address",
    };
    assert((size_t)decision < sizeof names / sizeof names[0]);
    return names[decision];
}

/* ---- life ---- */

int guard_open(const char *path, struct guard **out, char error[GUARD_ERROR_BYTES])
{
    struct guard *guard = calloc(1, sizeof *guard);
    bool is_on = path && path[0];
    if (guard && is_on)
        guard->path = strdup(path);
    if (!guard || (is_on && !guard->path)) {
        free(guard);
        (void)snprintf(error, GUARD_ERROR_BYTES, "out of memory");
        return -ENOMEM;
    }
    int code = is_on ? policy_read(path, &guard->policy, error) : 0;
    if (code != 0) {
        free(guard->path);
        free(guard);
        return code;
    }
    pthread_rwlock_init(&guard->lock, NULL);
    *out = guard;
    return 0;
}

void guard_free(struct guard *guard)
{
    if (!guard)
        return;
    policy_free(guard->policy);
    pthread_rwlock_destroy(&guard->lock);
    free(guard->path);
    free(guard);
}

int guard_reload(struct guard *guard, char error[GUARD_ERROR_BYTES])
{
    struct policy *read = NULL;
    if (!guard->path)
        return 0;
    int code = policy_read(guard->path, &read, error);
    if (code != 0)
        return code;
    pthread_rwlock_wrlock(&guard->lock);
    struct policy *old = guard->policy;
    guard->policy = read;
    guard->generation++;
    pthread_rwlock_unlock(&guard->lock);
    policy_free(old);
    return 0;
}

bool guard_is_on(const struct guard *guard)
{
    return guard->path;
}

uint64_t guard_generation(const struct guard *guard)
{
    return guard->generation;
}

/* Locks the policy. The returned rules may only be used under the lock. */
static const struct policy *enter(struct guard *guard)
{
    pthread_rwlock_rdlock(&guard->lock);
    return guard->policy;
}

static void leave(struct guard *guard)
{
    pthread_rwlock_unlock(&guard->lock);
}

/* ---- hosts and addresses ---- */

static bool matches_name(const struct policy_host *rule, const char *name, size_t len)
{
    size_t rule_len = strlen(rule->name);
    if (rule->is_address)
        return false;
    if (rule->name[0] != '.') /* "*.example.com" is stored as ".example.com" */
        return rule_len == len && memcmp(rule->name, name, len) == 0;
    return len > rule_len && memcmp(rule->name, name + len - rule_len, rule_len) == 0;
}

static bool is_any(const struct policy_host *rule)
{
    return strcmp(rule->name, "*") == 0;
}

static bool is_pattern(const struct policy_host *rule)
{
    return is_any(rule) || rule->name[0] == '.';
}

static bool names_host(const struct policy *policy, struct slice host, bool exactly)
{
    char name[POLICY_HOST_BYTES];
    size_t len = host.at[host.len - 1] == '.' ? host.len - 1 : host.len;
    assert(len < sizeof name);
    for (size_t i = 0; i < len; i++)
        name[i] = (char)tolower((unsigned char)host.at[i]);
    for (const struct policy_host *rule = policy->hosts; rule; rule = rule->next)
        if (!(exactly && is_pattern(rule)) && (is_any(rule) || matches_name(rule, name, len)))
            return true;
    return false;
}

static bool names_address(const struct policy *policy, const struct guard_address *address)
{
    for (const struct policy_host *rule = policy->hosts; rule; rule = rule->next)
        if (is_any(rule) ||
            (rule->is_address && memcmp(&rule->address, address, sizeof *address) == 0))
            return true;
    return false;
}

static enum guard_decision evaluate_address(const struct policy *policy,
                                            const struct guard_address *address)
{
    return guard_network_allows(policy->networks.at, policy->networks.count, address)
               ? GUARD_ALLOWED
               : GUARD_NETWORK_FORBIDDEN;
}

/* Checks a host. A name is allowed by an allow-host; an address must be named, and its network must
 * also be allowed. */
static enum guard_decision evaluate_host(const struct policy *policy, struct slice host)
{
    struct guard_address address;
    switch (guard_address_parse(host, &address)) {
    case GUARD_SPELLS_NAME:
        return names_host(policy, host, false) ? GUARD_ALLOWED : GUARD_HOST_NOT_NAMED;
    case GUARD_SPELLS_ADDRESS:
        return names_address(policy, &address) ? evaluate_address(policy, &address)
                                               : GUARD_HOST_NOT_NAMED;
    case GUARD_SPELLS_NOTHING:
        break;
    }
    return GUARD_NOT_AN_ADDRESS;
}

enum guard_decision guard_check_host(struct guard *guard, struct slice host)
{
    const struct policy *policy = enter(guard);
    enum guard_decision decision = policy ? evaluate_host(policy, host) : GUARD_OFF;
    leave(guard);
    return decision;
}

bool guard_names_host(struct guard *guard, struct slice host)
{
    struct guard_address unused;
    const struct policy *policy = enter(guard);
    bool is_named = policy && guard_address_parse(host, &unused) == GUARD_SPELLS_NAME &&
                    names_host(policy, host, true);
    leave(guard);
    return is_named;
}

enum guard_decision guard_check_address(struct guard *guard, const struct sockaddr *socket)
{
    struct guard_address address;
    enum guard_decision decision = GUARD_OFF;
    const struct policy *policy = enter(guard);
    if (policy)
        decision = guard_address_of(socket, &address) ? evaluate_address(policy, &address)
                                                      : GUARD_NOT_AN_ADDRESS;
    leave(guard);
    return decision;
}

enum guard_decision guard_check_peer(struct guard *guard, struct slice host, int fd)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    enum guard_decision decision = guard_check_host(guard, host);
    if (decision != GUARD_ALLOWED)
        return decision;
    if (getpeername(fd, (struct sockaddr *)&peer, &bytes) != 0)
        return GUARD_NOT_AN_ADDRESS;
    return guard_check_address(guard, (struct sockaddr *)&peer);
}

/* ---- secrets and files ---- */

size_t guard_find_keys(struct guard *guard, struct slice name, struct guard_key out[GUARD_KEYS_MAX])
{
    size_t count = 0;
    const struct policy *policy = enter(guard);
    for (const struct policy_key *key = policy ? policy->keys : NULL; key; key = key->next)
        if (slice_is(name, key->name))
            out[count++] = key->key;
    leave(guard);
    assert(count <= GUARD_KEYS_MAX);
    return count;
}

bool guard_find_credential(struct guard *guard, const char *origin, struct guard_credential *out)
{
    char wanted[GUARD_ORIGIN_BYTES];
    struct url url;
    bool is_found = false;
    if (url_parse(slice_of(origin), &url) != URL_OK || url.has_user ||
        !guard_origin(&url, 0, wanted))
        return false;
    const struct policy *policy = enter(guard);
    for (const struct policy_credential *item = policy ? policy->credentials : NULL;
         item && !is_found; item = item->next) {
        is_found = strcmp(item->origin, wanted) == 0;
        if (is_found)
            *out = item->credential;
    }
    leave(guard);
    return is_found;
}

bool guard_find_command(struct guard *guard, struct slice name, char out[GUARD_PATH_BYTES_MAX])
{
    bool is_found = false;
    const struct policy *policy = enter(guard);
    for (const struct policy_command *item = policy ? policy->commands : NULL; item && !is_found;
         item = item->next) {
        is_found = slice_is(name, item->name);
        if (is_found)
            memcpy(out, item->path, sizeof item->path);
    }
    leave(guard);
    return is_found;
}

bool guard_ca_file(struct guard *guard, char out[GUARD_PATH_BYTES_MAX])
{
    const struct policy *policy = enter(guard);
    bool is_found = policy && policy->ca_file[0];
    if (is_found)
        memcpy(out, policy->ca_file, sizeof policy->ca_file);
    leave(guard);
    return is_found;
}
