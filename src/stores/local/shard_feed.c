#include "local/shard_feed.h"

#include "local/preload.h"

#include <errno.h>
#include <stdlib.h>

enum {
    EVENTS_WAITING_MAX = 4096,
    STEP_EVENTS = 256,       /* reported per step */
    STEP_BYTES_MAX = 1 << 20 /* of records read for them; the first one may be larger */
};

/* An event that waits for its id, or for earlier events. One block of memory with its texts. */
struct item {
    struct list list;
    struct job_event event;
    struct hash128 key;
    struct record_place place; /* bytes 0: the id is known or not needed */
    char id[JOB_ID_BYTES_MAX];
    char texts[]; /* topic, id if it was known, error */
};

struct shard_feed {
    struct work work;
    struct shard *shard;
    struct list waiting,
        reading; /* items; the latter are with the librarian, or about to be reported */
    bool is_reading;
    struct depot_view *view; /* while the librarian reads */
    struct buffer scratch;
};

/* ---- the kinds that subscribers need ---- */

void shard_feed_look_again(struct shard *shard)
{
    shard->event_kinds = feed_wants(shard->options.desk, &shard->feed_watch);
    engine_notify(shard->engine, shard->event_kinds);
}

/* ---- waiting events ---- */

static void text_move(struct slice *text, char **at)
{
    if (text->len)
        memcpy(*at, text->at, text->len);
    text->at = *at;
    *at += text->len;
}

static struct item *item_new(const struct job_event *event, struct hash128 key,
                             struct record_place place)
{
    struct item *item = malloc(sizeof *item + event->topic.len + event->id.len + event->error.len);
    if (!item)
        return NULL;
    item->event = *event;
    item->key = key;
    item->place = event->id.len ? (struct record_place){0} : place;
    char *at = item->texts;
    text_move(&item->event.topic, &at);
    text_move(&item->event.id, &at);
    text_move(&item->event.error, &at);
    return item;
}

static void wait_in_line(struct shard_feed *feed, const struct job_event *event, struct hash128 key,
                         struct record_place place)
{
    struct feed_desk *desk = feed->shard->options.desk;
    struct item *item =
        feed->shard->feed_waiting < EVENTS_WAITING_MAX ? item_new(event, key, place) : NULL;
    if (!item) {
        feed_lose(desk, 1);
        return;
    }
    list_add_last(&feed->waiting, &item->list);
    feed->shard->feed_waiting++;
}

static bool has_some(const struct shard_feed *feed)
{
    return feed->is_reading || feed->shard->feed_waiting;
}

void shard_feed_event(void *ctx, const struct job_event *event, struct hash128 key,
                      struct record_place place)
{
    struct shard_feed *feed = ((struct shard *)ctx)->feed;
    struct feed_desk *desk = feed->shard->options.desk;
    if (!feed_admit(desk, event->kind, event->topic))
        return;
    if (event->id.len && !has_some(feed))
        feed_publish(desk, event);
    else
        wait_in_line(feed, event, key, place);
}

/* Reports an event whose id is known, or that has no id. */
static void publish(struct shard *shard, const struct job_event *event)
{
    struct shard_feed *feed = shard->feed;
    if (!feed_admit(shard->options.desk, event->kind, event->topic))
        return;
    if (has_some(feed))
        wait_in_line(feed, event, (struct hash128){0}, (struct record_place){0});
    else
        feed_publish(shard->options.desk, event);
}

/* Returns the time by the clock of displayed due times. */
static int64_t shown_now_ms(struct shard *shard)
{
    struct engine_now now = shard_now(shard);
    return now.inner_ms + now.skew_ms;
}

void shard_feed_delivered(struct shard *shard, const struct job *job, enum job_way way)
{
    if (shard->event_kinds & job_event_bit(JOB_EVENT_DELIVERED))
        publish(shard, &(struct job_event){.kind = JOB_EVENT_DELIVERED,
                                           .way = way,
                                           .attempt = job->attempt,
                                           .at_ms = shown_now_ms(shard),
                                           .due_ms = job->due_ms,
                                           .lease_until_ms = job->lease_until_ms,
                                           .topic = job->topic,
                                           .id = job->id});
}

void shard_feed_topic(struct shard *shard, enum job_event_kind kind, struct slice topic,
                      uint64_t count)
{
    if (shard->event_kinds & job_event_bit(kind))
        publish(shard,
                &(struct job_event){
                    .kind = kind, .at_ms = shown_now_ms(shard), .count = count, .topic = topic});
}

/* ---- reading ids ---- */

