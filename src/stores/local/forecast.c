#include "local/forecast.h"

#include "engine/forecast.h"

#include <assert.h>
#include <stdlib.h>

enum {
    SAMPLE_SLOTS = 170,     /* one block of a directory */
    SAMPLES_MAX = 2048,     /* per call, plus at most one for each section of a run */
    SAMPLES_SOON_MAX = 256, /* per section, if only the jobs due soon are counted */
    SAMPLES_PER_STEP = 256  /* about a millisecond of the scout's time, before other work */
};

/* A forecast in progress that reads cold jobs. */
struct forecast {
    struct work work;
    struct shard *shard;
    struct queue_reply_to reply_to;
    int64_t from_ms, skew_ms, now_ms; /* wall minus inner; wall */
    char topic[JOB_TOPIC_BYTES_MAX];
    size_t topic_bytes;
    struct depot_view *view;
    bool *counts;     /* by run */
    uint32_t stretch; /* slots that a sample represents */
    bool is_through;
    bool is_soon; /* only jobs due before `until_ms`, by the wall clock */
    int64_t until_ms;
    uint32_t run, section; /* the current position */
    bool is_in_section;
    uint32_t slot, end; /* in the section: the next slot, and the end of those that count */
    /* The cold jobs, in units of 1/WHOLE of a job, without those due now. */
    struct timeline cold;
    struct run_slot slots[SAMPLE_SLOTS];
};

enum { WHOLE = 1 << 16 };

static const enum job_section first_section = SECTION_DELAYED, last_section = SECTION_RETRYING_WALL;

/* ---- the reply ---- */

/* Adds the cold jobs of the first minutes, each rounded up. */
static void add_cold_soon(struct timeline *timeline, const struct timeline *cold)
{
    for (uint32_t at = timeline->first; at < timeline->first + FORECAST_SOON; at++)
        timeline->minutes[at] += (cold->minutes[at] + WHOLE - 1) / WHOLE;
}

