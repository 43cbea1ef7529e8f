/*
 * rocketmq_target: RocketMQ 4 and 5 with the remoting protocol.
 *
 * A message waits until a name server has returned the brokers of its topic, and until one of them
 * is connected and has room. Then it is sent to the next of their queues. The answer with its
 * number ends it. A topic that does not exist yet is sent to the brokers that create topics
 * automatically, as in RocketMQ's own producer.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/table.h"
#include "targets/outbox.h"
#include "targets/rocketmq/message.h"
#include "targets/rocketmq/names.h"
#include "targets/template.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TEXT_BYTES_MAX = 64 * 1024 * 1024, /* of one message; its own limit is lower */
    TOPICS_MAX = 1000,
    ROUTE_MS = 30 * 1000, /* age after which a route is queried again */
    ABSENT_MS = 2000,     /* time that a topic may be missing before its messages fail */
    ASK_AGAIN_MS = 500,
    NEW_TOPIC_QUEUES = 4, /* of a topic that a broker creates automatically */
    REMARK_BYTES = 120
};

static const char maker_topic[] = "TBW102"; /* a topic that brokers with automatic creation have */
static const char producer_group[] = "tarry";

struct broker {
    struct list list; /* in rocketmq.brokers */
    struct rocketmq *rocketmq;
    struct rocketmq_connection *connection;
    /* number of routes with this broker, and of messages waiting for its answer */
    size_t routes, sent;
    bool is_full;   /* true until the connection reports `room` */
    bool is_silent; /* a message timed out, and nothing was received since it was sent */
    char address[ROCKETMQ_ADDRESS_BYTES];
};

struct path { /* to one broker of a topic */
    struct broker *broker;
    uint32_t queues;
    char name[ROCKETMQ_NAME_BYTES];
};

struct topic {
    struct table_entry entry;
    struct path *paths; /* NULL if there is no route */
    size_t path_count, users;
    uint32_t cursor;           /* position among the queues */
    bool has_been;             /* there was a route before */
    bool is_stale;             /* the route may be wrong: ask again soon */
    bool is_new;               /* the route is that of brokers that would create the topic */
    bool is_asked, asks_maker; /* a question is in progress; it is about maker_topic */
    int64_t asked_ms, next_ask_ms;
    int64_t absent_ms; /* time since it is missing; 0 if it is not */
    char name[ROCKETMQ_TOPIC_BYTES_MAX + 1];
};
TABLE_DECLARE(topics, struct topic, entry)

struct sending {
    struct outbox_message message; /* first */
    struct topic *topic;           /* NULL after it is settled */
    struct broker *broker;         /* set while it is sent */
    uint32_t opaque;
    int64_t sent_ms;
    size_t properties; /* bytes of its text, before the body */
};

struct rocketmq {
    struct target target; /* first */
    struct outbox outbox;
    struct rocketmq_names *names;
    struct list brokers;
    size_t ends; /* brokers that are not gone yet, and the name servers */
    struct topics topics;
    uint32_t opaque;
    bool is_tls;
    char login[GUARD_ORIGIN_BYTES]; /* origin of the first name server */
};

/* ---- address ---- */

static bool rocketmq_place_parse(struct slice to, struct target_places *out, char *error)
{
    struct url url;
    if (!target_places_parse(to, target_rocketmq_schemes, &url, out, error))
        return false;
    if (url.has_query || (url.path.len && !slice_is(url.path, "/")))
        return error_text(error, TARGET_ERROR_BYTES,
                          "a RocketMQ URL has name servers and no path, give the topic in 'topic'");
    return true;
}

/* ---- brokers ---- */

static void pump(struct rocketmq *rocketmq);
static void rocketmq_refresh(struct rocketmq *rocketmq);

static bool broker_has_room(const struct broker *broker)
{
    return !broker->is_full && session_is_up(rocketmq_connection_session(broker->connection));
}

static void on_broker_ready(void *ctx)
{
    struct broker *broker = ctx;
    broker->is_full = false;
    if (!broker->rocketmq->outbox.closed)
        pump(broker->rocketmq);
}

static bool topic_names(const struct topic *topic, const struct broker *broker)
{
    for (size_t i = 0; i < topic->path_count; i++)
        if (topic->paths[i].broker == broker)
            return true;
    return false;
}

