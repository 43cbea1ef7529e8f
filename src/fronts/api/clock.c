#include "api/clock.h"

#include "api/routes.h"
#include "base/clock.h"
#include "base/json_write.h"
#include "http/exchange.h"

enum { IDLE_TIMEOUT_MS = 30 * 1000 };

static void write_members(struct buffer *out, const struct http_clock_hooks *hooks)
{
    json_write_key(out, "now");
    json_write_time(out, clock_wall_ms_of(hooks->clock));
    json_write_member(out, "start");
    json_write_time(out, hooks->start_ms);
    json_write_member_bool(out, "auto", hooks->is_auto(hooks->ctx));
}

void api_clock_write(struct buffer *out, const struct http_clock_hooks *hooks)
{
    buffer_append_byte(out, '{');
    write_members(out, hooks);
    buffer_append_byte(out, '}');
}

/* Returns the hooks of the test clock. Answers the call and returns NULL if there is no test
 * clock. */
static const struct http_clock_hooks *test_clock_of(struct http_call *call)
{
    const struct http_clock_hooks *hooks = call->front->shared->clock;
    if (!hooks)
        http_answer_problem(
            call->exchange, PROBLEM_NO_TEST_CLOCK, 0,
            "this server uses the real clock; for tests start one with --test-clock");
    return hooks;
}

static void get_clock(struct http_call *call)
{
    const struct http_clock_hooks *hooks = test_clock_of(call);
    if (!hooks)
        return;
    api_clock_write(http_answer_start(call->exchange), hooks);
    http_answer_end_json(call->exchange, 200);
}

/* Answers if the clock was not moved. Returns false if it was. */
static bool answer_refusal(struct http_exchange *exchange, const struct http_clock_answer *answer)
{
    switch (answer->outcome) {
    case HTTP_CLOCK_DONE:
        return false;
    case HTTP_CLOCK_PAST:
        http_answer_problem(exchange, PROBLEM_BAD_OPTION, 0,
                            "'to' is before the time of the clock, which only moves forward; POST "
                            "/v1/reset sets it back to its start and deletes all jobs");
        break;
    case HTTP_CLOCK_TOO_FAR:
        http_answer_problem(exchange, PROBLEM_BAD_OPTION, 0,
                            "the clock cannot move that far; POST /v1/reset sets it back to its "
                            "start and deletes all jobs");
        break;
    case HTTP_CLOCK_NOT_IDLE:
        http_answer_problem(exchange, PROBLEM_NOT_IDLE, 0,
                            "%llu leased job%s not acked or nacked in time, so the clock stopped; "
                            "find the consumer that holds them, or give a longer timeout",
                            (unsigned long long)answer->leased,
                            answer->leased == 1 ? " was" : "s were");
        break;
    case HTTP_CLOCK_STOPPING:
        http_answer_refusal(exchange, QUEUE_STOPPING, NULL, (enum job_state)0);
        break;
    case HTTP_CLOCK_FAILED:
        http_answer_refusal(exchange, QUEUE_UNAVAILABLE, NULL, (enum job_state)0);
        break;
    }
    return true;
}

static void on_clock_done(void *owner, uint64_t tag, const struct http_clock_answer *answer)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange || answer_refusal(exchange, answer))
        return;
    struct buffer *body = http_answer_start(exchange);
    buffer_append_byte(body, '{');
    write_members(body, exchange->front->shared->clock);
    json_write_member_number(body, "happened", answer->happened);
    buffer_append_byte(body, '}');
    http_answer_end_json(exchange, 200);
}

static void call_clock(struct http_call *call, const struct http_clock_call *what)
{
    const struct http_clock_hooks *hooks = test_clock_of(call);
    if (!hooks)
        return;
    call->exchange->waits = true; /* not in request durations: waits for events */
    hooks->call(hooks->ctx, call->front->reactor, what, on_clock_done, call->front,
                http_exchange_tag(call->exchange));
}

static void post_advance(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    bool has_by = http_fields_have(fields, OPTION_BY), has_to = http_fields_have(fields, OPTION_TO);
    bool has_auto = http_fields_have(fields, OPTION_AUTO);
    if (has_by && has_to) {
        http_answer_problem(call->exchange, PROBLEM_OPTION_CLASH, 0,
                            "'by' and 'to' are both given: choose one");
        return;
    }
    if (!has_by && !has_to && !has_auto && !fields->wait_idle) {
        http_answer_problem(call->exchange, PROBLEM_OPTION_MISSING, 0,
                            "the target time is missing: give by=30m, to=TIME or to=next");
        return;
    }
    call_clock(call,
               &(struct http_clock_call){.verb = HTTP_CLOCK_ADVANCE,
                                         .by_ms = has_by ? fields->by_ms : -1,
                                         .to_ms = has_to ? fields->to_ms : -1,
                                         .waits_idle = fields->wait_idle,
                                         .timeout_ms = http_fields_have(fields, OPTION_TIMEOUT)
                                                           ? fields->timeout_ms
                                                           : (int64_t)IDLE_TIMEOUT_MS,
                                         .set_auto = !has_auto         ? HTTP_AUTO_AS_IT_IS
                                                     : fields->is_auto ? HTTP_AUTO_ON
                                                                       : HTTP_AUTO_OFF});
}

static void post_reset(struct http_call *call)
{
    call_clock(call, &(struct http_clock_call){.verb = HTTP_CLOCK_RESET, .by_ms = -1, .to_ms = -1});
}

const struct http_route api_clock_routes[] = {
    {.method = HTTP_METHOD_GET,
     .pattern = "/v1/clock",
     .name = "clock",
     .scope = HTTP_FOR_CALLERS,
     .topics = HTTP_TOPICS_NONE,
     .handle = get_clock},
    {.method = HTTP_METHOD_POST,
     .pattern = "/v1/clock/advance",
     .name = "clock_advance",
     .audit = "clock advanced",
     .scope = ACCESS_ADMIN,
     .topics = HTTP_TOPICS_ALL,
     .options = OPTION_BIT(OPTION_BY) | OPTION_BIT(OPTION_TO) | OPTION_BIT(OPTION_WAIT_IDLE) |
                OPTION_BIT(OPTION_TIMEOUT) | OPTION_BIT(OPTION_AUTO),
     .handle = post_advance},
    {.method = HTTP_METHOD_POST,
     .pattern = "/v1/reset",
     .name = "reset",
     .audit = "server reset",
     .scope = ACCESS_ADMIN,
     .topics = HTTP_TOPICS_ALL,
     .handle = post_reset},
    {0},
};
