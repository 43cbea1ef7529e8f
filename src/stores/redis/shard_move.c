#include "redis/shard_move.h"

#include "base/clock.h"
#include "base/log.h"
#include "redis/command.h"
#include "redis/id.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE_JOBS = 100,         /* a few milliseconds of Redis' time in total */
    PAGE_BYTES = 512 * 1024, /* of records; a single job may be larger */
    REST_MAX_MS = 100,       /* longest pause between pages; else as long as the last one took */
    IDLE_MS = 200,           /* pause if another server moves jobs, or only leased jobs are left */
    JOB_ELEMENTS = 4,        /* id, record, try, history */
    FIRST_JOB = 2            /* after the head and the topic */
};

enum leave_result { NOTHING_LEAVES = 0, PAGE_LEAVES, OTHER_MOVES, NOTHING_IS_LEFT };
enum page_kind { PAGE_OF_JOBS = 1, PAGE_OF_IDS, PAGE_OF_TOTALS, PAGE_OF_RECORDS };

/* ---- progress ---- */

static void note_state(struct redis_shard *shard, enum redis_move_state state,
                       const struct redis_generation *target)
{
    shard->move.state = state;
    shard->move.target = *target;
    shard->options.moved(shard->options.learned_ctx, shard->options.place, state, target);
}

/* Reads the number of open batches and the job of one, if the reply has them. */
static void read_batches(struct redis_shard *shard, struct slice rest)
{
    struct redis_move *move = &shard->move;
    char room[REDIS_ID_ROOM_BYTES];
    const char *nul;
    struct slice id;
    if (!rest.len || !redis_unpack_u32(&rest, &move->batches))
        return;
    nul = rest.len ? memchr(rest.at, 0, rest.len) : NULL;
    if (!nul)
        return;
    size_t topic_bytes = (size_t)(nul - rest.at);
    id = (struct slice){nul + 1, rest.len - topic_bytes - 1};
    if (redis_id_show(id, room, &id))
        snprintf(move->batch, sizeof move->batch, "'%.*s' of the topic '%.*s'", (int)id.len, id.at,
                 (int)topic_bytes, rest.at);
}

/* Reads the state byte, the last number assigned, and the target generation if there is one.
 * Returns false if the text is malformed. */
static bool read_state(struct redis_shard *shard, struct slice rest, enum redis_move_state *state,
                       struct redis_generation *target)
{
    uint8_t byte;
    uint64_t number;
    *target = (struct redis_generation){0};
    if (!redis_unpack_u8(&rest, &byte) || byte > REDIS_MOVE_CLOSED ||
        !redis_unpack_u48(&rest, &number))
        return false;
    shard->move.number = number;
    *state = (enum redis_move_state)byte;
    if (byte == REDIS_MOVE_NONE)
        read_batches(shard, rest);
    return byte == REDIS_MOVE_NONE || redis_generation_parse(rest, target);
}

void redis_move_receive(struct redis_shard *shard, struct slice rest)
{
    enum redis_move_state state;
    struct redis_generation target;
    if (read_state(shard, rest, &state, &target))
        note_state(shard, state, &target);
    else
        redis_shard_log_malformed(shard, REDIS_LOOK);
}

/* ---- steps ---- */

struct step {
    struct redis_call call;
    struct redis_shard *shard;
    void (*done)(void *ctx, enum queue_status status, const struct redis_generation *target);
    void *ctx;
};

static void on_stepped(struct redis_call *call, enum redis_call_end end,
                       const struct redis_head *head, const redisReply *reply)
{
    struct step *step = list_entry(call, struct step, call);
    enum queue_status status = redis_shard_status(end);
    struct redis_generation target = {0};
    enum redis_move_state state;
    (void)reply;
    if (step->shard->freeing)
        status = QUEUE_STOPPING;
    else if (status == QUEUE_OK && read_state(step->shard, head->rest, &state, &target))
        note_state(step->shard, state, &target);
    else if (status == QUEUE_OK)
        status = QUEUE_UNAVAILABLE;
    if (step->done && !step->shard->freeing)
        step->done(step->ctx, status, &target);
    buffer_fini(&step->call.args);
    free(step);
}

