#include "engine/forecast_pages.h"

#include <stdlib.h>
#include <string.h>

enum { PAGES_MIN = 64 };

/* Whole pages, 127 years: no step of the wall clock leads to a time below 0. */
static const int64_t margin_ms = (int64_t)FORECAST_PAGE_MINUTES * 60000 << 20;

bool forecast_pages_init(struct forecast_pages *pages, int64_t skew_ms)
{
    *pages = (struct forecast_pages){.phase_ms = margin_ms + (skew_ms % 60000 + 60000) % 60000,
                                     .cap = PAGES_MIN};
    pages->pages = calloc(PAGES_MIN, sizeof *pages->pages);
    pages->table = calloc((size_t)PAGES_MIN * 2, sizeof *pages->table);
    if (pages->pages && pages->table) {
        pages->pages[0].number = FORECAST_PAGE_UNUSED;
        return true;
    }
    forecast_pages_fini(pages);
    return false;
}

void forecast_pages_fini(struct forecast_pages *pages)
{
    free(pages->pages);
    free(pages->table);
    *pages = (struct forecast_pages){0};
}

void forecast_pages_shift(struct forecast_pages *pages, int64_t step_ms)
{
    pages->phase_before_ms = pages->phase_ms;
    pages->phase_ms += step_ms;
}

/* Returns the slot of a page in the table, or the free slot for it. */
static uint32_t *page_slot(const struct forecast_pages *pages, uint32_t topic, uint32_t number)
{
    uint32_t mask = pages->cap * 2 - 1;
    uint64_t hash = ((uint64_t)topic << 32 | number) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t at = (uint32_t)(hash >> 32) & mask;; at = (at + 1) & mask) {
        const struct forecast_page *page = &pages->pages[pages->table[at]];
        if (!pages->table[at] || (page->number == number && page->topic == topic))
            return &pages->table[at];
    }
}

static void fill_table(struct forecast_pages *pages)
{
    memset(pages->table, 0, (size_t)pages->cap * 2 * sizeof *pages->table);
    for (uint32_t id = 1; id <= pages->top; id++) {
        const struct forecast_page *page = &pages->pages[id];
        if (page->number != FORECAST_PAGE_UNUSED)
            *page_slot(pages, page->topic, page->number) = id;
    }
}

/* Frees the pages without jobs, most of which are in the past. */
static void free_empty(struct forecast_pages *pages)
{
    for (uint32_t id = 1; id <= pages->top; id++) {
        struct forecast_page *page = &pages->pages[id];
        if (page->number == FORECAST_PAGE_UNUSED || page->jobs)
            continue;
        page->number = FORECAST_PAGE_UNUSED;
        page->jobs = pages->free;
        pages->free = id;
    }
    pages->empty = 0;
    fill_table(pages);
}

static bool grow(struct forecast_pages *pages)
{
    uint32_t cap = pages->cap * 2;
    if (cap > FORECAST_PAGES_MAX)
        return false;
    uint32_t *table = malloc((size_t)cap * 2 * sizeof *table);
    struct forecast_page *grown = realloc(pages->pages, cap * sizeof *grown);
    if (grown)
        pages->pages = grown;
    if (!table || !grown) {
        free(table);
        return false;
    }
    free(pages->table);
    pages->table = table;
    pages->cap = cap;
    fill_table(pages);
    return true;
}

/* Returns a free page id. The search for empty pages walks over all pages, so it is done only if a quarter of them
 * is empty. 0: no page is free. */
static uint32_t free_id(struct forecast_pages *pages)
{
    if (!pages->free && pages->top + 1 == pages->cap) {
        if (pages->empty >= pages->cap / 4)
            free_empty(pages);
        else if (!grow(pages))
            return 0;
    }
    uint32_t id = pages->free;
    if (!id)
        return ++pages->top;
    pages->free = pages->pages[id].jobs;
    return id;
}

static uint32_t find_or_make(struct forecast_pages *pages, uint32_t topic, uint32_t number)
{
    uint32_t id = *page_slot(pages, topic, number);
    if (id)
        return id;
    if (topic && pages->top >= FORECAST_OWN_MAX && !pages->free && pages->empty < pages->cap / 4)
        return 0;
    id = free_id(pages);
    if (!id)
        return 0;
    pages->pages[id] = (struct forecast_page){.number = number, .topic = topic};
    *page_slot(pages, topic, number) = id;
    pages->empty++;
    return id;
}

uint32_t forecast_page_for(struct forecast_pages *pages, uint32_t topic, uint64_t minute,
                           int64_t now_ms)
{
    uint64_t number = minute >> FORECAST_PAGE_BITS;
    uint64_t now = forecast_minute(pages->phase_ms, (uint64_t)now_ms) >> FORECAST_PAGE_BITS;
    uint32_t id = 0;
    if (number < now + FORECAST_OWN_AHEAD)
        id = find_or_make(pages, topic, (uint32_t)number);
    return id ? id : find_or_make(pages, 0, (uint32_t)number);
}

uint32_t forecast_pages_jobs(const struct forecast_pages *pages, uint32_t topic, uint64_t minute)
{
    uint32_t id = *page_slot(pages, topic, (uint32_t)(minute >> FORECAST_PAGE_BITS));
    return id ? pages->pages[id].minutes[minute % FORECAST_PAGE_MINUTES] : 0;
}
