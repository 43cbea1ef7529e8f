#include "server/test_clock.h"

#include "base/list.h"
#include "base/log.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    QUIET_LOOKS = 3,    /* consecutive checks until the server counts as idle */
    RESET_ROUNDS = 100, /* rounds of deleting topics, which clients may keep creating */
    AGAIN_MS = 20       /* if the store cannot see changes by other servers */
};
#define SCHEDULES_TOPIC "tarry.schedules" /* as in cadence/stored.h, which a build may lack */
#define CLOCK_MS_MAX (INT64_C(1) << 46)

/* A call, from its reactor and back; `done` is NULL for the keeper's own calls. */
struct clock_request {
    struct letter letter;
    struct list list;
    struct test_clock_keeper *keeper;
    struct reactor *reactor;
    struct http_clock_call call;
    http_clock_done *done;
    void *owner;
    uint64_t tag;
    struct http_clock_answer answer;
    int64_t target_ms;        /* inner clock */
    uint64_t happened_before; /* number of events when it began */
    uint64_t leased_most;     /* lowest number seen so far */
    uint32_t quiet;           /* consecutive checks without changes */
    uint64_t activity;        /* as of the last check */
    uint32_t rounds;          /* rounds of a reset */
    bool has_begun, is_last;
    bool is_late; /* its timeout has passed */
};

/* A letter to another reactor and back; when it returns, earlier letters to that reactor have
 * arrived. */
struct clock_ping {
    struct letter letter;
    struct test_clock_keeper *keeper;
    uint32_t reactor;
};

struct test_clock_keeper {
    struct http_clock_hooks hooks;
    struct backend *backend;
    struct queue *queue;
    struct delivery *delivery;
    struct reactor *const *reactors;
    uint32_t reactor_count, pings_left;
    struct clock *clock;
    struct list requests;
    struct clock_request *current; /* NULL if idle */
    struct clock_request own;      /* automatic moves */
    bool waits;                    /* `current` waits until a client acts */
    bool is_moving;                /* the clock moves with the current settle */
    bool has_moved;                /* the clock has moved since it was stored */
    bool is_stopping;
    atomic_bool is_auto;
    _Atomic uint64_t activity;
    uint64_t counted_activity; /* activity at the start of the current count */
    atomic_bool active_posted;
    struct letter active_letter;
    struct deadline *timeout, *again;
    char (*names)[JOB_TOPIC_BYTES_MAX + 1]; /* names of topics during a reset */
    size_t name_count, name_at;
    int64_t next_ms;
    uint64_t happened;
    struct clock_ping pings[];
};

static void keeper_next(struct test_clock_keeper *keeper);
static void clock_look(struct test_clock_keeper *keeper);
static void clock_settle(struct test_clock_keeper *keeper, int64_t to_ms);

/* ---- the end of a call ---- */

static void request_back(struct letter *letter)
{
    struct clock_request *request = (struct clock_request *)(void *)letter;
    request->done(request->owner, request->tag, &request->answer);
    free(request);
}

static void request_answer(struct clock_request *request, enum http_clock_outcome outcome)
{
    request->answer.outcome = outcome;
    if (!request->done)
        return;
    request->letter.run = request_back;
    reactor_post(request->reactor, &request->letter);
}

static void request_end(struct test_clock_keeper *keeper, enum http_clock_outcome outcome)
{
    struct clock_request *request = keeper->current;
    deadline_set(keeper->timeout, INT64_MAX);
    deadline_set(keeper->again, INT64_MAX);
    keeper->current = NULL;
    keeper->waits = false;
    request_answer(request, outcome);
    keeper_next(keeper);
}

/* Ends the call; stores the new time before the call is answered. */
static void request_finish(struct test_clock_keeper *keeper)
{
    if (keeper->has_moved) {
        keeper->current->is_last = true;
        clock_settle(keeper, -1);
        return;
    }
    request_end(keeper, HTTP_CLOCK_DONE);
}

/* ---- waiting for idleness ---- */

