#include "queue/search.h"

#include <assert.h>
#include <stdlib.h>

/* A page is one loop iteration: with their bodies, more jobs would block others for some milliseconds. Without bodies,
 * 1,000 jobs take about 3 ms, and a store may pay as much for each page: so each page is twice as long as the one
 * before, if few jobs match. */
enum { PAGE_JOBS = 100, CURSOR_BYTES_MAX = 512 };

struct search {
    struct queue *queue;
    struct search_order order; /* its texts are in `text` */
    struct search_listener listener;
    struct search_result result;
    uint32_t left;       /* matches that may still be returned */
    uint32_t page_jobs;  /* limit of the current page */
    bool grows;          /* later pages are longer */
    uint64_t bytes;      /* of bodies and results, so far */
    uint32_t cursor_len; /* start of the current page */
    char cursor[CURSOR_BYTES_MAX];
    char text[];
};

static void on_page(void *owner, uint64_t tag, const struct queue_reply *reply);

static void ask_page(struct search *search)
{
    struct queue_list list = {
        .topic = search->order.topic,
        .state = search->order.state,
        .limit = search->page_jobs,
        .cursor = slice_make(search->cursor, search->cursor_len),
        .with_body = search->order.with_body,
    };
    queue_list(search->queue, &list, (struct queue_reply_to){.done = on_page, .owner = search});
}

static void search_finish(struct search *search)
{
    search->result.cursor = slice_make(search->cursor, search->cursor_len);
    search->listener.done(search->listener.owner, search->listener.tag, &search->result);
    free(search);
}

/* Returns how many jobs of the page to pass on: up to the last requested match. */
static uint32_t jobs_to_hand_on(const struct search *search, const struct queue_reply *page)
{
    uint32_t left = search->left;
    for (uint32_t i = 0; i < page->job_count; i++)
        if (queue_filter_matches(&search->order.filter, &page->jobs[i].job) && --left == 0)
            return i + 1;
    return (uint32_t)page->job_count;
}

static void hand_on(struct search *search, const struct queue_reply *page)
{
    const struct search_listener *listener = &search->listener;
    for (size_t i = 0; i < page->job_count; i++) {
        const struct queue_job *job = &page->jobs[i];
        search->bytes += job->job.body.len;
        if (job->end && search->order.with_body)
            search->bytes += job->end->result.len;
        if (!queue_filter_matches(&search->order.filter, &job->job))
            continue;
        search->left--;
        listener->found(listener->owner, listener->tag, job);
    }
    search->result.seen += page->job_count;
}

/* Moves the cursor to the end of this page. */
static void move_cursor(struct search *search, struct slice cursor)
{
    assert(cursor.len <= sizeof search->cursor);
    search->cursor_len = (uint32_t)cursor.len;
    if (cursor.len)
        memcpy(search->cursor, cursor.at, cursor.len);
}

static bool goes_on(const struct search *search)
{
    return search->cursor_len && search->left && search->result.seen < SEARCH_SEEN_MAX &&
           search->bytes < SEARCH_BYTES_MAX &&
           search->listener.wanted(search->listener.owner, search->listener.tag);
}

static void on_page(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct search *search = owner;
    (void)tag;
    if (reply->status != QUEUE_OK) {
        search->result.status = reply->status;
        search_finish(search);
        return;
    }
    uint32_t jobs = jobs_to_hand_on(search, reply);
    if (jobs < reply->job_count) { /* its cursor is after jobs that are not passed on */
        search->page_jobs = jobs;
        ask_page(search);
        return;
    }
    hand_on(search, reply);
    move_cursor(search, reply->cursor);
    if (!goes_on(search)) {
        search_finish(search);
        return;
    }
    if (search->grows && search->order.page_jobs < QUEUE_LIST_MAX)
        search->order.page_jobs = search->order.page_jobs < QUEUE_LIST_MAX / 2
                                      ? search->order.page_jobs * 2
                                      : QUEUE_LIST_MAX;
    search->page_jobs = (uint32_t)(SEARCH_SEEN_MAX - search->result.seen);
    if (search->page_jobs > search->order.page_jobs)
        search->page_jobs = search->order.page_jobs;
    ask_page(search);
}

bool search_start(struct queue *queue, const struct search_order *order,
                  const struct search_listener *listener)
{
    struct search *search =
        calloc(1, sizeof *search + order->topic.len + queue_filter_bytes(&order->filter));
    if (!search)
        return false;
    *search = (struct search){.queue = queue,
                              .order = *order,
                              .listener = *listener,
                              .left = order->limit ? order->limit : UINT32_MAX,
                              .page_jobs = order->page_jobs ? order->page_jobs : PAGE_JOBS,
                              .grows = !order->page_jobs && !order->with_body};
    search->order.page_jobs = search->page_jobs;
    char *at = queue_filter_copy_texts(&search->order.filter, search->text);
    search->order.topic = queue_text_copy(&at, order->topic);
    struct slice cursor = order->cursor;
    if (cursor.len > sizeof search->cursor) /* not a cursor of a queue */
        cursor.len = sizeof search->cursor;
    move_cursor(search, cursor);
    ask_page(search);
    return true;
}
