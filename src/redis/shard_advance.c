/* Letting what is due happen, when it is due. */
#include "redis/private.h"

#include "base/clock.h"
#include "redis/command.h"

#include <stdlib.h>

/* Where many fall due one after the other, some go together; and one server is enough for that. In
 * vain: its clock is not quite where we believe. */
enum { STEP = 500, IN_VAIN_MS = 1, SPACING_MS = 2, OTHER_SPACING_MS = 15 };

struct advancing {
    struct redis_call call;
    struct redis_shard *shard;
    int64_t asked_ms; /* inner */
};

static void pause_for(struct redis_shard *shard, int64_t ms)
{
    shard->pause_until_us = clock_boot_us() + ms * 1000;
}

int64_t redis_advance_pause_ms(const struct redis_shard *shard)
{
    int64_t left_us = shard->pause_until_us - clock_boot_us();
    return left_us > 0 ? (left_us + 999) / 1000 : 0;
}

static int64_t spacing_ms(struct redis_shard *shard, int64_t asked_ms, bool more, bool has_other)
{
    if (more)
        return 0;
    bool in_vain = redis_shard_to_inner(shard, shard->next_ms) <= asked_ms;
    if (in_vain) {
        shard->in_vain_ms = asked_ms;
        shard->in_vain_event_ms = shard->next_ms;
    }
    return has_other ? OTHER_SPACING_MS : in_vain ? IN_VAIN_MS : SPACING_MS;
}

static void on_advanced(struct redis_call *call, enum redis_call_end end,
                        const struct redis_head *head, const redisReply *reply)
{
    struct advancing *advancing = list_entry(call, struct advancing, call);
    struct redis_shard *shard = advancing->shard;
    uint8_t more = 0, has_other = 0;
    shard->advancing = false;
    if (end == REDIS_CALL_OK) {
        struct slice rest = head->rest, topic;
        redis_shard_hear(shard, head);
        if (!redis_unpack_u8(&rest, &more) || !redis_unpack_u8(&rest, &has_other))
            redis_shard_say_malformed(shard, REDIS_ADVANCE);
        for (size_t i = 1; i < reply->elements; i++)
            if (redis_element(reply, i, &topic))
                redis_watch_tell(shard, topic);
    }
    pause_for(shard, spacing_ms(shard, advancing->asked_ms, more, has_other));
    buffer_fini(&call->args);
    free(advancing);
}

void redis_advance(struct redis_shard *shard)
{
    struct advancing *advancing = calloc(1, sizeof *advancing);
    if (!advancing) {
        pause_for(shard, SPACING_MS);
        return;
    }
    advancing->shard = shard;
    advancing->asked_ms = clock_inner_ms();
    redis_shard_call_init(&advancing->call, REDIS_ADVANCE, false, on_advanced);
    advancing->call.is_timed = true;
    struct buffer *args = &advancing->call.args;
    redis_command_text(args, shard->options.server);
    redis_command_number(args, (int64_t)random_below(&shard->random, 1ull << 48));
    redis_command_number(args, STEP);
    shard->news_ms = INT64_MAX;
    if (redis_shard_send(shard, &advancing->call, 3)) {
        shard->advancing = true;
        return;
    }
    buffer_fini(args);
    free(advancing);
    pause_for(shard, SPACING_MS);
}
