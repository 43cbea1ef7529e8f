#include "sql/session.h"

#include "base/clock.h"
#include "base/log.h"
#include "sql/audience.h"
#include "sql/call.h"
#include "sql/connector.h"
#include "sql/database_clock.h"
#include "sql/flush.h"
#include "sql/hold.h"

#include <assert.h>
#include <stdio.h>

enum {
    TURN_ITEMS_MAX = 2000,
    TURN_BYTES_MAX = 16 << 20,
    ENDS_MAX = 500,
    UPKEEP_MS = 1000,
    LOOK_SHARE = 20,    /* looks without a bound may take one part in so many of the time */
    LOOK_MS_MAX = 5000, /* but come that often all the same */
    RETRY_MS = 10,
    RETRY_MS_MAX = 500,
    RETRY_SHARE =
        4, /* retries of calls whose rows others hold leave so many parts of the time to the rest */
    STOP_MS = 3000,
    DISK_SLOW_US = 2000,
    DISK_SAMPLES = 8,
    OVERLAPS = 16,    /* so many durable turns after a take that came during one */
    BY_SQL_MS = 1000, /* so long after a push by SQL the next one is expected */
};

enum phase {
    PHASE_DOWN = 1, /* no connection; `turn` may hold calls whose commit's fate is not known */
    PHASE_IDLE,
    PHASE_CALLS,  /* the first part */
    PHASE_COMMIT, /* the second */
    PHASE_ROLLBACK
};

struct sql_session {
    const struct sql_dialect *dialect;
    struct sql_context context;
    struct reactor *reactor;
    struct queue *queue;
    struct sql_greeting greeting;
    int64_t patience_ms;
    uv_poll_t *poll;
    int poll_events;
    struct deadline *deadline;
    struct sql_connector connector;
    struct sql_flush flush;

    enum phase phase;
    struct list waiting;  /* calls that are not in a turn, in their order */
    struct list turn;     /* calls of the turn under way */
    struct list answered; /* calls whose replies are to be given */
    bool has_ticket;      /* the turn has one */
    bool turn_is_durable; /* it has what must be */
    bool turn_is_flushed; /* that is made so after its commit */
    int overlaps;         /* so many more durable turns may be flushed */
    int64_t disk_us;      /* how long it is waited for */
    int64_t commit_begun_us;
    bool commit_sent, is_lost;
    int64_t ticket;
    struct sql_fault fault; /* of the turn */

    struct sql_audience audience;
    struct sql_watched leases;
    struct sql_clock clock; /* the database's */
    int64_t expire_ms, upkeep_ms;
    bool end_under_way, look_under_way, hear_under_way, expire_under_way, upkeep_under_way,
        upkeep_failed;
    bool adopt_wanted;
    int64_t mark;        /* of the last upkeep, after which all watched topics were looked at */
    int64_t look_all_ms; /* elapsed: no look without a bound before */
    int64_t look_ms;     /* elapsed: the next look for what is not told */
    int64_t hear_ms;     /* elapsed: the next one for events of others */
    int64_t by_sql_ms;   /* elapsed: until then pushes by SQL are expected */
    int64_t turn_begun_ms, flight_begun_ms;
    bool turn_looks_all, turn_is_single;
    bool turn_is_retry;  /* of a call that found its rows locked: it waits for a moment only */
    int64_t retry_at_ms; /* elapsed: no such turn before */
    bool is_alone;       /* no other server lives */

    bool hooked, stopping, goodbye_sent, ended;
    int64_t stop_until_ms;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    struct sql_session_figures figures;
};

static int64_t database_ms(const struct sql_session *session)
{
    return sql_clock_ms(&session->clock);
}

static bool turn_hook(void *ctx);
static void on_poll(uv_poll_t *poll, int status, int events);

/* ---- calls ---- */

static struct sql_call *first_of(struct list *list)
{
    return list_is_empty(list) ? NULL : list_entry(list->next, struct sql_call, list);
}

static void answer_call(struct sql_session *session, struct sql_call *call)
{
    list_remove(&call->list);
    list_add_last(&session->answered, &call->list);
}

static void refuse_call(struct sql_session *session, struct sql_call *call,
                        enum queue_status status)
{
    sql_call_again(call);
    call->status = status;
    call->alone = true; /* marks it as refused */
    call->retry_ms = -1;
    answer_call(session, call);
}

static void give_answers(struct sql_session *session)
{
    struct list now;
    list_init(&now);
    list_take_all(&now, &session->answered);
    while (!list_is_empty(&now)) {
        struct sql_call *call = first_of(&now);
        list_remove(&call->list);
        if (call->retry_ms < 0)
            sql_call_refuse(call, call->status);
        else
            sql_call_reply(call);
        if (call->kind == SQL_CALL_COMMAND)
            session->figures.waiting--;
        sql_call_free(call);
    }
}

/* ---- the disk ---- */

/* A flush costs one more round trip than a commit that waits by itself: it is for where takes come
 * while a slow disk is waited for. */
static void choose_flush(struct sql_session *session)
{
    bool is_wanted = session->overlaps > 0 && session->disk_us >= DISK_SLOW_US;
    session->turn_is_flushed = session->turn_is_durable && is_wanted && session->flush.link;
    session->overlaps -= session->turn_is_durable && session->overlaps > 0;
    session->figures.flushed += session->turn_is_flushed;
}