static bool go_on(struct redis_shard *shard, const char *verb,
                  const struct redis_generation *target, uint64_t least,
                  void (*done)(void *ctx, enum queue_status status,
                               const struct redis_generation *target),
                  void *ctx)
{
    struct step *step = malloc(sizeof *step);
    char text[REDIS_GENERATION_BYTES];
    if (!step)
        return false;
    *step = (struct step){.shard = shard, .done = done, .ctx = ctx};
    redis_shard_call_init(&step->call, REDIS_RESHARD, true, on_stepped);
    redis_command_text(&step->call.args, verb);
    redis_generation_write(target, text);
    redis_command_text(&step->call.args, text);
    redis_command_number(&step->call.args, (int64_t)least);
    if (redis_shard_send(shard, &step->call, 3))
        return true;
    buffer_fini(&step->call.args);
    free(step);
    return false;
}

uint64_t redis_shard_number(const struct redis_shard *shard)
{
    return shard->move.number;
}

uint32_t redis_shard_batches(const struct redis_shard *shard, const char **job)
{
    *job = shard->move.batch;
    return shard->move.batches;
}

void redis_shard_go_on(struct redis_shard *shard, const char *verb,
                       const struct redis_generation *target, uint64_t least,
                       void (*done)(void *ctx, enum queue_status status,
                                    const struct redis_generation *target),
                       void *ctx)
{
    bool sent = go_on(shard, verb, target, least, done, ctx);
    assert(sent); /* only a few steps, and the command does nothing else */
    (void)sent;
}

/* Informs the scripts that this server has learned of the next generation. Repeated each second,
 * because a failover may undo it. */
static void adopt(struct redis_shard *shard)
{
    (void)go_on(shard, "adopt", &shard->move.target, 0, NULL, NULL);
}

/* ---- a page ---- */

/* A call that moves jobs, to the shard that they leave or to one that receives them. */
struct moving {
    struct redis_call call;
    struct redis_shard *from, *into;
    size_t argc;
};

static struct moving *moving_new(struct redis_shard *from, struct redis_shard *into,
                                 enum redis_script script,
                                 void (*done)(struct redis_call *call, enum redis_call_end end,
                                              const struct redis_head *head,
                                              const redisReply *reply))
{
    struct moving *moving = calloc(1, sizeof *moving);
    if (!moving)
        return NULL;
    moving->from = from;
    moving->into = into;
    redis_shard_call_init(&moving->call, script, true, done);
    return moving;
}

static void moving_free(struct moving *moving)
{
    buffer_fini(&moving->call.args);
    free(moving);
}

/* Sends the call. If that fails, frees it and returns false. */
static bool moving_send(struct moving *moving, struct redis_shard *to)
{
    if (redis_shard_send(to, &moving->call, moving->argc))
        return true;
    moving_free(moving);
    return false;
}

/* Ends a page, completed or not: what is still in progress is returned again by the next
 * request. */
static void page_end(struct redis_shard *shard, int64_t rest_ms)
{
    shard->move.is_under_way = false;
    shard->move.next_ms = clock_inner_ms() + rest_ms;
}

/* Returns the pause after a page. Servers keep at least half of Redis' time. */
static int64_t rest_ms(const struct redis_shard *shard)
{
    int64_t took_ms = (clock_inner_us() - shard->move.began_us) / 1000;
    return took_ms < REST_MAX_MS ? took_ms + 1 : REST_MAX_MS;
}

