#include "targets/rocketmq/names.h"

#include "base/clock.h"
#include "base/list.h"

#include <stdio.h>
#include <stdlib.h>

enum { ANSWER_MS = 3000, TOPIC_BYTES = 256, WHY_BYTES = 200 };

struct question {
    struct list list;
    void *asker;
    uint32_t opaque; /* 0 if not sent yet */
    int64_t until_ms;
    char topic[TOPIC_BYTES];
};

struct rocketmq_names {
    struct rocketmq_names_events events;
    void *ctx;
    struct deadline *deadline;
    struct list questions;
    size_t count, at, failures; /* failures: number of servers that failed in a row */
    size_t ends;                /* connections that are not gone yet */
    uint32_t opaque;
    struct rocketmq_connection *servers[URL_HOSTS_MAX];
};

static struct rocketmq_connection *server_of(const struct rocketmq_names *names)
{
    return names->servers[names->at];
}

static void question_end(struct question *question)
{
    list_remove(&question->list);
    free(question);
}

/* ---- sending ---- */

/* Sends the questions that were not sent yet; the earliest timeout sets the deadline. */
static void send_questions(struct rocketmq_names *names)
{
    int64_t now_ms = clock_inner_ms(), next_ms = INT64_MAX;
    session_needed(rocketmq_connection_session(server_of(names)),
                   !list_is_empty(&names->questions));
    for (struct list *at = names->questions.next; at != &names->questions; at = at->next) {
        struct question *question = list_entry(at, struct question, list);
        const struct rocketmq_field fields[] = {
            {"acceptStandardJsonOnly", slice_of("true")},
            {"topic", slice_of(question->topic)},
        };
        uint32_t opaque = names->opaque + 1 ? names->opaque + 1 : 1;
        if (!question->opaque && rocketmq_connection_send(server_of(names), ROCKETMQ_ROUTE, opaque,
                                                          fields, sizeof fields / sizeof fields[0],
                                                          (struct slice){0}) == ROCKETMQ_SENT) {
            names->opaque = question->opaque = opaque;
            question->until_ms = now_ms + ANSWER_MS;
        }
        if (question->opaque && question->until_ms < next_ms)
            next_ms = question->until_ms;
    }
    deadline_set(names->deadline, next_ms);
}

static void on_deadline(void *ctx)
{
    struct rocketmq_names *names = ctx;
    session_fail(rocketmq_connection_session(server_of(names)), "connection lost",
                 "no answer came");
}

/* ---- events of the servers ---- */

static void on_ready(void *ctx)
{
    send_questions(ctx);
}

static void take_route(struct rocketmq_names *names, void *asker,
                       const struct rocketmq_answer *answer)
{
    struct rocketmq_master masters[ROCKETMQ_BROKERS_MAX];
    size_t count;
    if (rocketmq_route_parse(answer->body, masters, &count))
        names->events.found(names->ctx, asker, masters, count);
    else
        names->events.failed(names->ctx, asker, "its answer cannot be read");
}

/* Handles an answer; ignores it if it is no longer expected. */
static void on_answer(void *ctx, const struct rocketmq_answer *answer)
{
    struct rocketmq_names *names = ctx;
    char why[WHY_BYTES], text[WHY_BYTES / 2];
    names->failures = 0;
    for (struct list *at = names->questions.next; at != &names->questions; at = at->next) {
        struct question *question = list_entry(at, struct question, list);
        void *asker = question->asker;
        if (!question->opaque || question->opaque != answer->opaque)
            continue;
        question_end(question);
        if (answer->code == ROCKETMQ_SUCCESS) {
            take_route(names, asker, answer);
        } else if (answer->code == ROCKETMQ_NO_TOPIC) {
            names->events.missing(names->ctx, asker);
        } else {
            rocketmq_emit_remark(answer->remark, text, sizeof text);
            (void)snprintf(why, sizeof why, "it answers %d: %s", answer->code, text);
            names->events.failed(names->ctx, asker, why);
        }
        break;
    }
    send_questions(names);
}

static void fail_all(struct rocketmq_names *names, const char *why)
{
    struct list failed;
    list_take_all(&failed, &names->questions);
    while (!list_is_empty(&failed)) {
        struct question *question = list_entry(failed.next, struct question, list);
        void *asker = question->asker;
        question_end(question);
        names->events.failed(names->ctx, asker, why);
    }
}

/* Asks the next server, unless all have failed. */
static void on_down(void *ctx, const char *why)
{
    struct rocketmq_names *names = ctx;
    for (struct list *at = names->questions.next; at != &names->questions; at = at->next)
        list_entry(at, struct question, list)->opaque = 0;
    names->at = (names->at + 1) % names->count;
    if (++names->failures >= names->count) {
        names->failures = 0;
        fail_all(names, why);
    }
    send_questions(names);
}

/* ---- life ---- */

static void on_gone(void *ctx)
{
    struct rocketmq_names *names = ctx;
    if (--names->ends)
        return;
    struct rocketmq_names_events events = names->events;
    void *owner = names->ctx;
    free(names);
    if (events.gone)
        events.gone(owner);
}

bool rocketmq_names_ask(struct rocketmq_names *names, const char *topic, void *asker)
{
    struct question *question = calloc(1, sizeof *question);
    if (!question)
        return false;
    question->asker = asker;
    (void)snprintf(question->topic, sizeof question->topic, "%s", topic);
    list_add_last(&names->questions, &question->list);
    send_questions(names);
    return true;
}

/* Frees everything but the connections, which end on their own; `gone` follows if there is one. */
static void names_end(struct rocketmq_names *names)
{
    while (!list_is_empty(&names->questions))
        question_end(list_entry(names->questions.next, struct question, list));
    deadline_free(names->deadline);
    for (size_t i = 0; i < names->count; i++)
        session_free(rocketmq_connection_session(names->servers[i]));
    if (names->count == 0)
        free(names);
}

struct rocketmq_names *rocketmq_names_new(const struct target_env *env,
                                          const struct target_place *places, size_t count,
                                          const char *login,
                                          const struct rocketmq_names_events *events, void *ctx)
{
    static const struct rocketmq_connection_events server_events = {
        .session = {.up = on_ready, .room = on_ready, .down = on_down, .gone = on_gone},
        .answer = on_answer};
    struct rocketmq_names *names = calloc(1, sizeof *names);
    if (!names)
        return NULL;
    list_init(&names->questions);
    names->ctx = ctx;
    names->deadline = deadline_new(env->reactor, on_deadline, names);
    while (names->deadline && names->count < count &&
           (names->servers[names->count] =
                rocketmq_connection_new(env, &places[names->count], login, &server_events, names)))
        names->ends = ++names->count;
    if (!names->deadline || names->count < count) {
        names_end(names); /* without an event */
        return NULL;
    }
    names->events = *events;
    return names;
}

void rocketmq_names_free(struct rocketmq_names *names)
{
    names_end(names);
}
