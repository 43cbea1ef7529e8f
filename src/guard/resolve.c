#include "guard/resolve.h"

#include "base/log.h"
#include "guard/resolve_private.h"

#include <netdb.h>
#include <stdio.h>

/* ---- in words ---- */

/* Where only a pattern such as '*' covers a name, whoever may push could ask about the network
 * behind it: he is not told whether there is such a name there. The log tells. */
static const char unreachable[] = "has no address that may be reached";

static void explain(struct resolved *out, const char *host, const char *why)
{
    (void)snprintf(out->error, sizeof out->error, "'%.100s' %s", host, why);
}

/* `is_told`: the host is named by the policy file, or is an address. */
static void explain_verdict(struct resolved *out, const char *host, bool is_told)
{
    switch (out->verdict) {
    case GUARD_ALLOWED:
        break;
    case GUARD_OFF:
        explain(out, host, "may not be reached, start the server with --deliver FILE");
        break;
    case GUARD_HOST_NOT_NAMED:
        explain(out, host, "is not allowed, name it by allow-host in the policy file");
        break;
    case GUARD_NETWORK_FORBIDDEN:
        explain(out, host,
                !is_told ? unreachable
                         : "is in a network that is not public, name that by allow-network in the "
                           "policy file if it is meant");
        break;
    case GUARD_NOT_AN_ADDRESS:
        explain(out, host, "is neither a name nor an address, write one of them");
        break;
    }
}

static void explain_failure(struct resolved *out, const char *host, int code, bool is_told)
{
    out->is_temporary = code != EAI_NONAME && code != EAI_NODATA && code != EAI_ADDRFAMILY;
    explain(out, host,
            out->is_temporary ? "could not be looked up, the name server did not answer"
            : !is_told        ? unreachable
                              : "has no address, look for a slip in the name");
}

/* ---- what is found ---- */

static bool is_there(const struct resolved *out, const struct guard_address *address, uint16_t port)
{
    struct sockaddr_storage other;
    guard_address_emit(address, port, &other);
    for (size_t i = 0; i < out->count; i++)
        if (memcmp(&out->addresses[i], &other, sizeof other) == 0)
            return true;
    return false;
}

static void add(struct guard *guard, const struct guard_address *address, uint16_t port,
                struct resolved *out)
{
    struct sockaddr_storage socket;
    guard_address_emit(address, port, &socket);
    enum guard_verdict verdict = guard_check_address(guard, (struct sockaddr *)&socket);
    if (verdict != GUARD_ALLOWED) {
        if (out->verdict == GUARD_ALLOWED)
            out->verdict = verdict;
    } else if (out->count < RESOLVE_ADDRESSES_MAX && !is_there(out, address, port)) {
        out->addresses[out->count++] = socket;
    }
}

void resolve_judge(struct guard *guard, const char *host, uint16_t port,
                   const struct resolve_found *found, struct resolved *out)
{
    struct guard_address unused;
    bool is_told = guard_names_host(guard, slice_of(host)) ||
                   guard_address_parse(slice_of(host), &unused) != GUARD_SPELLS_NAME;
    memset(out, 0, sizeof *out);
    out->verdict = guard_check_host(guard, slice_of(host));
    if (out->verdict == GUARD_ALLOWED) {
        for (size_t i = 0; i < found->count; i++)
            add(guard, &found->addresses[i], port, out);
        if (out->count > 0)
            out->verdict = GUARD_ALLOWED;
        else if (out->verdict == GUARD_ALLOWED)
            explain_failure(out, host, found->code ? found->code : EAI_NODATA, is_told);
    }
    explain_verdict(out, host, is_told);
}

void resolve_log(struct guard *guard, const char *host, const struct resolve_found *found)
{
    struct resolved judged;
    resolve_judge(guard, host, 0, found, &judged);
    if (judged.count == 0 && judged.verdict == GUARD_NETWORK_FORBIDDEN)
        log_event(LOG_INFO, "host not reached", LOG_TEXT("host", host),
                  LOG_TEXT("error", "all its addresses are in networks that are not public, name "
                                    "them by allow-network in the policy file if they are meant"));
}

void resolve_keep(const struct addrinfo *answers, int code, struct resolve_found *out)
{
    memset(out, 0, sizeof *out);
    out->code = code;
    for (; answers && out->count < RESOLVE_FOUND_MAX; answers = answers->ai_next)
        if (guard_address_of(answers->ai_addr, &out->addresses[out->count]))
            out->count++;
}

bool resolve_at_once(struct guard *guard, const char *host, uint16_t port, struct resolved *out)
{
    struct resolve_found found = {0};
    if (guard_check_host(guard, slice_of(host)) == GUARD_ALLOWED) {
        if (guard_address_parse(slice_of(host), &found.addresses[0]) != GUARD_SPELLS_ADDRESS)
            return false;
        found.count = 1;
    }
    resolve_judge(guard, host, port, &found, out);
    return true;
}

void resolve_now(struct guard *guard, const char *host, uint16_t port, struct resolved *out)
{
    struct addrinfo *answers = NULL;
    struct resolve_found found;
    if (resolve_at_once(guard, host, port, out))
        return;
    int code = getaddrinfo(host, NULL, &resolve_hints, &answers);
    resolve_keep(code == 0 ? answers : NULL, code, &found);
    if (code == 0)
        freeaddrinfo(answers);
    resolve_judge(guard, host, port, &found, out);
    resolve_log(guard, host, &found);
}

const struct addrinfo resolve_hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
