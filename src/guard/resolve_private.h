/* What asking at once (resolve.c) and asking on a reactor (resolver.c) share. */
#ifndef TARRY_GUARD_RESOLVE_PRIVATE_H
#define TARRY_GUARD_RESOLVE_PRIVATE_H

#include "guard/address.h"
#include "guard/resolve.h"

#include <netdb.h>

/* More than are answered: the forbidden ones are sorted out later. */
enum { RESOLVE_FOUND_MAX = 32 };

/* What the name server said. Judged when it is used, not when it is kept: the policy may have
 * changed in between. */
struct resolve_found {
    int code; /* of getaddrinfo */
    size_t count;
    struct guard_address addresses[RESOLVE_FOUND_MAX];
};

extern const struct addrinfo resolve_hints;

void resolve_keep(const struct addrinfo *answers, int code, struct resolve_found *out);
void resolve_judge(struct guard *guard, const char *host, uint16_t port,
                   const struct resolve_found *found, struct resolved *out);
/* A line in the log where what was found may not be reached. */
void resolve_log(struct guard *guard, const char *host, const struct resolve_found *found);
/* An address, or a host that is refused: nobody need be asked. False: a name server has to be. */
bool resolve_at_once(struct guard *guard, const char *host, uint16_t port, struct resolved *out);

#endif
