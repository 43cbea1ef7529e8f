#include "feed/feed.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/table.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum {
    DESKS_MAX = 64,
    WAITING_PAGES_MAX = 256,
    HAND_US = 500 /* time for which a desk passes on events per loop iteration */
};

/* The requests of the listeners of all desks for one topic; constant once the feed uses it. */
struct want {
    struct table_entry entry; /* by topic */
    uint32_t kinds;
    char topic[];
};

TABLE_DECLARE(wants, struct want, entry)

struct interest {
    atomic_uint refs;
    uint32_t kinds;     /* of any topic, named or not */
    uint32_t kinds_all; /* of all topics */
    struct wants wants;
};

/* The events of a desk, on their way to the desks with listeners. */
struct page {
    atomic_uint refs;
    uint64_t lost;
    struct buffer events; /* each a struct job_event and its texts */
};

struct feed_desk {
    struct feed_watch watch; /* version of `interest` and `kinds` */
    uint32_t kinds;          /* requested kinds, of any topic; 0: no events are requested */
    struct feed *feed;
    struct reactor *reactor;
    uint32_t index;
    /* sending */
    struct interest *interest;
    struct page *open;
    uint32_t publish_budget;
    int64_t publish_budget_us; /* boot time: as of when */
    struct iteration_end_call iteration_end;
    struct deadline *deadline;
    int64_t sent_ms; /* boot time: the last page */
    /* receiving */
    struct list listeners;
    uint32_t hand_budget;
    int64_t hand_budget_us;
    uint64_t serial;
    struct page *handing[WAITING_PAGES_MAX]; /* pages to pass on, from `hand_page` on */
    size_t handing_count, hand_page;
    size_t hand_at; /* position of the next event in that page */
    uint64_t handing_lost;
    /* received pages, under the lock */
    pthread_mutex_t lock;
    struct letter letter;
    bool is_posted;
    struct page *waiting[WAITING_PAGES_MAX];
    size_t waiting_count, waiting_bytes;
    uint64_t waiting_lost;
};

struct feed {
    _Atomic uint64_t version;   /* of `interest` */
    _Atomic uint64_t listening; /* a bit for each desk with listeners */
    _Atomic int64_t page_ms;    /* minimum time between two pages of a desk */
    pthread_mutex_t lock;       /* of the fields below */
    struct interest *interest;  /* NULL: there are no listeners */
    struct list listeners;
    uint32_t desk_count;
    struct feed_desk *desks[];
};

/* ---- requested events ---- */

static void interest_drop(struct interest *interest)
{
    if (!interest || atomic_fetch_sub(&interest->refs, 1) > 1)
        return;
    for (struct want *want = wants_first(&interest->wants), *next; want; want = next) {
        next = wants_next(&interest->wants, want);
        free(want);
    }
    wants_fini(&interest->wants);
    free(interest);
}

static bool interest_add_topic(struct interest *interest, struct slice topic, uint32_t kinds)
{
    struct want *want = wants_find(&interest->wants, topic);
    if (!want) {
        want = calloc(1, sizeof *want + topic.len);
        if (!want)
            return false;
        memcpy(want->topic, topic.at, topic.len);
        want->entry.key = slice_make(want->topic, topic.len);
        wants_add(&interest->wants, want);
    }
    want->kinds |= kinds;
    return true;
}

static bool interest_add(struct interest *interest, const struct feed_listener *listener)
{
    interest->kinds |= listener->kinds;
    if (!listener->topic_count)
        interest->kinds_all |= listener->kinds;
    for (uint32_t i = 0; i < listener->topic_count; i++)
        if (!interest_add_topic(interest, listener->topics[i], listener->kinds))
            return false;
    return true;
}