static bool topic_is_lost(const struct topic *topic)
{
    for (size_t i = 0; i < topic->path_count; i++)
        if (!session_is_down(rocketmq_connection_session(topic->paths[i].broker->connection)))
            return false;
    return topic->path_count > 0;
}

static void lose_sent_to(struct rocketmq *rocketmq, const struct broker *broker, const char *why)
{
    struct list *sent = &rocketmq->outbox.sent;
    for (struct list *at = sent->next, *next; at != sent; at = next) {
        struct sending *sending = list_entry(at, struct sending, message.list);
        next = at->next;
        if (sending->broker == broker)
            outbox_lose(&rocketmq->outbox, &sending->message, why);
    }
}

/* Loses the messages whose topics have no broker left to wait for. */
static void lose_waiting(struct rocketmq *rocketmq, const char *why)
{
    struct list *waiting = &rocketmq->outbox.waiting;
    for (struct list *at = waiting->next, *next; at != waiting; at = next) {
        struct sending *sending = list_entry(at, struct sending, message.list);
        next = at->next;
        if (topic_is_lost(sending->topic))
            outbox_lose(&rocketmq->outbox, &sending->message, why);
    }
}

/* Handles a broker that is down. Its topics may have moved, so the name server is asked about each
 * one in use. */
static void on_broker_down(void *ctx, const char *why)
{
    struct broker *broker = ctx;
    struct rocketmq *rocketmq = broker->rocketmq;
    broker->is_full = broker->is_silent = false;
    lose_sent_to(rocketmq, broker, why);
    for (struct table_entry *at = table_first(&rocketmq->topics.table); at;
         at = table_next(&rocketmq->topics.table, at)) {
        struct topic *topic = topics_of(at);
        topic->is_stale = topic->is_stale || topic_names(topic, broker);
    }
    lose_waiting(rocketmq, why);
    if (rocketmq->outbox.closed)
        return;
    rocketmq_refresh(rocketmq);
    pump(rocketmq);
}

static void rocketmq_gone(struct rocketmq *rocketmq)
{
    if (--rocketmq->ends == 0 && rocketmq->outbox.closed)
        outbox_gone(&rocketmq->outbox);
}

static void on_broker_gone(void *ctx)
{
    struct broker *broker = ctx;
    struct rocketmq *rocketmq = broker->rocketmq;
    free(broker);
    rocketmq_gone(rocketmq);
}

static void on_names_gone(void *ctx)
{
    rocketmq_gone(ctx);
}

/* Finds a message by its number, which the answer repeats. */
static struct sending *find_sent(const struct broker *broker, uint32_t opaque)
{
    const struct list *sent = &broker->rocketmq->outbox.sent;
    for (struct list *at = sent->next; at != sent; at = at->next) {
        struct sending *sending = list_entry(at, struct sending, message.list);
        if (sending->opaque == opaque && sending->broker == broker)
            return sending;
    }
    return NULL;
}

/* Converts an answer into a report. Some codes are errors of the message or its topic; all others
 * are errors of the broker. */
static void evaluate(const struct rocketmq_answer *answer, struct target_report *report)
{
    char remark[REMARK_BYTES];
    rocketmq_emit_remark(answer->remark, remark, sizeof remark);
    bool is_access = answer->code == ROCKETMQ_NO_PERMISSION ||
                     (answer->code == ROCKETMQ_SYSTEM_ERROR && answer->remark.len &&
                      memmem(answer->remark.at, answer->remark.len, "AclException", 12));
    *report = (struct target_report){.outcome = TARGET_FAILED,
                                     .is_ailing = !is_access && answer->code != ROCKETMQ_NO_TOPIC,
                                     .retry_after_ms = -1,
                                     .code = (uint32_t)answer->code};
    if (answer->code == ROCKETMQ_ILLEGAL) {
        report->outcome = TARGET_REFUSED;
        report->is_ailing = false;
    }
    (void)snprintf(
        report->error, sizeof report->error, "%s%d: %s",
        is_access ? "not allowed by the broker: " : "error of the broker: ", answer->code, remark);
}

