/* What Redis means by an error: the first row that fits. */
#include "redis/session_private.h"

#include <stdlib.h>

static const struct meaning {
    const char *begins;   /* with this word */
    const char *contains; /* NULL: whatever else */
    enum session_verdict verdict;
} meanings[] = {
    {"NOSCRIPT", NULL, SESSION_VERDICT_GREET},
    {"ERR", "Function not found", SESSION_VERDICT_GREET},
    {"CLOCK", NULL, SESSION_VERDICT_CLOCK}, /* it went back (found by the script) */
    {"GONE", NULL, SESSION_VERDICT_GONE},   /* the core is not there (found by the script) */
    {"MOVED", NULL, SESSION_VERDICT_MOVED},
    {"ASK", NULL, SESSION_VERDICT_AGAIN},            /* the slot is moving */
    {"TRYAGAIN", NULL, SESSION_VERDICT_AGAIN},       /* the slot is moving */
    {"BUSY", NULL, SESSION_VERDICT_AGAIN},           /* somebody's script runs long */
    {"ERR", "non local key", SESSION_VERDICT_AGAIN}, /* the slot is moving (found by the script) */
    {"ERR", "while the cluster is down", SESSION_VERDICT_ELSEWHERE},
    {"ERR", "max number of clients", SESSION_VERDICT_ELSEWHERE},
    {"READONLY", NULL, SESSION_VERDICT_ELSEWHERE},
    {"LOADING", NULL, SESSION_VERDICT_ELSEWHERE},
    {"CLUSTERDOWN", NULL, SESSION_VERDICT_ELSEWHERE},
    {"MASTERDOWN", NULL, SESSION_VERDICT_ELSEWHERE},
    {"UNBLOCKED", NULL, SESSION_VERDICT_ELSEWHERE}, /* became a replica during a WAIT */
    {"NOAUTH", NULL, SESSION_VERDICT_ELSEWHERE},    /* say who we are again */
    {"OOM", NULL, SESSION_VERDICT_NO_SPACE},
    {"MISCONF", NULL, SESSION_VERDICT_NO_SPACE},
};

enum session_verdict session_judge(const char *error)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        const struct meaning *meaning = &meanings[i];
        size_t len = strlen(meaning->begins);
        if (strncmp(error, meaning->begins, len) == 0 && (error[len] == ' ' || error[len] == 0) &&
            (!meaning->contains || strstr(error, meaning->contains)))
            return meaning->verdict;
    }
    return SESSION_VERDICT_REFUSED;
}

bool session_read_moved(const char *error, const struct redis_endpoint *asked,
                        struct redis_endpoint *out)
{
    const char *slot = strchr(error, ' ');
    const char *host = slot ? strchr(slot + 1, ' ') : NULL;
    const char *colon = host ? strrchr(++host, ':') : NULL;
    unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;
    if (port == 0 || port > UINT16_MAX || (size_t)(colon - host) >= sizeof out->host)
        return false;
    size_t len = (size_t)(colon - host);
    if (len == 0 || (len == 1 && *host == '?')) {
        host = asked->host;
        len = strlen(host);
    }
    memcpy(out->host, host, len);
    out->host[len] = 0;
    out->port = (uint16_t)port;
    return true;
}
