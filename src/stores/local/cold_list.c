#include "local/cold_list.h"

#include "base/heap.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { SLOTS_AT_ONCE = 512, SLOTS_PER_STEP = 1 << 18 /* of the scout, before other work */ };

/* A job that was found, and later its record. */
struct cold_job {
    int64_t due_ms; /* wall clock */
    uint64_t sequence;
    struct record_place place;
    size_t at; /* of its record in `records` */
};

/* Orders the heap: the last job comes out first. */
static inline bool comes_after(const struct cold_job *a, const struct cold_job *b)
{
    return a->due_ms != b->due_ms ? a->due_ms > b->due_ms : a->sequence > b->sequence;
}
HEAP_DECLARE(cold_jobs, struct cold_job, comes_after, heap_place_unused)

struct cold_list {
    struct work work;
    struct shard *shard;
    struct depot_view *view;
    const struct walk *walk;
    int64_t skew_ms, now_ms; /* wall minus inner; wall */
    bool is_reading, more;
    int result;
    uint32_t run_index, section, slot; /* the current position; slot 0: the section's beginning */
    /* SECTION_KEPT is read from its end: the slots before this one are left. */
    uint32_t kept_end;
    bool kept_has_begun;
    struct cold_jobs jobs;
    struct buffer records;
    struct run_slot slots[SLOTS_AT_ONCE];
};

/* ---- the first jobs ---- */

/* Adds a job. Returns false if it comes after all jobs for which there is room. */
static bool cold_list_add(struct cold_list *list, struct cold_job job)
{
    if (list->jobs.count < list->walk->limit)
        return cold_jobs_add(&list->jobs, job); /* reserved in cold_list_new */
    list->more = true;
    if (!comes_after(&list->jobs.at[0], &job))
        return false;
    list->jobs.at[0] = job;
    cold_jobs_changed(&list->jobs, 0);
    return true;
}

/* ---- the slots to read ---- */

/* Returns whether cold jobs of the section may match the list's state. */
static bool section_is_asked_for(const struct cold_list *list, enum job_section section)
{
    enum job_state state = list->walk->state;
    if (section == SECTION_LEASED || section == SECTION_REMEMBERED) /* in memory; not jobs */
        return false;
    if (section == SECTION_KEPT || state == JOB_FINISHED)
        return section == SECTION_KEPT && state == JOB_FINISHED;
    if (section == SECTION_DEAD)
        return !state || state == JOB_DEAD;
    return !state || state == JOB_DELAYED || state == JOB_READY;
}

/* Returns the offset from `when` of a section's slots to their due by the wall clock. */
static int64_t wall_offset_of(const struct cold_list *list, enum job_section section)
{
    return job_section_is_wall(section) || section == SECTION_DEAD ? 0 : list->skew_ms;
}

/* Returns the first due that may match. */
static int64_t due_from(const struct cold_list *list, enum job_section section)
{
    int64_t from_ms = list->walk->has_cursor ? list->walk->after.due_ms : 0;
    if (section != SECTION_DEAD && list->walk->state == JOB_DELAYED && from_ms <= list->now_ms)
        from_ms = list->now_ms + 1;
    return from_ms;
}

/* Examines a slot. Returns whether later slots of this section may also match. */
static bool cold_list_look_at(struct cold_list *list, const struct depot_run *run,
                              enum job_section section, uint32_t slot, const struct run_slot *entry,
                              uint32_t topic)
{
    struct cold_job job = {.due_ms = entry->when_ms + wall_offset_of(list, section),
                           .sequence = entry->sequence,
                           .place = {.file = run->number | RECORD_IN_RUN, .at = slot}};
    if (section != SECTION_DEAD && list->walk->state == JOB_READY && job.due_ms > list->now_ms)
        return false;
    if (entry->topic != topic || !alive_test(&run->alive, slot) ||
        !walk_is_past_cursor(list->walk, job.due_ms, job.sequence))
        return true;
    return cold_list_add(list, job);
}

/* ---- on the scout ---- */