/* Rebuilds the interest, under the lock of the feed. False: out of memory, and nothing is changed. */
static bool feed_note_interest(struct feed *feed)
{
    struct interest *interest = NULL;
    if (!list_is_empty(&feed->listeners)) {
        interest = calloc(1, sizeof *interest);
        if (!interest)
            return false;
        interest->refs = 1;
    }
    for (struct list *at = feed->listeners.next; at != &feed->listeners; at = at->next)
        if (!interest_add(interest, list_entry(at, struct feed_listener, all))) {
            interest_drop(interest);
            return false;
        }
    interest_drop(feed->interest);
    feed->interest = interest;
    atomic_fetch_add(&feed->version, 1);
    return true;
}

/* Reads the present interest of the feed. */
static void desk_look(struct feed_desk *desk)
{
    struct feed *feed = desk->feed;
    interest_drop(desk->interest);
    pthread_mutex_lock(&feed->lock);
    desk->watch.known = atomic_load(&feed->version);
    desk->interest = feed->interest;
    if (desk->interest)
        atomic_fetch_add(&desk->interest->refs, 1);
    pthread_mutex_unlock(&feed->lock);
    desk->kinds = desk->interest ? desk->interest->kinds : 0;
}

struct feed_watch feed_watch_of(const struct feed_desk *desk)
{
    static const _Atomic uint64_t never;
    return desk ? desk->watch : (struct feed_watch){.version = &never};
}

uint32_t feed_wants(struct feed_desk *desk, struct feed_watch *watch)
{
    if (!desk)
        return 0;
    if (feed_has_changed(&desk->watch))
        desk_look(desk);
    if (watch)
        *watch = desk->watch;
    return desk->kinds;
}

static bool desk_wants(struct feed_desk *desk, enum job_event_kind kind, struct slice topic)
{
    const uint32_t bit = job_event_bit(kind);
    if (!(feed_wants(desk, NULL) & bit))
        return false;
    if (desk->interest->kinds_all & bit)
        return true;
    const struct want *want = wants_find(&desk->interest->wants, topic);
    return want && want->kinds & bit;
}

/* ---- pages ---- */

static void page_drop(struct page *page)
{
    if (!page || atomic_fetch_sub(&page->refs, 1) > 1)
        return;
    buffer_fini(&page->events);
    free(page);
}

/* Refills a budget according to the time since *as_of_us. */
static void budget_fill(uint32_t *budget, int64_t *as_of_us)
{
    int64_t now_us = clock_boot_us(), more = (now_us - *as_of_us) * FEED_RATE / 1000000;
    if (more <= 0)
        return;
    *budget = more < FEED_BURST - *budget ? *budget + (uint32_t)more : FEED_BURST;
    *as_of_us = now_us;
}

/* Returns the page that collects events. It is sent at the end of the loop iteration, or at its deadline. NULL:
 * out of memory. */
static struct page *desk_page(struct feed_desk *desk)
{
    if (desk->open)
        return desk->open;
    struct page *page = calloc(1, sizeof *page);
    if (!page)
        return NULL;
    page->refs = 1;
    buffer_init(&page->events, FEED_PAGE_BYTES_MAX);
    budget_fill(&desk->publish_budget, &desk->publish_budget_us);
    reactor_once_at_iteration_end(desk->reactor, &desk->iteration_end);
    return desk->open = page;
}

static void desk_hand_all(struct letter *letter);

/* Queues a page for a desk. Any thread. */
static void desk_receive(struct feed_desk *desk, struct page *page)
{
    bool posts = false;
    pthread_mutex_lock(&desk->lock);
    if (desk->waiting_count < WAITING_PAGES_MAX &&
        desk->waiting_bytes + page->events.len <= FEED_WAITING_BYTES_MAX) {
        atomic_fetch_add(&page->refs, 1);
        desk->waiting[desk->waiting_count++] = page;
        desk->waiting_bytes += page->events.len;
    } else {
        desk->waiting_lost += page->lost + 1; /* at least one; a page has no count */
    }
    if (!desk->is_posted)
        posts = desk->is_posted = true;
    pthread_mutex_unlock(&desk->lock);
    if (posts)
        reactor_post(desk->reactor, &desk->letter);
}

