#include "http/quota.h"

#include "http/connection.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- refusals ---- */

/* Refuses with the name of the limit, and with when to try again if that is known. */
static bool refuse(struct quota *quota, enum quota_limit limit, uint64_t most, int64_t wait_ns,
                   struct http_fault *fault)
{
    static const struct {
        enum http_problem problem;
        const char *format; /* format with the number */
    } refusals[QUOTA_LIMITS] = {
        [QUOTA_REQUESTS] = {PROBLEM_TOO_MANY_REQUESTS,
                            "this caller exceeds its rate of requests, %" PRIu64},
        [QUOTA_CONNECTIONS] = {PROBLEM_TOO_MANY_REQUESTS,
                               "this caller has reached its limit of connections, %" PRIu64
                               ": close some"},
        [QUOTA_WAITING] = {PROBLEM_TOO_MANY_REQUESTS,
                           "this caller has reached its limit of waiting takes, %" PRIu64
                           ": take without wait"},
        [QUOTA_ADDRESS_RATE] =
            {PROBLEM_TOO_MANY_REQUESTS,
             "this address exceeds the rate of requests without a token, %" PRIu64
             " (--address-rate)"},
        [QUOTA_ADDRESS_CONNECTIONS] =
            {PROBLEM_TOO_MANY_REQUESTS,
             "this address has reached the limit of connections without a token, %" PRIu64
             " (--address-connections): close some"},
        [QUOTA_ADDRESS_WAITING] =
            {PROBLEM_TOO_MANY_REQUESTS,
             "this address has reached the limit of waiting takes without a token, %" PRIu64
             " (--address-waiting): take without wait"},
    };
    quota_refused(quota, limit);
    *fault = (struct http_fault){.problem = refusals[limit].problem};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(fault->detail, sizeof fault->detail, refusals[limit].format, most);
#pragma GCC diagnostic pop
    fault->limit_name = quota_limit_name(limit);
    fault->retry_s = (uint32_t)((wait_ns + 999999999) / 1000000000);
    if (fault->retry_s == 0)
        fault->retry_s = 1;
    return false;
}

static int64_t now_ns(struct http_front *front)
{
    return http_front_now_us(front) * 1000;
}

/* ---- limits that are the same for all callers ---- */

static void note(struct http_front *front, enum quota_limit limit)
{
    if (limit && front->shared->quota)
        quota_refused(front->shared->quota, limit);
}

void http_quota_note_problem(struct http_front *front, enum http_problem problem)
{
    static const enum quota_limit limits[PROBLEM_COUNT] = {
        [PROBLEM_BODY_TOO_BIG] = QUOTA_BODY,
        [PROBLEM_TOO_MANY_ITEMS] = QUOTA_ITEMS,
        [PROBLEM_TARGET_TOO_LONG] = QUOTA_REQUEST_LINE,
        [PROBLEM_HEADER_TOO_BIG] = QUOTA_HEADER,
        [PROBLEM_TOO_MANY_CONNECTIONS] = QUOTA_ALL_CONNECTIONS,
        [PROBLEM_TOO_MANY_WAITING] = QUOTA_ALL_WAITING,
        [PROBLEM_TOO_MANY_SWEEPS] = QUOTA_SWEEPS,
        [PROBLEM_TOO_MANY_STREAMS] = QUOTA_STREAMS,
        [PROBLEM_TOO_MANY_BACKUPS] = QUOTA_BACKUPS,
        [PROBLEM_TOO_MUCH_MEMORY] = QUOTA_REQUEST_MEMORY,
    };
    note(front, limits[problem]);
}

void http_quota_note_refusal(struct http_front *front, enum queue_status status)
{
    note(front, status == QUEUE_TOPIC_FULL        ? QUOTA_TOPIC_JOBS
                : status == QUEUE_TOO_MANY_TOPICS ? QUOTA_TOPICS
                : status == QUEUE_BODY_TOO_BIG    ? QUOTA_BODY
                                                  : QUOTA_NONE);
}

/* ---- connections ---- */

bool http_quota_accept(struct http_connection *connection, struct http_fault *fault)
{
    struct quota *quota = connection->front->shared->quota;
    struct http_quota *own = &connection->quota;
    if (!quota)
        return true;
    const struct quota_options *options = quota_options(quota);
    struct in6_addr address = connection->peer.address;
    if (connection->peer.kind == PEER_UNIX) /* each user has its own account */
        memcpy(&address, &connection->peer.uid, sizeof connection->peer.uid);
    own->address = quota_account_of_address(quota, address.s6_addr);
    own->is_local = peer_is_loopback(&connection->peer);
    uint64_t most =
        own->is_local && options->are_local_connections_free ? 0 : options->address_connections;
    own->is_counted = quota_count_up(&own->address->connections, most);
    return own->is_counted || refuse(quota, QUOTA_ADDRESS_CONNECTIONS, most, 0, fault);
}

