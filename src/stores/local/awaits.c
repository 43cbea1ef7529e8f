#include "local/awaits.h"

#include "base/hash.h"

#include <assert.h>
#include <stdlib.h>

struct await {
    struct list list;
    uint64_t push_needs; /* as completion.push_needs */
    struct queue_reply_to reply_to;
};

/* The waits for one job. */
struct awaited {
    struct table_entry entry;
    struct hash128 key;
    struct list waits;
    size_t topic_bytes, id_bytes;
    char text[]; /* the topic, then the id */
};
TABLE_DECLARE(awaited_jobs, struct awaited, entry)

struct awaits {
    struct awaited_jobs jobs;
};

struct awaits *awaits_new(void)
{
    return calloc(1, sizeof(struct awaits));
}

static void awaited_free(struct awaited *awaited)
{
    while (!list_is_empty(&awaited->waits)) {
        struct await *first = list_entry(awaited->waits.next, struct await, list);
        list_remove(&first->list);
        free(first);
    }
    free(awaited);
}

void awaits_free(struct awaits *awaits)
{
    if (!awaits)
        return;
    for (struct awaited *at = awaited_jobs_first(&awaits->jobs); at;) {
        struct awaited *next = awaited_jobs_next(&awaits->jobs, at);
        awaited_free(at);
        at = next;
    }
    awaited_jobs_fini(&awaits->jobs);
    free(awaits);
}

static struct awaited *awaited_find(struct shard *shard, const struct hash128 *key)
{
    return awaited_jobs_find(&shard->awaits->jobs, slice_make(key, sizeof *key));
}

static struct awaited *awaited_new(struct shard *shard, struct hash128 key, struct slice topic,
                                   struct slice id)
{
    struct awaited *awaited = calloc(1, sizeof *awaited + topic.len + id.len);
    if (!awaited)
        return NULL;
    awaited->key = key;
    awaited->topic_bytes = topic.len;
    awaited->id_bytes = id.len;
    memcpy(awaited->text, topic.at, topic.len);
    memcpy(awaited->text + topic.len, id.at, id.len);
    list_init(&awaited->waits);
    awaited->entry.key = slice_make(&awaited->key, sizeof awaited->key);
    awaited_jobs_add(&shard->awaits->jobs, awaited);
    return awaited;
}

static void awaited_drop(struct shard *shard, struct awaited *awaited)
{
    awaited_jobs_remove(&shard->awaits->jobs, awaited);
    awaited_free(awaited);
}

