/* Backups of a store that works on: begun, kept going, ended. The copying is the caller's. */
#include "http/private.h"

void http_shared_set_keeper(struct http_shared *shared, const struct http_keeper *keeper)
{
    shared->keeper = keeper;
}

static void refuse(struct http_exchange *exchange, enum http_problem problem, const char *detail)
{
    struct http_fault fault;
    (void)http_fault_set(&fault, problem, 0, "%s", detail);
    http_answer_fault(exchange, &fault);
}

static void on_done(void *owner, uint64_t tag, enum queue_status status, struct slice json)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (status == QUEUE_CONFLICT) {
        refuse(exchange, PROBLEM_TOO_MANY_BACKUPS,
               "others are making backups; wait until one of them is done");
    } else if (status == QUEUE_NOT_FOUND) {
        http_answer_refusal(exchange, status,
                            "there is no such backup, or it was not renewed in time, so files may "
                            "be gone: make another one",
                            (enum job_state)0);
    } else if (status != QUEUE_OK) {
        http_answer_refusal(exchange, status, NULL, (enum job_state)0);
    } else {
        buffer_append_slice(http_answer_start(exchange), json);
        http_answer_end_json(exchange, 200);
    }
}

static void pass_on(struct http_call *call, enum http_backup what)
{
    struct http_front *front = call->front;
    const struct http_keeper *keeper = front->shared->keeper;
    if (!keeper) {
        refuse(call->exchange, PROBLEM_NO_BACKUP,
               "this server's jobs are in Redis: back up that, with what Redis has for it");
        return;
    }
    keeper->backup(keeper->ctx, front->reactor, what, call->id, on_done, front,
                   http_exchange_tag(call->exchange));
}

void http_backup_begin(struct http_call *call)
{
    pass_on(call, HTTP_BACKUP_BEGIN);
}

void http_backup_renew(struct http_call *call)
{
    pass_on(call, HTTP_BACKUP_RENEW);
}

void http_backup_end(struct http_call *call)
{
    pass_on(call, HTTP_BACKUP_END);
}