/* Reads the topic's slots of a section. Returns 0 or a negative errno. */
static int cold_list_look_at_section(struct cold_list *list, const struct depot_run *run,
                                     uint32_t topic, uint32_t *budget)
{
    const struct run_info_section *section = &run_info(run->run)->sections[list->section];
    uint32_t end = section->first + section->count;
    enum job_section which = (enum job_section)list->section;
    if (!list->slot) {
        int64_t when_ms = due_from(list, which) - wall_offset_of(list, which);
        int failed =
            run_seek(run->run, section->first, end, when_ms > 0 ? when_ms : 0, &list->slot);
        if (failed == -EBADMSG) /* possibly a block without live slots: read the whole section */
            list->slot = section->first;
        else if (failed)
            return failed;
    }
    while (list->slot < end && *budget) {
        uint32_t count = end - list->slot < SLOTS_AT_ONCE ? end - list->slot : SLOTS_AT_ONCE;
        int failed = depot_slots(run, list->slot, count, list->slots);
        if (failed)
            return failed;
        for (uint32_t i = 0; i < count; i++)
            if (!cold_list_look_at(list, run, which, list->slot + i, &list->slots[i], topic)) {
                list->slot = end;
                return 0;
            }
        list->slot += count;
        *budget -= count < *budget ? count : *budget;
    }
    return 0;
}

/* Begins at the last slot of the section, or at that of the cursor. */
static int kept_begin(struct cold_list *list, const struct depot_run *run, uint32_t first,
                      uint32_t end)
{
    list->kept_has_begun = true;
    list->kept_end = end;
    if (!list->walk->has_cursor)
        return 0;
    int64_t until_ms = queue_finished_rank(list->walk->after.due_ms) - list->skew_ms + 1;
    int failed = run_seek(run->run, first, end, until_ms > 0 ? until_ms : 0, &list->kept_end);
    if (failed == -EBADMSG) { /* possibly a block without live slots: read the whole section */
        list->kept_end = end;
        failed = 0;
    }
    return failed;
}

/* Examines the slot of a kept job. Returns whether earlier slots may also match. */
static bool kept_look_at(struct cold_list *list, const struct depot_run *run, uint32_t slot,
                         const struct run_slot *entry, uint32_t topic)
{
    struct cold_job job = {.due_ms = queue_finished_rank(entry->when_ms + list->skew_ms),
                           .sequence = queue_finished_rank_sequence(entry->sequence),
                           .place = {.file = run->number | RECORD_IN_RUN, .at = slot}};
    if (entry->topic != topic || !alive_test(&run->alive, slot) ||
        entry->when_ms + list->skew_ms <= list->now_ms ||
        !walk_is_past_cursor(list->walk, job.due_ms, job.sequence))
        return true;
    return cold_list_add(list, job);
}

/* Reads the topic's kept jobs of a run, the newest first. Returns 0 or a negative errno. */
static int kept_look_at_section(struct cold_list *list, const struct depot_run *run, uint32_t topic,
                                uint32_t *budget)
{
    const struct run_info_section *section = &run_info(run->run)->sections[list->section];
    uint32_t first = section->first, end = section->first + section->count;
    int failed = list->kept_has_begun ? 0 : kept_begin(list, run, first, end);
    while (!failed && list->kept_end > first && *budget) {
        uint32_t left = list->kept_end - first;
        uint32_t count = left < SLOTS_AT_ONCE ? left : SLOTS_AT_ONCE;
        failed = depot_slots(run, list->kept_end - count, count, list->slots);
        for (uint32_t i = count; !failed && i-- > 0;)
            if (!kept_look_at(list, run, list->kept_end - count + i, &list->slots[i], topic)) {
                count = left;
                break;
            }
        list->kept_end -= count;
        *budget -= count < *budget ? count : *budget;
    }
    list->slot = list->kept_end > first ? first : end;
    if (list->slot == end)
        list->kept_has_begun = false;
    return failed;
}

/* Reads more slots. Returns true at the end. */
static bool cold_list_look_on(struct cold_list *list)
{
    uint32_t budget = SLOTS_PER_STEP;
    struct slice topic = slice_make(list->walk->topic, list->walk->topic_bytes);
    for (; list->run_index < list->view->run_count; list->run_index++, list->section = 0) {
        const struct depot_run *run = list->view->runs[list->run_index];
        uint32_t number = run->is_new ? UINT32_MAX : run_find_topic(run->run, topic);
        for (; number != UINT32_MAX && list->section < SECTIONS; list->section++, list->slot = 0) {
            const struct run_info_section *section = &run_info(run->run)->sections[list->section];
            if (!section->count || !section_is_asked_for(list, (enum job_section)list->section))
                continue;
            list->result = list->section == SECTION_KEPT
                               ? kept_look_at_section(list, run, number, &budget)
                               : cold_list_look_at_section(list, run, number, &budget);
            if (list->result < 0)
                return true;
            if (list->slot < section->first + section->count)
                return false;
        }
        list->slot = 0;
    }
    return true;
}

