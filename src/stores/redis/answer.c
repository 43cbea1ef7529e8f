#include "redis/answer.h"

#include <stdlib.h>

/* ---- the head ---- */

static int64_t read_48_bits(const unsigned char *at)
{
    int64_t number = 0;
    for (int i = 0; i < 6; i++)
        number = number << 8 | at[i];
    return number;
}

bool redis_head_read(const redisReply *reply, struct redis_head *out)
{
    enum { NUMBER_BYTES = 6 };
    const int64_t none = (INT64_C(1) << 48) - 1, sign = INT64_C(1) << 47;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        (size_t)reply->element[0]->len < REDIS_HEAD_BYTES)
        return false;
    const char *head = reply->element[0]->str;
    const unsigned char *at = (const void *)head;
    out->now_ms = read_48_bits(at);
    out->has_mail = out->now_ms & sign;
    out->now_ms &= ~sign;
    out->next_ms = read_48_bits(at + NUMBER_BYTES);
    out->adjust_ms = read_48_bits(at + (size_t)2 * NUMBER_BYTES);
    if (out->next_ms == none)
        out->next_ms = INT64_MAX;
    out->is_held = out->adjust_ms == sign;
    if (out->is_held)
        out->adjust_ms = 0;
    else if (out->adjust_ms & sign)
        out->adjust_ms -= 2 * sign;
    size_t name_len = at[REDIS_HEAD_BYTES - 1], len = (size_t)reply->element[0]->len;
    if (len < REDIS_HEAD_BYTES + name_len)
        return false;
    out->next_topic = slice_make(head + REDIS_HEAD_BYTES, name_len);
    out->rest = slice_make(out->next_topic.at + name_len, len - REDIS_HEAD_BYTES - name_len);
    return true;
}

/* ---- errors: the first matching row ---- */

static const struct meaning {
    const char *begins;   /* the first word */
    const char *contains; /* NULL: any text */
    enum redis_decision decision;
} meanings[] = {
    {"NOSCRIPT", NULL, REDIS_DECISION_GREET},
    {"ERR", "Function not found", REDIS_DECISION_GREET},
    {"CLOCK", NULL, REDIS_DECISION_CLOCK}, /* it went back (detected by the script) */
    {"GONE", NULL, REDIS_DECISION_GONE},   /* the core is missing (detected by the script) */
    {"MOVED", NULL, REDIS_DECISION_MOVED},
    {"ASK", NULL, REDIS_DECISION_AGAIN},      /* the slot is moving */
    {"TRYAGAIN", NULL, REDIS_DECISION_AGAIN}, /* the slot is moving */
    {"BUSY", NULL, REDIS_DECISION_AGAIN},     /* a script of another client is running long */
    {"ERR", "non local key",
     REDIS_DECISION_AGAIN}, /* the slot is moving (detected by the script) */
    {"ERR", "while the cluster is down", REDIS_DECISION_ELSEWHERE},
    {"ERR", "max number of clients", REDIS_DECISION_ELSEWHERE},
    {"READONLY", NULL, REDIS_DECISION_ELSEWHERE},
    {"LOADING", NULL, REDIS_DECISION_ELSEWHERE},
    {"CLUSTERDOWN", NULL, REDIS_DECISION_ELSEWHERE},
    {"MASTERDOWN", NULL, REDIS_DECISION_ELSEWHERE},
    {"UNBLOCKED", NULL, REDIS_DECISION_ELSEWHERE}, /* became a replica during a WAIT */
    {"NOAUTH", NULL, REDIS_DECISION_ELSEWHERE},    /* authenticate again */
    {"OOM", NULL, REDIS_DECISION_NO_SPACE},
    {"MISCONF", NULL, REDIS_DECISION_NO_SPACE},
};

enum redis_decision redis_error_classify(const char *error)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        const struct meaning *meaning = &meanings[i];
        size_t len = strlen(meaning->begins);
        if (strncmp(error, meaning->begins, len) == 0 && (error[len] == ' ' || error[len] == 0) &&
            (!meaning->contains || strstr(error, meaning->contains)))
            return meaning->decision;
    }
    return REDIS_DECISION_REFUSED;
}

bool redis_error_endpoint(const char *error, const struct redis_endpoint *asked,
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
