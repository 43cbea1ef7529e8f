/*
 * slow_names: silent name servers, for a program that is not aware of it. Preloaded
 * (LD_PRELOAD). Names that begin with "slow" are looked up for TARRY_TEST_SLOW_NAMES seconds and then
 * not found; those that begin with "fast" are this machine's.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int lookup(const char *name, const char *service, const struct addrinfo *hints,
                   struct addrinfo **found);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    const char *seconds = getenv("TARRY_TEST_SLOW_NAMES");
    lookup *real;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (name && strncmp(name, "slow", 4) == 0) {
        (void)sleep(seconds ? (unsigned)atoi(seconds) : 0);
        return EAI_AGAIN;
    }
    return real(name && strncmp(name, "fast", 4) == 0 ? "127.0.0.1" : name, service, hints, found);
}