static int wants_record(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    (void)ctx;
    (void)slot;
    (void)entry;
    return 1;
}

static bool keep_record(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice record)
{
    (void)slot;
    (void)entry;
    buffer_append_slice(ctx, record);
    return true;
}

/* Reads the records of the jobs that were found. A damaged record takes no place in the page. */
static void cold_list_read_found(struct cold_list *list)
{
    for (size_t i = 0; i < list->jobs.count && list->result == 0; i++) {
        struct cold_job *job = &list->jobs.at[i];
        const struct depot_run *run = depot_view_run(list->view, record_place_run(job->place));
        struct run_scan scan = {.first = job->place.at,
                                .end = job->place.at + 1,
                                .wants = wants_record,
                                .each = keep_record,
                                .ctx = &list->records};
        uint32_t next;
        job->at = list->records.len;
        list->result = run_scan(run->run, &scan, &next);
        job->place.bytes = (uint32_t)(list->records.len - job->at);
    }
    if (list->records.failed)
        list->result = -ENOMEM;
}

static void cold_list_on_scout(struct work *work)
{
    struct cold_list *list = (struct cold_list *)(void *)work;
    if (!cold_list_look_on(list))
        return; /* again, after other work */
    if (list->result == 0)
        cold_list_read_found(list);
    list->section = SECTIONS;
}

/* ---- the shard's thread ---- */

static void cold_list_on_back(struct work *work)
{
    struct cold_list *list = (struct cold_list *)(void *)work;
    if (list->section != SECTIONS) {
        worker_give(list->shard->scout, &list->work);
        return;
    }
    list->is_reading = false;
    list->shard->readings--;
    depot_let_go(list->view);
    list->view = NULL;
}

struct cold_list *cold_list_new(struct shard *shard, const struct walk *walk)
{
    struct cold_list *list = calloc(1, sizeof *list);
    if (!list)
        return NULL;
    struct engine_now now = shard_now(shard);
    list->shard = shard;
    list->walk = walk;
    list->skew_ms = now.skew_ms;
    list->now_ms = now.inner_ms + now.skew_ms;
    buffer_init(&list->records, SIZE_MAX / 2);
    list->view = cold_jobs_reserve(&list->jobs, walk->limit) ? depot_hold(shard->depot) : NULL;
    if (!list->view) {
        cold_list_free(list);
        return NULL;
    }
    list->is_reading = true;
    shard->readings++;
    list->work.perform = cold_list_on_scout;
    list->work.done = cold_list_on_back;
    worker_give(shard->scout, &list->work);
    return list;
}

void cold_list_free(struct cold_list *list)
{
    if (!list)
        return;
    assert(!list->is_reading);
    buffer_fini(&list->records);
    cold_jobs_fini(&list->jobs);
    free(list);
}

bool cold_list_is_reading(const struct cold_list *list)
{
    return list && list->is_reading;
}

/* ---- merging ---- */

static bool is_among_found(const struct walk *walk, size_t count, uint64_t sequence)
{
    for (size_t i = 0; i < count; i++)
        if (walk->found.at[i].sequence == sequence)
            return true;
    return false;
}

/* Fills in the view that the engine would give if the job were in memory. */
static void cold_job_view(const struct job *job, const struct cold_job *cold, struct hash128 key,
                          struct engine_now now, struct engine_view *out)
{
    bool waits = job->state == JOB_DELAYED;
    *out = (struct engine_view){
        .key = key,
        .place = cold->place,
        .state = waits && cold->due_ms <= now.inner_ms + now.skew_ms ? JOB_READY : job->state,
        .priority = job->priority,
        .attempt = job->attempt,
        /* The due by which it was found, even if the wall clock was set since: the list is ordered
         * by it. */
        .due_ms = job->state == JOB_DEAD ? cold->due_ms
                                         : job->due_ms + (job->due_is_wall ? 0 : now.skew_ms),
        .delivery = job->delivery,
        .sequence = job->sequence};
    size_t bytes = job->history.len + job->error.len;
    if (!bytes || !(out->text = malloc(bytes)))
        return;
    if (job->history.len)
        memcpy(out->text, job->history.at, job->history.len);
    if (job->error.len)
        memcpy(out->text + job->history.len, job->error.at, job->error.len);
    out->history_bytes = (uint16_t)job->history.len;
    out->error_bytes = (uint16_t)job->error.len;
}

