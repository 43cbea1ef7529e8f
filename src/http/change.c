/* What operators change is told in the log: what, which topic, how many jobs, and from where. */
#include "base/log.h"
#include "http/connection.h"
#include "queue/status.h"

#include <stdio.h>
#include <stdlib.h>

struct http_change {
    const char *event;
    bool counts_jobs;
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    char peer[PEER_TEXT_BYTES]; /* the client, or the proxy in front of it */
};

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
    peer_emit(&call->exchange->connection->peer, change->peer);
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