/* Waits until a client acts, then checks again. */
static void clock_wait(struct test_clock_keeper *keeper)
{
    keeper->current->quiet = 0;
    if (!keeper->current->done) { /* an automatic move: activity triggers it again */
        request_end(keeper, HTTP_CLOCK_DONE);
        return;
    }
    if (keeper->current->is_late) {
        request_end(keeper, HTTP_CLOCK_NOT_IDLE);
        return;
    }
    keeper->waits = true;
    if (keeper->backend->ops->clock->is_shared)
        deadline_set(keeper->again, clock_inner_ms() + AGAIN_MS);
}

static void on_again(void *ctx)
{
    struct test_clock_keeper *keeper = ctx;
    if (keeper->current && keeper->waits) {
        keeper->waits = false;
        clock_settle(keeper, -1);
    }
}

static void on_timeout(void *ctx)
{
    struct test_clock_keeper *keeper = ctx;
    if (keeper->current && keeper->waits)
        request_end(keeper, HTTP_CLOCK_NOT_IDLE);
    else if (keeper->current)
        keeper->current->is_late = true; /* reported if it would wait again */
}

/* Finds the next time for the clock. Returns false if the clock is not to move. */
static bool clock_aim(struct test_clock_keeper *keeper, int64_t *to_ms)
{
    const struct clock_request *request = keeper->current;
    bool to_next = request->call.to_ms == HTTP_CLOCK_TO_NEXT;
    int64_t now_ms = clock_inner_ms_of(keeper->clock);
    if (to_next &&
        (keeper->happened != request->happened_before || keeper->next_ms >= CLOCK_MS_MAX))
        return false;
    if (now_ms >= request->target_ms)
        return false;
    *to_ms = keeper->next_ms < request->target_ms ? keeper->next_ms : request->target_ms;
    if (*to_ms <= now_ms)
        *to_ms = now_ms + 1; /* otherwise the store would not have reported it */
    return true;
}

static void clock_go_on(struct test_clock_keeper *keeper)
{
    struct clock_request *request = keeper->current;
    int64_t to_ms;
    request->quiet = 0;
    request->answer.happened = keeper->happened - request->happened_before;
    bool must_yield = !request->done && !list_is_empty(&keeper->requests);
    if (!must_yield && clock_aim(keeper, &to_ms))
        clock_settle(keeper, to_ms);
    else
        request_finish(keeper);
}

/* Returns true if the topic's jobs are delivered to a target. Their leases are never older than the
 * wait. */
static bool is_delivering(const struct queue_topic *topic)
{
    static const char begin[] = "{\"deliver\":";
    struct slice extension = topic->settings.extension;
    return extension.len >= sizeof begin - 1 && memcmp(extension.at, begin, sizeof begin - 1) == 0;
}

static void on_counted(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct test_clock_keeper *keeper = owner;
    struct clock_request *request = keeper->current;
    uint64_t leased = 0, delivering = 0, activity = atomic_load(&keeper->activity);
    (void)tag;
    if (!request)
        return;
    if (reply->status != QUEUE_OK) {
        request_end(keeper, HTTP_CLOCK_FAILED);
        return;
    }
    for (size_t i = 0; i < reply->topic_count; i++)
        if (slice_is(reply->topics[i].name, SCHEDULES_TOPIC)) {
            delivering += reply->topics[i].counts.ready; /* the server takes them immediately */
            leased += reply->topics[i].counts.leased;    /* some may be of a server that ended */
        } else if (is_delivering(&reply->topics[i]))
            delivering += reply->topics[i].counts.leased;
        else if (!job_topic_is_own(reply->topics[i].name))
            leased += reply->topics[i].counts.leased;
    request->answer.leased = leased + delivering;
    if (!request->has_begun && request->done)
        request->leased_most = leased;
    if (activity != request->activity) {
        request->activity = activity;
        request->quiet = 0;
    }
    if (delivering || leased > request->leased_most) {
        if (!request->is_late && atomic_load(&keeper->activity) != keeper->counted_activity)
            clock_settle(keeper, -1); /* a client acted during the count */
        else
            clock_wait(keeper);
        return;
    }
    request->leased_most = leased;
    if (++request->quiet < QUIET_LOOKS) {
        clock_settle(keeper, -1);
        return;
    }
    request->has_begun = true;
    clock_go_on(keeper);
}

