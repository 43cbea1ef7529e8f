/* The upcoming load: when waiting jobs fall due. */
#include "api/routes.h"
#include "base/clock.h"
#include "base/json_write.h"
#include "http/exchange.h"

enum { MINUTE_MS = 60000, HOUR_MS = 3600000 };

static void write_numbers(struct buffer *out, const char *key, const uint64_t *values, size_t count)
{
    json_write_member(out, key);
    for (size_t i = 0; i < count; i++) {
        buffer_append_byte(out, i ? ',' : '[');
        buffer_append_u64(out, values[i]);
    }
    buffer_append_byte(out, ']');
}

static void on_load(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_replied(owner, tag, reply);
    if (!exchange)
        return;
    const struct queue_forecast *load = reply->forecast;
    struct buffer *body = http_answer_start(exchange);
    int64_t now_ms = queue_wall_ms(exchange->front->queue);
    buffer_append_text(body, "{\"at\":");
    json_write_time(body, now_ms);
    json_write_member(body, "overdue");
    buffer_append_u64(body, load->overdue);
    json_write_member(body, "soon");
    buffer_append_u64(body, queue_forecast_soon(load, now_ms));
    json_write_member(body, "minutes_from");
    json_write_time(body, load->from_ms);
    write_numbers(body, "minutes", load->minutes, FORECAST_MINUTES);
    json_write_member(body, "hours_from");
    json_write_time(body, load->from_ms - load->from_ms % HOUR_MS);
    write_numbers(body, "hours", load->hours, FORECAST_HOURS);
    json_write_member(body, "later");
    buffer_append_u64(body, load->later);
    json_write_member(body, "estimated");
    buffer_append_text(body, load->estimated ? "true}" : "false}");
    http_answer_end_json(exchange, 200);
}

static void get_load(struct http_call *call)
{
    const struct http_query *query = call->query;
    int64_t now_ms = queue_wall_ms(call->front->queue);
    struct queue_forecast_call forecast = {.from_ms = now_ms - now_ms % MINUTE_MS};
    struct http_fault fault;
    if (query->topic_count > 1) {
        http_answer_problem(
            call->exchange, PROBLEM_BAD_OPTION, 1,
            "'topic' may be given once: name one topic, or leave it out for all topics");
        return;
    }
    if (query->topic_count)
        forecast.topic = query->topics[0];
    if (!http_gate_allows(call->front, call->caller, call->exchange->route, forecast.topic,
                          &fault)) {
        http_answer_fault(call->exchange, &fault);
        return;
    }
    if (query->topic_count && !job_topic_is_valid(query->topics[0])) {
        http_answer_refusal(call->exchange, QUEUE_BAD_TOPIC, NULL, 0);
        return;
    }
    queue_forecast(call->front->queue, &forecast, http_reply_to(call, on_load));
}

const struct http_route api_load_routes[] = {
    {.method = HTTP_METHOD_GET,
     .pattern = "/v1/load",
     .name = "load",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_EACH,
     .handle = get_load,
     .options = OPTION_BIT(OPTION_TOPIC),
     .answer = HTTP_ANSWER_LONG},
    {0},
};