static void on_dropped(struct redis_call *call, enum redis_call_end end,
                       const struct redis_head *head, const redisReply *reply)
{
    struct moving *moving = list_entry(call, struct moving, call);
    struct redis_shard *shard = moving->from;
    (void)head;
    (void)reply;
    page_end(shard, end == REDIS_CALL_OK ? rest_ms(shard) : IDLE_MS);
    moving_free(moving);
}

static void page_drop(struct redis_shard *shard)
{
    struct moving *moving = moving_new(shard, NULL, REDIS_DROP, on_dropped);
    if (moving) {
        redis_command_number(&moving->call.args, (int64_t)shard->move.page);
        moving->argc = 1;
    }
    if (!moving || !moving_send(moving, shard))
        page_end(shard, IDLE_MS);
}

/* Notes the end of an arrival. After the last one the page is dropped. */
static void arrival_ended(struct redis_shard *shard, bool is_there)
{
    shard->move.has_failed |= !is_there;
    if (--shard->move.left > 0)
        return;
    if (shard->move.has_failed)
        page_end(shard, IDLE_MS);
    else
        page_drop(shard);
}

static void on_arrived(struct redis_call *call, enum redis_call_end end,
                       const struct redis_head *head, const redisReply *reply)
{
    struct moving *moving = list_entry(call, struct moving, call);
    struct redis_shard *shard = moving->from;
    (void)reply;
    if (end == REDIS_CALL_OK)
        redis_shard_note_head(moving->into, head);
    moving_free(moving);
    arrival_ended(shard, end == REDIS_CALL_OK);
}

/* Returns how far the clock of `into` is ahead of that of `from`. With two masters the difference
 * has an uncertainty of two round trips: the maximum is used, because nothing may come early. */
static int64_t shift_ms(const struct redis_shard *from, const struct redis_shard *into)
{
    const struct peer_clock *old = redis_session_clock(from->session);
    const struct peer_clock *new = redis_session_clock(into->session);
    int64_t earliest_ms, latest_ms, now_us = clock_inner_us(), unused;
    if (new->is_held || old->is_held)
        return 0;
    if (from->options.url->kind != REDIS_CLUSTER)
        return new->adjust_ms - old->adjust_ms;
    peer_clock_window(old, now_us, &earliest_ms, &unused);
    peer_clock_window(new, now_us, &unused, &latest_ms);
    return latest_ms - earliest_ms;
}

/* Returns the target shard's share of the page, which is created with its first job. Returns NULL
 * if memory runs out. */
static struct moving *share_of(struct redis_shard *from, struct redis_shard *into,
                               enum page_kind kind, struct slice topic,
                               struct moving *shares[REDIS_SHARDS_MAX])
{
    struct moving **share = &shares[into->options.place];
    if (*share)
        return *share;
    if (!(*share = moving_new(from, into, REDIS_ARRIVE, on_arrived)))
        return NULL;
    struct buffer *args = &(*share)->call.args;
    redis_command_number(args, (int64_t)from->options.place);
    redis_command_number(args, (int64_t)from->move.page);
    redis_command_number(args, kind);
    redis_command_arg(args, topic);
    redis_command_number(args, shift_ms(from, into));
    (*share)->argc = 5;
    return *share;
}

/* Adds each job to the share of its new shard. Returns false if memory runs out or the reply is
 * malformed. */
static bool page_share(struct redis_shard *shard, const redisReply *reply, enum page_kind kind,
                       struct slice topic, struct moving *shares[REDIS_SHARDS_MAX])
{
    for (size_t at = FIRST_JOB; at < reply->elements; at += JOB_ELEMENTS) {
        struct slice stored, id = {0}, part;
        char room[REDIS_ID_ROOM_BYTES];
        if (!redis_element(reply, at, &stored) ||
            (kind != PAGE_OF_TOTALS && !redis_id_show(stored, room, &id)))
            return false;
        struct redis_shard *into = shard->options.next_of(shard->options.learned_ctx, topic, id);
        struct moving *share = into ? share_of(shard, into, kind, topic, shares) : NULL;
        if (!share)
            return false;
        for (size_t i = 0; i < JOB_ELEMENTS; i++) {
            if (!redis_element(reply, at + i, &part))
                return false;
            redis_command_arg(&share->call.args, part);
        }
        share->argc += JOB_ELEMENTS;
    }
    return true;
}