/* A take, which needs no disk, comes while one is waited for. */
static void note_overlap(struct sql_session *session)
{
    bool in_turn = session->phase == PHASE_CALLS || session->phase == PHASE_COMMIT;
    if (session->flush.is_under_way || (in_turn && session->turn_is_durable))
        session->overlaps = OVERLAPS;
}

/* A moving average. */
static void note_disk(struct sql_session *session, int64_t begun_us)
{
    session->disk_us += (clock_boot_us() - begun_us - session->disk_us) / DISK_SAMPLES;
}

static struct sql_call *add_own(struct sql_session *session, enum sql_call_kind kind)
{
    struct sql_call *call = sql_call_new(kind, NULL, (struct queue_reply_to){0});
    if (call) {
        call->since_ms = clock_boot_ms();
        list_add_last(&session->waiting, &call->list);
    }
    return call;
}

/* Where there is no room for a copy of it, there may be for a refusal. */
static struct sql_call *call_of(const struct command *command, struct queue_reply_to reply_to)
{
    struct sql_call *call = sql_call_new(SQL_CALL_COMMAND, command, reply_to);
    if (!call)
        call = sql_call_new(SQL_CALL_COMMAND, NULL, reply_to);
    if (!call) {
        log_event(LOG_ERROR, "out of memory");
        abort();
    }
    call->since_ms = clock_boot_ms();
    return call;
}

void sql_session_submit(struct sql_session *session, const struct command *command,
                        struct queue_reply_to reply_to)
{
    struct sql_call *call = call_of(command, reply_to);
    session->figures.waiting++;
    session->figures.calls++;
    list_add_last(&session->waiting, &call->list);
    if (command->kind == COMMAND_TAKE)
        note_overlap(session);
    if (!call->command)
        refuse_call(session, call, QUEUE_NO_MEMORY);
    else if (command->status != QUEUE_OK)
        refuse_call(session, call, command->status);
    else if (session->stopping)
        refuse_call(session, call, QUEUE_STOPPING);
    reactor_turn_again(session->reactor);
}

void sql_session_watch(struct sql_session *session, struct slice name, bool on)
{
    struct sql_topic *topic = sql_topics_need(&session->context.topics, name);
    if (!topic)
        return;
    topic->hold_ms = topic->wait_ms = 0;
    if (!sql_topic_plan_watch(&session->context.plan, topic, on))
        return;
    sql_topic_plan_changed(&session->context.plan, topic);
    sql_topic_plan_look(&session->context.plan, topic);
    reactor_turn_again(session->reactor);
}

/* ---- what time brings ---- */

/* The first moment of the database's clock at which something is to be done. */
static int64_t next_ms(const struct sql_session *session)
{
    int64_t next = session->end_under_way ? INT64_MAX : sql_watched_next(&session->leases);
    if (!session->expire_under_way && session->expire_ms < next)
        next = session->expire_ms;
    int64_t at = sql_topic_plan_next_ms(&session->context.plan);
    return at < next ? at : next;
}

static void tell_topics(struct sql_session *session, int64_t now_ms)
{
    struct sql_topic_plan *plan = &session->context.plan;
    while (sql_topic_plan_next_ms(plan) <= now_ms) {
        struct sql_topic *topic = plan->times.at[0];
        bool was_paused = topic->paused;
        topic->hold_ms = 0;
        if (was_paused) {
            topic->paused = false;
            topic->resume_ms = INT64_MAX;
            sql_topic_plan_look(plan, topic);
        }
        topic->next_ms = INT64_MAX; /* a take or a look brings the next one */
        sql_topic_plan_changed(plan, topic);
        if (!was_paused && session->queue->on_ready)
            session->queue->on_ready(session->queue->on_ready_owner, topic->entry.key);
    }
}

static void end_leases(struct sql_session *session, int64_t now_ms)
{
    struct sql_call *call;
    struct sql_lease lease;
    if (session->end_under_way || sql_watched_next(&session->leases) > now_ms)
        return;
    call = add_own(session, SQL_CALL_END);
    if (!call)
        return;
    while (call->ends.count < ENDS_MAX && sql_leases_reserve(&call->ends, call->ends.count + 1) &&
           sql_watched_take(&session->leases, now_ms, &lease))
        (void)sql_leases_add(&call->ends, lease);
    session->end_under_way = true;
}

static void look_around(struct sql_session *session, bool at_all)
{
    struct sql_call *call = session->look_under_way ? NULL : add_own(session, SQL_CALL_LOOK);
    if (!call)
        return;
    call->from_the_start = at_all;
    session->look_under_way = true;
}

/* Once a second: it lives; and whether anything made jobs wait that no news told of. */
static void keep_up(struct sql_session *session)
{
    if (clock_inner_ms() < session->upkeep_ms)
        return;
    session->upkeep_ms = clock_inner_ms() + UPKEEP_MS;
    if (!session->upkeep_under_way) {
        struct sql_call *call = add_own(session, SQL_CALL_UPKEEP);
        session->upkeep_under_way = call != NULL;
        if (call) {
            call->alone = true; /* what it says of other transactions is said from its beginning */
            call->listens = session->audience.kinds != 0;
        }
    }
    sql_topics_forget(&session->context.topics);
}

/* Something may have: all watched topics are looked at. */
static void look_at_all(struct sql_session *session)
{
    for (struct table_entry *entry = table_first(&session->context.topics.table); entry;
         entry = table_next(&session->context.topics.table, entry))
        sql_topic_plan_look(&session->context.plan, sql_topics_of(entry));
    if (sql_topic_plan_wants_look(&session->context.plan))
        look_around(session, clock_boot_ms() >= session->look_all_ms);
}