/* Counts the leased jobs after earlier letters to other reactors have arrived. */
static void clock_count(struct test_clock_keeper *keeper)
{
    keeper->counted_activity = atomic_load(&keeper->activity);
    queue_topics(keeper->queue, (struct queue_reply_to){.done = on_counted, .owner = keeper});
}

static void ping_back(struct letter *letter)
{
    struct test_clock_keeper *keeper = ((struct clock_ping *)(void *)letter)->keeper;
    if (--keeper->pings_left == 0 && keeper->current)
        clock_count(keeper);
}

static void ping_there(struct letter *letter)
{
    letter->run = ping_back;
    reactor_post(((struct clock_ping *)(void *)letter)->keeper->reactors[0], letter);
}

static void clock_ping_all(struct test_clock_keeper *keeper)
{
    keeper->pings_left = keeper->reactor_count - 1;
    if (!keeper->pings_left)
        clock_count(keeper);
    for (uint32_t i = 1; i < keeper->reactor_count; i++) {
        keeper->pings[i].letter.run = ping_there;
        reactor_post(keeper->reactors[i], &keeper->pings[i].letter);
    }
}

/* ---- the steps of a move ---- */

static void on_settled(void *ctx, bool is_good, int64_t next_ms, uint64_t happened)
{
    struct test_clock_keeper *keeper = ctx;
    struct clock_request *request = keeper->current;
    if (!request)
        return;
    if (!is_good) {
        request_end(keeper, HTTP_CLOCK_FAILED);
        return;
    }
    if (keeper->is_moving)
        delivery_clock_moved(keeper->delivery);
    if (request->call.verb == HTTP_CLOCK_RESET)
        delivery_clock_reset(keeper->delivery);
    keeper->is_moving = false;
    int64_t rest_ms = delivery_next_ms(keeper->delivery);
    keeper->next_ms = rest_ms < next_ms ? rest_ms : next_ms;
    keeper->happened = happened;
    if (request->is_last)
        request_end(keeper, HTTP_CLOCK_DONE);
    else
        clock_look(keeper);
}

/* Sets the clock (unless -1) and waits until nothing more is due. */
static void clock_settle(struct test_clock_keeper *keeper, int64_t to_ms)
{
    bool is_reset = keeper->current->call.verb == HTTP_CLOCK_RESET;
    const struct backend_clock_move move = {
        .to_ms = to_ms, .restarts = is_reset, .keeps = keeper->current->is_last};
    keeper->is_moving = to_ms >= 0;
    keeper->has_moved |= keeper->is_moving;
    keeper->has_moved &= !move.keeps;
    keeper->backend->ops->clock->settle(keeper->backend, &move, on_settled, keeper);
}

/* Decides the next step when nothing more is due at the current time. */
static void clock_look(struct test_clock_keeper *keeper)
{
    struct clock_request *request = keeper->current;
    if (request->call.waits_idle) {
        if (!request->has_begun && !request->quiet)
            request->happened_before = keeper->happened;
        clock_ping_all(keeper);
        return;
    }
    if (!request->has_begun)
        request->happened_before = keeper->happened;
    request->has_begun = true;
    clock_go_on(keeper);
}

/* ---- reset: delete all topics, then reset the clock ---- */

static void reset_look(struct test_clock_keeper *keeper);

static void on_deleted(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct test_clock_keeper *keeper = owner;
    (void)tag;
    if (!keeper->current)
        return;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        request_end(keeper, HTTP_CLOCK_FAILED);
        return;
    }
    if (keeper->name_at == keeper->name_count) {
        reset_look(keeper);
        return;
    }
    const struct queue_topic_call call = {.verb = QUEUE_TOPIC_DELETE,
                                          .topic = slice_of(keeper->names[keeper->name_at++])};
    queue_topic(keeper->queue, &call, (struct queue_reply_to){.done = on_deleted, .owner = keeper});
}