static void desk_send(struct feed_desk *desk)
{
    struct feed *feed = desk->feed;
    struct page *page = desk->open;
    uint64_t listening = atomic_load(&feed->listening);
    desk->open = NULL;
    desk->sent_ms = clock_boot_us() / 1000;
    for (uint32_t i = 0; page && i < feed->desk_count; i++)
        if (listening & UINT64_C(1) << i)
            desk_receive(feed->desks[i], page);
    page_drop(page);
}

static void on_iteration_end(struct iteration_end_call *call)
{
    struct feed_desk *desk = list_entry(call, struct feed_desk, iteration_end);
    int64_t page_ms = atomic_load_explicit(&desk->feed->page_ms, memory_order_relaxed);
    int64_t wait_ms = desk->sent_ms + page_ms - clock_boot_us() / 1000;
    if (wait_ms <= 0 || wait_ms > page_ms)
        desk_send(desk);
    else
        deadline_set(desk->deadline, clock_inner_ms() + wait_ms);
}

/* ---- sending ---- */

void feed_lose(struct feed_desk *desk, uint64_t events)
{
    struct page *page = desk_page(desk);
    if (page) /* if memory runs out here, no gap is reported, and no events either */
        page->lost += events;
}

bool feed_admit(struct feed_desk *desk, enum job_event_kind kind, struct slice topic)
{
    if (!desk || !desk_wants(desk, kind, topic) || !desk_page(desk))
        return false;
    if (desk->publish_budget) {
        desk->publish_budget--;
        return true;
    }
    desk->open->lost++;
    return false;
}

static void append_text(struct buffer *buffer, struct slice text)
{
    if (text.len)
        buffer_append_slice(buffer, text);
}

void feed_publish(struct feed_desk *desk, const struct job_event *event)
{
    struct page *page = desk_page(desk);
    if (!page)
        return;
    struct buffer *events = &page->events;
    size_t before = events->len;
    buffer_append(events, event, sizeof *event);
    append_text(events, event->topic);
    append_text(events, event->id);
    append_text(events, event->error);
    if (!events->failed)
        return;
    events->failed = false;
    events->len = before;
    page->lost++;
}

/* ---- receiving ---- */

static void listener_lose(struct feed_listener *listener, uint64_t events)
{
    listener->lost += events;
}

static bool budget_spend(struct feed_desk *desk)
{
    if (!desk->hand_budget)
        return false;
    desk->hand_budget--;
    return true;
}

/* Reports lost events. False: the budget is used up. */
static bool listener_notify_gap(struct feed_listener *listener)
{
    uint64_t lost = listener->lost;
    if (!lost)
        return true;
    if (!budget_spend(listener->desk))
        return false;
    listener->lost = 0;
    listener->ops->gap(listener, lost);
    return true;
}

static bool listener_wants(struct feed_listener *listener, const struct job_event *event)
{
    if (!(listener->kinds & job_event_bit(event->kind)))
        return false;
    bool is_named = !listener->topic_count;
    for (uint32_t i = 0; !is_named && i < listener->topic_count; i++)
        is_named = slice_equals(listener->topics[i], event->topic);
    return is_named && (!listener->ops->may_see || listener->ops->may_see(listener, event->topic));
}

static void listener_notify(struct feed_listener *listener, const struct job_event *event,
                            uint64_t serial)
{
    if (!listener_wants(listener, event))
        return;
    if (!listener_notify_gap(listener) || !budget_spend(listener->desk))
        listener_lose(listener, 1);
    else
        listener->ops->event(listener, event, serial);
}

/* Reads the next event of a page; false: at the end. */
static bool page_next(const struct page *page, size_t *at, struct job_event *out)
{
    if (*at == page->events.len)
        return false;
    memcpy(out, page->events.at + *at, sizeof *out);
    *at += sizeof *out;
    struct slice *const texts[] = {&out->topic, &out->id, &out->error};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        texts[i]->at = page->events.at + *at;
        *at += texts[i]->len;
    }
    return true;
}