/* Reads the id from the job's record into the item. Returns -EAGAIN if only the librarian can read
 * it. Either thread. */
static int item_read(struct shard_feed *feed, struct item *item, bool may_block)
{
    const struct shard *shard = feed->shard;
    struct slice bytes;
    struct record record;
    int failed;
    buffer_clear(&feed->scratch);
    if (!record_place_is_run(item->place))
        failed = wal_read(shard->wal, item->place, may_block, &feed->scratch, &bytes);
    else if (!may_block && preload_recent(shard->preload, item->place, &bytes))
        failed = 0;
    else
        failed = depot_read(feed->view, item->place, may_block, &feed->scratch, &bytes);
    if (failed == -EAGAIN && !may_block)
        return failed;
    item->place.bytes = 0;
    if (failed || !record_decode(bytes, &record) || record.kind != RECORD_JOB ||
        record.job.id.len > sizeof item->id)
        return 0; /* reported without an id */
    struct hash128 key = hash_pair(record.job.topic, record.job.id, shard->options.hash_seed);
    if (key.low == item->key.low && key.high == item->key.high) {
        memcpy(item->id, record.job.id.at, record.job.id.len);
        item->event.id = slice_make(item->id, record.job.id.len);
    }
    return 0;
}

static void items_read(struct shard_feed *feed)
{
    for (struct list *at = feed->reading.next; at != &feed->reading; at = at->next) {
        struct item *item = list_entry(at, struct item, list);
        if (item->place.bytes)
            (void)item_read(feed, item, true);
    }
}

static void items_publish(struct shard_feed *feed)
{
    while (!list_is_empty(&feed->reading)) {
        struct item *item = list_entry(feed->reading.next, struct item, list);
        list_remove(&item->list);
        feed_publish(feed->shard->options.desk, &item->event);
        free(item);
    }
}

static void view_let_go(struct shard_feed *feed)
{
    if (feed->view)
        depot_let_go(feed->view);
    feed->view = NULL;
}

static void on_librarian(struct work *work)
{
    items_read((struct shard_feed *)(void *)work);
}

static void on_back(struct work *work)
{
    struct shard_feed *feed = (struct shard_feed *)(void *)work;
    feed->is_reading = false;
    feed->shard->readings--;
    view_let_go(feed);
    items_publish(feed);
}

/* Gathers the next waiting events. Returns whether the librarian must read for some of them. */
static bool items_gather(struct shard_feed *feed)
{
    size_t bytes = 0;
    bool pending = false;
    for (int left = STEP_EVENTS; left && feed->shard->feed_waiting && bytes < STEP_BYTES_MAX;
         left--) {
        struct item *item = list_entry(feed->waiting.next, struct item, list);
        list_remove(&item->list);
        feed->shard->feed_waiting--;
        list_add_last(&feed->reading, &item->list);
        bytes += item->place.bytes;
        if (item->place.bytes)
            pending |= item_read(feed, item, false) != 0;
    }
    return pending;
}

bool shard_feed_step(struct shard *shard)
{
    struct shard_feed *feed = shard->feed;
    if (!shard->feed_waiting || feed->is_reading)
        return false;
    feed->view = depot_hold(shard->depot);
    if (!feed->view)
        return false; /* no memory: the next step may have some */
    if (items_gather(feed)) {
        feed->is_reading = true;
        shard->readings++;
        worker_give(shard->librarian, &feed->work);
        return false; /* its letter triggers the next step */
    }
    view_let_go(feed);
    items_publish(feed);
    return shard->feed_waiting > 0;
}

/* ---- creation ---- */

struct shard_feed *shard_feed_new(struct shard *shard)
{
    struct shard_feed *feed = calloc(1, sizeof *feed);
    if (!feed)
        return NULL;
    feed->shard = shard;
    shard->feed_watch = feed_watch_of(shard->options.desk);
    feed->work.perform = on_librarian;
    feed->work.done = on_back;
    list_init(&feed->waiting);
    list_init(&feed->reading);
    buffer_init(&feed->scratch, SIZE_MAX / 2);
    return feed;
}

static void items_free(struct list *items)
{
    while (!list_is_empty(items)) {
        struct item *item = list_entry(items->next, struct item, list);
        list_remove(&item->list);
        free(item);
    }
}

void shard_feed_free(struct shard_feed *feed)
{
    if (!feed)
        return;
    items_free(&feed->waiting);
    items_free(&feed->reading);
    view_let_go(feed);
    buffer_fini(&feed->scratch);
    free(feed);
}