static void on_broker_answer(void *ctx, const struct rocketmq_answer *answer)
{
    struct broker *broker = ctx;
    struct rocketmq *rocketmq = broker->rocketmq;
    struct sending *sending = find_sent(broker, answer->opaque);
    struct target_report report;
    if (!sending)
        return;
    if (answer->code == ROCKETMQ_SUCCESS) {
        outbox_settle_as(&rocketmq->outbox, &sending->message, TARGET_DONE, false, "");
        return;
    }
    if (answer->code == ROCKETMQ_NO_TOPIC)
        sending->topic->is_stale = true;
    evaluate(answer, &report);
    outbox_settle(&rocketmq->outbox, &sending->message, &report);
}

static struct broker *broker_new(struct rocketmq *rocketmq, const char *address)
{
    static const struct rocketmq_connection_events events = {.session = {.up = on_broker_ready,
                                                                         .room = on_broker_ready,
                                                                         .down = on_broker_down,
                                                                         .gone = on_broker_gone},
                                                             .answer = on_broker_answer};
    struct target_place place;
    struct url url;
    char to[ROCKETMQ_ADDRESS_BYTES + 16], error[TARGET_ERROR_BYTES];
    (void)snprintf(to, sizeof to, "%s://%s", target_rocketmq_schemes[rocketmq->is_tls], address);
    struct broker *broker =
        target_place_parse(slice_of(to), target_rocketmq_schemes, &url, &place, error)
            ? calloc(1, sizeof *broker)
            : NULL;
    if (!broker)
        return NULL;
    broker->rocketmq = rocketmq;
    broker->connection =
        rocketmq_connection_new(rocketmq->outbox.env, &place, rocketmq->login, &events, broker);
    if (!broker->connection) {
        free(broker);
        return NULL;
    }
    (void)snprintf(broker->address, sizeof broker->address, "%s", address);
    list_add_last(&rocketmq->brokers, &broker->list);
    rocketmq->ends++;
    return broker;
}

static struct broker *broker_find(struct rocketmq *rocketmq, const char *address)
{
    for (struct list *at = rocketmq->brokers.next; at != &rocketmq->brokers; at = at->next) {
        struct broker *broker = list_entry(at, struct broker, list);
        if (strcmp(broker->address, address) == 0)
            return broker;
    }
    return NULL;
}

static void broker_close(struct broker *broker)
{
    list_remove(&broker->list);
    session_free(rocketmq_connection_session(broker->connection));
}

/* ---- topics ---- */

static void topic_drop_route(struct topic *topic)
{
    for (size_t i = 0; i < topic->path_count; i++)
        topic->paths[i].broker->routes--;
    free(topic->paths);
    topic->paths = NULL;
    topic->path_count = 0;
}

static void topic_free(struct rocketmq *rocketmq, struct topic *topic)
{
    topic_drop_route(topic);
    topics_remove(&rocketmq->topics, topic);
    free(topic);
}

/* Frees an unused topic to make room for another. */
static void drop_unused_topic(struct rocketmq *rocketmq)
{
    for (struct table_entry *at = table_first(&rocketmq->topics.table); at;
         at = table_next(&rocketmq->topics.table, at)) {
        struct topic *topic = topics_of(at);
        if (topic->users == 0 && !topic->is_asked) {
            topic_free(rocketmq, topic);
            return;
        }
    }
}

/* Returns NULL when out of memory or if too many topics are in use. */
static struct topic *topic_find(struct rocketmq *rocketmq, const char *name)
{
    struct topic *topic = topics_find(&rocketmq->topics, slice_of(name));
    if (topic)
        return topic;
    if (rocketmq->topics.table.count >= TOPICS_MAX)
        drop_unused_topic(rocketmq);
    if (rocketmq->topics.table.count >= TOPICS_MAX || !(topic = calloc(1, sizeof *topic)))
        return NULL;
    (void)snprintf(topic->name, sizeof topic->name, "%s", name);
    topic->entry.key = slice_of(topic->name);
    topics_add(&rocketmq->topics, topic);
    return topic;
}

static void topic_ask(struct rocketmq *rocketmq, struct topic *topic, bool asks_maker)
{
    topic->asks_maker = asks_maker;
    topic->is_asked =
        rocketmq_names_ask(rocketmq->names, asks_maker ? maker_topic : topic->name, topic);
}

