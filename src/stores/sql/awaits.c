#include "sql/awaits.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { LOCKED_MS = 50 }; /* until a job that another transaction holds is looked up again */

struct sql_wait { /* A wait of a client. */
    struct list list;
    struct queue_reply_to reply_to;
    bool is_pushed; /* the reply of its push comes first */
};

void sql_awaits_init(struct sql_awaits *awaits)
{
    *awaits = (struct sql_awaits){0};
    list_init(&awaits->fresh);
    list_init(&awaits->left);
    list_init(&awaits->cancelled);
}

/* ---- jobs ---- */

/* Writes the key of a job. Returns its length, or 0 if a name is too long. */
static size_t key_of(struct slice topic, struct slice id, char key[SQL_AWAITED_KEY_BYTES_MAX])
{
    if (!topic.len || topic.len > JOB_TOPIC_BYTES_MAX || !id.len || id.len > JOB_ID_BYTES_MAX)
        return 0;
    memcpy(key, topic.at, topic.len);
    key[topic.len] = '\n';
    memcpy(key + topic.len + 1, id.at, id.len);
    return topic.len + 1 + id.len;
}

static struct sql_awaited *find(const struct sql_awaits *awaits, struct slice topic,
                                struct slice id)
{
    char key[SQL_AWAITED_KEY_BYTES_MAX];
    return sql_awaited_jobs_find(&awaits->jobs, slice_make(key, key_of(topic, id, key)));
}

static struct sql_awaited *need(struct sql_awaits *awaits, struct slice topic, struct slice id)
{
    struct sql_awaited *job = find(awaits, topic, id);
    if (job || !(job = calloc(1, sizeof *job)))
        return job;
    list_init(&job->place);
    list_init(&job->waits);
    job->topic_bytes = topic.len;
    job->entry.key = slice_make(job->key, key_of(topic, id, job->key));
    sql_awaited_jobs_add(&awaits->jobs, job);
    return job;
}

static void put(struct list *list, struct sql_awaited *job)
{
    job->is_sent = false;
    list_remove(&job->place);
    list_add_last(list, &job->place);
}

static void forget(struct sql_awaits *awaits, struct sql_awaited *job)
{
    list_remove(&job->place);
    sql_awaited_jobs_remove(&awaits->jobs, job);
    free(job);
}

/* ---- waits ---- */

static bool add(struct sql_awaits *awaits, struct slice topic, struct slice id,
                struct queue_reply_to reply_to, bool is_pushed)
{
    struct sql_wait *wait = calloc(1, sizeof *wait);
    struct sql_awaited *job = wait ? need(awaits, topic, id) : NULL;
    if (!job) {
        free(wait);
        return false;
    }
    *wait = (struct sql_wait){.reply_to = reply_to, .is_pushed = is_pushed};
    if (!is_pushed)
        put(&awaits->fresh, job);
    else if (list_is_empty(&job->waits))
        list_remove(&job->place); /* its row stays */
    list_add_last(&job->waits, &wait->list);
    return true;
}

bool sql_awaits_add(struct sql_awaits *awaits, struct slice topic, struct slice id,
                    struct queue_reply_to reply_to)
{
    return add(awaits, topic, id, reply_to, false);
}

static struct sql_wait *find_wait(const struct sql_awaited *job,
                                  const struct queue_reply_to *reply_to)
{
    if (!job)
        return NULL;
    for (struct list *at = job->waits.next; at != &job->waits; at = at->next) {
        struct sql_wait *wait = list_entry(at, struct sql_wait, list);
        if (wait->reply_to.done == reply_to->done && wait->reply_to.owner == reply_to->owner &&
            wait->reply_to.tag == reply_to->tag)
            return wait;
    }
    return NULL;
}

static void end_wait(struct sql_awaits *awaits, struct sql_awaited *job, struct sql_wait *wait)
{
    list_remove(&wait->list);
    free(wait);
    if (list_is_empty(&job->waits))
        put(&awaits->left, job);
}

static void reply(const struct queue_reply_to *to, const struct queue_reply *with)
{
    if (to->done)
        to->done(to->owner, to->tag, with);
}

bool sql_awaits_cancel(struct sql_awaits *awaits, struct slice topic, struct slice id,
                       const struct queue_reply_to *reply_to)
{
    struct sql_awaited *job = find(awaits, topic, id);
    struct sql_wait *wait = find_wait(job, reply_to);
    if (!wait)
        return false;
    list_remove(&wait->list);
    list_add_last(&awaits->cancelled, &wait->list);
    if (list_is_empty(&job->waits))
        put(&awaits->left, job);
    return true;
}

/* Replies to all waits of a list with a status; QUEUE_OK: frees them without a reply. */
static void end_all(struct list *waits, enum queue_status status)
{
    const struct queue_reply with = {.status = status};
    while (!list_is_empty(waits)) {
        struct sql_wait *wait = list_entry(waits->next, struct sql_wait, list);
        list_remove(&wait->list);
        if (status != QUEUE_OK)
            reply(&wait->reply_to, &with);
        free(wait);
    }
}

void sql_awaits_reply(struct sql_awaits *awaits)
{
    struct list now;
    list_take_all(&now, &awaits->cancelled);
    end_all(&now, QUEUE_CANCELLED);
}