static void upkeep_is_done(struct sql_session *session, const struct sql_call *call)
{
    sql_audience_known(&session->audience, call->listens, call->is_heard);
    session->is_alone = call->others == 0;
    session->adopt_wanted = call->silent > 0;
    if (call->next_expire_ms < session->expire_ms)
        session->expire_ms = call->next_expire_ms;
    if (!call->mark || call->mark != session->mark)
        look_at_all(session);
    session->mark = call->mark;
}

/* Pushes that nobody tells of are looked for: often while somebody waits, more often while they come. */
static void look_for_others(struct sql_session *session)
{
    bool is_expected = clock_boot_ms() < session->by_sql_ms;
    if (!session->dialect->look_ms || clock_boot_ms() < session->look_ms || session->look_under_way)
        return;
    session->look_ms = clock_boot_ms() +
                       (is_expected ? session->dialect->look_soon_ms : session->dialect->look_ms);
    for (struct table_entry *entry = table_first(&session->context.topics.table); entry;
         entry = table_next(&session->context.topics.table, entry))
        sql_topic_plan_look(&session->context.plan, sql_topics_of(entry));
}

/* Somebody listens here, where events are not told but looked for. */
static bool looks_for_events(const struct sql_session *session)
{
    return session->dialect->look_ms && session->audience.kinds && session->audience.is_known;
}

static bool is_to_hear(const struct sql_session *session)
{
    return looks_for_events(session) && !session->hear_under_way;
}

static void hear_others(struct sql_session *session)
{
    if (!is_to_hear(session) || clock_boot_ms() < session->hear_ms)
        return;
    session->hear_ms = clock_boot_ms() + session->dialect->look_ms;
    session->hear_under_way = add_own(session, SQL_CALL_HEAR) != NULL;
}

static void do_what_is_due(struct sql_session *session)
{
    int64_t now_ms = database_ms(session);
    bool is_news = sql_audience_look(&session->audience);
    if (session->phase == PHASE_DOWN || session->stopping)
        return;
    if (is_news && !session->upkeep_under_way && !session->upkeep_failed)
        session->upkeep_ms = 0;
    keep_up(session);
    end_leases(session, now_ms);
    if (!session->expire_under_way && session->expire_ms <= now_ms)
        session->expire_under_way = add_own(session, SQL_CALL_EXPIRE) != NULL;
    if (session->adopt_wanted && add_own(session, SQL_CALL_ADOPT))
        session->adopt_wanted = false;
    tell_topics(session, now_ms);
    look_for_others(session);
    hear_others(session);
    if (!session->look_under_way && sql_topic_plan_wants_look(&session->context.plan))
        look_around(session, false);
}

/* ---- a turn, first flight ---- */

static bool fits(const struct sql_session *session, const struct sql_call *call, size_t items,
                 size_t bytes, bool has_changes)
{
    if (list_is_empty(&session->turn))
        return true;
    if (call->alone || first_of((struct list *)&session->turn)->alone)
        return false;
    if (has_changes && sql_call_is_figures(call)) /* their counts are written with the commit */
        return false;
    return items + sql_call_weight(call) <= TURN_ITEMS_MAX &&
           bytes + sql_call_bytes(call) <= TURN_BYTES_MAX;
}

/* When a call may go: 0: now. */
static int64_t retry_at(const struct sql_session *session, const struct sql_call *call)
{
    if (call->retry_ms > 0 && call->retry_ms < session->retry_at_ms)
        return session->retry_at_ms;
    return call->retry_ms;
}

/* What is to be durable collects while the disk is busy with the turn before. */
static bool waits_for_flush(const struct sql_session *session, const struct sql_call *call)
{
    bool is_busy = session->flush.is_under_way || !list_is_empty(&session->flush.calls);
    return is_busy && sql_call_is_durable(call);
}

/* Those that may go now, in their order. */
static void gather(struct sql_session *session)
{
    size_t items = 0, bytes = 0;
    bool has_changes = false;
    struct list *at = session->waiting.next;
    while (at != &session->waiting) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        at = at->next;
        if (retry_at(session, call) > clock_boot_ms() || waits_for_flush(session, call))
            continue;
        if (!fits(session, call, items, bytes, has_changes))
            break;
        items += sql_call_weight(call);
        bytes += sql_call_bytes(call);
        has_changes = has_changes || (sql_call_is_change(call) && !sql_call_is_figures(call));
        list_remove(&call->list);
        list_add_last(&session->turn, &call->list);
    }
}

/* For what the link waits. */
static void poll_link(struct sql_session *session)
{
    int wants = session->dialect->wants(session->context.link), events = 0;
    if (wants & SQL_READABLE)
        events |= UV_READABLE;
    if (wants & SQL_WRITABLE)
        events |= UV_WRITABLE;
    if (events != session->poll_events && session->poll)
        (void)uv_poll_start(session->poll, events, on_poll);
    session->poll_events = events;
}

static struct sql_turn turn_of(struct sql_session *session)
{
    struct sql_turn turn = {.calls = &session->turn,
                            .is_durable = session->turn_is_durable && !session->turn_is_flushed,
                            .is_brief = session->turn_is_retry,
                            .is_alone = session->is_alone,
                            .is_heard = sql_audience_is_elsewhere(&session->audience) ||
                                        (looks_for_events(session) && !session->is_alone),
                            .is_single = session->dialect->has_single_turns};
    for (struct list *at = session->turn.next; at != &session->turn; at = at->next) {
        const struct sql_call *call = list_entry(at, struct sql_call, list);
        turn.is_single = turn.is_single && sql_call_is_single(call);
        if (sql_call_is_change(call))
            turn.ticket = session->ticket + 1;
    }
    if (turn.is_single)
        turn.ticket = 0;
    return turn;
}

