/* Names, settings, and what a push brings: all of it by number. */
#include "oracle.h"

#include "base/random.h"

#include <stdio.h>

const char *oracle_topic_name(uint32_t topic)
{
    static const char *const names[ORACLE_TOPICS] = {"orders", "mails",  "a",
                                                     "b.long", "retry_", "stalled"};
    return names[topic];
}

void oracle_id_name(uint32_t id, char out[16])
{
    snprintf(out, 16, "j%u", id);
}

bool oracle_find(struct slice topic, struct slice id, uint32_t *topic_out, uint32_t *id_out)
{
    char name[16];

    for (uint32_t t = 0; t < ORACLE_TOPICS; t++)
        for (uint32_t i = 0; slice_is(topic, oracle_topic_name(t)) && i < ORACLE_IDS; i++) {
            oracle_id_name(i, name);
            if (slice_is(id, name)) {
                *topic_out = t;
                *id_out = i;
                return true;
            }
        }
    return false;
}

void oracle_error_text(uint32_t error, char out[32])
{
    static const char *const known[ERROR_OURS] = {"", "lease ended", "expired"};

    if (error < ERROR_OURS)
        snprintf(out, 32, "%s", known[error]);
    else
        snprintf(out, 32, "boom %u", error);
}

static const struct topic_settings rows[ORACLE_SETTINGS] = {
    {.dedup_window_ms = 0},
    {.policy = {.lease_ms = 500,
                .backoff = {.kind = BACKOFF_FIXED, .first_ms = 300, .max_ms = 300},
                .max_attempts = 3},
     .dedup_window_ms = 4000},
    {.policy = {.lease_ms = 2000,
                .backoff = {.kind = BACKOFF_EXPONENTIAL, .first_ms = 50, .max_ms = 2000},
                .max_attempts = 5},
     .dead_letter_expired = true},
    {.policy = {.lease_ms = 100, .max_attempts = 2}, .dedup_window_ms = 60000}};

struct topic_settings oracle_settings(uint32_t row)
{
    return rows[row];
}

void oracle_cargo(uint32_t serial, struct cargo *out)
{
    static const char *const types[] = {"", "application/json", "text/plain"};
    struct random random = {.state = serial * 0x9e3779b9u};
    uint64_t chance = random_next(&random);

    *out = (struct cargo){.content_type = types[chance % 3]};
    out->body_bytes = 16 + random_below(&random, chance % 16 ? 240 : ORACLE_BODY_MAX - 16);
    snprintf(out->body, sizeof out->body, "%08u:", serial);
    for (size_t i = 9; i < out->body_bytes; i++)
        out->body[i] = (char)random_next(&random);
    if (chance >> 8 & 1)
        out->meta_bytes = (size_t)snprintf(out->meta, sizeof out->meta, "n%c%u%c", 0, serial, 0);
    if ((chance >> 9 & 7) == 0)
        out->policy.ttl_ms = 200 + (int64_t)random_below(&random, 5000);
    if ((chance >> 12 & 7) == 0)
        out->policy.max_attempts = 1 + (uint32_t)random_below(&random, 4);
    if ((chance >> 15 & 7) == 0)
        out->policy.backoff =
            (struct backoff){.kind = BACKOFF_FIXED, .first_ms = 700, .max_ms = 700};
    if ((chance >> 15 & 7) == 1)
        out->policy.backoff =
            (struct backoff){.kind = BACKOFF_LIST, .step_count = 2, .steps_ms = {40, 900}};
    if ((chance >> 18 & 15) == 0)
        out->past_attempt = 1 + (uint32_t)random_below(&random, 3);
    out->past_dead = (chance >> 22 & 31) == 0;
}
