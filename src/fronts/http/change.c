/* Administrative changes are told to the audit: who made it, from where, what became of it. */
#include "audit/audit.h"
#include "http/connection.h"

#include <stdio.h>
#include <stdlib.h>

enum { CALLER_BYTES = 128 };

struct http_change {
    const char *kind;
    bool counts_jobs;
    uint64_t jobs;
    char caller[CALLER_BYTES];
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    char peer[PEER_TEXT_BYTES]; /* the client, or the proxy in front of it */
};

static void copy_text(char *out, size_t out_bytes, struct slice text)
{
    for (size_t i = 0; i < text.len && i < out_bytes - 1; i++)
        out[i] = text.at[i] ? text.at[i] : '?';
}

/* Noted now, since the client may be gone by the time it is done. */
void http_change_begin(struct http_exchange *exchange, const struct access_caller *caller,
                       struct slice topic)
{
    struct http_change *change = calloc(1, sizeof *change);
    if (!change)
        return; /* the change itself is what matters */
    change->kind = access_kind_name(caller->kind);
    copy_text(change->caller, sizeof change->caller, caller->name);
    copy_text(change->topic, sizeof change->topic, topic);
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
        .caller = change->caller,
        .kind = change->kind,
        .peer = change->peer,
        .topic = change->topic[0] ? change->topic : NULL,
        .outcome = outcome ? outcome : AUDIT_OUTCOME_OK,
        .counts_jobs = change->counts_jobs,
        .jobs = change->jobs,
    });
    http_change_drop(exchange);
}
