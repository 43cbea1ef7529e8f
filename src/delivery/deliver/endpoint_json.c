/* The endpoints of a topic: written as JSON for the API, and the state of its own one. */
#include "base/clock.h"
#include "base/json_write.h"
#include "deliver/check.h"
#include "deliver/endpoint.h"

enum { ENDPOINTS_SHOWN = 200 };

struct endpoints_writing {
    struct buffer *out;
    struct slice own; /* the endpoint of the topic's own target, or empty */
    bool with_callbacks;
    bool met_own;
    uint32_t count;
};

static void write_time(struct buffer *out, const char *name, int64_t inner_ms)
{
    json_write_member_time(out, name, inner_ms ? inner_ms + clock_skew_ms() : 0);
}

static void write_endpoint(struct endpoints_writing *writing,
                           const struct deliver_endpoint *endpoint)
{
    struct buffer *out = writing->out;
    int64_t wait_until_ms =
        endpoint->wait_until_ms > clock_inner_ms() ? endpoint->wait_until_ms : 0;
    buffer_append_text(out, writing->count++ ? ",{" : "{");
    json_write_member_text(out, "origin", endpoint->name);
    json_write_member_text(out, "kind", slice_of(endpoint->kind));
    json_write_member_text(out, "state", slice_of(endpoint->state));
    write_time(out, "since_at", endpoint->since_ms);
    write_time(out, "retry_at", wait_until_ms);
    json_write_member_number(out, "in_flight", endpoint->in_flight);
    json_write_member(out, "outcomes");
    buffer_append_byte(out, '{');
    for (int outcome = TARGET_DONE; outcome <= TARGET_UNSENT; outcome++)
        json_write_member_number(out, target_outcome_name((enum target_outcome)outcome),
                                 endpoint->outcomes[outcome]);
    buffer_append_byte(out, '}');
    json_write_member(out, "last_error");
    if (endpoint->error.len)
        json_write_string(out, endpoint->error);
    else
        buffer_append_text(out, "null");
    write_time(out, "last_error_at", endpoint->error.len ? endpoint->error_at_ms : 0);
    buffer_append_byte(out, '}');
}

static bool is_of_callbacks(const struct deliver_endpoint *endpoint)
{
    return strcmp(endpoint->kind, "http") == 0 || strcmp(endpoint->kind, "https") == 0;
}

static void on_endpoint(void *ctx, const struct deliver_endpoint *endpoint)
{
    struct endpoints_writing *writing = ctx;
    bool is_own = writing->own.len && slice_equals(endpoint->name, writing->own);
    writing->met_own |= is_own;
    if (is_own ||
        (writing->with_callbacks && is_of_callbacks(endpoint) && writing->count < ENDPOINTS_SHOWN))
        write_endpoint(writing, endpoint);
}

/* Writes an endpoint to which nothing was sent yet. */
static void write_untried(struct endpoints_writing *writing)
{
    char scheme[16];
    size_t len = 0;
    for (; len < writing->own.len && len < sizeof scheme - 1 && writing->own.at[len] != ':'; len++)
        scheme[len] = writing->own.at[len];
    scheme[len] = '\0';
    write_endpoint(writing, &(struct deliver_endpoint){
                                .name = writing->own, .kind = scheme, .state = "closed"});
}

static void write_topic_endpoints(struct deliver *deliver, const struct target_setting *setting,
                                  bool sees_all, struct buffer *out)
{
    char why[TARGET_ERROR_BYTES];
    struct buffer own;
    buffer_init(&own, ENDPOINT_BYTES_MAX - 1);
    if (setting->to)
        (void)target_endpoint(slice_of(setting->to), &own, why);
    struct endpoints_writing writing = {.out = out,
                                        .own = buffer_slice(&own),
                                        .with_callbacks = sees_all && setting->allows_callback};
    deliver_endpoints(deliver, on_endpoint, &writing);
    if (own.len && !writing.met_own)
        write_untried(&writing);
    buffer_fini(&own);
}

void deliver_write_endpoints(struct deliver *deliver, struct slice extension, bool sees_all,
                             struct buffer *out)
{
    struct extension parsed;
    struct target_setting setting;
    char why[TARGET_ERROR_BYTES], error[DELIVER_ERROR_BYTES];
    if (!extension_parse(extension, &parsed, error) || !parsed.deliver.len ||
        !target_setting_parse(parsed.deliver, &setting, why))
        return;
    write_topic_endpoints(deliver, &setting, sees_all, out);
    target_setting_fini(&setting);
}

const char *deliver_target_state(struct deliver *deliver, struct slice extension)
{
    struct extension parsed;
    struct target_setting setting;
    struct buffer own;
    char why[TARGET_ERROR_BYTES], error[DELIVER_ERROR_BYTES];
    const char *state = NULL;
    if (!extension_parse(extension, &parsed, error) || !parsed.deliver.len ||
        !target_setting_parse(parsed.deliver, &setting, why))
        return NULL;
    buffer_init(&own, ENDPOINT_BYTES_MAX - 1);
    if (setting.to && target_endpoint(slice_of(setting.to), &own, why))
        state = deliver_endpoint_state(deliver, buffer_slice(&own));
    buffer_fini(&own);
    target_setting_fini(&setting);
    return state;
}
