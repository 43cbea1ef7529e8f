/* Administrative changes are told to the audit: who made it, from where, what became of it. */
#include "audit/audit.h"
#include "http/connection.h"

#include <stdio.h>
#include <stdlib.h>

struct http_change {
    bool counts_jobs;
    uint64_t jobs;
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    char peer[PEER_TEXT_BYTES]; /* the client, or the proxy in front of it */
};

/* Noted now, since the client may be gone by the time it is done. */
void http_change_begin(struct http_exchange *exchange, struct slice topic)
{
    struct http_change *change = calloc(1, sizeof *change);
    if (!change)
        return; /* the change itself is what matters */
    for (size_t i = 0; i < topic.len && i < sizeof change->topic - 1; i++)
        change->topic[i] = topic.at[i] ? topic.at[i] : '?';
    peer_emit(&exchange->connection->peer, change->peer);
    exchange->change = change;
}

void http_change_count(struct http_exchange *exchange, uint64_t jobs)
{
    if (!exchange->change)
        return;
    exchange->change->counts_jobs = true;
    exchange->change->jobs = jobs;
}

void http_change_drop(struct http_exchange *exchange)
{
    free(exchange->change);
    exchange->change = NULL;
}

void http_change_end(struct http_exchange *exchange, const char *outcome)
{
    const struct http_change *change = exchange->change;
    audit_event(&(struct audit_event){
        .action = exchange->route->audit,
        .peer = change->peer,
        .topic = change->topic[0] ? change->topic : NULL,
        .outcome = outcome ? outcome : AUDIT_OUTCOME_OK,
        .counts_jobs = change->counts_jobs,
        .jobs = change->jobs,
    });
    http_change_drop(exchange);
}