static void part_begin(struct sql_session *session, enum phase phase)
{
    struct sql_turn turn = turn_of(session);
    struct sql_link *link = session->context.link;
    bool sent = false;
    session->phase = phase;
    session->flight_begun_ms = clock_boot_ms();
    if (phase == PHASE_CALLS)
        sent = session->dialect->send_calls(link, &session->context, &turn);
    else if (phase == PHASE_COMMIT)
        sent = session->dialect->send_commit(link, &session->context, &turn);
    else
        sent = session->dialect->send_rollback(link);
    session->is_lost = session->is_lost || !sent;
    poll_link(session);
}

static void turn_begin(struct sql_session *session)
{
    gather(session);
    if (list_is_empty(&session->turn))
        return;
    session->turn_is_retry = first_of(&session->turn)->retry_ms > 0;
    sql_effects_clear(&session->context.effects);
    session->context.effects.tells = sql_audience_is_there(&session->audience);
    session->fault = (struct sql_fault){0};
    session->commit_sent = session->turn_looks_all = session->turn_is_durable = false;
    for (struct list *at = session->turn.next; at != &session->turn; at = at->next) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        session->turn_looks_all = session->turn_looks_all || call->from_the_start;
        session->turn_is_durable = session->turn_is_durable || sql_call_is_durable(call);
        sql_call_again(call);
    }
    choose_flush(session);
    session->has_ticket = turn_of(session).ticket != 0;
    session->turn_is_single = turn_of(session).is_single;
    session->turn_begun_ms = clock_boot_ms();
    session->figures.turns++;
    part_begin(session, PHASE_CALLS);
}

static void commit_begin(struct sql_session *session)
{
    session->commit_sent = true;
    session->commit_begun_us = clock_boot_us();
    part_begin(session, PHASE_COMMIT);
}

/* ---- after the commit ---- */

static bool brought(const struct sql_call *call, struct slice topic)
{
    for (size_t i = 0; i < call->job_count; i++)
        if (slice_equals(call->jobs[i].job.topic, topic))
            return true;
    return false;
}

static void believe_look(struct sql_session *session, const struct sql_call *call)
{
    bool took = call->kind == SQL_CALL_COMMAND;
    for (size_t i = 0; i < call->sights.count; i++) {
        const struct sql_sight *sight = &call->sights.at[i];
        struct sql_topic *topic = sql_topics_need(&session->context.topics, sight->topic);
        if (!topic)
            continue;
        topic->look = false;
        topic->paused = sight->is_paused;
        topic->resume_ms = sight->resume_ms ? sight->resume_ms : INT64_MAX;
        sql_topic_seen(topic, sight->next_ms, sight->seen_ms, took, brought(call, sight->topic));
        sql_topic_plan_changed(&session->context.plan, topic);
    }
}

static void looks_are_done(struct sql_session *session, bool is_good)
{
    session->look_under_way = false;
    sql_topic_plan_looked(&session->context.plan, is_good);
}

static void tell_event(struct sql_session *session, enum queue_event event, struct slice topic)
{
    if (session->queue->on_event)
        session->queue->on_event(session->queue->on_event_owner, event, topic);
}

static void hear(struct sql_session *session, const struct sql_news *news)
{
    if (news->listens)
        sql_audience_elsewhere(&session->audience);
    if (news->misses_events)
        sql_audience_miss(&session->audience);
    if (news->events.len)
        sql_audience_hear(&session->audience, news->events);
    if (!news->name[0])
        return;
    struct slice name = slice_of(news->name);
    struct sql_topic *topic = sql_topics_find(&session->context.topics, name);
    if (topic && news->due_ms != INT64_MAX) {
        sql_topic_hear(topic, news->due_ms);
        sql_topic_plan_changed(&session->context.plan, topic);
    }
    if (topic && (news->look || news->changed))
        sql_topic_plan_look(&session->context.plan, topic);
    if (news->changed)
        tell_event(session, QUEUE_EVENT_TOPIC, name);
    if (news->died)
        tell_event(session, QUEUE_EVENT_DEAD, name);
}

static void believe_effects(struct sql_session *session)
{
    struct sql_effects *effects = &session->context.effects;
    for (size_t i = 0; i < effects->holds.count; i++)
        (void)sql_watched_set(&session->leases, &effects->holds.at[i].lease,
                              effects->holds.at[i].until_ms);
    if (effects->expire_ms < session->expire_ms)
        session->expire_ms = effects->expire_ms;
    for (size_t i = 0; i < effects->news.count; i++)
        hear(session, &effects->news.at[i]);
    if (!effects->events_return)
        sql_audience_tell(&session->audience, buffer_slice(&effects->events),
                          session->context.now_ms, effects->events_lost);
}