/* Queries the route of a topic in use if it is missing or old, and connects to its brokers. */
static void topic_refresh(struct rocketmq *rocketmq, struct topic *topic)
{
    int64_t now_ms = clock_inner_ms();
    bool wants =
        !topic->paths || topic->is_stale || topic->is_new || now_ms >= topic->asked_ms + ROUTE_MS;
    for (size_t i = 0; i < topic->path_count; i++)
        session_needed(rocketmq_connection_session(topic->paths[i].broker->connection), true);
    if (topic->is_asked || !wants)
        return;
    if (now_ms >= topic->next_ask_ms)
        topic_ask(rocketmq, topic, false);
    else
        outbox_wake_at(&rocketmq->outbox, topic->next_ask_ms);
}

/* Does the same for all topics in use. */
static void rocketmq_refresh(struct rocketmq *rocketmq)
{
    for (struct table_entry *at = table_first(&rocketmq->topics.table); at;
         at = table_next(&rocketmq->topics.table, at))
        if (topics_of(at)->users)
            topic_refresh(rocketmq, topics_of(at));
}

static void end_waiting(struct rocketmq *rocketmq, const struct topic *topic,
                        enum target_outcome outcome, bool is_ailing, const char *why)
{
    struct list *waiting = &rocketmq->outbox.waiting;
    for (struct list *at = waiting->next, *next; at != waiting; at = next) {
        struct sending *sending = list_entry(at, struct sending, message.list);
        next = at->next;
        if (sending->topic == topic)
            outbox_settle_as(&rocketmq->outbox, &sending->message, outcome, is_ailing, why);
    }
}

/* Handles a topic that no broker has now. Brokers that restart register shortly after, so the
 * messages wait for a while. */
static void topic_absent(struct rocketmq *rocketmq, struct topic *topic)
{
    int64_t now_ms = clock_inner_ms();
    topic_drop_route(topic);
    topic->next_ask_ms = now_ms + ASK_AGAIN_MS;
    if (!topic->absent_ms)
        topic->absent_ms = now_ms;
    if (now_ms < topic->absent_ms + ABSENT_MS)
        outbox_wake_at(&rocketmq->outbox, topic->next_ask_ms);
    else if (topic->has_been)
        end_waiting(rocketmq, topic, TARGET_UNSENT, true,
                    "the name server has no broker for it now");
    else
        end_waiting(rocketmq, topic, TARGET_FAILED, false,
                    "no such topic, and no broker creates topics automatically");
}

/* Builds a route from an answer; leaves out brokers whose address cannot be parsed. */
static struct path *paths_new(struct rocketmq *rocketmq, const struct rocketmq_master *masters,
                              size_t count, bool is_new, size_t *found)
{
    struct path *paths = calloc(count, sizeof *paths);
    *found = 0;
    for (size_t i = 0; paths && i < count; i++) {
        struct path *path = &paths[*found];
        path->broker = broker_find(rocketmq, masters[i].address);
        if (!path->broker && !(path->broker = broker_new(rocketmq, masters[i].address)))
            continue;
        path->queues = masters[i].queues;
        if (is_new && path->queues > NEW_TOPIC_QUEUES)
            path->queues = NEW_TOPIC_QUEUES;
        (void)snprintf(path->name, sizeof path->name, "%s", masters[i].name);
        path->broker->routes++;
        (*found)++;
    }
    return paths;
}

static void on_route(void *ctx, void *asker, const struct rocketmq_master *masters, size_t count)
{
    struct rocketmq *rocketmq = ctx;
    struct topic *topic = asker;
    size_t found = 0;
    struct path *paths =
        count ? paths_new(rocketmq, masters, count, topic->asks_maker, &found) : NULL;
    topic->is_asked = false;
    if (!found) {
        free(paths);
        topic_absent(rocketmq, topic);
        return;
    }
    topic_drop_route(topic);
    topic->paths = paths;
    topic->path_count = found;
    topic->asked_ms = clock_inner_ms();
    topic->next_ask_ms = topic->asked_ms + ASK_AGAIN_MS;
    topic->is_new = topic->asks_maker;
    topic->is_stale = topic->asks_maker = false;
    topic->has_been = true;
    topic->absent_ms = 0;
    if (topic->users)
        topic_refresh(rocketmq, topic);
    pump(rocketmq);
}

