/* Packing jobs that are due far from now, when the shard has nothing else to do (scripts/README.md,
 * "Fresh and packed"). */
#include "redis/private.h"

#include "redis/command.h"

#include <stdlib.h>

enum {
    FAR_MS = 60000,    /* as scripts/common/base.lua has it */
    IDLE_MS = 50,      /* without a batch: then there is time */
    STEP = 100,        /* jobs a call: others wait about a millisecond for it */
    FRESH_MAX = 200000 /* pushed without an idle moment: then packing does not wait for one */
};

struct packing {
    struct redis_call call;
    struct redis_shard *shard;
};

void redis_pack_note(struct redis_shard *shard, int64_t due_ms, int64_t now_ms)
{
    if (due_ms > now_ms + FAR_MS) {
        shard->may_pack = true;
        shard->unpacked++;
    }
}

static void on_packed(struct redis_call *call, enum redis_call_end end,
                      const struct redis_head *head, const redisReply *reply)
{
    struct packing *packing = list_entry(call, struct packing, call);
    struct redis_shard *shard = packing->shard;
    uint8_t more = 0;
    (void)reply;
    shard->packing = false;
    if (end == REDIS_CALL_OK) {
        struct slice rest = head->rest;
        redis_shard_hear(shard, head);
        if (!redis_unpack_u8(&rest, &more))
            redis_shard_say_malformed(shard, REDIS_PACK);
        shard->may_pack = more != 0;
        shard->unpacked -= more && shard->unpacked > STEP ? STEP : shard->unpacked;
    }
    buffer_fini(&call->args);
    free(packing);
}

static void pack(struct redis_shard *shard)
{
    struct packing *packing = calloc(1, sizeof *packing);
    if (!packing)
        return; /* it saves memory; nothing depends on it */
    packing->shard = shard;
    redis_shard_call_init(&packing->call, REDIS_PACK, false, on_packed);
    redis_command_number(&packing->call.args, STEP);
    if (redis_shard_send(shard, &packing->call, 1)) {
        shard->packing = true;
        return;
    }
    buffer_fini(&packing->call.args);
    free(packing);
}

int64_t redis_pack_turn(struct redis_shard *shard, int64_t now_ms)
{
    if (shard->batches_under_way || !list_is_empty(&shard->open))
        shard->busy_ms = now_ms;
    if (!shard->may_pack || shard->packing || shard->advancing || !shard->up || shard->stopping)
        return INT64_MAX;
    if (now_ms - shard->busy_ms < IDLE_MS && shard->unpacked < FRESH_MAX)
        return shard->busy_ms + IDLE_MS;
    pack(shard);
    return INT64_MAX; /* its answer brings the next turn */
}
