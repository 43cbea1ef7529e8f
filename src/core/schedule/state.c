#include "schedule/state.h"

#include "base/json_write.h"

const char *skip_reason_name(enum skip_reason reason)
{
    static const char *const names[SKIP_REASONS] = {
        [SKIP_MISSED] = "missed",   [SKIP_PAUSED] = "paused", [SKIP_OVERLAP] = "overlap",
        [SKIP_REFUSED] = "refused", [SKIP_ENDED] = "ended",
    };
    return names[reason];
}

void state_add(struct state *state, int64_t at_ms, enum skip_reason reason)
{
    if (state->last_count == STATE_LAST) {
        memmove(&state->last[0], &state->last[1], (STATE_LAST - 1) * sizeof state->last[0]);
        state->last_count--;
    }
    state->last[state->last_count++] = (struct state_fire){.at_ms = at_ms, .reason = reason};
    if (reason)
        state->skipped[reason]++;
    else
        state->fired++;
}

void state_remove_last(struct state *state)
{
    enum skip_reason reason = state->last[--state->last_count].reason;
    if (reason) {
        state->skipped[reason]--;
        return;
    }
    state->fired--;
    state->number--;
    state->counted -= state->counted > 0; /* a change began to count again */
}

void state_skip(struct state *state, int64_t at_ms, enum skip_reason reason)
{
    for (size_t i = 0; i < state->last_count; i++)
        if (state->last[i].at_ms == at_ms)
            state->last[i].reason = reason;
    state->fired--;
    state->counted--;
    state->skipped[reason]++;
}

/* The numbers of the state by their names. */
static const struct number {
    const char *name;
    size_t offset;
} numbers[] = {
    {"after", offsetof(struct state, after_ms)},
    {"next", offsetof(struct state, next_ms)},
    {"number", offsetof(struct state, number)},
    {"counted", offsetof(struct state, counted)},
    {"fired", offsetof(struct state, fired)},
    {"missed", offsetof(struct state, skipped[SKIP_MISSED])},
    {"skipped_paused", offsetof(struct state, skipped[SKIP_PAUSED])},
    {"overlap", offsetof(struct state, skipped[SKIP_OVERLAP])},
    {"refused", offsetof(struct state, skipped[SKIP_REFUSED])},
    {"ended", offsetof(struct state, skipped[SKIP_ENDED])},
    {"paused_until", offsetof(struct state, paused_until_ms)},
    {"retry", offsetof(struct state, retry_ms)},
    {"refused_at", offsetof(struct state, refused_ms)},
    {"ended_at", offsetof(struct state, ended_ms)},
    {"since", offsetof(struct state, since_ms)},
    {"paced", offsetof(struct state, paced_ms)},
    {"zone_digest", offsetof(struct state, zone_digest)},
    {"tzdata", offsetof(struct state, tzdata)},
};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static int64_t *number_of(const struct state *state, const struct number *number)
{
    return (int64_t *)(uintptr_t)((const char *)state + number->offset);
}

void state_write(struct buffer *out, const struct state *state)
{
    buffer_append_text(out, state->paused ? "{\"paused\":true" : "{\"paused\":false");
    for (size_t i = 0; i < NUMBERS; i++) {
        int64_t value = *number_of(state, &numbers[i]);
        if (value)
            json_write_member_number(out, numbers[i].name, (uint64_t)value);
    }
    buffer_append_text(out, ",\"last\":[");
    for (size_t i = 0; i < state->last_count; i++)
        buffer_append_format(out, "%s[%lld,%d]", i ? "," : "", (long long)state->last[i].at_ms,
                             (int)state->last[i].reason);
    buffer_append_text(out, "]}");
}

static bool read_last(struct json_value list, struct state *out)
{
    struct json_cursor cursor = {0};
    struct json_value pair, part;
    while (json_next_item(list, &cursor, &pair)) {
        struct json_cursor in_pair = {0};
        int64_t at_ms, reason;
        if (pair.kind != JSON_ARRAY || out->last_count == STATE_LAST ||
            !json_next_item(pair, &in_pair, &part) || !json_number_i64(part.raw, &at_ms) ||
            !json_next_item(pair, &in_pair, &part) || !json_number_i64(part.raw, &reason) ||
            reason < 0 || reason >= SKIP_REASONS)
            return false;
        out->last[out->last_count++] =
            (struct state_fire){.at_ms = at_ms, .reason = (enum skip_reason)reason};
    }
    return true;
}

bool state_read(struct json_value object, struct state *out)
{
    struct state state = {.paused = json_member(object, "paused").kind == JSON_TRUE};
    if (object.kind != JSON_OBJECT)
        return false;
    for (size_t i = 0; i < NUMBERS; i++) {
        struct json_value value = json_member(object, numbers[i].name);
        if (value.kind && (value.kind != JSON_NUMBER ||
                           !json_number_i64(value.raw, number_of(&state, &numbers[i]))))
            return false;
    }
    struct json_value last = json_member(object, "last");
    if (last.kind != JSON_ARRAY || !read_last(last, &state))
        return false;
    *out = state;
    return true;
}