static void on_topics(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct test_clock_keeper *keeper = owner;
    (void)tag;
    if (!keeper->current)
        return;
    free(keeper->names);
    keeper->names = calloc(reply->topic_count ? reply->topic_count : 1, sizeof *keeper->names);
    keeper->name_count = keeper->name_at = 0;
    if (reply->status != QUEUE_OK || !keeper->names || keeper->current->rounds++ == RESET_ROUNDS) {
        request_end(keeper, HTTP_CLOCK_FAILED);
        return;
    }
    for (size_t i = 0; i < reply->topic_count; i++) {
        struct slice name = reply->topics[i].name;
        memcpy(keeper->names[keeper->name_count++], name.at, name.len);
    }
    if (keeper->name_count) {
        on_deleted(keeper, 0, &(struct queue_reply){.status = QUEUE_OK});
        return;
    }
    keeper->current->is_last = true;
    clock_settle(keeper, -1);
}

static void reset_look(struct test_clock_keeper *keeper)
{
    queue_topics(keeper->queue, (struct queue_reply_to){.done = on_topics, .owner = keeper});
}

/* ---- one call after another ---- */

/* Sets the target of a request. Returns false if the request was answered. */
static bool request_aim(struct test_clock_keeper *keeper, struct clock_request *request)
{
    const struct http_clock_call *call = &request->call;
    int64_t now_ms, wall_ms;
    clock_both_ms_of(keeper->clock, &now_ms, &wall_ms);
    request->target_ms = now_ms;
    if (call->by_ms >= 0) /* delays are rounded up by one */
        request->target_ms = now_ms + call->by_ms + (call->by_ms > 0);
    else if (call->to_ms == HTTP_CLOCK_TO_NEXT)
        request->target_ms = CLOCK_MS_MAX - 1;
    else if (call->to_ms >= 0)
        request->target_ms = now_ms + (call->to_ms - wall_ms);
    if (request->target_ms < now_ms)
        request_end(keeper, HTTP_CLOCK_PAST);
    else if (request->target_ms >= CLOCK_MS_MAX)
        request_end(keeper, HTTP_CLOCK_TOO_FAR);
    return keeper->current == request;
}

static void request_begin(struct test_clock_keeper *keeper, struct clock_request *request)
{
    keeper->current = request;
    if (request->call.set_auto)
        atomic_store(&keeper->is_auto, request->call.set_auto == HTTP_AUTO_ON);
    if (request->call.verb == HTTP_CLOCK_RESET) {
        reset_look(keeper);
        return;
    }
    if (!request_aim(keeper, request))
        return;
    if (request->call.waits_idle && request->done)
        deadline_set(keeper->timeout, clock_inner_ms() + request->call.timeout_ms);
    clock_settle(keeper, -1);
}

/* Moves the clock to the next event automatically. */
static void own_begin(struct test_clock_keeper *keeper)
{
    keeper->own = (struct clock_request){.keeper = keeper,
                                         .call = {.verb = HTTP_CLOCK_ADVANCE,
                                                  .by_ms = -1,
                                                  .to_ms = HTTP_CLOCK_TO_NEXT,
                                                  .waits_idle = true}};
    request_begin(keeper, &keeper->own);
}

/* Begins the next waiting call. Without one, if clients acted or the last automatic move had an
 * effect, begins another automatic move. */
static void keeper_next(struct test_clock_keeper *keeper)
{
    if (keeper->current || keeper->is_stopping)
        return;
    if (!list_is_empty(&keeper->requests)) {
        struct clock_request *request =
            list_entry(keeper->requests.next, struct clock_request, list);
        list_remove(&request->list);
        request_begin(keeper, request);
        return;
    }
    bool has_acted = atomic_load(&keeper->activity) != keeper->own.activity;
    if (atomic_load(&keeper->is_auto) && (has_acted || keeper->own.answer.happened))
        own_begin(keeper);
}

static void request_there(struct letter *letter)
{
    struct clock_request *request = (struct clock_request *)(void *)letter;
    struct test_clock_keeper *keeper = request->keeper;
    if (keeper->is_stopping) {
        request_answer(request, HTTP_CLOCK_STOPPING);
        return;
    }
    list_add_last(&keeper->requests, &request->list);
    if (request->call.set_auto == HTTP_AUTO_ON)
        keeper->own.answer.happened = 1; /* there may be a next event */
    keeper_next(keeper);
}

