/* Batches: what a job shows of them, and the list of members. */
#include "lib/state.h"

#include <stdio.h>

/* ---- the batches of a job ---- */

static const struct queue_job *shown(const tarry_job *job)
{
    return &((const struct memory_job *)(const void *)job)->shown;
}

static void own_read(const struct queue_waiting *waiting, struct tarry_batch *out)
{
    const uint32_t *of = waiting->counts.of;
    out->has_own = 1;
    out->on_dead = (int32_t)waiting->on_dead;
    out->is_closed = waiting->is_closed;
    out->has_ended = waiting->has_ended;
    if (!waiting->has_ended)
        out->waits_for = (uint32_t)batch_waits_for(&waiting->counts, waiting->on_dead);
    out->unfinished = of[BATCH_UNFINISHED];
    out->acked = of[BATCH_ACKED];
    out->dead = of[BATCH_DEAD];
    out->cancelled = of[BATCH_CANCELLED];
    out->expired = of[BATCH_EXPIRED];
}

int tarry_job_batch(const tarry_job *job, struct tarry_batch *out)
{
    struct job_batch batch;
    size_t stride = lib_stride(out, offsetof(struct tarry_batch, on_dead));
    if (!stride)
        return TARRY_BAD_OPTION;
    if (!job_batch_decode(shown(job)->job.batch, &batch))
        batch = (struct job_batch){0};
    if (!batch.topic.len && !shown(job)->waiting)
        return TARRY_NOT_FOUND;
    struct tarry_batch copy = {.size = (uint32_t)stride};
    if (batch.topic.len) {
        memcpy(copy.topic, batch.topic.at, batch.topic.len);
        memcpy(copy.id, batch.id.at, batch.id.len);
    }
    if (shown(job)->waiting)
        own_read(shown(job)->waiting, &copy);
    memcpy(out, &copy, stride < sizeof copy ? stride : sizeof copy);
    return TARRY_OK;
}

/* ---- the list of members ---- */

/* The parts of a topic that are searched: the jobs that have not finished, then the kept ones. */
enum part { PART_LIVE = 'l', PART_FINISHED = 'f', PART_NONE = 'n' };
enum { SEEN_MAX = 10000 };

/* A call. The cursor is the part, the topic, a blank, and the cursor of the list of that topic. */
struct search {
    tarry *queue;
    const struct tarry_members *asked;
    tarry_job **out;
    size_t found, seen;
    struct slice batch_topic, batch_id;
    enum part part;
    char topic[TARRY_TOPIC_BYTES_MAX + 8]; /* that is being searched; "": before the first */
    char inner[TARRY_CURSOR_BYTES_MAX];
    bool is_complete;
};

static int outcome_of(const struct queue_job *job)
{
    static const int of_end[] = {[JOB_END_ACKED] = TARRY_MEMBER_ACKED,
                                 [JOB_END_CANCELLED] = TARRY_MEMBER_CANCELLED,
                                 [JOB_END_EXPIRED] = TARRY_MEMBER_EXPIRED};
    if (job->job.state == JOB_DEAD)
        return TARRY_MEMBER_DEAD;
    return job->job.state == JOB_FINISHED && job->end ? of_end[job->end->outcome]
                                                      : TARRY_MEMBER_UNFINISHED;
}

static bool is_listed(const struct search *search, const tarry_job *job)
{
    struct job_batch batch;
    return job_batch_decode(shown(job)->job.batch, &batch) &&
           slice_equals(batch.topic, search->batch_topic) &&
           slice_equals(batch.id, search->batch_id) &&
           (!search->asked->outcome || outcome_of(shown(job)) == search->asked->outcome);
}

/* Returns whether the call needs this part of a topic. */
static bool needs(const struct search *search, enum part part)
{
    int outcome = search->asked->outcome;
    bool is_live = outcome == TARRY_MEMBER_UNFINISHED || outcome == TARRY_MEMBER_DEAD;
    return !outcome || is_live == (part == PART_LIVE);
}

/* Lists some jobs of the part and keeps the members. Sets the next part at its end. */
static int search_page(struct search *search)
{
    struct tarry_list list = TARRY_LIST_INIT;
    size_t n = 0, listed;
    list.topic = search->topic;
    list.flags = search->asked->flags;
    list.state = search->part == PART_FINISHED ? TARRY_STATE_FINISHED : 0;
    list.limit = search->asked->limit - (uint32_t)search->found;
    memcpy(list.cursor, search->inner, sizeof list.cursor);
    int code = tarry_list(search->queue, &list, search->out + search->found, &listed);
    if (code == TARRY_NOT_FOUND) /* deleted meanwhile */
        list.cursor[0] = '\0';
    else if (code)
        return code;
    tarry_job **jobs = search->out + search->found;
    for (size_t i = 0; i < listed; i++)
        if (is_listed(search, jobs[i]))
            jobs[n++] = jobs[i];
        else
            tarry_job_free(jobs[i]);
    search->found += n;
    search->seen += listed + 1;
    memcpy(search->inner, list.cursor, sizeof search->inner);
    if (!search->inner[0])
        search->part = search->part == PART_LIVE ? PART_FINISHED : PART_NONE;
    return TARRY_OK;
}