static void shares_free(struct moving *shares[REDIS_SHARDS_MAX])
{
    for (size_t i = 0; i < REDIS_SHARDS_MAX; i++)
        if (shares[i])
            moving_free(shares[i]);
}

static void page_send(struct redis_shard *shard, const redisReply *reply, enum page_kind kind)
{
    struct moving *shares[REDIS_SHARDS_MAX] = {0};
    struct slice topic;
    if (!redis_element(reply, 1, &topic) || !page_share(shard, reply, kind, topic, shares)) {
        shares_free(shares);
        redis_shard_log_malformed(shard, REDIS_LEAVE);
        page_end(shard, REST_MAX_MS * 10);
        return;
    }
    shard->move.has_failed = false;
    shard->move.left = 1;
    for (size_t i = 0; i < REDIS_SHARDS_MAX; i++) {
        if (!shares[i])
            continue;
        shard->move.left++;
        if (!moving_send(shares[i], shares[i]->into))
            arrival_ended(shard, false);
    }
    arrival_ended(shard, true);
}

static bool read_page(struct slice rest, uint8_t *answer, uint8_t *kind, uint64_t *page)
{
    uint64_t now_ms;
    return redis_unpack_u8(&rest, answer) && redis_unpack_u48(&rest, page) &&
           redis_unpack_u48(&rest, &now_ms) && redis_unpack_u8(&rest, kind);
}

static void closed(struct redis_shard *shard)
{
    const struct redis_generation target = shard->move.target;
    note_state(shard, REDIS_MOVE_CLOSED, &target);
}

static void on_left(struct redis_call *call, enum redis_call_end end, const struct redis_head *head,
                    const redisReply *reply)
{
    struct moving *moving = list_entry(call, struct moving, call);
    struct redis_shard *shard = moving->from;
    uint8_t answer = NOTHING_LEAVES, kind = 0;
    moving_free(moving);
    if (end == REDIS_CALL_OK) {
        redis_shard_note_head(shard, head);
        if (!read_page(head->rest, &answer, &kind, &shard->move.page))
            redis_shard_log_malformed(shard, REDIS_LEAVE);
    }
    if (answer == NOTHING_IS_LEFT)
        closed(shard);
    if (answer == PAGE_LEAVES)
        page_send(shard, reply, (enum page_kind)kind);
    else
        page_end(shard, IDLE_MS);
}

static void page_ask(struct redis_shard *shard)
{
    struct moving *moving = moving_new(shard, NULL, REDIS_LEAVE, on_left);
    shard->move.is_under_way = true;
    shard->move.began_us = clock_inner_us();
    if (moving) {
        redis_command_number(&moving->call.args, PAGE_JOBS);
        redis_command_number(&moving->call.args, PAGE_BYTES);
        moving->argc = 2;
    }
    if (!moving || !moving_send(moving, shard))
        page_end(shard, IDLE_MS);
}

/* ---- the step ---- */

static bool knows_next(const struct redis_shard *shard)
{
    return shard->options.next_of(shard->options.learned_ctx, slice_of(""), slice_of(""));
}

int64_t redis_move_step(struct redis_shard *shard, int64_t now_ms, bool looks)
{
    struct redis_move *move = &shard->move;
    if (move->state == REDIS_MOVE_CLOSED || shard->stopping || !shard->up || !knows_next(shard))
        return INT64_MAX;
    if (looks)
        adopt(shard);
    if (move->state != REDIS_MOVE_LEAVING || move->is_under_way)
        return INT64_MAX;
    if (move->next_ms > now_ms)
        return move->next_ms;
    page_ask(shard);
    return INT64_MAX;
}
