#include "api/consumers.h"

#include "api/routes.h"
#include "api/state.h"
#include "base/clock.h"
#include "base/json_write.h"
#include "base/table.h"
#include "http/connection.h"
#include "http/exchange.h"
#include "net/peer.h"
#include "queue/search.h"
#include "queue/waiter.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct consumer {
    struct table_entry entry; /* by name, within its topic */
    uint64_t taken;
    int64_t seen_ms;
    char name[];
};
TABLE_DECLARE(consumer_table, struct consumer, entry)

struct consumer_topic {
    struct table_entry entry; /* by name */
    struct consumer_table consumers;
    char name[];
};
TABLE_DECLARE(consumer_topic_table, struct consumer_topic, entry)

struct api_consumers {
    pthread_mutex_t lock;
    struct consumer_topic_table topics;
    size_t count;
    int64_t swept_ms;              /* time of the last sweep */
    struct api_consumers *pushers; /* those who push, in place of those who take; NULL in it */
};

enum { SWEEP_MS = 60 * 1000 };

static struct api_consumers *registry_new(void)
{
    struct api_consumers *consumers = calloc(1, sizeof *consumers);
    if (consumers)
        pthread_mutex_init(&consumers->lock, NULL);
    return consumers;
}

struct api_consumers *api_consumers_new(void)
{
    struct api_consumers *consumers = registry_new();
    if (consumers && !(consumers->pushers = registry_new())) {
        api_consumers_free(consumers);
        return NULL;
    }
    return consumers;
}

/* Removes the consumers of the topic that were not seen since, and the topic if it is empty. */
static void topic_sweep(struct api_consumers *consumers, struct consumer_topic *topic,
                        int64_t since_ms)
{
    struct consumer *next;
    for (struct consumer *at = consumer_table_first(&topic->consumers); at; at = next) {
        next = consumer_table_next(&topic->consumers, at);
        if (at->seen_ms >= since_ms)
            continue;
        consumer_table_remove(&topic->consumers, at);
        consumers->count--;
        free(at);
    }
    if (topic->consumers.table.count)
        return;
    consumer_topic_table_remove(&consumers->topics, topic);
    consumer_table_fini(&topic->consumers);
    free(topic);
}

/* Removes the consumers that were not seen since, or since `busy_since_ms` if more than half of the
 * room is used. */
static void consumers_sweep(struct api_consumers *consumers, int64_t since_ms,
                            int64_t busy_since_ms)
{
    struct consumer_topic *next;
    for (struct consumer_topic *at = consumer_topic_table_first(&consumers->topics); at;
         at = next) {
        next = consumer_topic_table_next(&consumers->topics, at);
        bool is_busy = consumers->count > API_CONSUMERS_MAX / 2 ||
                       at->consumers.table.count > API_CONSUMERS_OF_TOPIC_MAX / 2;
        topic_sweep(consumers, at, is_busy ? busy_since_ms : since_ms);
    }
}

void api_consumers_free(struct api_consumers *consumers)
{
    if (!consumers)
        return;
    api_consumers_free(consumers->pushers);
    consumers_sweep(consumers, INT64_MAX, INT64_MAX);
    consumer_topic_table_fini(&consumers->topics);
    pthread_mutex_destroy(&consumers->lock);
    free(consumers);
}

/* Returns the topic, created if necessary, or NULL if out of memory. */
static struct consumer_topic *topic_of(struct api_consumers *consumers, struct slice name)
{
    struct consumer_topic *topic = consumer_topic_table_find(&consumers->topics, name);
    if (topic || !(topic = calloc(1, sizeof *topic + name.len)))
        return topic;
    memcpy(topic->name, name.at, name.len);
    topic->entry.key = slice_make(topic->name, name.len);
    consumer_topic_table_add(&consumers->topics, topic);
    return topic;
}