static void on_missing(void *ctx, void *asker)
{
    struct rocketmq *rocketmq = ctx;
    struct topic *topic = asker;
    topic->is_asked = false;
    if (!topic->asks_maker) {
        topic_ask(rocketmq, topic, true);
        return;
    }
    topic->asks_maker = false;
    topic_absent(rocketmq, topic);
}

/* Handles a failed query; a previous route remains in use. */
static void on_names_failed(void *ctx, void *asker, const char *why)
{
    struct rocketmq *rocketmq = ctx;
    struct topic *topic = asker;
    char text[TARGET_ERROR_BYTES];
    topic->is_asked = topic->asks_maker = false;
    topic->next_ask_ms = clock_inner_ms() + ASK_AGAIN_MS;
    (void)snprintf(text, sizeof text, "no name server: %.200s", why);
    if (!topic->paths)
        end_waiting(rocketmq, topic, TARGET_UNSENT, true, text);
}

/* ---- sending ---- */

/* Chooses the next queue of a topic whose broker has room, or returns NULL. */
static struct path *choose_path(struct topic *topic, uint32_t *queue)
{
    uint64_t all = 0;
    size_t first = 0;
    for (size_t i = 0; i < topic->path_count; i++)
        all += topic->paths[i].queues;
    if (!all)
        return NULL;
    uint64_t at = topic->cursor % all;
    while (at >= topic->paths[first].queues)
        at -= topic->paths[first++].queues;
    for (size_t i = 0; i < topic->path_count; i++) {
        struct path *path = &topic->paths[(first + i) % topic->path_count];
        if (!broker_has_room(path->broker))
            continue;
        *queue = i == 0 ? (uint32_t)at : topic->cursor % path->queues;
        return path;
    }
    return NULL;
}

static enum rocketmq_sent send_message(struct sending *sending, const struct path *path,
                                       uint32_t queue, uint32_t opaque)
{
    struct slice text = buffer_slice(&sending->message.text);
    char queue_text[16], born[24], queues[16];
    (void)snprintf(queue_text, sizeof queue_text, "%u", queue);
    (void)snprintf(born, sizeof born, "%" PRId64, clock_wall_ms());
    (void)snprintf(queues, sizeof queues, "%d", NEW_TOPIC_QUEUES);
    const struct rocketmq_field fields[] = {
        {"a", slice_of(producer_group)},
        {"b", slice_of(sending->topic->name)},
        {"c", slice_of(maker_topic)},
        {"d", slice_of(queues)},
        {"e", slice_of(queue_text)},
        {"f", slice_of("0")}, /* neither compressed nor part of a transaction */
        {"g", slice_of(born)},
        {"h", slice_of("0")},
        {"i", slice_make(text.at, sending->properties)},
        {"j", slice_of("0")}, /* number of times it was consumed */
        {"k", slice_of("false")},
        {"m", slice_of("false")}, /* not a batch */
        {"n", slice_of(path->name)},
    };
    return rocketmq_connection_send(
        path->broker->connection, ROCKETMQ_SEND, opaque, fields, sizeof fields / sizeof fields[0],
        slice_make(text.at + sending->properties, text.len - sending->properties));
}

static void hand_over(struct rocketmq *rocketmq, struct sending *sending, const struct path *path,
                      uint32_t queue)
{
    struct broker *broker = path->broker;
    enum rocketmq_sent sent = send_message(sending, path, queue, ++rocketmq->opaque);
    if (sent == ROCKETMQ_OUT_OF_MEMORY)
        outbox_settle_as(&rocketmq->outbox, &sending->message, TARGET_UNSENT, false,
                         "out of memory");
    broker->is_full = sent == ROCKETMQ_FULL;
    if (sent != ROCKETMQ_SENT)
        return;
    if (sending->message.explained)
        buffer_append_format(sending->message.explained, "sent to broker '%s' at %s, queue %u\n",
                             path->name, broker->address, queue);
    sending->opaque = rocketmq->opaque;
    sending->broker = broker;
    sending->sent_ms = clock_inner_ms();
    sending->topic->cursor++;
    broker->sent++;
    outbox_drop_text(&rocketmq->outbox, &sending->message);
    outbox_mark_sent(&rocketmq->outbox, &sending->message);
}

static bool has_room(const struct rocketmq *rocketmq)
{
    for (struct list *at = rocketmq->brokers.next; at != &rocketmq->brokers; at = at->next)
        if (broker_has_room(list_entry(at, struct broker, list)))
            return true;
    return false;
}

