/* The cursors: one set for each run of the view. */
#include "local/preload_private.h"

#include <stdlib.h>

static void begin_cursor(const struct depot_run *depot_run, struct preload_cursor *cursor,
                         enum job_section section)
{
    const struct run_info *info = run_info(depot_run->run);

    cursor->end = info->sections[section].first + info->sections[section].count;
    cursor->next = alive_next(&depot_run->alive, info->sections[section].first, cursor->end);
    cursor->when_ms = info->sections[section].first_when_ms;
}

static bool get_topics(struct preload *preload, struct preload_run *run, const struct run *of)
{
    uint32_t count = run_info(of)->topics;

    for (; run->topic_count < count; run->topic_count++) {
        struct slice name = run_topic_name(of, run->topic_count);
        run->topics[run->topic_count] = preload_topic_get(preload, name);
        if (!run->topics[run->topic_count])
            return false;
    }
    return true;
}

static void clear_places(struct preload *preload, struct preload_run *run)
{
    for (uint32_t i = 0; run->places && i < run->topic_count; i++)
        if (run->places[i])
            preload_place_clear(preload, run->places[i]);
}

static void run_free(struct preload *preload, struct preload_run *run)
{
    clear_places(preload, run);
    for (uint32_t i = 0; i < run->topic_count; i++) {
        if (run->places)
            free(run->places[i]);
        preload_topic_put(preload, run->topics[i]);
    }
    free((void *)run->places);
    free(run);
}

/* Its jobs may be in memory. */
static void join(struct preload *preload, struct preload_run *run)
{
    if (!preload->begun)
        return;
    for (uint32_t i = 0; i < run->topic_count; i++)
        run->topics[i]->joined = preload->joins = true;
}

/* What is leased in a run that a checkpoint wrote is in memory already, and the dead stay where
 * they are. */
static struct preload_run *run_new(struct preload *preload, const struct depot_run *depot_run)
{
    size_t topics = run_info(depot_run->run)->topics * sizeof(struct preload_topic *);
    struct preload_run *run = calloc(1, sizeof *run + topics);

    if (!run)
        return NULL;
    run->number = depot_run->number;
    for (enum job_section section = 0; section < SECTIONS; section++) {
        begin_cursor(depot_run, &run->cursors[section], section);
        run->cursors[section].passed_ms = INT64_MIN;
        if (section == SECTION_DEAD || (section == SECTION_LEASED && preload->begun))
            run->cursors[section].next = run->cursors[section].end;
    }
    if (get_topics(preload, run, depot_run->run)) {
        join(preload, run);
        return run;
    }
    run_free(preload, run);
    return NULL;
}

void preload_run_let_go(struct preload_run *run, struct preload *preload)
{
    if (run->is_gone && !run->holds)
        run_free(preload, run);
}

/* ---- following the view ---- */

static struct preload_run *find(const struct preload *preload, uint32_t number)
{
    for (uint32_t i = 0; i < preload->run_count; i++)
        if (preload->runs[i]->number == number)
            return preload->runs[i];
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

static void let_others_go(struct preload *preload, struct preload_run **kept, uint32_t count)
{
    for (uint32_t i = 0; i < preload->run_count; i++) {
        struct preload_run *run = preload->runs[i];
        uint32_t at = 0;
        while (at < count && kept[at] != run)
            at++;
        if (at < count)
            continue;
        run->is_gone = true;
        clear_places(preload, run);
        preload_run_let_go(run, preload);
    }
}

bool preload_runs_follow(struct preload *preload)
{
    const struct depot_view *view = depot_view(preload->shard->depot);
    struct preload_run **runs =
        malloc((view->run_count ? view->run_count : 1) * sizeof(struct preload_run *));
    uint32_t count = 0;
    bool all = true;

    if (!runs)
        return false;
    for (uint32_t i = 0; i < view->run_count; i++) {
        if (!counts(view, view->runs[i]))
            continue;
        struct preload_run *run = find(preload, view->runs[i]->number);
        if (!run)
            run = run_new(preload, view->runs[i]);
        if (run)
            runs[count++] = run;
        else
            all = false;
    }
    let_others_go(preload, runs, count);
    free((void *)preload->runs);
    preload->runs = runs;
    preload->run_count = count;
    preload->first.is_known = false;
    preload->generation = view->generation;
    return all;
}

void preload_runs_fini(struct preload *preload)
{
    for (uint32_t i = 0; i < preload->run_count; i++)
        run_free(preload, preload->runs[i]);
    free((void *)preload->runs);
    free((void *)preload->table);
}

/* ---- looking once more ---- */

static void restart_run(struct preload *preload, struct preload_run *run)
{
    const struct depot_run *depot_run =
        depot_view_run(depot_view(preload->shard->depot), run->number);

    if (!depot_run)
        return; /* about to leave */
    run->epoch++;
    preload->first.is_known = false;
    for (unsigned i = 0; i < PRELOAD_WAITS; i++)
        begin_cursor(depot_run, &run->cursors[PRELOAD_WAIT_FIRST + i], PRELOAD_WAIT_FIRST + i);
    clear_places(preload, run);
}

/* Whether any of its topics asks for it. */
static bool asks(const struct preload_run *run)
{
    for (uint32_t i = 0; i < run->topic_count; i++)
        if (run->topics[i]->restart_now)
            return true;
    return false;
}

void preload_runs_restart(struct preload *preload)
{
    for (uint32_t i = 0; i < preload->run_count; i++)
        if (asks(preload->runs[i]))
            restart_run(preload, preload->runs[i]);
}