/* Returns the consumer, created if necessary, or NULL if there are too many or out of memory. */
static struct consumer *consumer_of(struct api_consumers *consumers, struct slice topic_name,
                                    struct slice name)
{
    struct consumer_topic *topic = topic_of(consumers, topic_name);
    if (!topic)
        return NULL;
    struct consumer *consumer = consumer_table_find(&topic->consumers, name);
    if (consumer)
        return consumer;
    if (consumers->count < API_CONSUMERS_MAX &&
        topic->consumers.table.count < API_CONSUMERS_OF_TOPIC_MAX)
        consumer = calloc(1, sizeof *consumer + name.len);
    if (!consumer) {
        if (!topic->consumers.table.count) /* newly created */
            topic_sweep(consumers, topic, INT64_MIN);
        return NULL;
    }
    memcpy(consumer->name, name.at, name.len);
    consumer->entry.key = slice_make(consumer->name, name.len);
    consumer_table_add(&topic->consumers, consumer);
    consumers->count++;
    return consumer;
}

void api_consumers_note(struct api_consumers *consumers, struct slice topic, struct slice name,
                        uint64_t taken, int64_t now_ms)
{
    pthread_mutex_lock(&consumers->lock);
    if (now_ms - consumers->swept_ms >= SWEEP_MS || now_ms < consumers->swept_ms) {
        consumers_sweep(consumers, now_ms - API_CONSUMERS_KEPT_MS,
                        now_ms - API_CONSUMERS_ACTIVE_MS);
        consumers->swept_ms = now_ms;
    }
    struct consumer *consumer = consumer_of(consumers, topic, name);
    if (consumer) {
        consumer->taken += taken;
        consumer->seen_ms = now_ms;
    }
    pthread_mutex_unlock(&consumers->lock);
}

/* ---- callers that push ---- */

enum { PUSHED_TOPICS_MAX = 32 /* recorded of one request */ };

/* Returns the name of the caller, or its address without the port. A call that continues after its handler has its own
 * caller, since the connection may then have another one. */
static struct slice pusher_name(const struct http_exchange *exchange, char address[PEER_TEXT_BYTES])
{
    const struct http_connection *connection = exchange->connection;
    const struct access_caller *caller =
        exchange->caller ? exchange->caller : connection->gate.caller;
    if (caller && caller->kind != ACCESS_ANYONE)
        return caller->name;
    peer_emit(&connection->peer, address);
    char *port = connection->peer.kind == PEER_ADDRESS ? strrchr(address, ':') : NULL;
    if (port)
        *port = 0;
    return slice_of(address[0] ? address : "unknown");
}

void api_pushers_note(struct http_exchange *exchange, const struct queue_push *pushes, size_t count)
{
    struct http_connection *connection = exchange->connection;
    int64_t now_ms = http_front_now_ms(exchange->front);
    if (!connection ||
        (connection->pushed_ms && now_ms - connection->pushed_ms < API_PUSHERS_PAUSE_MS))
        return;
    connection->pushed_ms = now_ms;
    char address[PEER_TEXT_BYTES];
    struct slice name = pusher_name(exchange, address);
    struct api_consumers *pushers = api_consumers_of(exchange->front->shared)->pushers;
    uint32_t topics = 0;
    for (size_t i = 0; i < count && topics < PUSHED_TOPICS_MAX; i++) {
        struct slice topic = pushes[i].topic;
        if (topic.len > JOB_TOPIC_BYTES_MAX || (i && slice_equals(topic, pushes[i - 1].topic)))
            continue;
        api_consumers_note(pushers, topic, name, 0, clock_wall_ms());
        topics++;
    }
}

