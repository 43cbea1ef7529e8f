/* What operators change is told in the log: what, which topic, how many jobs, and from where. */
#include "base/log.h"
#include "http/connection.h"
#include "queue/status.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

enum { PEER_BYTES = INET6_ADDRSTRLEN + 16 };

struct http_change {
    const char *event;
    bool counts_jobs;
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    char peer[PEER_BYTES]; /* the client, or the proxy in front of it */
};

static void peer_emit(const struct http_connection *connection, char out[PEER_BYTES])
{
    struct sockaddr_storage address = {0};
    char host[INET6_ADDRSTRLEN] = "";
    int bytes = sizeof address;
    out[0] = '\0';
    if (uv_tcp_getpeername(&connection->tcp, (struct sockaddr *)&address, &bytes) != 0)
        return;
    bool is_v6 = address.ss_family == AF_INET6;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;
    (void)inet_ntop(address.ss_family,
                    is_v6 ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr, host,
                    sizeof host);
    (void)snprintf(out, PEER_BYTES, is_v6 ? "[%s]:%u" : "%s:%u", host,
                   ntohs(is_v6 ? v6->sin6_port : v4->sin_port));
}

/* Now, since the client may be gone by the time it is done. */
void http_change_begin(struct http_call *call, const char *event, bool counts_jobs)
{
    struct http_change *change = malloc(sizeof *change);
    if (!change)
        return; /* the change itself is what matters */
    change->event = event;
    change->counts_jobs = counts_jobs;
    (void)snprintf(change->topic, sizeof change->topic, "%.*s", (int)call->topic.len,
                   call->topic.at);
    peer_emit(call->exchange->connection, change->peer);
    free(call->exchange->change);
    call->exchange->change = change;
}

void http_change_end(struct http_exchange *exchange, enum queue_status status, uint64_t jobs)
{
    const struct http_change *change = exchange->change;
    bool is_done = queue_status_is_success(status);
    if (!change || (!is_done && !jobs && status != QUEUE_UNAVAILABLE))
        return;
    struct log_field fields[6] = {LOG_TEXT("topic", change->topic)};
    size_t count = 1;
    if (change->counts_jobs)
        fields[count++] = LOG_NUMBER("jobs", jobs);
    fields[count++] = LOG_TEXT("peer", change->peer);
    if (!is_done) /* in part, or nobody knows */
        fields[count++] = LOG_TEXT("error", queue_status_code(status));
    log_fields(is_done ? LOG_INFO : LOG_WARN, change->event, fields);
}