/* Continues with the topic after this one. */
static int search_topic(struct search *search)
{
    struct tarry_topic topic = {.size = sizeof topic};
    size_t n = 1;
    int code = tarry_topics(search->queue, search->topic[0] ? search->topic : NULL, &topic, &n);
    if (code)
        return code;
    search->is_complete = n == 0;
    search->part = PART_LIVE;
    search->seen++;
    if (n)
        memcpy(search->topic, topic.name, sizeof search->topic);
    return TARRY_OK;
}

/* A call ends before its pages become too small: each has only the room that is left. */
static bool has_room(const struct search *search)
{
    return search->found == 0 || search->found < search->asked->limit / 2;
}

static int search_run(struct search *search)
{
    int code = TARRY_OK;
    while (!code && !search->is_complete && search->seen < SEEN_MAX && has_room(search)) {
        if (search->part == PART_LIVE && !needs(search, PART_LIVE))
            search->part = PART_FINISHED;
        if (search->part == PART_FINISHED && !needs(search, PART_FINISHED))
            search->part = PART_NONE;
        code = search->part == PART_NONE ? search_topic(search) : search_page(search);
    }
    return code;
}

static bool cursor_read(struct search *search, const char *cursor)
{
    const char *blank = strchr(cursor, ' ');
    search->part = PART_NONE;
    if (!cursor[0])
        return true;
    if (!blank || !memchr("lfn", cursor[0], 3) || blank - cursor - 1 > TARRY_TOPIC_BYTES_MAX ||
        strlen(blank + 1) >= sizeof search->inner)
        return false;
    search->part = (enum part)cursor[0];
    memcpy(search->topic, cursor + 1, (size_t)(blank - cursor) - 1);
    memcpy(search->inner, blank + 1, strlen(blank + 1));
    return true;
}

static void cursor_write(const struct search *search, char *cursor)
{
    memset(cursor, 0, TARRY_MEMBERS_CURSOR_BYTES_MAX);
    if (!search->is_complete)
        (void)snprintf(cursor, TARRY_MEMBERS_CURSOR_BYTES_MAX, "%c%s %s", (char)search->part,
                       search->topic, search->inner);
}

static int members_check(const struct tarry_members *list, const struct tarry_members *known)
{
    enum { BYTES_MIN = offsetof(struct tarry_members, cursor) + TARRY_MEMBERS_CURSOR_BYTES_MAX };
    if (list->size < BYTES_MIN || known->flags & ~(uint32_t)TARRY_WITH_BODY || !known->limit ||
        known->limit > TARRY_BATCH_MAX || known->outcome < 0 ||
        known->outcome > TARRY_MEMBER_EXPIRED)
        return TARRY_BAD_OPTION;
    if (!job_topic_is_valid(lib_text(known->topic)))
        return TARRY_BAD_TOPIC;
    if (!job_id_is_valid(lib_text(known->id)))
        return TARRY_BAD_ID;
    return memchr(known->cursor, '\0', sizeof known->cursor) ? TARRY_OK : TARRY_BAD_CURSOR;
}

/* Returns OK if the job exists: a list without members needs it. */
static int job_exists(tarry *queue, const struct tarry_members *asked)
{
    tarry_job *job;
    int code = tarry_get(queue, asked->topic, asked->id, &job);
    tarry_job_free(job);
    return code;
}

int tarry_list_members(tarry *queue, struct tarry_members *list, tarry_job **out, size_t *n)
{
    struct tarry_members asked;
    *n = 0;
    if (!lib_read(&asked, sizeof asked, list))
        return TARRY_BAD_OPTION;
    int code = members_check(list, &asked);
    if (code)
        return code;
    struct search search = {.queue = queue,
                            .asked = &asked,
                            .out = out,
                            .batch_topic = lib_text(asked.topic),
                            .batch_id = lib_text(asked.id)};
    if (!cursor_read(&search, asked.cursor))
        return TARRY_BAD_CURSOR;
    code = search_run(&search);
    if (!code && search.is_complete && !search.found && !asked.cursor[0])
        code = job_exists(queue, &asked);
    if (code) {
        while (search.found)
            tarry_job_free(out[--search.found]);
        return code;
    }
    *n = search.found;
    cursor_write(&search, list->cursor);
    return TARRY_OK;
}