static void forecast_reply(struct shard *shard, struct slice topic, struct queue_forecast_call call,
                           const struct timeline *cold, struct queue_reply_to reply_to)
{
    struct engine_forecast *found = malloc(sizeof *found);
    struct completion *completion =
        found ? completion_new(shard, 0, sizeof(struct queue_forecast), reply_to) : NULL;
    if (!completion) {
        free(found);
        completion_status_soon(shard, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    struct queue_forecast *shown = (struct queue_forecast *)(void *)completion_results(completion);
    *shown = (struct queue_forecast){0};
    if (call.soon)
        timeline_init_soon(&found->timeline, call.from_ms);
    else
        timeline_init(&found->timeline, call.from_ms);
    found->cold = found->overdue = 0;
    found->estimated = false;
    bool is_known = call.soon ? engine_soon(shard->engine, topic, shard_now(shard), found)
                              : engine_forecast(shard->engine, topic, shard_now(shard), found);
    if (is_known) {
        if (call.soon) {
            if (cold)
                add_cold_soon(&found->timeline, cold);
            timeline_show_soon(&found->timeline, shown);
        } else {
            found->estimated |= found->cold && (!cold || cold->total != found->cold * WHOLE);
            if (found->cold && cold)
                timeline_spread(&found->timeline, cold, found->cold);
            else if (found->cold)
                timeline_add(&found->timeline, 0, found->cold);
            timeline_show(&found->timeline, shown);
        }
        shown->from_ms = call.from_ms;
        shown->overdue = found->overdue;
        shown->estimated = found->estimated;
        completion->reply.forecast = shown;
    } else {
        completion->reply.status = QUEUE_NOT_FOUND;
    }
    completion_soon(shard, completion);
    free(found);
}

/* ---- on the scout ---- */

static const struct depot_run *forecast_run(const struct forecast *forecast)
{
    return forecast->view->runs[forecast->run];
}

/* Returns the offset from `when` of the section's slots to their due by the wall clock. */
static int64_t wall_offset(const struct forecast *forecast)
{
    return job_section_is_wall((enum job_section)forecast->section) ? 0 : forecast->skew_ms;
}

/* Adds a slot that represents so many parts of a job. */
static void forecast_add(struct forecast *forecast, const struct run_slot *slot, uint64_t parts)
{
    int64_t due_ms = slot->when_ms + wall_offset(forecast);
    if (due_ms > forecast->now_ms || forecast->is_soon)
        timeline_add(&forecast->cold, due_ms, parts);
}

/* Samples the stretch [first, end) in its middle. `topic`: of the run; UINT32_MAX: all. */
static void forecast_sample(struct forecast *forecast, uint32_t first, uint32_t end, uint32_t topic)
{
    const struct depot_run *run = forecast_run(forecast);
    uint32_t slots = end - first < SAMPLE_SLOTS ? end - first : SAMPLE_SLOTS, cold_slots = 0;
    uint32_t from = first + (end - first - slots) / 2;
    uint64_t cold = depot_cold_count(run, first, end);
    if (!cold || depot_slots(run, from, slots, forecast->slots) < 0)
        return; /* the jobs of an unreadable block are distributed like the rest */
    for (uint32_t i = 0; i < slots; i++)
        cold_slots += depot_is_cold(run, from + i);
    for (uint32_t i = 0; i < slots; i++) {
        const struct run_slot *slot = &forecast->slots[i];
        bool counts = cold_slots ? depot_is_cold(run, from + i) : i == 0;
        if (counts && slot->topic != UINT32_MAX && (topic == UINT32_MAX || slot->topic == topic))
            forecast_add(forecast, slot, cold * WHOLE / (cold_slots ? cold_slots : 1));
    }
}

/* Limits the section to the slots that are due soon, without those at its beginning that are not
 * cold, and chooses the number of slots per sample. */
static void forecast_limit_section(struct forecast *forecast)
{
    const struct depot_run *run = forecast_run(forecast);
    int64_t until_ms = forecast->until_ms - wall_offset(forecast);
    if (run_seek(run->run, forecast->slot, forecast->end, until_ms, &forecast->end) < 0)
        return; /* a block is unreadable: all slots are sampled, and those due later not added */
    while (forecast->end - forecast->slot > SAMPLE_SLOTS &&
           !depot_cold_count(run, forecast->slot, forecast->slot + SAMPLE_SLOTS))
        forecast->slot += SAMPLE_SLOTS;
    uint32_t blocks = (forecast->end - forecast->slot) / SAMPLE_SLOTS;
    forecast->stretch = (blocks / SAMPLES_SOON_MAX + 1) * SAMPLE_SLOTS;
}

static void forecast_enter_section(struct forecast *forecast)
{
    const struct run_info_section *section =
        &run_info(forecast_run(forecast)->run)->sections[forecast->section];
    forecast->slot = section->first;
    forecast->end = section->first + section->count;
    forecast->is_in_section = true;
    if (forecast->is_soon)
        forecast_limit_section(forecast);
}

/* Samples the section from the current position. Returns false if the share of this run on the
 * scout is used up. */
static bool forecast_look_at_section(struct forecast *forecast, uint32_t topic, uint32_t *samples)
{
    if (!forecast->is_in_section)
        forecast_enter_section(forecast);
    while (forecast->slot < forecast->end) {
        uint32_t left = forecast->end - forecast->slot;
        uint32_t next = forecast->slot + (left < forecast->stretch ? left : forecast->stretch);
        if (!*samples)
            return false;
        --*samples;
        forecast_sample(forecast, forecast->slot, next, topic);
        forecast->slot = next;
    }
    forecast->is_in_section = false;
    return true;
}

static void forecast_on_scout(struct work *work)
{
    struct forecast *forecast = (struct forecast *)(void *)work;
    struct slice topic = slice_make(forecast->topic, forecast->topic_bytes);
    uint32_t samples = SAMPLES_PER_STEP;
    for (; forecast->run < forecast->view->run_count;
         forecast->run++, forecast->section = first_section) {
        const struct depot_run *run = forecast_run(forecast);
        uint32_t number = topic.len ? run_find_topic(run->run, topic) : UINT32_MAX;
        if (!forecast->counts[forecast->run] || (topic.len && number == UINT32_MAX))
            continue;
        for (; forecast->section <= last_section; forecast->section++)
            if (!forecast_look_at_section(forecast, number, &samples))
                return; /* again, after other work */
    }
    forecast->is_through = true;
}

/* ---- the shard's thread ---- */

static void forecast_free(struct forecast *forecast)
{
    if (forecast && forecast->view)
        depot_let_go(forecast->view);
    if (forecast)
        free(forecast->counts);
    free(forecast);
}

static void forecast_on_back(struct work *work)
{
    struct forecast *forecast = (struct forecast *)(void *)work;
    struct shard *shard = forecast->shard;
    if (!forecast->is_through) {
        worker_give(shard->scout, &forecast->work);
        return;
    }
    shard->readings--;
    forecast_reply(
        shard, slice_make(forecast->topic, forecast->topic_bytes),
        (struct queue_forecast_call){.from_ms = forecast->from_ms, .soon = forecast->is_soon},
        &forecast->cold, forecast->reply_to);
    forecast_free(forecast);
}

/* Chooses the runs and the number of slots per sample, so that there are not too many samples. */
static void forecast_plan(struct forecast *forecast)
{
    const struct depot_view *view = forecast->view;
    uint64_t blocks = 1;
    for (uint32_t i = 0; i < view->run_count; i++) {
        const struct run_info *info = run_info(view->runs[i]->run);
        forecast->counts[i] = depot_run_counts(view->runs[i]);
        for (enum job_section at = first_section; at <= last_section && forecast->counts[i]; at++)
            blocks += info->sections[at].count / SAMPLE_SLOTS + 1;
    }
    forecast->stretch = (uint32_t)((blocks + SAMPLES_MAX - 1) / SAMPLES_MAX * SAMPLE_SLOTS);
}

void forecast_start(struct shard *shard, const struct queue_forecast_call *call,
                    struct queue_reply_to reply_to)
{
    struct engine_now now = shard_now(shard);
    if (depot_view(shard->depot)->run_count == 0) {
        forecast_reply(shard, call->topic, *call, NULL, reply_to);
        return;
    }
    struct forecast *forecast = calloc(1, sizeof *forecast);
    if (forecast && (forecast->view = depot_hold(shard->depot)))
        forecast->counts = calloc(forecast->view->run_count, sizeof *forecast->counts);
    if (!forecast || !forecast->counts) {
        forecast_free(forecast);
        completion_status_soon(shard, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    forecast->shard = shard;
    forecast->reply_to = reply_to;
    forecast->from_ms = call->from_ms;
    forecast->is_soon = call->soon;
    forecast->until_ms = call->from_ms + FORECAST_SOON * (int64_t)60000;
    forecast->skew_ms = now.skew_ms;
    forecast->now_ms = now.inner_ms + now.skew_ms;
    forecast->topic_bytes = call->topic.len;
    if (call->topic.len)
        memcpy(forecast->topic, call->topic.at, call->topic.len);
    forecast_plan(forecast);
    forecast->section = first_section;
    timeline_init(&forecast->cold, call->from_ms);
    shard->readings++;
    forecast->work.perform = forecast_on_scout;
    forecast->work.done = forecast_on_back;
    worker_give(shard->scout, &forecast->work);
}