static void on_call(void *ctx, struct reactor *reactor, const struct http_clock_call *call,
                    http_clock_done *done, void *owner, uint64_t tag)
{
    struct test_clock_keeper *keeper = ctx;
    struct clock_request *request = calloc(1, sizeof *request);
    if (!request) {
        done(owner, tag, &(struct http_clock_answer){.outcome = HTTP_CLOCK_FAILED});
        return;
    }
    *request = (struct clock_request){.letter.run = request_there,
                                      .keeper = keeper,
                                      .reactor = reactor,
                                      .call = *call,
                                      .done = done,
                                      .owner = owner,
                                      .tag = tag};
    list_init(&request->list);
    reactor_post(keeper->reactors[0], &request->letter);
}

static bool on_is_auto(void *ctx)
{
    return atomic_load(&((struct test_clock_keeper *)ctx)->is_auto);
}

/* ---- activity of clients ---- */

static void active_here(struct letter *letter)
{
    struct test_clock_keeper *keeper = list_entry(letter, struct test_clock_keeper, active_letter);
    atomic_store(&keeper->active_posted, false);
    if (keeper->waits) {
        keeper->waits = false;
        clock_settle(keeper, -1);
    }
    keeper_next(keeper);
}

/* Records activity; called on any shard's thread. */
static void on_active(void *ctx)
{
    struct test_clock_keeper *keeper = ctx;
    atomic_fetch_add(&keeper->activity, 1);
    if (!atomic_exchange(&keeper->active_posted, true))
        reactor_post(keeper->reactors[0], &keeper->active_letter);
}

/* ---- life ---- */

struct test_clock_keeper *test_clock_keeper_new(struct backend *backend, struct queue *queue,
                                                struct delivery *delivery,
                                                struct reactor *const *reactors, uint32_t count)
{
    const struct backend_clock *ops = backend->ops->clock;
    struct test_clock_keeper *keeper =
        calloc(1, sizeof *keeper + count * sizeof(struct clock_ping));
    if (!keeper)
        return NULL;
    keeper->backend = backend;
    keeper->queue = queue;
    keeper->delivery = delivery;
    keeper->reactors = reactors;
    keeper->reactor_count = count;
    keeper->clock = ops->clock(backend);
    keeper->hooks = (struct http_clock_hooks){.ctx = keeper,
                                              .clock = keeper->clock,
                                              .start_ms = ops->start_ms(backend),
                                              .is_auto = on_is_auto,
                                              .call = on_call};
    keeper->active_letter.run = active_here;
    list_init(&keeper->requests);
    for (uint32_t i = 0; i < count; i++)
        keeper->pings[i] = (struct clock_ping){.keeper = keeper, .reactor = i};
    keeper->timeout = deadline_new(reactors[0], on_timeout, keeper);
    keeper->again = deadline_new(reactors[0], on_again, keeper);
    if (!keeper->timeout || !keeper->again) {
        test_clock_keeper_free(keeper);
        return NULL;
    }
    ops->on_active(backend, on_active, keeper);
    return keeper;
}

const struct http_clock_hooks *test_clock_keeper_hooks(struct test_clock_keeper *keeper)
{
    return &keeper->hooks;
}

void test_clock_keeper_stop(struct test_clock_keeper *keeper)
{
    keeper->is_stopping = true;
    if (keeper->current)
        request_end(keeper, HTTP_CLOCK_STOPPING);
    while (!list_is_empty(&keeper->requests)) {
        struct clock_request *request =
            list_entry(keeper->requests.next, struct clock_request, list);
        list_remove(&request->list);
        request_answer(request, HTTP_CLOCK_STOPPING);
    }
}

void test_clock_keeper_free(struct test_clock_keeper *keeper)
{
    if (!keeper)
        return;
    deadline_free(keeper->timeout);
    deadline_free(keeper->again);
    free(keeper->names);
    free(keeper);
}