/* Passes each event to all listeners before the next one. False: the time of this loop iteration is used up. */
static bool desk_hand(struct feed_desk *desk, const struct page *page, int64_t until_us)
{
    struct job_event event;
    struct list *next;
    while (page_next(page, &desk->hand_at, &event)) {
        desk->serial++;
        for (struct list *list = desk->listeners.next; list != &desk->listeners; list = next) {
            next = list->next;
            listener_notify(list_entry(list, struct feed_listener, list), &event, desk->serial);
        }
        if (clock_boot_us() >= until_us)
            return false;
    }
    return true;
}

static void desk_lose(struct feed_desk *desk, uint64_t events)
{
    for (struct list *at = desk->listeners.next; events && at != &desk->listeners; at = at->next)
        listener_lose(list_entry(at, struct feed_listener, list), events);
}

/* Reports gaps that no event follows. If the budget is used up, they are reported a little later. */
static void desk_notify_gaps(struct feed_desk *desk)
{
    struct list *next;
    bool all = true;
    for (struct list *at = desk->listeners.next; at != &desk->listeners; at = next) {
        next = at->next;
        all &= listener_notify_gap(list_entry(at, struct feed_listener, list));
    }
    if (!all)
        deadline_set(desk->deadline, clock_inner_ms() + FEED_PAGE_MS);
}

static void on_deadline(void *ctx)
{
    struct feed_desk *desk = ctx;
    desk_send(desk);
    budget_fill(&desk->hand_budget, &desk->hand_budget_us);
    desk_notify_gaps(desk);
}

/* Handles the arrival of the letter: once all previous pages are passed on, takes the received ones. */
static void desk_take_waiting(struct feed_desk *desk)
{
    pthread_mutex_lock(&desk->lock);
    desk->is_posted = false;
    if (desk->hand_page == desk->handing_count) {
        memcpy(desk->handing, desk->waiting, desk->waiting_count * sizeof(struct page *));
        desk->handing_count = desk->waiting_count;
        desk->handing_lost = desk->waiting_lost;
        desk->waiting_count = desk->waiting_bytes = 0;
        desk->waiting_lost = 0;
        desk->hand_page = 0;
    }
    pthread_mutex_unlock(&desk->lock);
}

/* Schedules the remaining and newly received pages after other work of the loop. */
static void desk_go_on(struct feed_desk *desk)
{
    bool posts = false;
    pthread_mutex_lock(&desk->lock);
    bool has_more =
        desk->hand_page < desk->handing_count || desk->waiting_count || desk->waiting_lost;
    if (has_more && !desk->is_posted)
        posts = desk->is_posted = true;
    pthread_mutex_unlock(&desk->lock);
    if (posts)
        reactor_post(desk->reactor, &desk->letter);
}

/* Passes on pages within a time limit, because each event is costly if many listeners name many topics. False:
 * some are left. */
static bool desk_hand_some(struct feed_desk *desk)
{
    int64_t until_us = clock_boot_us() + HAND_US;
    for (; desk->hand_page < desk->handing_count; desk->hand_page++) {
        struct page *page = desk->handing[desk->hand_page];
        if (!desk->hand_at)
            desk_lose(desk, page->lost);
        if (!desk_hand(desk, page, until_us))
            return false;
        desk->hand_at = 0;
        page_drop(page);
    }
    return true;
}

/* Passes on the received pages, on the thread of the reactor. */
static void desk_hand_all(struct letter *letter)
{
    struct feed_desk *desk = list_entry(letter, struct feed_desk, letter);
    desk_take_waiting(desk);
    budget_fill(&desk->hand_budget, &desk->hand_budget_us);
    if (desk_hand_some(desk)) {
        desk_lose(desk, desk->handing_lost);
        desk->handing_lost = 0;
        desk_notify_gaps(desk);
    }
    desk_go_on(desk);
}

