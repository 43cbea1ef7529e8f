/* Audit of administrative changes: who made each, from which address, and its outcome. */
#include "audit/change.h"
#include "http/connection.h"

/* Copies what the record needs now, since the client may be gone when the change is done. */
void http_change_begin(struct http_exchange *exchange, const char *action,
                       const struct access_caller *caller, struct slice topic)
{
    char peer[PEER_TEXT_BYTES]; /* the client, or the proxy in front of it */
    peer_emit(&exchange->connection->peer, peer);
    exchange->change = audit_change_begin(
        action, &(struct audit_who){
                    .name = caller->name, .kind = access_kind_name(caller->kind), .peer = peer});
    audit_change_name(exchange->change, topic, (struct slice){0});
}

void http_change_count(struct http_exchange *exchange, uint64_t jobs)
{
    audit_change_count(exchange->change, jobs);
}

void http_change_drop(struct http_exchange *exchange)
{
    audit_change_cancel(exchange->change);
    http_change_end(exchange, NULL);
}

void http_change_end(struct http_exchange *exchange, const char *outcome)
{
    audit_change_end(exchange->change, outcome);
    exchange->change = NULL;
}
