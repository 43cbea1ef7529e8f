/* forecast_pages: the memory of the counts of forecast.h. For this room only. */
#ifndef TARRY_ENGINE_FORECAST_PAGES_H
#define TARRY_ENGINE_FORECAST_PAGES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    FORECAST_PAGE_BITS = 6,
    FORECAST_PAGE_MINUTES = 1 << FORECAST_PAGE_BITS,
    FORECAST_PAGES_MAX = 16384, /* 4.4 MB */
    FORECAST_OWN_MAX = 12288,   /* of them for single topics */
    FORECAST_OWN_AHEAD = 256,   /* number of pages ahead that a topic can own: 11 days */
    FORECAST_PAGE_UNUSED = 0x7fffffff
};

struct forecast_page {
    uint32_t number; /* of its first minute, by FORECAST_PAGE_MINUTES; _UNUSED: free */
    uint32_t topic;  /* 0: shared by all topics */
    uint32_t jobs;
    uint32_t minutes[FORECAST_PAGE_MINUTES];
};

struct forecast_pages {
    /* Offset added to inner times, so that minutes begin with those of the wall clock; and the one before its last
     * step, for jobs that have not been counted again. */
    int64_t phase_ms, phase_before_ms;
    struct forecast_page *pages; /* by id from 1; [0] is a dummy */
    uint32_t *table;   /* ids by topic and number, open addressing; twice the size of `pages` */
    uint32_t top, cap; /* ids used so far; capacity */
    uint32_t free;     /* free list through `jobs`; 0: empty */
    uint32_t empty;    /* pages without jobs */
};

bool forecast_pages_init(struct forecast_pages *pages, int64_t skew_ms); /* false: out of memory */
void forecast_pages_fini(struct forecast_pages *pages);

/* Notes a step of the wall clock. Each job must be counted again. */
void forecast_pages_shift(struct forecast_pages *pages, int64_t step_ms);

static inline uint64_t forecast_minute(int64_t phase_ms, uint64_t when_ms)
{
    return (when_ms + (uint64_t)phase_ms) / 60000;
}

/* Returns the page for a job of this topic that is due in this minute, where `now_ms` is the present; creates it
 * if necessary. 0: no page is available. */
uint32_t forecast_page_for(struct forecast_pages *pages, uint32_t topic, uint64_t minute,
                           int64_t now_ms);

/* Returns the jobs of this topic that its own pages count in this minute. */
uint32_t forecast_pages_jobs(const struct forecast_pages *pages, uint32_t topic, uint64_t minute);

/* Counts a job by one of the two phases. `*last` is the page in which the topic counted its last job. Returns the page id for
 * forecast_pages_take. */
static inline uint32_t forecast_pages_count(struct forecast_pages *pages, uint32_t topic,
                                            uint32_t *last, int64_t phase_ms, uint64_t when_ms,
                                            int64_t now_ms)
{
    uint64_t minute = forecast_minute(phase_ms, when_ms);
    struct forecast_page *page = &pages->pages[*last];
    if (page->number != minute >> FORECAST_PAGE_BITS || page->topic != topic) {
        *last = forecast_page_for(pages, topic, minute, now_ms);
        page = &pages->pages[*last];
        if (!*last)
            return 0;
    }
    pages->empty -= page->jobs++ == 0;
    page->minutes[minute % FORECAST_PAGE_MINUTES]++;
    return *last;
}

static inline void forecast_pages_take(struct forecast_pages *pages, uint32_t id, int64_t phase_ms,
                                       uint64_t when_ms)
{
    struct forecast_page *page = &pages->pages[id];
    if (!id)
        return;
    page->minutes[forecast_minute(phase_ms, when_ms) % FORECAST_PAGE_MINUTES]--;
    pages->empty += --page->jobs == 0;
}

#endif