/* Writes the callers that pushed last, the latest first. */
static void write_pushers(struct buffer *out, struct api_consumers *pushers, struct slice name,
                          int64_t now_ms)
{
    const struct consumer *latest[API_PUSHERS_SHOWN];
    size_t count = 0;
    pthread_mutex_lock(&pushers->lock);
    const struct consumer_topic *topic = consumer_topic_table_find(&pushers->topics, name);
    for (struct consumer *at = topic ? consumer_table_first(&topic->consumers) : NULL; at;
         at = consumer_table_next(&topic->consumers, at)) {
        size_t place = count;
        if (at->seen_ms < now_ms - API_CONSUMERS_KEPT_MS)
            continue;
        while (place && latest[place - 1]->seen_ms < at->seen_ms)
            place--;
        if (place == API_PUSHERS_SHOWN)
            continue;
        count += count < API_PUSHERS_SHOWN;
        memmove(&latest[place + 1], &latest[place], (count - place - 1) * sizeof latest[0]);
        latest[place] = at;
    }
    json_write_member(out, "pushers");
    buffer_append_byte(out, '[');
    for (size_t i = 0; i < count; i++) {
        buffer_append_text(out, i ? ",{\"caller\":" : "{\"caller\":");
        json_write_string(out, latest[i]->entry.key);
        json_write_member(out, "seen_at");
        json_write_time(out, latest[i]->seen_ms);
        buffer_append_byte(out, '}');
    }
    buffer_append_byte(out, ']');
    pthread_mutex_unlock(&pushers->lock);
}

/* ---- GET /v1/topics/{topic}/consumers ---- */

enum {
    HOLDERS_MAX = 2 * API_CONSUMERS_OF_TOPIC_MAX /* in one answer, which is incomplete above it */
};

/* The figures of a consumer in one call. */
struct holder {
    struct table_entry entry; /* by name */
    uint64_t leased, taken;
    int64_t seen_ms; /* 0: not seen by this server */
    char name[];
};
TABLE_DECLARE(holder_table, struct holder, entry)

/* The count of the waiting takes of one front, which is made on its reactor's thread. */
struct wait_count {
    struct letter letter;
    struct holder_census *census;
    struct waiters *waiters;
};

/* A call in progress. */
struct holder_census {
    struct letter counted; /* to the caller's front: all waiting takes are counted */
    struct http_front *front;
    uint64_t tag; /* of the exchange */
    bool is_without_memory, is_cut;
    uint64_t unnamed; /* leases taken without a name */
    struct holder_table holders;
    atomic_uint uncounted; /* fronts whose waiting takes are not counted yet */
    atomic_uint waiting, waiting_unnamed;
    struct wait_count counts[HTTP_FRONTS_MAX];
    size_t topic_bytes;
    char topic[JOB_TOPIC_BYTES_MAX];
};

static void census_free(struct holder_census *census)
{
    struct holder *next;
    for (struct holder *at = holder_table_first(&census->holders); at; at = next) {
        next = holder_table_next(&census->holders, at);
        free(at);
    }
    holder_table_fini(&census->holders);
    free(census);
}

/* Returns the entry of a consumer, created if necessary. Returns NULL, and records that, if there
 * are too many or out of memory. */
static struct holder *census_holder(struct holder_census *census, struct slice name)
{
    struct holder *holder = holder_table_find(&census->holders, name);
    if (holder)
        return holder;
    if (census->holders.table.count >= HOLDERS_MAX) {
        census->is_cut = true;
        return NULL;
    }
    if (!(holder = calloc(1, sizeof *holder + name.len))) {
        census->is_without_memory = true;
        return NULL;
    }
    memcpy(holder->name, name.at, name.len);
    holder->entry.key = slice_make(holder->name, name.len);
    holder_table_add(&census->holders, holder);
    return holder;
}

static void on_leased_found(void *owner, uint64_t tag, const struct queue_job *found)
{
    struct holder_census *census = owner;
    (void)tag;
    struct slice name = found->job.consumer;
    struct holder *holder = name.len ? census_holder(census, name) : NULL;
    if (holder)
        holder->leased++;
    else if (!name.len)
        census->unnamed++;
}

static bool census_is_wanted(void *owner, uint64_t tag)
{
    const struct holder_census *census = owner;
    return !census->is_without_memory && http_exchange_is_wanted(census->front, tag);
}