void awaits_add(struct shard *shard, struct slice topic, struct slice id, uint64_t push_needs,
                struct queue_reply_to reply_to)
{
    struct hash128 key = engine_key(shard->engine, topic, id);
    struct await *await = malloc(sizeof *await);
    struct awaited *awaited = await ? awaited_find(shard, &key) : NULL;
    if (await && !awaited)
        awaited = awaited_new(shard, key, topic, id);
    if (!awaited) {
        free(await);
        completion_status_soon(shard, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    await->push_needs = push_needs;
    await->reply_to = reply_to;
    list_add_last(&awaited->waits, &await->list);
    engine_await(shard->engine, topic, true);
}

uint64_t awaits_tag(struct queue_reply_to reply_to)
{
    const uint64_t parts[] = {(uint64_t)(uintptr_t)reply_to.done,
                              (uint64_t)(uintptr_t)reply_to.owner, reply_to.tag};
    return hash_64((const char *)parts, sizeof parts);
}

static bool await_is(const struct await *await, const struct queue_reply_to *reply_to)
{
    const struct queue_reply_to *own = &await->reply_to;
    if (own->done == reply_to->done)
        return own->owner == reply_to->owner && own->tag == reply_to->tag;
    return own->tag == awaits_tag(*reply_to);
}

void awaits_cancel(struct shard *shard, struct slice topic, struct slice id,
                   const struct queue_reply_to *reply_to)
{
    struct hash128 key = engine_key(shard->engine, topic, id);
    struct awaited *awaited = awaited_find(shard, &key);
    if (!awaited)
        return;
    for (struct list *at = awaited->waits.next; at != &awaited->waits; at = at->next) {
        struct await *await = list_entry(at, struct await, list);
        if (!await_is(await, reply_to))
            continue;
        completion_status_soon(shard, QUEUE_CANCELLED, await->reply_to);
        engine_await(shard->engine, topic, false);
        list_remove(&await->list);
        free(await);
        break;
    }
    if (list_is_empty(&awaited->waits))
        awaited_drop(shard, awaited);
}

static void drop_failed_of(struct shard *shard, struct awaited *awaited)
{
    struct slice topic = slice_make(awaited->text, awaited->topic_bytes);
    for (struct list *at = awaited->waits.next, *next; at != &awaited->waits; at = next) {
        struct await *await = list_entry(at, struct await, list);
        next = at->next;
        if (await->push_needs <= shard->failed_after || await->push_needs > shard->failed_until)
            continue;
        engine_await(shard->engine, topic, false);
        list_remove(&await->list);
        free(await);
    }
}

void awaits_drop_failed(struct shard *shard)
{
    if (!shard->failed_until)
        return;
    for (struct awaited *at = awaited_jobs_first(&shard->awaits->jobs); at;) {
        struct awaited *next = awaited_jobs_next(&shard->awaits->jobs, at);
        drop_failed_of(shard, at);
        if (list_is_empty(&at->waits))
            awaited_drop(shard, at);
        at = next;
    }
    shard->failed_until = 0;
}

void awaits_end_all(struct shard *shard, enum queue_status status)
{
    awaits_drop_failed(shard);
    for (struct awaited *at = awaited_jobs_first(&shard->awaits->jobs); at;) {
        struct awaited *next = awaited_jobs_next(&shard->awaits->jobs, at);
        struct slice topic = slice_make(at->text, at->topic_bytes);
        for (struct list *wait = at->waits.next; wait != &at->waits; wait = wait->next) {
            completion_status_soon(shard, status, list_entry(wait, struct await, list)->reply_to);
            engine_await(shard->engine, topic, false);
        }
        awaited_drop(shard, at);
        at = next;
    }
}

/* ---- replies ---- */

/* The job of a reply, at the begin of its memory; the texts follow. */
struct ended_job {
    struct queue_job job;
    struct queue_end end;
};

static struct slice *text_of(struct ended_job *job, size_t i)
{
    struct slice *const texts[] = {
        &job->job.job.topic,    &job->job.job.id,           &job->job.job.meta,
        &job->job.job.consumer, &job->job.job.history,      &job->job.job.progress,
        &job->job.job.error,    &job->job.job.content_type, &job->job.job.body,
        &job->end.result,       &job->end.result_type,      &job->job.job.group};
    return i < sizeof texts / sizeof texts[0] ? texts[i] : NULL;
}

/* Sends the end of the job, once it is durable. */
static void send_end(struct shard *shard, const struct ended_job *job, const struct await *await)
{
    const struct queue_reply_to reply_to = await->reply_to;
    size_t bytes = sizeof *job;
    struct ended_job copy = *job;
    for (size_t i = 0; text_of(&copy, i); i++)
        bytes += text_of(&copy, i)->len;
    struct completion *completion = completion_new(shard, 0, bytes, reply_to);
    if (!completion) {
        completion_status_soon(shard, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    struct ended_job *sent = (struct ended_job *)(void *)completion_results(completion);
    char *at = (char *)(sent + 1);
    for (size_t i = 0; text_of(&copy, i); i++) {
        struct slice *text = text_of(&copy, i);
        if (text->len)
            memcpy(at, text->at, text->len);
        *text = slice_make(at, text->len);
        at += text->len;
    }
    *sent = copy;
    if (sent->job.end)
        sent->job.end = &sent->end;
    completion->push_needs = await->push_needs;
    completion->reply.jobs = &sent->job;
    completion->reply.job_count = 1;
    completion_when_durable(shard, completion);
}

void awaits_on_ended(void *ctx, const struct engine_ended *ended)
{
    struct shard *shard = ctx;
    awaits_drop_failed(shard);
    struct awaited *awaited = awaited_find(shard, &ended->key);
    if (!awaited)
        return;
    struct ended_job job = {0};
    if (!ended->is_gone)
        engine_ended_show(ended,
                          slice_make(awaited->text + awaited->topic_bytes, awaited->id_bytes),
                          &job.job, &job.end);
    for (struct list *at = awaited->waits.next; at != &awaited->waits; at = at->next) {
        const struct await *await = list_entry(at, struct await, list);
        if (ended->is_gone)
            completion_status_soon(shard, QUEUE_NOT_FOUND, await->reply_to);
        else
            send_end(shard, &job, await);
        engine_await(shard->engine, ended->topic, false);
    }
    awaited_drop(shard, awaited);
}