/* Updates the desks with listeners and the page interval, under the lock of the feed. */
static void feed_note_listening(struct feed_desk *desk)
{
    uint64_t bit = UINT64_C(1) << desk->index;
    int64_t page_ms = FEED_PAGE_MS;
    for (struct list *at = desk->feed->listeners.next; at != &desk->feed->listeners; at = at->next)
        page_ms += FEED_PAGE_MS_EACH;
    atomic_store(&desk->feed->page_ms, page_ms);
    if (list_is_empty(&desk->listeners))
        atomic_fetch_and(&desk->feed->listening, ~bit);
    else
        atomic_fetch_or(&desk->feed->listening, bit);
}

bool feed_listen(struct feed_desk *desk, struct feed_listener *listener)
{
    struct feed *feed = desk->feed;
    assert(listener->topic_count <= JOB_EVENT_TOPICS_MAX);
    listener->desk = desk;
    listener->lost = 0;
    pthread_mutex_lock(&feed->lock);
    list_add_last(&feed->listeners, &listener->all);
    bool noted = feed_note_interest(feed);
    if (!noted)
        list_remove(&listener->all);
    else
        list_add_last(&desk->listeners, &listener->list);
    feed_note_listening(desk);
    pthread_mutex_unlock(&feed->lock);
    return noted;
}

void feed_unlisten(struct feed_listener *listener)
{
    struct feed_desk *desk = listener->desk;
    struct feed *feed = desk->feed;
    pthread_mutex_lock(&feed->lock);
    list_remove(&listener->list);
    list_remove(&listener->all);
    feed_note_listening(desk);
    (void)feed_note_interest(feed); /* if memory runs out, too many events are sent for a while */
    pthread_mutex_unlock(&feed->lock);
}

/* ---- lifetime ---- */

struct feed *feed_new(uint32_t desks)
{
    assert(desks <= DESKS_MAX);
    struct feed *feed = calloc(1, sizeof *feed + desks * sizeof feed->desks[0]);
    if (!feed)
        return NULL;
    pthread_mutex_init(&feed->lock, NULL);
    list_init(&feed->listeners);
    feed->desk_count = desks;
    return feed;
}

static void desk_free(struct feed_desk *desk)
{
    if (!desk)
        return;
    assert(list_is_empty(&desk->listeners));
    reactor_cancel_at_iteration_end(&desk->iteration_end);
    deadline_free(desk->deadline);
    page_drop(desk->open);
    for (size_t i = 0; i < desk->waiting_count; i++)
        page_drop(desk->waiting[i]);
    for (size_t i = desk->hand_page; i < desk->handing_count; i++)
        page_drop(desk->handing[i]);
    interest_drop(desk->interest);
    pthread_mutex_destroy(&desk->lock);
    free(desk);
}

void feed_free(struct feed *feed)
{
    if (!feed)
        return;
    for (uint32_t i = 0; i < feed->desk_count; i++)
        desk_free(feed->desks[i]);
    interest_drop(feed->interest);
    pthread_mutex_destroy(&feed->lock);
    free(feed);
}

struct feed_desk *feed_desk_open(struct feed *feed, uint32_t index, struct reactor *reactor)
{
    assert(index < feed->desk_count && !feed->desks[index]);
    struct feed_desk *desk = calloc(1, sizeof *desk);
    if (!desk)
        return NULL;
    pthread_mutex_init(&desk->lock, NULL);
    desk->watch.version = &feed->version;
    desk->feed = feed;
    desk->reactor = reactor;
    desk->index = index;
    desk->letter.run = desk_hand_all;
    desk->iteration_end.run = on_iteration_end;
    desk->publish_budget = desk->hand_budget = FEED_BURST;
    desk->publish_budget_us = desk->hand_budget_us = clock_boot_us();
    list_init(&desk->listeners);
    list_init(&desk->iteration_end.list);
    desk->deadline = deadline_new(reactor, on_deadline, desk);
    feed->desks[index] = desk;
    if (!desk->deadline) {
        feed->desks[index] = NULL;
        desk_free(desk);
        return NULL;
    }
    return desk;
}

struct feed_desk *feed_desk_at(const struct feed *feed, uint32_t index)
{
    assert(index < feed->desk_count && feed->desks[index]);
    return feed->desks[index];
}