static void own_is_done(struct sql_session *session, const struct sql_call *call, bool is_good)
{
    switch (call->kind) {
    case SQL_CALL_COMMAND:
        break;
    case SQL_CALL_END:
        session->end_under_way = false;
        if (!is_good) /* again, soon */
            for (size_t i = 0; i < call->ends.count; i++)
                (void)sql_watched_set(&session->leases, &call->ends.at[i],
                                      database_ms(session) + RETRY_MS_MAX);
        break;
    case SQL_CALL_LOOK:
        looks_are_done(session, is_good);
        break;
    case SQL_CALL_HEAR:
        session->hear_under_way = is_good && call->has_more;
        break;
    case SQL_CALL_EXPIRE:
        session->expire_under_way = false;
        session->expire_ms = is_good ? call->next_expire_ms : database_ms(session) + RETRY_MS_MAX;
        break;
    case SQL_CALL_UPKEEP:
        session->upkeep_under_way = false;
        session->upkeep_failed = !is_good; /* the next one in its second, whatever is to be told */
        if (is_good)
            upkeep_is_done(session, call);
        break;
    case SQL_CALL_ADOPT:
        break;
    case SQL_CALL_GOODBYE:
        session->ended = true;
        break;
    }
}

/* Its next step goes, or it is answered. */
static void call_is_done(struct sql_session *session, struct sql_call *call)
{
    call->since_ms = clock_boot_ms(); /* of its next step */
    call->retry_ms = call->has_more && call->empty_takes ? clock_boot_ms() + RETRY_MS : 0;
    list_add_last(call->has_more ? &session->waiting : &session->answered, &call->list);
}

static void flush_is_over(struct sql_session *session)
{
    struct list done;
    if (!session->flush.is_over)
        return;
    note_disk(session, session->flush.begun_us);
    sql_flush_take(&session->flush, &done);
    while (!list_is_empty(&done)) {
        struct sql_call *call = first_of(&done);
        list_remove(&call->list);
        call_is_done(session, call);
    }
}

static void turn_is_committed(struct sql_session *session)
{
    struct list done;
    session->ticket += session->has_ticket;
    session->commit_sent = false; /* its fate is known */
    session->figures.is_full = false;
    session->phase = PHASE_IDLE;
    for (struct list *at = session->turn.next; at != &session->turn; at = at->next) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        call->affected += call->step_affected;
        own_is_done(session, call, true);
        if (!call->from_the_start)
            believe_look(session, call);
    }
    for (struct list *at = session->turn.next; at != &session->turn; at = at->next) {
        const struct sql_call *call = list_entry(at, struct sql_call, list);
        if (call->from_the_start) /* the one that knows what is behind the bounds has the last word */
            believe_look(session, call);
    }
    believe_effects(session);
    if (session->context.by_sql)
        session->by_sql_ms = clock_boot_ms() + BY_SQL_MS;
    session->context.by_sql = false;
    if (session->turn_looks_all) {
        int64_t wait_ms = LOOK_SHARE * (clock_boot_ms() - session->turn_begun_ms);
        session->look_all_ms = clock_boot_ms() + (wait_ms < LOOK_MS_MAX ? wait_ms : LOOK_MS_MAX);
    }
    list_init(&done);
    list_take_all(&done, &session->turn);
    while (!list_is_empty(&done)) {
        struct sql_call *call = first_of(&done);
        list_remove(&call->list);
        call->ticket = session->ticket;
        if (session->turn_is_flushed && sql_call_is_durable(call))
            sql_flush_add(&session->flush, call);
        else
            call_is_done(session, call);
    }
    sql_flush_begin(&session->flush);
    reactor_turn_again(session->reactor);
}

/* ---- what goes wrong ---- */

static enum queue_status status_of_fault(enum sql_fault_kind kind)
{
    if (kind == SQL_FAULT_NO_SPACE)
        return QUEUE_NO_SPACE;
    return kind == SQL_FAULT_NO_MEMORY ? QUEUE_NO_MEMORY : QUEUE_UNAVAILABLE;
}

/* To the head of the line, in their order. */
static void requeue_list(struct sql_session *session, struct list *calls)
{
    struct list later;
    list_init(&later);
    list_take_all(&later, &session->waiting);
    list_take_all(&session->waiting, calls);
    while (!list_is_empty(&later)) {
        struct sql_call *call = first_of(&later);
        list_remove(&call->list);
        list_add_last(&session->waiting, &call->list);
    }
}

/* The calls of the turn. */
static void requeue(struct sql_session *session, bool alone)
{
    session->figures.repeated++;
    for (struct list *at = session->turn.next; at != &session->turn; at = at->next) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        call->alone = call->alone || alone;
    }
    requeue_list(session, &session->turn);
}

/* Commits that the database has lost. */
static void requeue_lost(struct sql_session *session)
{
    struct list lost;
    sql_flush_take_lost(&session->flush, session->greeting.ticket, &lost);
    session->figures.repeated += !list_is_empty(&lost);
    for (struct list *at = lost.next; at != &lost; at = at->next) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        call->affected -= call->step_affected;
    }
    requeue_list(session, &lost);
}

static void give_up(struct sql_session *session, struct sql_call *call)
{
    enum queue_status status = status_of_fault(session->fault.kind);
    if (status == QUEUE_NO_SPACE)
        session->figures.is_full = true;
    log_event(LOG_WARN, "the database refused a call", LOG_TEXT("store", session->dialect->name),
              LOG_TEXT("state", session->fault.state), LOG_TEXT("message", session->fault.message));
    own_is_done(session, call, false);
    refuse_call(session, call, status);
}