/* Sends waiting messages as long as a broker has room. */
static void pump(struct rocketmq *rocketmq)
{
    struct list *waiting = &rocketmq->outbox.waiting;
    for (struct list *at = waiting->next, *next; at != waiting; at = next) {
        struct sending *sending = list_entry(at, struct sending, message.list);
        uint32_t queue = 0;
        struct path *path = choose_path(sending->topic, &queue);
        next = at->next;
        if (path)
            hand_over(rocketmq, sending, path, queue);
        else if (!has_room(rocketmq))
            return;
    }
}

/* Copies the text of a message. Returns the reason if it cannot be accepted, or NULL if it
 * waits. */
static const char *take_text(struct rocketmq *rocketmq, struct sending *sending,
                             const struct rocketmq_message *message, struct slice body)
{
    struct buffer *text = &sending->message.text;
    buffer_append_slice(text, buffer_slice(&message->properties));
    sending->properties = text->len;
    buffer_append_slice(text, body);
    const char *away = outbox_hold_text(&rocketmq->outbox, &sending->message);
    if (away)
        return away;
    sending->topic = topic_find(rocketmq, message->topic);
    if (!sending->topic)
        return "more than 1000 RocketMQ topics are in use at a time";
    sending->topic->users++;
    return NULL;
}

static void explain_message(struct buffer *out, const struct rocketmq_message *message,
                            struct slice body)
{
    buffer_append_format(out, "topic '%s', tags '%.*s', keys '%.*s', %zu bytes\n", message->topic,
                         (int)message->tags.len, message->tags.len ? message->tags.at : "",
                         (int)message->keys.len, message->keys.len ? message->keys.at : "",
                         body.len);
}

/* Adds a message as waiting, or settles it immediately. */
static void add_message(struct rocketmq *rocketmq, const struct target_message *from)
{
    struct rocketmq_message message;
    struct sending *sending = calloc(1, sizeof *sending);
    /* only a few hundred bytes; without them the failure could not be reported either */
    assert(sending);
    buffer_init(&sending->message.text, TEXT_BYTES_MAX);
    outbox_add(&rocketmq->outbox, &sending->message, from, 0);
    const char *fault = rocketmq_message_fill(&message, from), *away = NULL;
    if (fault)
        outbox_settle_as(&rocketmq->outbox, &sending->message, TARGET_REFUSED, false, fault);
    else if ((away = take_text(rocketmq, sending, &message, from->job->body)))
        outbox_settle_as(&rocketmq->outbox, &sending->message, TARGET_UNSENT, false, away);
    else
        topic_refresh(rocketmq, sending->topic);
    if (!fault && from->explained)
        explain_message(from->explained, &message, from->job->body);
    rocketmq_message_fini(&message);
}

static void rocketmq_send(struct target *target, const struct target_message *messages,
                          size_t count)
{
    struct rocketmq *rocketmq = (struct rocketmq *)target;
    for (size_t i = 0; i < count; i++)
        add_message(rocketmq, &messages[i]);
    pump(rocketmq);
}

/* ---- the end of a message ---- */

static void on_settled(void *ctx, struct outbox_message *message)
{
    struct sending *sending = (struct sending *)message;
    (void)ctx;
    if (sending->topic)
        sending->topic->users--;
    if (sending->broker)
        sending->broker->sent--;
    sending->topic = NULL;
    sending->broker = NULL;
}

static void on_explain(void *ctx, const struct outbox_message *message)
{
    (void)ctx;
    buffer_append_text(message->explained,
                       message->report.outcome == TARGET_DONE     ? "the broker stored it\n"
                       : message->report.outcome == TARGET_UNSENT ? "nothing was sent\n"
                       : message->report.code                     ? "the broker refused it\n"
                                                                  : "no answer came\n");
}

/* Settles an overdue message. If nothing was received from its broker since it was sent, the broker
 * counts as lost. */
static void on_overdue(void *ctx, struct outbox_message *message)
{
    struct rocketmq *rocketmq = ctx;
    struct sending *sending = (struct sending *)message;
    if (sending->broker &&
        session_in_ms(rocketmq_connection_session(sending->broker->connection)) < sending->sent_ms)
        sending->broker->is_silent = true;
    outbox_lose_overdue(&rocketmq->outbox, message);
}