/* Fills in the current view of a kept job. Returns false if it is no longer kept. */
static bool cold_kept_show(struct cold_list *list, const struct record *record,
                           struct cold_job *cold, struct engine_now now, struct engine_view *out)
{
    struct engine *engine = list->shard->engine;
    struct hash128 key = record->done.key;
    if (!record->done.keep_until_ms)
        return false;
    if (engine_knows(engine, key))
        return engine_show_kept(engine, key, record->done.sequence, now, out);
    if (!depot_find_counted(list->shard->depot, cold->place, &cold->place))
        return false;
    *out = (struct engine_view){.key = key,
                                .place = cold->place,
                                .state = JOB_FINISHED,
                                .due_ms = cold->due_ms,
                                .sequence = cold->sequence};
    return true;
}

/* Fills in the current view of the job. Returns false if it has ended, or no longer matches. */
static bool cold_job_show(struct cold_list *list, const struct walk *walk, struct cold_job *cold,
                          struct engine_now now, struct engine_view *out)
{
    struct engine *engine = list->shard->engine;
    struct record record;
    if (!cold->place.bytes ||
        !record_decode(slice_make(list->records.at + cold->at, cold->place.bytes), &record) ||
        (record.kind != RECORD_JOB && record.kind != RECORD_DONE))
        return false;
    if (record.kind == RECORD_DONE)
        return cold_kept_show(list, &record, cold, now, out);
    struct hash128 key = engine_key(engine, record.job.topic, record.job.id);
    if (engine_knows(engine, key)) {
        if (!engine_find(engine, record.job.topic, record.job.id, now, out))
            return false;
    } else {
        if (!depot_find_counted(list->shard->depot, cold->place, &cold->place))
            return false;
        cold_job_view(&record.job, cold, key, now, out);
    }
    if (walk_is_past_cursor(walk, out->due_ms, out->sequence) &&
        (!walk->state || walk->state == out->state))
        return true;
    engine_view_fini(out);
    return false;
}

static int compare_due(const void *left, const void *right)
{
    const struct engine_view *a = left, *b = right;
    if (a->due_ms != b->due_ms)
        return a->due_ms < b->due_ms ? -1 : 1;
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

/* Ends the page at the last slot that was found, if slots were left out after it. Everything after
 * it is on the next page. If all slots that were found belong to jobs in memory that have moved,
 * the page is empty: then the next page is returned instead (-EAGAIN). */
static int end_where_found(const struct cold_list *list, struct walk *walk)
{
    const struct cold_job *last = &list->jobs.at[0];
    walk->more = true;
    while (walk->found.count) {
        struct engine_view *view = &walk->found.at[walk->found.count - 1];
        const struct cold_job job = {.due_ms = view->due_ms, .sequence = view->sequence};
        if (!comes_after(&job, last))
            return 0;
        engine_view_fini(view);
        walk->found.count--;
    }
    walk->has_cursor = true;
    walk->after = (struct queue_cursor){
        .due_ms = last->due_ms, .sequence = last->sequence, .shard = walk->shard};
    return -EAGAIN;
}

int cold_list_merge(struct cold_list *list, struct walk *walk, struct engine_now now)
{
    size_t count = walk->found.count;
    if (list->result < 0)
        return list->result;
    if (!walk_views_reserve(&walk->found, count + list->jobs.count + 1))
        return -ENOMEM;
    struct engine_view *all = walk->found.at;
    for (size_t i = 0; i < list->jobs.count; i++)
        if (!is_among_found(walk, count, list->jobs.at[i].sequence) &&
            cold_job_show(list, walk, &list->jobs.at[i], now, &all[walk->found.count]))
            walk->found.count++;
    qsort(all, walk->found.count, sizeof *all, compare_due);
    walk->more |= list->more || walk->found.count > walk->limit;
    while (walk->found.count > walk->limit)
        engine_view_fini(&all[--walk->found.count]);
    return list->more ? end_where_found(list, walk) : 0;
}