static void turn_is_rolled_back(struct sql_session *session)
{
    struct sql_call *call = first_of(&session->turn);
    session->phase = PHASE_IDLE;
    if (session->turn_is_retry)
        session->retry_at_ms =
            clock_boot_ms() + RETRY_SHARE * (clock_boot_ms() - session->turn_begun_ms);
    reactor_turn_again(session->reactor);
    if (session->fault.kind == SQL_FAULT_GONE) {
        requeue(session, false);
        session->is_lost = true;
    } else if (call->list.next != &session->turn) {
        requeue(session, true);
    } else if (session->fault.kind == SQL_FAULT_PASSING &&
               clock_boot_ms() - call->since_ms < session->patience_ms) {
        int64_t wait = call->retry_ms ? RETRY_MS_MAX : RETRY_MS;
        call->retry_ms = clock_boot_ms() + wait;
        requeue(session, true);
    } else {
        give_up(session, call);
    }
}

/* ---- reading ---- */

static void part_is_over(struct sql_session *session)
{
    struct sql_fault *fault = &session->context.link->fault;
    bool is_good = fault->kind == SQL_FAULT_NONE;
    if (!is_good && session->fault.kind == SQL_FAULT_NONE)
        session->fault = *fault;
    *fault = (struct sql_fault){0};
    switch (session->phase) {
    case PHASE_CALLS:
        if (!is_good) {
            part_begin(session, PHASE_ROLLBACK);
            break;
        }
        sql_clock_note(&session->clock, session->context.now_ms, session->context.now_seen_us);
        if (session->turn_is_single)
            turn_is_committed(session);
        else
            commit_begin(session);
        break;
    case PHASE_COMMIT:
        if (is_good) {
            if (session->turn_is_durable && !session->turn_is_flushed)
                note_disk(session, session->commit_begun_us);
            turn_is_committed(session);
            break;
        }
        session->commit_sent = false; /* it is known not to have happened */
        part_begin(session, PHASE_ROLLBACK);
        break;
    case PHASE_ROLLBACK:
        turn_is_rolled_back(session);
        break;
    case PHASE_DOWN:
    case PHASE_IDLE:
        break;
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct sql_session *session = poll->data;
    struct sql_news news;
    enum sql_progress progress;
    if (session->phase == PHASE_DOWN || session->is_lost)
        return;
    int ready = (events & UV_READABLE || status < 0 ? SQL_READABLE : 0) |
                (events & UV_WRITABLE ? SQL_WRITABLE : 0);
    progress = session->dialect->advance(session->context.link, &session->context, ready);
    if (progress == SQL_PART_OVER)
        part_is_over(session);
    /* With an error libuv stops to poll: what could be read has been. */
    session->is_lost = session->is_lost || progress == SQL_LOST || status < 0;
    while (session->phase == PHASE_IDLE && !session->is_lost &&
           session->dialect->next_news(session->context.link, &news))
        hear(session, &news);
    poll_link(session);
}

/* ---- connections ---- */

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static void disconnect(struct sql_session *session)
{
    sql_flush_disconnect(&session->flush);
    if (session->poll) {
        (void)uv_poll_stop(session->poll);
        uv_close((uv_handle_t *)session->poll, on_closed);
        session->poll = NULL;
        session->poll_events = 0;
    }
    if (session->context.link)
        session->dialect->close(session->context.link);
    session->context.link = NULL;
}

/* What was under way goes again, unless its commit was: then the next connection tells. */
static void connection_is_lost(struct sql_session *session)
{
    const struct sql_fault *fault = &session->fault;
    if (!fault->message[0])
        fault = &session->context.link->fault;
    log_event(LOG_WARN, "the connection to the database is lost",
              LOG_TEXT("store", session->dialect->name), LOG_TEXT("state", fault->state),
              LOG_TEXT("message", fault->message));
    disconnect(session);
    sql_audience_cut(&session->audience);
    session->is_lost = false;
    session->phase = PHASE_DOWN;
    session->figures.is_up = false;
    if (!(session->commit_sent && session->has_ticket))
        requeue(session, false);
    sql_connector_reset(&session->connector);
    reactor_turn_again(session->reactor);
}

static bool has_durable(const struct list *calls)
{
    for (const struct list *at = calls->next; at != calls; at = at->next)
        if (sql_call_is_durable(list_entry(at, struct sql_call, list)))
            return true;
    return false;
}

/* Are there commits that only a flush makes certain? */
static bool needs_flush(const struct sql_session *session)
{
    bool is_open = session->commit_sent && session->turn_is_flushed;
    return has_durable(&session->flush.calls) || (is_open && has_durable(&session->turn));
}

static bool connection_set(struct sql_session *session, const struct sql_greeting *greeting)
{
    uv_poll_t *poll = malloc(sizeof *poll);
    if (!poll || !sql_flush_connect(&session->flush, greeting->link)) {
        free(poll);
        return false;
    }
    if (uv_poll_init(reactor_loop(session->reactor), poll,
                     greeting->link->dialect->socket(greeting->link)) != 0) {
        sql_flush_disconnect(&session->flush);
        free(poll);
        return false;
    }
    if (!session->flush.link && needs_flush(session)) { /* until they were given up */
        uv_close((uv_handle_t *)poll, on_closed);
        return false;
    }
    poll->data = session;
    session->poll = poll;
    session->greeting = *greeting;
    session->context.link = greeting->link;
    session->context.key = greeting->key;
    session->context.server = greeting->server;
    session->context.now_ms = greeting->now_ms;
    sql_clock_set(&session->clock, greeting->now_ms);
    session->phase = PHASE_IDLE;
    session->figures.is_up = true;
    session->adopt_wanted = true;
    session->upkeep_ms = 0;
    session->expire_ms = 0;
    poll_link(session);
    return true;
}

/* What was told meanwhile was not heard. */
static void doubt_everything(struct sql_session *session)
{
    for (struct table_entry *entry = table_first(&session->context.topics.table); entry;
         entry = table_next(&session->context.topics.table, entry)) {
        struct sql_topic *topic = sql_topics_of(entry);
        topic->bound_ms = 0;
        sql_topic_plan_look(&session->context.plan, topic);
    }
    tell_event(session, QUEUE_EVENT_TOPIC, (struct slice){0});
    tell_event(session, QUEUE_EVENT_DEAD, (struct slice){0});
}

/* Was the last commit carried out? Then its leases are to be ended in time, also where all of its
 * calls were refused meanwhile. */
static void settle_turn(struct sql_session *session)
{
    if (session->greeting.ticket < session->ticket)
        log_event(
            LOG_WARN, "the database went back: takes, or more where it does not sync, are lost",
            LOG_NUMBER("ticket", session->ticket), LOG_NUMBER("found", session->greeting.ticket));
    if (!session->commit_sent || !session->has_ticket) {
        session->ticket = session->greeting.ticket;
        return;
    }
    session->commit_sent = false;
    session->figures.settled++;
    if (session->greeting.ticket == session->ticket + 1) {
        turn_is_committed(session);
        return;
    }
    session->ticket = session->greeting.ticket;
    requeue(session, false);
}

/* What was committed and is still there is answered once the disk is known to have it. */
static void settle(struct sql_session *session)
{
    settle_turn(session);
    session->figures.settled += session->flush.is_cut;
    session->flush.is_cut = false;
    requeue_lost(session);
    sql_flush_begin(&session->flush);
}

static bool on_connected(void *ctx, const struct sql_greeting *greeting, const char *error)
{
    struct sql_session *session = ctx;
    reactor_turn_again(session->reactor);
    if (!greeting) {
        log_event(LOG_WARN, "the database is out of reach",
                  LOG_TEXT("store", session->dialect->name), LOG_TEXT("error", error));
        return false;
    }
    if (session->ended)
        return false;
    if (!connection_set(session, greeting)) {
        log_event(LOG_WARN, "a connection to the database was given up",
                  LOG_TEXT("store", session->dialect->name),
                  LOG_TEXT("error", needs_flush(session)
                                        ? "there is no second connection, by which what was "
                                          "committed is known to be on the disk: let this account "
                                          "have two"
                                        : "out of memory"));
        return false;
    }
    log_event(LOG_INFO, "connected to the database", LOG_TEXT("store", session->dialect->name),
              LOG_NUMBER("server", session->context.server));
    if (session->greeting.moved_ms)
        log_event(LOG_WARN, "the database is on another machine, whose clock is put right",
                  LOG_NUMBER("by_ms", session->greeting.moved_ms));
    session->figures.reconnects++;
    sql_audience_elsewhere(&session->audience); /* until it is known that nobody does */
    settle(session);
    doubt_everything(session);
    return true;
}

/* Calls whose patience is over are answered; an own one has time. */
static void refuse_late(struct sql_session *session, struct list *list)
{
    struct list *at = list->next;
    while (at != list) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        at = at->next;
        if (call->kind == SQL_CALL_COMMAND &&
            clock_boot_ms() - call->since_ms >= session->patience_ms)
            refuse_call(session, call, QUEUE_UNAVAILABLE);
    }
}