/* Adds the consumers seen by this server. */
static void census_add_seen(struct holder_census *census, struct api_consumers *consumers,
                            int64_t now_ms)
{
    pthread_mutex_lock(&consumers->lock);
    const struct consumer_topic *topic = consumer_topic_table_find(
        &consumers->topics, slice_make(census->topic, census->topic_bytes));
    for (struct consumer *at = topic ? consumer_table_first(&topic->consumers) : NULL; at;
         at = consumer_table_next(&topic->consumers, at)) {
        if (at->seen_ms < now_ms - API_CONSUMERS_KEPT_MS)
            continue;
        struct holder *holder = census_holder(census, at->entry.key);
        if (!holder)
            continue;
        holder->taken = at->taken;
        holder->seen_ms = at->seen_ms;
    }
    pthread_mutex_unlock(&consumers->lock);
}

/* Compares by number of leases, descending, then by name. */
static int compare_holders(const void *left, const void *right)
{
    const struct holder *a = *(const struct holder *const *)left,
                        *b = *(const struct holder *const *)right;
    if (a->leased != b->leased)
        return a->leased < b->leased ? 1 : -1;
    return slice_compare(a->entry.key, b->entry.key);
}

static void write_holder(struct buffer *out, const struct holder *holder)
{
    buffer_append_text(out, "{\"consumer\":");
    json_write_string(out, holder->entry.key);
    json_write_member_number(out, "leased", holder->leased);
    json_write_member_number(out, "taken", holder->taken);
    json_write_member_time(out, "seen_at", holder->seen_ms);
    buffer_append_byte(out, '}');
}

/* Writes the consumers. Returns false if out of memory. */
static bool write_holders(struct buffer *out, const struct holder_census *census)
{
    size_t count = 0, total = census->holders.table.count;
    const struct holder **sorted = calloc(total ? total : 1, sizeof *sorted);
    if (!sorted || census->is_without_memory) {
        free(sorted);
        return false;
    }
    for (struct holder *at = holder_table_first(&census->holders); at;
         at = holder_table_next(&census->holders, at))
        sorted[count++] = at;
    qsort(sorted, count, sizeof *sorted, compare_holders);
    buffer_append_text(out, "{\"consumers\":[");
    for (size_t i = 0; i < count; i++) {
        if (i)
            buffer_append_byte(out, ',');
        write_holder(out, sorted[i]);
    }
    buffer_append_byte(out, ']');
    json_write_member_number(out, "unnamed", census->unnamed);
    json_write_member_number(out, "waiting", census->waiting);
    json_write_member_number(out, "waiting_unnamed", census->waiting_unnamed);
    free(sorted);
    return true;
}

