/* guard: any host is judged as the system would read it or not at all; any line of a policy is
 * taken or refused with its place. */
#include "guard/policy.h"

#include "claim.h"

#include <netdb.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_host(const char *text, size_t len)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
    struct guard_address ours, theirs;
    enum guard_spelling spelling = guard_address_parse(slice_make(text, len), &ours);
    CLAIM("it is one of three",
          spelling >= GUARD_SPELLS_ADDRESS && spelling <= GUARD_SPELLS_NOTHING);
    CLAIM("a name is short", spelling != GUARD_SPELLS_NAME || (len > 0 && len <= 254));
    if (spelling == GUARD_SPELLS_ADDRESS) {
        struct sockaddr_storage socket;
        guard_address_emit(&ours, 443, &socket);
        CLAIM("an address is the same as a socket's",
              guard_address_of((struct sockaddr *)&socket, &theirs) &&
                  memcmp(&ours, &theirs, sizeof ours) == 0);
        (void)guard_network_allows(NULL, 0, &ours);
    }
    if (memchr(text, 0, len) || getaddrinfo(text, NULL, &hints, &found) != 0)
        return;
    CLAIM("an address of the system is no name here", spelling != GUARD_SPELLS_NAME);
    CLAIM("and no other one",
          spelling != GUARD_SPELLS_ADDRESS || (guard_address_of(found->ai_addr, &theirs) &&
                                               memcmp(&ours, &theirs, sizeof ours) == 0));
    freeaddrinfo(found);
}

static void check_network(struct slice text)
{
    struct guard_network network;
    char error[GUARD_NETWORK_ERROR_BYTES] = "";
    if (!guard_network_parse(text, &network, error)) {
        CLAIM("a refused network says why",
              error[0] && memchr(error, 0, sizeof error) && !memchr(error, '\n', strlen(error)));
        return;
    }
    CLAIM("a network covers its own beginning", guard_network_covers(&network, &network.address));
    CLAIM("a whole address opens itself, unless it holds another",
          network.bits < GUARD_ADDRESS_BITS || !guard_address_is_v4(&network.address) ||
              guard_network_allows(&network, 1, &network.address));
}

static void check_rules(const struct policy *policy)
{
    for (const struct policy_host *host = policy->hosts; host; host = host->next)
        CLAIM("a host has a name", memchr(host->name, 0, sizeof host->name) && host->name[0]);
    for (const struct policy_key *key = policy->keys; key; key = key->next)
        CLAIM("a key is long enough",
              key->name[0] && key->key.bytes >= 24 && key->key.bytes <= GUARD_KEY_BYTES_MAX);
    for (const struct policy_credential *item = policy->credentials; item; item = item->next) {
        char again[GUARD_ORIGIN_BYTES];
        struct url url;
        CLAIM("an origin is as it would be looked for",
              url_parse(slice_of(item->origin), &url) == URL_OK && guard_origin(&url, 0, again) &&
                  strcmp(item->origin, again) == 0);
        CLAIM("texts end", memchr(item->credential.user, 0, GUARD_SECRET_BYTES_MAX) &&
                               memchr(item->credential.password, 0, GUARD_SECRET_BYTES_MAX));
    }
}

/* Checks a policy like a file: line by line, up to the first that is refused. */
static void check_policy(char *text, size_t len)
{
    struct policy *policy = calloc(1, sizeof *policy);
    char error[GUARD_ERROR_BYTES] = "", *end = text + len;
    int code = 0;
    if (!policy)
        abort();
    while (code == 0 && text < end && !memchr(text, 0, (size_t)(end - text))) {
        char *line_end = memchr(text, '\n', (size_t)(end - text));
        line_end = line_end ? line_end : end;
        *line_end = 0;
        code = policy_read_line(policy, text, "policy:1", error);
        text = line_end + 1;
    }
    CLAIM("a refused line says where and why",
          code == 0 || (memchr(error, 0, sizeof error) && strncmp(error, "policy:1: ", 10) == 0));
    for (const char *at = error; *at; at++)
        CLAIM("no control byte gets into an error", (unsigned char)*at >= ' ');
    if (code == 0)
        check_rules(policy);
    policy_free(policy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char *text = malloc(len + 1);
    if (!text)
        abort();
    if (len)
        memcpy(text, bytes, len);
    text[len] = 0;
    check_host(text, len);
    check_network(slice_make(text, len));
    check_policy(text, len);
    free(text);
    return 0;
}