/* A database that answers no more but keeps the connection. */
static void lose_if_silent(struct sql_session *session)
{
    bool in_flight = session->phase != PHASE_DOWN && session->phase != PHASE_IDLE;
    int64_t since_ms = in_flight ? session->flight_begun_ms : clock_boot_ms();
    if (session->flush.is_under_way && session->flush.begun_us / 1000 < since_ms)
        since_ms = session->flush.begun_us / 1000;
    if (session->phase == PHASE_DOWN || clock_boot_ms() - since_ms < session->dialect->silence_ms)
        return;
    if (!session->fault.message[0])
        (void)snprintf(session->fault.message, sizeof session->fault.message,
                       "no answer for %lld s", (long long)session->dialect->silence_ms / 1000);
    session->is_lost = true;
}

/* Whether these calls were carried out is known with the next connection, if ever in time. */
static void while_down(struct sql_session *session)
{
    refuse_late(session, &session->turn);
    refuse_late(session, &session->flush.calls);
    if (!session->ended)
        sql_connector_try(&session->connector,
                          &(struct sql_wish){.server = session->context.server,
                                             .knows_time = true,
                                             .offset_us = session->clock.offset_us});
}

/* ---- the end of each turn of the loop ---- */

static void stop_if_done(struct sql_session *session)
{
    bool is_over = clock_boot_ms() >= session->stop_until_ms;
    bool is_empty = session->figures.waiting == 0;
    if (!session->stopping || session->ended)
        return;
    if (session->phase == PHASE_IDLE && is_empty && !session->goodbye_sent)
        session->goodbye_sent = add_own(session, SQL_CALL_GOODBYE) != NULL;
    if (is_over || (session->phase == PHASE_DOWN && is_empty))
        session->ended = true;
}

