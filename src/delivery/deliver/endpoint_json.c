/* The endpoints of a topic: written as JSON for the API, and the state of its own one. */
#include "base/clock.h"
#include "base/json_write.h"
#include "deliver/check.h"
#include "deliver/state.h"

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

static const char *const states[] = {
    [ENDPOINT_CLOSED] = "closed", [ENDPOINT_OPEN] = "open", [ENDPOINT_HALF_OPEN] = "half_open"};

static void write_endpoint(struct endpoints_writing *writing, const struct endpoint_tally *tally)
{
    struct buffer *out = writing->out;
    int64_t wait_until_ms = (int64_t)counter_get(&tally->wait_until_ms);
    buffer_append_text(out, writing->count++ ? ",{" : "{");
    json_write_member_text(out, "origin", tally->entry.key);
    json_write_member_text(out, "kind", slice_of(tally->kind));
    json_write_member_text(out, "state", slice_of(states[counter_get(&tally->state)]));
    write_time(out, "since_at", (int64_t)counter_get(&tally->since_ms));
    write_time(out, "retry_at", wait_until_ms > clock_inner_ms() ? wait_until_ms : 0);
    json_write_member_number(out, "in_flight", counter_get(&tally->in_flight));
    json_write_member(out, "outcomes");
    buffer_append_byte(out, '{');
    for (int outcome = TARGET_DONE; outcome <= TARGET_UNSENT; outcome++)
        json_write_member_number(out, target_outcome_name((enum target_outcome)outcome),
                                 counter_get(&tally->sums.outcomes[outcome]));
    buffer_append_byte(out, '}');
    json_write_member(out, "last_error");
    if (tally->error[0])
        json_write_string(out, slice_of(tally->error));
    else
        buffer_append_text(out, "null");
    write_time(out, "last_error_at", tally->error[0] ? tally->error_at_ms : 0);
    buffer_append_byte(out, '}');
}

static bool is_of_callbacks(const struct endpoint_tally *tally)
{
    return strcmp(tally->kind, "http") == 0 || strcmp(tally->kind, "https") == 0;
}

/* Writes the own endpoint, and those of callbacks if `with_callbacks`. */
static void write_known(struct endpoints_writing *writing, struct endpoint_tallies *tallies)
{
    pthread_mutex_lock(&tallies->lock);
    for (const struct endpoint_tally *at = endpoint_tally_table_first(&tallies->table); at;
         at = endpoint_tally_table_next(&tallies->table, at)) {
        bool is_own = writing->own.len && slice_equals(at->entry.key, writing->own);
        writing->met_own |= is_own;
        if (is_own ||
            (writing->with_callbacks && is_of_callbacks(at) && writing->count < ENDPOINTS_SHOWN))
            write_endpoint(writing, at);
    }
    pthread_mutex_unlock(&tallies->lock);
}

/* Writes an endpoint to which nothing was sent yet. */
static void write_untried(struct endpoints_writing *writing)
{
    char scheme[16];
    size_t len = 0;
    for (; len < writing->own.len && len < sizeof scheme - 1 && writing->own.at[len] != ':'; len++)
        scheme[len] = writing->own.at[len];
    scheme[len] = '\0';
    write_endpoint(writing, &(struct endpoint_tally){.entry.key = writing->own,
                                                     .kind = scheme,
                                                     .state = ENDPOINT_CLOSED});
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
    write_known(&writing, &deliver->endpoints.tallies);
    if (own.len && !writing.met_own)
        write_untried(&writing);
    buffer_fini(&own);
}

/* Reads the setting of a topic's target. Returns false if it has none. */
static bool read_setting(struct slice extension, struct target_setting *out)
{
    struct extension parsed;
    char why[TARGET_ERROR_BYTES], error[DELIVER_ERROR_BYTES];
    return extension_parse(extension, &parsed, error) && parsed.deliver.len &&
           target_setting_parse(parsed.deliver, out, why);
}

void deliver_write_endpoints(struct deliver *deliver, struct slice extension, bool sees_all,
                             struct buffer *out)
{
    struct target_setting setting;
    if (!read_setting(extension, &setting))
        return;
    write_topic_endpoints(deliver, &setting, sees_all, out);
    target_setting_fini(&setting);
}

static const char *state_of(struct endpoint_tallies *tallies, struct slice name)
{
    pthread_mutex_lock(&tallies->lock);
    const struct endpoint_tally *found = endpoint_tally_table_find(&tallies->table, name);
    const char *state = states[found ? counter_get(&found->state) : ENDPOINT_CLOSED];
    pthread_mutex_unlock(&tallies->lock);
    return state;
}

const char *deliver_target_state(struct deliver *deliver, struct slice extension)
{
    struct target_setting setting;
    struct buffer own;
    char why[TARGET_ERROR_BYTES];
    const char *state = NULL;
    if (!read_setting(extension, &setting))
        return NULL;
    buffer_init(&own, ENDPOINT_BYTES_MAX - 1);
    if (setting.to && target_endpoint(slice_of(setting.to), &own, why))
        state = state_of(&deliver->endpoints.tallies, buffer_slice(&own));
    buffer_fini(&own);
    target_setting_fini(&setting);
    return state;
}