static void count_off(struct http_quota *own)
{
    struct quota_account *account = own->caller ? own->caller : own->address;
    if (own->is_counted)
        quota_count_down(&account->connections);
    own->is_counted = false;
}

void http_quota_fini(struct http_connection *connection)
{
    struct quota *quota = connection->front->shared->quota;
    struct http_quota *own = &connection->quota;
    if (!quota || !own->address)
        return;
    count_off(own);
    quota_account_release(quota, own->caller);
    quota_account_release(quota, own->address);
    *own = (struct http_quota){0};
}

void http_quota_switch(struct http_connection *connection)
{
    struct quota *quota = connection->front->shared->quota;
    struct http_quota *own = &connection->quota;
    struct access_caller *caller = connection->gate.caller;
    if (!quota || !own->address)
        return;
    count_off(own);
    quota_account_release(quota, own->caller);
    own->caller = NULL;
    own->is_refused = false;
    if (caller->kind == ACCESS_ANYONE) {
        own->is_counted = quota_count_up(&own->address->connections, 0);
        return;
    }
    own->caller = quota_account_of_caller(quota, caller);
    own->is_counted = quota_count_up(&own->caller->connections, caller->limits.connections_max);
    own->is_refused = !own->is_counted;
}

/* ---- requests ---- */

/* Charges the address of clients without a name, including those that failed to authenticate. */
static bool charge_address(struct http_connection *connection, struct http_fault *fault)
{
    struct quota *quota = connection->front->shared->quota;
    struct access_rate rate = quota_options(quota)->address_rate;
    int64_t wait_ns;
    return !rate.count ||
           quota_bucket_take(&connection->quota.address->requests, rate, now_ns(connection->front),
                             &wait_ns) ||
           refuse(quota, QUOTA_ADDRESS_RATE, rate.count, wait_ns, fault);
}

bool http_quota_request(struct http_connection *connection, struct http_fault *fault)
{
    struct quota *quota = connection->front->shared->quota;
    struct http_quota *own = &connection->quota;
    int64_t wait_ns;
    if (!quota || !own->address)
        return true;
    if (!own->caller)
        return charge_address(connection, fault);
    const struct access_limits *limits = &connection->gate.caller->limits;
    if (own->is_refused)
        return refuse(quota, QUOTA_CONNECTIONS, limits->connections_max, 0, fault);
    return !limits->request_rate.count ||
           quota_bucket_take(&own->caller->requests, limits->request_rate,
                             now_ns(connection->front), &wait_ns) ||
           refuse(quota, QUOTA_REQUESTS, limits->request_rate.count, wait_ns, fault);
}

/* ---- waiting takes ---- */

/* Returns the account that a wait counts for; a reference. A caller that the exchange keeps may
 * differ from that of the connection's last request. */
static struct quota_account *hold_waiter(struct http_connection *connection,
                                         const struct access_caller *caller)
{
    struct quota *quota = connection->front->shared->quota;
    if (caller->kind != ACCESS_ANYONE && caller != connection->gate.caller)
        return quota_account_of_caller(quota, caller);
    struct quota_account *account =
        caller->kind == ACCESS_ANYONE ? connection->quota.address : connection->quota.caller;
    quota_account_keep(quota, account);
    return account;
}

bool http_quota_wait(struct http_exchange *exchange, struct http_fault *fault)
{
    struct http_connection *connection = exchange->connection;
    struct quota *quota = connection->front->shared->quota;
    struct http_quota *own = &connection->quota;
    if (!quota || !own->address)
        return true;
    const struct quota_options *options = quota_options(quota);
    const struct access_caller *caller =
        exchange->caller ? exchange->caller : connection->gate.caller;
    bool is_named = caller->kind != ACCESS_ANYONE;
    uint64_t most = own->is_local && options->are_local_waits_free ? 0 : options->address_waiting;
    if (is_named)
        most = caller->limits.waiting_max;
    struct quota_account *account = hold_waiter(connection, caller);
    if (!quota_count_up(&account->waiting, most)) {
        quota_account_release(quota, account);
        return refuse(quota, is_named ? QUOTA_WAITING : QUOTA_ADDRESS_WAITING, most, 0, fault);
    }
    exchange->waits_of = account;
    return true;
}

void http_quota_wait_ends(struct http_exchange *exchange)
{
    struct quota_account *account = exchange->waits_of;
    if (!account)
        return;
    quota_count_down(&account->waiting);
    quota_account_release(exchange->front->shared->quota, account);
    exchange->waits_of = NULL;
}