static void end(struct sql_session *session)
{
    void (*stopped)(void *ctx) = session->stopped;
    struct list *lists[] = {&session->waiting, &session->turn, &session->flush.calls};
    session->stopped = NULL;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        while (!list_is_empty(lists[i])) {
            struct sql_call *call = first_of(lists[i]);
            if (call->kind == SQL_CALL_COMMAND) {
                refuse_call(session, call, QUEUE_UNAVAILABLE);
            } else {
                list_remove(&call->list);
                sql_call_free(call);
            }
        }
    give_answers(session);
    disconnect(session);
    session->phase = PHASE_DOWN;
    if (stopped)
        stopped(session->stopped_ctx);
}

/* By the inner clock: the database's and elapsed time are turned into it. */
static void set_deadline(struct sql_session *session)
{
    int64_t next = INT64_MAX, inner_us = clock_inner_us();
    if (session->phase != PHASE_DOWN && !session->stopping) {
        next = next_ms(session);
        next = sql_clock_inner_us(&session->clock, next);
        next = session->upkeep_ms * 1000 < next ? session->upkeep_ms * 1000 : next;
        int64_t look_us = inner_us + (session->look_ms - clock_boot_ms()) * 1000;
        if (session->dialect->look_ms && !session->look_under_way && look_us < next &&
            session->context.plan.times.count)
            next = look_us;
        int64_t hear_us = inner_us + (session->hear_ms - clock_boot_ms()) * 1000;
        if (is_to_hear(session) && hear_us < next)
            next = hear_us;
    }
    if (session->phase == PHASE_DOWN || session->stopping)
        next = inner_us + RETRY_MS * 1000;
    for (struct list *at = session->waiting.next; at != &session->waiting; at = at->next) {
        const struct sql_call *call = list_entry(at, struct sql_call, list);
        int64_t retry = inner_us + (retry_at(session, call) - clock_boot_ms()) * 1000;
        if (session->phase == PHASE_IDLE && call->retry_ms > 0 && retry < next)
            next = retry;
    }
    deadline_set_us(session->deadline, next);
}

static bool turn_hook(void *ctx)
{
    struct sql_session *session = ctx;
    if (session->ended && !session->stopped)
        return false;
    flush_is_over(session);
    lose_if_silent(session);
    session->is_lost = session->is_lost || session->flush.is_lost;
    if (session->is_lost && session->phase != PHASE_DOWN)
        connection_is_lost(session);
    if (session->phase != PHASE_IDLE || session->flush.is_under_way)
        refuse_late(session, &session->waiting);
    if (session->phase == PHASE_DOWN)
        while_down(session);
    give_answers(session);
    do_what_is_due(session);
    stop_if_done(session);
    if (session->phase == PHASE_IDLE && !session->ended)
        turn_begin(session);
    if (session->ended)
        end(session);
    else
        set_deadline(session);
    return !list_is_empty(&session->answered) || session->is_lost;
}

static void on_deadline(void *ctx)
{
    (void)ctx; /* the turn's end does what is due */
}

/* ---- life ---- */

struct sql_session *sql_session_new(struct reactor *reactor,
                                    const struct sql_session_options *options,
                                    const struct sql_greeting *greeting, struct queue *queue)
{
    struct sql_session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->dialect = greeting->link->dialect;
    session->reactor = reactor;
    session->queue = queue;
    session->patience_ms = options->patience_ms;
    session->context.topics_max = options->topics_max;
    session->deadline = deadline_new(reactor, on_deadline, session);
    list_init(&session->waiting);
    list_init(&session->turn);
    list_init(&session->answered);
    sql_flush_init(&session->flush, reactor);
    sql_effects_init(&session->context.effects);
    sql_audience_init(&session->audience, options->desk);
    sql_topic_plan_init(&session->context.plan);
    if (!sql_connector_open(&session->connector, reactor, session->dialect, options->url,
                            on_connected, session) ||
        !session->deadline || !connection_set(session, greeting)) {
        sql_session_free(session);
        return NULL;
    }
    session->ticket = greeting->ticket;
    reactor_at_turn_end(reactor, turn_hook, session);
    session->hooked = true;
    return session;
}

void sql_session_stop(struct sql_session *session, void (*stopped)(void *ctx), void *ctx)
{
    session->stopping = true;
    session->stopped = stopped;
    session->stopped_ctx = ctx;
    session->stop_until_ms = clock_boot_ms() + STOP_MS;
    reactor_turn_again(session->reactor);
}

void sql_session_free(struct sql_session *session)
{
    if (!session)
        return;
    if (session->hooked)
        reactor_remove_at_turn_end(session->reactor, turn_hook, session);
    sql_connector_close(&session->connector);
    if (session->deadline)
        deadline_free(session->deadline);
    sql_topics_free(&session->context.topics);
    sql_topic_plan_fini(&session->context.plan);
    sql_effects_fini(&session->context.effects);
    sql_audience_fini(&session->audience);
    sql_watched_fini(&session->leases);
    free(session);
}

void sql_session_figures(const struct sql_session *session, struct sql_session_figures *out)
{
    *out = session->figures;
}

const struct sql_greeting *sql_session_greeting(const struct sql_session *session)
{
    return &session->greeting;
}

bool sql_session_is_quiet(struct sql_session *session)
{
    return session->phase == PHASE_IDLE && list_is_empty(&session->waiting) &&
           list_is_empty(&session->answered) && list_is_empty(&session->flush.calls) &&
           !session->is_lost && !session->adopt_wanted &&
           !sql_topic_plan_wants_look(&session->context.plan) &&
           next_ms(session) > database_ms(session) && session->upkeep_ms > clock_inner_ms();
}
