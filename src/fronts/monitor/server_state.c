#include "monitor/server_state.h"

#include "access/quota.h"
#include "api/caller_json.h"
#include "base/json_write.h"
#include "base/log_ring.h"
#include "base/text.h"
#include "http/exchange.h"
#include "monitor/routes.h"

enum { LOG_LINES = 200, TOKENS_SHOWN = 1000, TOKENS_BYTES = 8 << 20 };

static void write_words(struct buffer *out, const char *name, const char *text)
{
    json_write_member_text(out, name, slice_of(text ? text : ""));
}

static void write_store(struct buffer *out, const struct http_front *front)
{
    struct queue_info info = {0};
    queue_info(front->queue, &info);
    write_words(out, "store", info.store);
    write_words(out, "sync", info.sync);
    write_words(out, "durability", info.durability);
    write_words(out, "durability_class", info.durability_class);
    json_write_member_number(out, "wait_replicas", info.wait_replicas);
    json_write_member_bool(out, "healthy", info.healthy);
    bool is_spent = atomic_load_explicit(&front->shared->is_memory_spent, memory_order_relaxed);
    json_write_member_bool(out, "accepting", info.accepting && !is_spent);
}

static void write_memory(struct buffer *out, const struct http_shared *shared)
{
    buffer_append_text(out, ",\"memory\":{\"process_bytes\":");
    buffer_append_u64(out, atomic_load_explicit(&shared->process_bytes, memory_order_relaxed));
    json_write_member_number(out, "process_max_bytes", shared->process_bytes_max);
    json_write_member_number(out, "request_bytes", http_budget_used(shared));
    json_write_member_number(out, "request_max_bytes", shared->budget.bytes_max);
    json_write_member_bool(out, "spent",
                           atomic_load_explicit(&shared->is_memory_spent, memory_order_relaxed));
    buffer_append_byte(out, '}');
}

/* Writes the connections of all fronts, each of which has all listeners. */
static void write_connections(struct buffer *out, struct http_shared *shared)
{
    uint64_t waiting = 0;
    pthread_mutex_lock(&shared->lock);
    const struct http_front *first = shared->fronts[0];
    buffer_append_text(out, ",\"connections\":[");
    for (uint32_t i = 0; shared->front_count && i < first->listener_count; i++) {
        uint64_t open = 0, accepted = 0;
        for (uint32_t k = 0; k < shared->front_count; k++) {
            open += counter_get(&shared->fronts[k]->listeners[i].open);
            accepted += counter_get(&shared->fronts[k]->listeners[i].accepted);
        }
        buffer_append_text(out, i ? ",{\"listener\":" : "{\"listener\":");
        json_write_string(out, slice_of(first->listeners[i].about->name));
        json_write_member_bool(out, "tls", first->listeners[i].about->options.tls);
        json_write_member_number(out, "open", open);
        json_write_member_number(out, "accepted", accepted);
        buffer_append_byte(out, '}');
    }
    for (uint32_t k = 0; k < shared->front_count; k++)
        waiting += counter_get(&shared->fronts[k]->counters.waiting);
    pthread_mutex_unlock(&shared->lock);
    buffer_append_byte(out, ']');
    json_write_member_number(out, "waiting_takes", waiting);
}

struct tokens_writing {
    struct buffer *out;
    size_t count, bytes_end; /* bytes_end: no further token is written after it */
    bool is_full;
};

static void write_token(void *ctx, const struct access_caller *caller, int64_t used_ms)
{
    struct tokens_writing *writing = ctx;
    writing->is_full |= writing->count == TOKENS_SHOWN || writing->out->len > writing->bytes_end;
    if (writing->is_full)
        return;
    writing->count++;
    buffer_append_text(writing->out, writing->count > 1 ? ",{" : "{");
    api_caller_members_write(writing->out, caller);
    json_write_member_time(writing->out, "last_used_at", used_ms);
    buffer_append_byte(writing->out, '}');
}

/* Writes names and rights of the tokens. The server does not have their secrets, and hashes are not
 * shown. */
