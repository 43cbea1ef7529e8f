#include "sql/hints.h"

void sql_hints_init(struct sql_hints *hints, struct sql_context *context, struct queue *queue,
                    struct feed_desk *desk, bool looks_for_events)
{
    *hints = (struct sql_hints){.context = context, .queue = queue};
    sql_topic_plan_init(&context->plan);
    sql_awaits_init(&context->awaits);
    sql_audience_init(&hints->audience, desk, looks_for_events);
}

void sql_hints_fini(struct sql_hints *hints)
{
    sql_topics_free(&hints->context->topics);
    sql_awaits_fini(&hints->context->awaits);
    sql_topic_plan_fini(&hints->context->plan);
    sql_audience_fini(&hints->audience);
    sql_watched_fini(&hints->leases);
}

/* ---- topics ---- */

bool sql_hints_watch(struct sql_hints *hints, struct slice name, bool on)
{
    struct sql_topic_plan *plan = &hints->context->plan;
    struct sql_topic *topic = sql_topics_need(&hints->context->topics, name);
    if (!topic)
        return false;
    topic->hold_ms = topic->wait_ms = 0;
    if (!sql_topic_plan_watch(plan, topic, on))
        return false;
    sql_topic_plan_changed(plan, topic);
    sql_topic_plan_look(plan, topic);
    return true;
}

void sql_hints_look(struct sql_hints *hints)
{
    struct sql_topics *topics = &hints->context->topics;
    for (struct table_entry *entry = table_first(&topics->table); entry;
         entry = table_next(&topics->table, entry))
        sql_topic_plan_look(&hints->context->plan, sql_topics_of(entry));
}

static void notify_event(struct sql_hints *hints, enum queue_event event, struct slice topic)
{
    queue_report_event(hints->queue, event, topic);
}

void sql_hints_doubt(struct sql_hints *hints)
{
    struct sql_topics *topics = &hints->context->topics;
    for (struct table_entry *entry = table_first(&topics->table); entry;
         entry = table_next(&topics->table, entry))
        sql_topics_of(entry)->bound_ms = 0;
    sql_hints_look(hints);
    sql_awaits_doubt(&hints->context->awaits);
    notify_event(hints, QUEUE_EVENT_TOPIC, (struct slice){0});
    notify_event(hints, QUEUE_EVENT_DEAD, (struct slice){0});
}

void sql_hints_notify_ready(struct sql_hints *hints, int64_t now_ms)
{
    struct sql_topic_plan *plan = &hints->context->plan;
    while (sql_topic_plan_next_ms(plan) <= now_ms) {
        struct sql_topic *topic = plan->times.at[0];
        bool was_paused = topic->paused;
        topic->hold_ms = 0;
        if (was_paused) {
            topic->paused = false;
            topic->resume_ms = INT64_MAX;
            sql_topic_plan_look(plan, topic);
        }
        topic->next_ms = INT64_MAX; /* a take or a check sets the next one */
        sql_topic_plan_changed(plan, topic);
        if (!was_paused)
            queue_report_ready(hints->queue, topic->entry.key);
    }
}

/* ---- applying results ---- */

static bool took_of(const struct sql_call *call, struct slice topic)
{
    if (call->kind != SQL_CALL_COMMAND || call->command->kind != COMMAND_TAKE)
        return false; /* others also have jobs: those that waits return */
    for (size_t i = 0; i < call->job_count; i++)
        if (slice_equals(call->jobs[i].job.topic, topic))
            return true;
    return false;
}

/* Returns true if a take of the transaction returned jobs of the topic. Takes that run as one share
 * a single check, stored with the first take; any of them may have received the jobs. */
static bool brought(const struct list *calls, struct slice topic)
{
    for (const struct list *at = calls->next; at != calls; at = at->next)
        if (took_of(list_entry(at, struct sql_call, list), topic))
            return true;
    return false;
}

void sql_hints_apply_look(struct sql_hints *hints, const struct sql_call *call,
                          const struct list *calls)
{
    bool took = call->kind == SQL_CALL_COMMAND;
    for (size_t i = 0; i < call->observations.count; i++) {
        const struct sql_observation *observation = &call->observations.at[i];
        struct sql_topic *topic = sql_topics_need(&hints->context->topics, observation->topic);
        if (!topic)
            continue;
        topic->look = false;
        topic->paused = observation->is_paused;
        topic->resume_ms = observation->resume_ms ? observation->resume_ms : INT64_MAX;
        bool is_due = observation->next_ms <= observation->seen_ms;
        sql_topic_seen(topic, observation->next_ms, observation->seen_ms, took,
                       took && is_due && brought(calls, observation->topic));
        if (observation->has_no_bound)
            topic->bound_ms = 0;
        topic->is_limited = observation->is_limited;
        sql_topic_plan_changed(&hints->context->plan, topic);
    }
}

void sql_hints_receive(struct sql_hints *hints, const struct sql_notification *notification)
{
    if (notification->listens)
        sql_audience_elsewhere(&hints->audience);
    if (notification->ended)
        hints->context->awaits.is_notified = true;
    if (notification->batched)
        hints->expire_ms = 0;
    if (notification->misses_events)
        sql_audience_miss(&hints->audience);
    if (notification->events.len)
        sql_audience_receive(&hints->audience, notification->events, hints->context->adjust_ms);
    if (!notification->name[0])
        return;
    struct slice name = slice_of(notification->name);
    struct sql_topic *topic = sql_topics_find(&hints->context->topics, name);
    if (topic && notification->due_ms != INT64_MAX) {
        sql_topic_receive(topic, notification->due_ms);
        sql_topic_plan_changed(&hints->context->plan, topic);
    }
    if (topic && (notification->look || notification->changed))
        sql_topic_plan_look(&hints->context->plan, topic);
    if (notification->changed)
        notify_event(hints, QUEUE_EVENT_TOPIC, name);
    if (notification->died)
        notify_event(hints, QUEUE_EVENT_DEAD, name);
}

void sql_hints_apply_effects(struct sql_hints *hints)
{
    struct sql_effects *effects = &hints->context->effects;
    for (size_t i = 0; i < effects->holds.count; i++)
        (void)sql_watched_set(&hints->leases, &effects->holds.at[i].lease,
                              effects->holds.at[i].until_ms);
    if (effects->expire_ms < hints->expire_ms)
        hints->expire_ms = effects->expire_ms;
    for (size_t i = 0; i < effects->notifications.count; i++)
        sql_hints_receive(hints, &effects->notifications.at[i]);
    if (!effects->events_return)
        sql_audience_publish(&hints->audience, buffer_slice(&effects->events),
                             hints->context->now_ms, hints->context->adjust_ms,
                             effects->events_lost);
}
