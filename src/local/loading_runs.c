/* The cursors: one set for each run of the view. */
#include "local/loading_private.h"

#include <stdlib.h>

static void begin_cursor(const struct depot_run *depot_run, struct loading_cursor *cursor,
                         enum job_part part)
{
    const struct run_info *info = run_info(depot_run->run);

    cursor->end = info->parts[part].first + info->parts[part].count;
    cursor->next = alive_next(&depot_run->alive, info->parts[part].first, cursor->end);
    cursor->when_ms = info->parts[part].first_when_ms;
}

static bool get_topics(struct loading *loading, struct loading_run *run, const struct run *of)
{
    uint32_t count = run_info(of)->topics;

    for (; run->topic_count < count; run->topic_count++) {
        struct slice name = run_topic_name(of, run->topic_count);
        run->topics[run->topic_count] = loading_topic_get(loading, name);
        if (!run->topics[run->topic_count])
            return false;
    }
    return true;
}

static void clear_places(struct loading *loading, struct loading_run *run)
{
    for (uint32_t i = 0; run->places && i < run->topic_count; i++)
        if (run->places[i])
            loading_place_clear(loading, run->places[i]);
}

static void run_free(struct loading *loading, struct loading_run *run)
{
    clear_places(loading, run);
    for (uint32_t i = 0; i < run->topic_count; i++) {
        if (run->places)
            free(run->places[i]);
        loading_topic_put(loading, run->topics[i]);
    }
    free((void *)run->places);
    free(run);
}

/* Its jobs may be in memory. */
static void join(struct loading *loading, struct loading_run *run)
{
    if (!loading->begun)
        return;
    for (uint32_t i = 0; i < run->topic_count; i++)
        run->topics[i]->joined = loading->joins = true;
}

/* What is leased in a run that a checkpoint wrote is in memory already, and the dead stay where
 * they are. */
static struct loading_run *run_new(struct loading *loading, const struct depot_run *depot_run)
{
    size_t topics = run_info(depot_run->run)->topics * sizeof(struct loading_topic *);
    struct loading_run *run = calloc(1, sizeof *run + topics);

    if (!run)
        return NULL;
    run->number = depot_run->number;
    for (enum job_part part = 0; part < PARTS; part++) {
        begin_cursor(depot_run, &run->cursors[part], part);
        run->cursors[part].passed_ms = INT64_MIN;
        if (part == PART_DEAD || (part == PART_LEASED && loading->begun))
            run->cursors[part].next = run->cursors[part].end;
    }
    if (get_topics(loading, run, depot_run->run)) {
        join(loading, run);
        return run;
    }
    run_free(loading, run);
    return NULL;
}

void loading_run_let_go(struct loading_run *run, struct loading *loading)
{
    if (run->is_gone && !run->holds)
        run_free(loading, run);
}

/* ---- following the view ---- */

static struct loading_run *find(const struct loading *loading, uint32_t number)
{
    for (uint32_t i = 0; i < loading->run_count; i++)
        if (loading->runs[i]->number == number)
            return loading->runs[i];
    return NULL;
}

/* A victim's jobs are loaded from the run that takes its place, once that can be read. */
static bool counts(const struct depot_view *view, const struct depot_run *depot_run)
{
    if (depot_run->is_new)
        return false;
    if (!depot_run->is_victim || !depot_run->moved)
        return true;
    for (uint32_t i = 0; i < view->run_count; i++)
        if (view->runs[i]->is_new)
            return true;
    return false;
}

static void let_others_go(struct loading *loading, struct loading_run **kept, uint32_t count)
{
    for (uint32_t i = 0; i < loading->run_count; i++) {
        struct loading_run *run = loading->runs[i];
        uint32_t at = 0;
        while (at < count && kept[at] != run)
            at++;
        if (at < count)
            continue;
        run->is_gone = true;
        clear_places(loading, run);
        loading_run_let_go(run, loading);
    }
}

bool loading_runs_follow(struct loading *loading)
{
    const struct depot_view *view = depot_view(loading->shard->depot);
    struct loading_run **runs =
        malloc((view->run_count ? view->run_count : 1) * sizeof(struct loading_run *));
    uint32_t count = 0;
    bool all = true;

    if (!runs)
        return false;
    for (uint32_t i = 0; i < view->run_count; i++) {
        if (!counts(view, view->runs[i]))
            continue;
        struct loading_run *run = find(loading, view->runs[i]->number);
        if (!run)
            run = run_new(loading, view->runs[i]);
        if (run)
            runs[count++] = run;
        else
            all = false;
    }
    let_others_go(loading, runs, count);
    free((void *)loading->runs);
    loading->runs = runs;
    loading->run_count = count;
    loading->first.is_known = false;
    loading->generation = view->generation;
    return all;
}

void loading_runs_fini(struct loading *loading)
{
    for (uint32_t i = 0; i < loading->run_count; i++)
        run_free(loading, loading->runs[i]);
    free((void *)loading->runs);
    free((void *)loading->table);
}

/* ---- looking once more ---- */

static void restart_run(struct loading *loading, struct loading_run *run)
{
    const struct depot_run *depot_run =
        depot_view_run(depot_view(loading->shard->depot), run->number);

    if (!depot_run)
        return; /* about to leave */
    run->epoch++;
    loading->first.is_known = false;
    for (unsigned i = 0; i < LOADING_WAITS; i++)
        begin_cursor(depot_run, &run->cursors[LOADING_WAIT_FIRST + i], LOADING_WAIT_FIRST + i);
    clear_places(loading, run);
}

/* Whether any of its topics asks for it. */
static bool asks(const struct loading_run *run)
{
    for (uint32_t i = 0; i < run->topic_count; i++)
        if (run->topics[i]->restart_now)
            return true;
    return false;
}

void loading_runs_restart(struct loading *loading)
{
    for (uint32_t i = 0; i < loading->run_count; i++)
        if (asks(loading->runs[i]))
            restart_run(loading, loading->runs[i]);
}