static void census_answer(struct http_exchange *exchange, struct holder_census *census)
{
    int64_t now_ms = clock_wall_ms();
    census_add_seen(census, api_consumers_of(census->front->shared), now_ms);
    struct buffer *body = http_answer_start(exchange);
    if (!write_holders(body, census)) {
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    write_pushers(body, api_consumers_of(census->front->shared)->pushers,
                  slice_make(census->topic, census->topic_bytes), now_ms);
    buffer_append_text(body, census->is_cut ? ",\"complete\":false}" : ",\"complete\":true}");
    http_answer_end_json(exchange, 200);
}

/* Receives the counts on the caller's front. */
static void run_counted(struct letter *letter)
{
    struct holder_census *census = (struct holder_census *)(void *)letter;
    struct http_exchange *exchange = http_exchange_find(census->front, census->tag);
    if (exchange)
        census_answer(exchange, census);
    census_free(census);
}

/* Counts the waiting takes of a front on its reactor's thread; the last one notifies the caller. */
static void run_count(struct letter *letter)
{
    const struct wait_count *count = (const struct wait_count *)(const void *)letter;
    struct holder_census *census = count->census;
    uint32_t unnamed;
    atomic_fetch_add(
        &census->waiting,
        waiters_of_topic(count->waiters, slice_make(census->topic, census->topic_bytes), &unnamed));
    atomic_fetch_add(&census->waiting_unnamed, unnamed);
    if (atomic_fetch_sub(&census->uncounted, 1) == 1)
        reactor_post(census->front->reactor, &census->counted);
}

static void census_count_waits(struct holder_census *census)
{
    struct http_shared *shared = census->front->shared;
    pthread_mutex_lock(&shared->lock);
    uint32_t count = shared->front_count; /* the census may be freed before the loop ends */
    census->counted.run = run_counted;
    atomic_store(&census->uncounted, count);
    for (uint32_t i = 0; i < count; i++)
        census->counts[i] = (struct wait_count){
            .letter.run = run_count, .census = census, .waiters = shared->fronts[i]->waiters};
    for (uint32_t i = 0; i < count; i++)
        reactor_post(shared->fronts[i]->reactor, &census->counts[i].letter);
    pthread_mutex_unlock(&shared->lock);
}

static void on_leased_searched(void *owner, uint64_t tag, const struct search_result *result)
{
    struct holder_census *census = owner;
    struct http_exchange *exchange = http_exchange_find(census->front, tag);
    if (exchange && result->status == QUEUE_OK) {
        census->tag = tag;
        census->is_cut |= result->cursor.len > 0;
        census_count_waits(census);
        return;
    }
    if (exchange)
        http_answer_refusal(exchange, result->status, NULL, 0);
    census_free(census);
}

static void list_consumers(struct http_call *call)
{
    /* Long pages: if the store is in memory, each page is a walk over all jobs. */
    struct search_order order = {
        .topic = call->topic, .state = JOB_LEASED, .page_jobs = QUEUE_LIST_MAX};
    struct holder_census *census = calloc(1, sizeof *census);
    http_note_subject(call, HTTP_SUBJECT_TOPIC, (struct slice){0});
    struct search_listener listener = {.found = on_leased_found,
                                       .wanted = census_is_wanted,
                                       .done = on_leased_searched,
                                       .owner = census,
                                       .tag = http_exchange_tag(call->exchange)};
    if (census) {
        census->front = call->front;
        census->topic_bytes =
            call->topic.len < sizeof census->topic ? call->topic.len : sizeof census->topic;
        memcpy(census->topic, call->topic.at, census->topic_bytes);
        if (search_start(call->front->queue, &order, &listener))
            return;
    }
    free(census);
    http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
}

const struct http_route api_consumers_routes[] = {
    {.method = HTTP_METHOD_GET,
     .pattern = HTTP_TOPIC_PATH "/consumers",
     .name = "consumers",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_PATH,
     .handle = list_consumers,
     .answer = HTTP_ANSWER_LONG},
    {0},
};

/* ---- metrics ---- */

static uint64_t topic_count(const struct consumer_topic *topic, int64_t since_ms)
{
    uint64_t count = 0;
    for (struct consumer *at = consumer_table_first(&topic->consumers); at;
         at = consumer_table_next(&topic->consumers, at))
        count += at->seen_ms >= since_ms;
    return count;
}

void api_consumers_emit(struct api_consumers *consumers, struct metric_page *page, int64_t now_ms,
                        api_consumers_shows *shows, void *ctx)
{
    uint64_t others = 0;
    uint32_t shown = 0;
    metric_begin(page, &api_consumers_metrics[0]);
    pthread_mutex_lock(&consumers->lock);
    for (struct consumer_topic *at = consumer_topic_table_first(&consumers->topics); at;
         at = consumer_topic_table_next(&consumers->topics, at)) {
        uint64_t count = topic_count(at, now_ms - API_CONSUMERS_ACTIVE_MS);
        if (!count || (shows && !shows(ctx, at->entry.key)))
            continue;
        if (shown < page->topics_max) {
            metric_sample(page, METRIC_LABELS(at->entry.key), count);
            shown++;
        } else {
            others += count;
        }
    }
    pthread_mutex_unlock(&consumers->lock);
    if (others && !shows)
        metric_sample(page, METRIC_LABELS(slice_of(METRIC_OTHERS)), others);
}

const struct metric api_consumers_metrics[] = {
    {.name = "tarry_consumers",
     .type = PROMETHEUS_GAUGE,
     .labels = {"topic"},
     .help = "Named consumers that took jobs from this server, or tried to, in the last 5 minutes.",
     .meaning = "The consumers of the topic: `GET /v1/topics/TOPIC/consumers` lists "
                "them. Falls: workers died or lost the server. Takes without `consumer` "
                "are not included.",
     .when = "once a take gave a name"},
    METRIC_END};