static void write_tokens(struct buffer *out, const struct http_shared *shared, size_t bytes)
{
    struct tokens_writing writing = {.out = out, .bytes_end = out->len + bytes};
    json_write_member(out, "tokens");
    if (!shared->access || !access_is_on(shared->access)) {
        buffer_append_text(out, "null");
        return;
    }
    buffer_append_text(out, "{\"list\":[");
    size_t count = access_list(shared->access, write_token, &writing);
    buffer_append_byte(out, ']');
    json_write_member_number(out, "count", count);
    buffer_append_byte(out, '}');
}

/* Writes the limits that were reached. */
static void write_limits(struct buffer *out, const struct quota *quota)
{
    bool follows = false;
    buffer_append_text(out, ",\"limits_met\":[");
    for (int i = QUOTA_NONE + 1; quota && i < QUOTA_LIMITS; i++) {
        uint64_t count = quota_refusals(quota, (enum quota_limit)i);
        if (!count)
            continue;
        buffer_append_text(out, follows ? ",{\"limit\":" : "{\"limit\":");
        json_write_string(out, slice_of(quota_limit_name((enum quota_limit)i)));
        json_write_member_number(out, "count", count);
        buffer_append_byte(out, '}');
        follows = true;
    }
    buffer_append_byte(out, ']');
}

static void write_clock(struct buffer *out)
{
    struct clock_steps steps = {0};
    clock_steps(&steps);
    buffer_append_text(out, ",\"clock\":{\"steps\":");
    buffer_append_u64(out, steps.count);
    json_write_member_time(out, "last_step_at",
                           steps.last_at_ms ? steps.last_at_ms + clock_skew_ms() : 0);
    json_write_member(out, "last_step_ms");
    if (steps.last_at_ms)
        buffer_append_i64(out, steps.last_ms);
    else
        buffer_append_text(out, "null");
    buffer_append_byte(out, '}');
}

void monitor_server_state_write(struct buffer *out, struct http_front *front, size_t tokens_bytes)
{
    struct http_shared *shared = front->shared;
    write_words(out, "version", shared->version);
    json_write_member_time(out, "started_at", shared->started_ms);
    json_write_member(out, "uptime_ms");
    buffer_append_i64(out, clock_wall_ms() - shared->started_ms);
    write_store(out, front);
    if (shared->server)
        shared->server->write_store(shared->server->ctx, out);
    write_memory(out, shared);
    write_connections(out, shared);
    write_tokens(out, shared, tokens_bytes);
    write_limits(out, shared->quota);
    write_clock(out);
}

static void get_server(struct http_call *call)
{
    struct buffer *body = http_answer_start(call->exchange);
    buffer_append_byte(body, '{');
    monitor_server_state_write(body, call->front, TOKENS_BYTES);
    buffer_append_byte(body, '}');
    http_answer_end_json(call->exchange, 200);
}

/* ---- the log ---- */

static void get_log(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    uint32_t limit = http_fields_have(fields, OPTION_LIMIT) ? (uint32_t)fields->limit : LOG_LINES;
    uint64_t since = 0, lost;
    if (fields->cursor.len && !text_parse_u64(fields->cursor, UINT64_MAX, &since)) {
        http_answer_refusal(call->exchange, QUEUE_BAD_CURSOR, NULL, 0);
        return;
    }
    struct buffer *body = http_answer_start(call->exchange);
    buffer_append_text(body, "{\"lines\":[");
    uint64_t next = log_ring_read(since, limit, body, &lost);
    buffer_append_text(body, "],\"lost\":");
    buffer_append_u64(body, lost);
    buffer_append_text(body, ",\"cursor\":\"");
    buffer_append_u64(body, next);
    buffer_append_text(body, "\"}");
    http_answer_end_json(call->exchange, 200);
}

const struct http_route monitor_server_state_routes[] = {
    {.method = HTTP_METHOD_GET,
     .pattern = "/v1/server",
     .name = "server",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_ALL,
     .handle = get_server},
    {.method = HTTP_METHOD_GET,
     .pattern = "/v1/log",
     .name = "log",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_ALL,
     .handle = get_log,
     .options = OPTION_BIT(OPTION_LIMIT) | OPTION_BIT(OPTION_CURSOR),
     .answer = HTTP_ANSWER_LONG},
    {0},
};
