/* One sample on its way to a topic's target, and what became of it. */
#include "http/delivery.h"
#include "http/private.h"

static void refuse(struct http_exchange *exchange, enum http_problem problem, const char *detail)
{
    struct http_fault fault;
    (void)http_fault_set(&fault, problem, 0, "%s", detail);
    http_answer_fault(exchange, &fault);
}

static void on_tested(void *owner, uint64_t tag, enum queue_status status, struct slice json)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (status == QUEUE_NOT_FOUND) {
        refuse(exchange, PROBLEM_NO_TARGET,
               "there is no such topic, or it names no target: set 'deliver' in its settings, "
               "such as {\"deliver\":{\"to\":\"https://shop.example/close-order\"}}");
    } else if (status != QUEUE_OK) {
        http_answer_refusal(exchange, status, NULL, 0);
    } else {
        buffer_append_slice(http_answer_start(exchange), json);
        http_answer_end_json(exchange, 200);
    }
}

void http_deliver_test(struct http_call *call)
{
    struct http_front *front = call->front;
    const struct http_hooks *hooks = front->shared->hooks;
    if (!http_delivery_is_on(hooks) || !hooks->test) {
        refuse(call->exchange, PROBLEM_NO_DELIVERY,
               "this server delivers nothing by itself: start it with --deliver FILE, which says "
               "what may be reached");
        return;
    }
    call->exchange->waits = true; /* for the target: no request's duration */
    hooks->test(hooks->ctx, front->reactor, call->topic, call->request->body, on_tested, front,
                http_exchange_tag(call->exchange));
}