bool sql_awaits_push(struct sql_awaits *awaits, const struct command *command)
{
    struct queue_result unused;
    for (size_t i = 0; command->kind == COMMAND_PUSH && i < command->count; i++) {
        const struct queue_push *push = &command->pushes[i];
        if (push->ended && command_item_is_good(command, i, &unused) &&
            !add(awaits, push->topic, push->id, *push->ended, true))
            return false;
    }
    return true;
}

void sql_awaits_pushed(struct sql_awaits *awaits, const struct command *command,
                       const struct queue_result *results)
{
    for (size_t i = 0; command->kind == COMMAND_PUSH && i < command->count; i++) {
        const struct queue_push *push = &command->pushes[i];
        struct sql_awaited *job = push->ended ? find(awaits, push->topic, push->id) : NULL;
        struct sql_wait *wait = push->ended ? find_wait(job, push->ended) : NULL;
        if (!wait)
            continue;
        wait->is_pushed = false;
        if (results && queue_push_awaits(&results[i]))
            put(&awaits->fresh, job);
        else
            end_wait(awaits, job, wait);
    }
}

/* Answers the waits of a job, except those whose push has no reply yet. */
static void answer(struct sql_awaited *job, const struct queue_reply *with)
{
    struct list all; /* a reply may end other waits */
    list_take_all(&all, &job->waits);
    for (struct list *at = all.next; at != &all;) {
        struct sql_wait *wait = list_entry(at, struct sql_wait, list);
        at = at->next;
        if (!wait->is_pushed)
            continue;
        list_remove(&wait->list);
        list_add_last(&job->waits, &wait->list);
    }
    while (!list_is_empty(&all)) {
        struct sql_wait *wait = list_entry(all.next, struct sql_wait, list);
        list_remove(&wait->list);
        reply(&wait->reply_to, with);
        free(wait);
    }
}

void sql_awaits_refuse(struct sql_awaits *awaits, enum queue_status status)
{
    struct sql_awaited *job;
    while ((job = sql_awaited_jobs_first(&awaits->jobs))) {
        struct list waits;
        list_take_all(&waits, &job->waits);
        forget(awaits, job);
        end_all(&waits, status);
    }
    end_all(&awaits->cancelled, status == QUEUE_OK ? QUEUE_OK : QUEUE_CANCELLED);
}

void sql_awaits_fini(struct sql_awaits *awaits)
{
    sql_awaits_refuse(awaits, QUEUE_OK); /* without a reply */
    sql_awaited_jobs_fini(&awaits->jobs);
}

/* ---- the call ---- */

static bool has_settled_wait(const struct sql_awaited *job)
{
    for (const struct list *at = job->waits.next; at != &job->waits; at = at->next)
        if (!list_entry(at, struct sql_wait, list)->is_pushed)
            return true;
    return false;
}

void sql_awaits_doubt(struct sql_awaits *awaits)
{
    struct sql_awaited *job = sql_awaited_jobs_first(&awaits->jobs);
    for (; job; job = sql_awaited_jobs_next(&awaits->jobs, job))
        if (has_settled_wait(job))
            put(&awaits->fresh, job);
    awaits->is_notified = awaits->jobs.table.count > 0;
}

/* Returns whether a list has jobs that are not sent; these are the last ones. */
static bool has_unsent(const struct list *list)
{
    return !list_is_empty(list) && !sql_awaited_at(list->prev)->is_sent;
}

int64_t sql_awaits_next_ms(const struct sql_awaits *awaits)
{
    if (awaits->is_notified || has_unsent(&awaits->left))
        return 0;
    return has_unsent(&awaits->fresh) ? awaits->locked_ms : INT64_MAX;
}

size_t sql_awaits_send(struct list *list)
{
    size_t count = 0;
    for (struct list *at = list->next; at != list && count < SQL_AWAIT_ITEMS_MAX; at = at->next) {
        sql_awaited_at(at)->is_sent = true;
        count++;
    }
    return count;
}

/* Takes the sent jobs out of a list, after their call succeeded or failed. */
static void settle(struct sql_awaits *awaits, struct list *list, bool is_good)
{
    struct list *at = list->next;
    while (at != list) {
        struct sql_awaited *job = sql_awaited_at(at);
        at = at->next;
        if (!job->is_sent)
            continue;
        job->is_sent = false;
        if (is_good && list == &awaits->left)
            forget(awaits, job);
        else if (is_good)
            list_remove(&job->place);
    }
}

static void receive_job(struct sql_awaits *awaits, const struct queue_job *ended)
{
    struct sql_awaited *job = find(awaits, ended->job.topic, ended->job.id);
    struct queue_reply with = {.status = ended->job.state ? QUEUE_OK : QUEUE_NOT_FOUND,
                               .jobs = ended,
                               .job_count = ended->job.state ? 1 : 0};
    if (!job)
        return;
    if ((int)ended->job.state == SQL_AWAIT_LOCKED) {
        put(&awaits->fresh, job);
        awaits->locked_ms = clock_boot_ms() + LOCKED_MS;
        return;
    }
    answer(job, &with);
    if (list_is_empty(&job->waits))
        forget(awaits, job);
}

void sql_awaits_receive(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sql_awaits *awaits = owner;
    bool is_good = reply->status == QUEUE_OK;
    (void)tag;
    settle(awaits, &awaits->fresh, is_good);
    settle(awaits, &awaits->left, is_good);
    for (size_t i = 0; is_good && i < reply->job_count; i++)
        receive_job(awaits, &reply->jobs[i]);
}