static void on_woken(void *ctx, int64_t now_ms)
{
    struct rocketmq *rocketmq = ctx;
    (void)now_ms;
    if (rocketmq->outbox.closed)
        return;
    for (struct list *at = rocketmq->brokers.next; at != &rocketmq->brokers; at = at->next) {
        struct broker *broker = list_entry(at, struct broker, list);
        if (broker->is_silent && session_is_up(rocketmq_connection_session(broker->connection)))
            session_fail(rocketmq_connection_session(broker->connection), "connection lost",
                         "no answer came in time");
        broker->is_silent = false;
    }
    rocketmq_refresh(rocketmq);
}

/* Closes brokers that are no longer in any route; the others stay connected while there is work. */
static void on_iteration_end(void *ctx)
{
    struct rocketmq *rocketmq = ctx;
    bool is_idle =
        list_is_empty(&rocketmq->outbox.waiting) && list_is_empty(&rocketmq->outbox.sent);
    for (struct list *at = rocketmq->brokers.next, *next; at != &rocketmq->brokers; at = next) {
        struct broker *broker = list_entry(at, struct broker, list);
        next = at->next;
        if (broker->routes == 0 && broker->sent == 0)
            broker_close(broker);
        else if (is_idle)
            session_needed(rocketmq_connection_session(broker->connection), false);
    }
}

/* ---- life ---- */

static bool rocketmq_check(const struct target_setting *setting, struct slice to,
                           char error[TARGET_ERROR_BYTES])
{
    struct target_places places;
    const char *const texts[] = {setting ? setting->tags : NULL, setting ? setting->keys : NULL};
    if (setting && !template_check_name(setting->topic, "topic", rocketmq_topic_fault, error))
        return false;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i] && !template_check(slice_of(texts[i]), error))
            return false;
    return rocketmq_place_parse(to, &places, error);
}

static const struct outbox_kind outbox_kind = {.overdue = on_overdue,
                                               .settled = on_settled,
                                               .explain = on_explain,
                                               .woken = on_woken,
                                               .iteration_end = on_iteration_end};

static struct target *rocketmq_open(const struct target_env *env,
                                    const struct target_setting *setting, struct slice to)
{
    static const struct rocketmq_names_events events = {
        .found = on_route, .missing = on_missing, .failed = on_names_failed, .gone = on_names_gone};
    struct target_places places;
    char error[TARGET_ERROR_BYTES];
    (void)setting;
    struct rocketmq *rocketmq =
        rocketmq_place_parse(to, &places, error) ? calloc(1, sizeof *rocketmq) : NULL;
    if (!rocketmq || !outbox_init(&rocketmq->outbox, env, &outbox_kind, rocketmq)) {
        free(rocketmq);
        return NULL;
    }
    rocketmq->target.ops = &target_rocketmq;
    rocketmq->is_tls = places.at[0].is_tls;
    memcpy(rocketmq->login, places.at[0].origin, sizeof rocketmq->login);
    list_init(&rocketmq->brokers);
    rocketmq->names =
        rocketmq_names_new(env, places.at, places.count, rocketmq->login, &events, rocketmq);
    rocketmq->ends = 1;
    if (rocketmq->names)
        return &rocketmq->target;
    outbox_fini(&rocketmq->outbox);
    free(rocketmq);
    return NULL;
}

static void rocketmq_close(struct target *target, void (*closed)(void *ctx), void *ctx)
{
    struct rocketmq *rocketmq = (struct rocketmq *)target;
    outbox_lose_all(&rocketmq->outbox, "abandoned: the server stops sending there");
    outbox_close(&rocketmq->outbox, closed, ctx);
    while (rocketmq->topics.table.count)
        topic_free(rocketmq, topics_of(table_first(&rocketmq->topics.table)));
    table_fini(&rocketmq->topics.table);
    rocketmq_names_free(rocketmq->names);
    while (!list_is_empty(&rocketmq->brokers))
        broker_close(list_entry(rocketmq->brokers.next, struct broker, list));
}

const struct target_ops target_rocketmq = {.schemes = target_rocketmq_schemes,
                                           .check = rocketmq_check,
                                           .open = rocketmq_open,
                                           .send = rocketmq_send,
                                           .close = rocketmq_close};
