/* Events reach the listeners that requested them, in order, and never more than there is room for. */
#include "feed/feed.h"

#include "base/clock.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { DESKS = 2, MANY = 3 * FEED_BURST };

struct ear {
    struct feed_listener listener;
    struct reactor *stops; /* signalled once `until` events were received or lost, unless NULL */
    uint64_t reported, lost, until;
    uint64_t last_count, last_serial;
    bool in_order, ends;
    struct slice sees; /* the one topic that it may see; empty: any */
    char id[JOB_ID_BYTES_MAX + 1], error[JOB_ERROR_BYTES_MAX + 1];
    struct job_event last;
};

static void ear_check(struct ear *ear)
{
    if (ear->stops && ear->reported + ear->lost >= ear->until)
        reactor_stop(ear->stops);
}

static void on_notified(struct feed_listener *listener, const struct job_event *event,
                        uint64_t serial)
{
    struct ear *ear = (struct ear *)(void *)listener;
    ear->in_order &= serial > ear->last_serial && event->count > ear->last_count;
    ear->last_serial = serial;
    ear->last_count = event->count;
    ear->reported++;
    ear->last = *event;
    (void)snprintf(ear->id, sizeof ear->id, "%.*s", (int)event->id.len, event->id.at);
    (void)snprintf(ear->error, sizeof ear->error, "%.*s", (int)event->error.len, event->error.at);
    if (ear->ends)
        feed_unlisten(listener);
    ear_check(ear);
}

static void on_gap(struct feed_listener *listener, uint64_t lost)
{
    struct ear *ear = (struct ear *)(void *)listener;
    ear->lost += lost;
    ear_check(ear);
}

static bool may_see(struct feed_listener *listener, struct slice topic)
{
    const struct ear *ear = (struct ear *)(void *)listener;
    return !ear->sees.len || slice_equals(ear->sees, topic);
}

static const struct feed_listener_ops ear_ops = {
    .event = on_notified, .gap = on_gap, .may_see = may_see};

static struct ear ear_of(uint32_t kinds)
{
    return (struct ear){.listener = {.ops = &ear_ops, .kinds = kinds}, .in_order = true};
}

struct scene {
    struct reactor *reactors[DESKS];
    struct feed *feed;
    struct feed_desk *desks[DESKS];
};

static struct scene scene_open(void)
{
    struct scene scene = {.feed = feed_new(DESKS)};
    assert_non_null(scene.feed);
    for (uint32_t i = 0; i < DESKS; i++) {
        scene.reactors[i] = reactor_new(i);
        scene.desks[i] = feed_desk_open(scene.feed, i, scene.reactors[i]);
        assert_non_null(scene.desks[i]);
    }
    return scene;
}

static void scene_close(struct scene *scene)
{
    feed_free(scene->feed);
    for (uint32_t i = 0; i < DESKS; i++)
        reactor_free(scene->reactors[i]);
}

/* Sends an event as a shard does; `count` numbers it. */
static void show(struct feed_desk *desk, enum job_event_kind kind, const char *topic,
                 uint64_t count)
{
    struct job_event event = {.kind = kind,
                              .topic = slice_of(topic),
                              .id = slice_of("a"),
                              .error = slice_of("no"),
                              .count = count};
    if (feed_wants(desk, NULL) & job_event_bit(kind) && feed_admit(desk, kind, event.topic))
        feed_publish(desk, &event);
}

CLAIM(without_listeners_no_event_is_built)
{
    struct scene scene = scene_open();
    struct ear ear = ear_of(JOB_EVENTS_ALL);
    assert_int_equal(feed_wants(NULL, NULL), 0);
    assert_int_equal(feed_wants(scene.desks[0], NULL), 0);
    assert_false(feed_admit(scene.desks[0], JOB_EVENT_PUSHED, slice_of("mail")));
    assert_true(feed_listen(scene.desks[1], &ear.listener));
    assert_int_equal(feed_wants(scene.desks[0], NULL), JOB_EVENTS_ALL);
    feed_unlisten(&ear.listener);
    assert_int_equal(feed_wants(scene.desks[0], NULL), 0);
    scene_close(&scene);
}

/* ---- a listener that takes its time ---- */

enum { SLOW_US = 1000, SLOW_EVENTS = 20 };

struct slow_ear {
    struct ear ear; /* first */
    struct letter other;
    uint64_t reported_before_other;
    struct reactor *reactor;
};

static void on_other(struct letter *letter)
{
    struct slow_ear *slow = list_entry(letter, struct slow_ear, other);
    slow->reported_before_other = slow->ear.reported;
}

static void on_reported_slowly(struct feed_listener *listener, const struct job_event *event,
                               uint64_t serial)
{
    struct slow_ear *slow = (struct slow_ear *)(void *)listener;
    int64_t until_us = clock_boot_us() + SLOW_US;
    if (!slow->ear.reported)
        reactor_post(slow->reactor, &slow->other);
    while (clock_boot_us() < until_us)
        continue;
    on_notified(listener, event, serial);
}

CLAIM(other_tasks_run_while_events_are_passed_on)
{
    static const struct feed_listener_ops slow_ops = {.event = on_reported_slowly, .gap = on_gap};
    struct scene scene = scene_open();
    struct slow_ear slow = {.ear = ear_of(JOB_EVENTS_ALL), .reactor = scene.reactors[0]};
    slow.other.run = on_other;
    slow.ear.listener.ops = &slow_ops;
    slow.ear.stops = scene.reactors[0];
    slow.ear.until = SLOW_EVENTS;
    assert_true(feed_listen(scene.desks[0], &slow.ear.listener));
    for (uint64_t i = 1; i <= SLOW_EVENTS; i++)
        show(scene.desks[0], JOB_EVENT_PUSHED, "mail", i);
    reactor_run(scene.reactors[0]);
    assert_int_equal(slow.ear.reported, SLOW_EVENTS);
    assert_true(slow.ear.in_order);
    assert_in_range(slow.reported_before_other, 1, SLOW_EVENTS / 2);
    feed_unlisten(&slow.ear.listener);
    scene_close(&scene);
}

CLAIM(pages_that_are_half_handed_on_are_freed)
{
    static const struct feed_listener_ops slow_ops = {.event = on_reported_slowly, .gap = on_gap};
    struct scene scene = scene_open();
    struct slow_ear slow = {.ear = ear_of(JOB_EVENTS_ALL), .reactor = scene.reactors[0]};
    slow.other.run = on_other;
    slow.ear.listener.ops = &slow_ops;
    slow.ear.stops = scene.reactors[0];
    slow.ear.until = 1;
    assert_true(feed_listen(scene.desks[0], &slow.ear.listener));
    for (uint64_t i = 1; i <= SLOW_EVENTS; i++)
        show(scene.desks[0], JOB_EVENT_PUSHED, "mail", i);
    reactor_run(scene.reactors[0]);
    assert_in_range(slow.ear.reported, 1, SLOW_EVENTS / 2);
    feed_unlisten(&slow.ear.listener);
    scene_close(&scene);
}

CLAIM(an_event_reaches_the_listeners_of_all_desks)
{
    struct scene scene = scene_open();
    const struct slice topics[] = {slice_of("orders"), slice_of("mail")};
    struct ear all = ear_of(JOB_EVENTS_ALL), dead = ear_of(job_event_bit(JOB_EVENT_DEAD)),
               named = ear_of(JOB_EVENTS_ALL), narrow = ear_of(JOB_EVENTS_ALL);
    named.listener.topics = topics;
    named.listener.topic_count = 2;
    narrow.sees = slice_of("mail");
    all.stops = scene.reactors[0];
    all.until = 4;
    assert_true(feed_listen(scene.desks[0], &dead.listener));
    assert_true(feed_listen(scene.desks[0], &named.listener));
    assert_true(feed_listen(scene.desks[0], &narrow.listener));
    assert_true(feed_listen(scene.desks[0], &all.listener));
    show(scene.desks[0], JOB_EVENT_PUSHED, "mail", 1);
    show(scene.desks[0], JOB_EVENT_DEAD, "mail", 2);
    show(scene.desks[0], JOB_EVENT_PUSHED, "sms", 3);
    show(scene.desks[0], JOB_EVENT_DEAD, "orders", 4);
    reactor_run(scene.reactors[0]);
    assert_int_equal(all.reported, 4);
    assert_int_equal(dead.reported, 2);
    assert_int_equal(named.reported, 3);
    assert_int_equal(narrow.reported, 2);
    assert_true(all.in_order && dead.in_order && named.in_order && narrow.in_order);
    assert_string_equal(all.id, "a");
    assert_string_equal(all.error, "no");
    assert_int_equal(all.last.kind, JOB_EVENT_DEAD);
    feed_unlisten(&dead.listener);
    feed_unlisten(&named.listener);
    feed_unlisten(&narrow.listener);
    feed_unlisten(&all.listener);
    scene_close(&scene);
}

/* Events of a busy topic that no listener named are not admitted, so they use no room. */
CLAIM(an_unrequested_topic_takes_no_room)
{
    struct scene scene = scene_open();
    const struct slice quiet = slice_of("quiet");
    struct ear ear = ear_of(JOB_EVENTS_ALL);
    ear.listener.topics = &quiet;
    ear.listener.topic_count = 1;
    ear.stops = scene.reactors[0];
    ear.until = 1;
    assert_true(feed_listen(scene.desks[0], &ear.listener));
    for (uint64_t i = 1; i <= MANY; i++)
        show(scene.desks[0], JOB_EVENT_PUSHED, "busy", i);
    show(scene.desks[0], JOB_EVENT_PUSHED, "quiet", 1);
    reactor_run(scene.reactors[0]);
    assert_int_equal(ear.reported, 1);
    assert_int_equal(ear.lost, 0);
    feed_unlisten(&ear.listener);
    scene_close(&scene);
}

/* More than there is room for: lost events are counted, and no event is sent twice or in between. */
CLAIM(lost_events_are_reported_by_their_number)
{
    struct scene scene = scene_open();
    struct ear ear = ear_of(JOB_EVENTS_ALL);
    ear.stops = scene.reactors[0];
    ear.until = MANY;
    assert_true(feed_listen(scene.desks[0], &ear.listener));
    for (uint64_t i = 1; i <= MANY; i++)
        show(scene.desks[0], JOB_EVENT_PUSHED, "mail", i);
    feed_lose(scene.desks[0], 5);
    ear.until += 5;
    reactor_run(scene.reactors[0]);
    assert_int_equal(ear.reported + ear.lost, MANY + 5);
    assert_true(ear.reported > 0 && ear.reported <= FEED_BURST && ear.lost >= MANY - FEED_BURST);
    assert_true(ear.in_order);
    feed_unlisten(&ear.listener);
    scene_close(&scene);
}

/* However many listen, one desk hands out no more than its budget. */
CLAIM(many_listeners_share_the_room)
{
    enum { LISTENERS = 64, EVENTS = 1000 };
    struct scene scene = scene_open();
    static struct ear ears[LISTENERS];
    uint64_t reported = 0;
    for (int i = 0; i < LISTENERS; i++) {
        ears[i] = ear_of(JOB_EVENTS_ALL);
        assert_true(feed_listen(scene.desks[0], &ears[i].listener));
    }
    for (uint64_t i = 1; i <= EVENTS; i++)
        show(scene.desks[0], JOB_EVENT_PUSHED, "mail", i);
    ears[0].stops = scene.reactors[0];
    ears[0].until = FEED_BURST / LISTENERS; /* all of them are sent in one iteration */
    reactor_run(scene.reactors[0]);
    for (int i = 0; i < LISTENERS; i++) {
        reported += ears[i].reported;
        assert_true(ears[i].reported > 0 && ears[i].in_order);
        feed_unlisten(&ears[i].listener);
    }
    assert_true(reported <= FEED_BURST + FEED_BURST / 4);
    scene_close(&scene);
}

CLAIM(a_listener_may_end_inside_its_callback)
{
    struct scene scene = scene_open();
    struct ear first = ear_of(JOB_EVENTS_ALL), second = ear_of(JOB_EVENTS_ALL);
    first.ends = true;
    second.stops = scene.reactors[0];
    second.until = 3;
    assert_true(feed_listen(scene.desks[0], &first.listener));
    assert_true(feed_listen(scene.desks[0], &second.listener));
    for (uint64_t i = 1; i <= 3; i++)
        show(scene.desks[0], JOB_EVENT_ACKED, "mail", i);
    reactor_run(scene.reactors[0]);
    assert_int_equal(first.reported, 1);
    assert_int_equal(second.reported, 3);
    feed_unlisten(&second.listener);
    scene_close(&scene);
}

/* ---- between threads ---- */

enum { ROUNDS = 200, EACH_ROUND = 40 };

/* A sender on its reactor's thread, which adds a listener now and then. */
struct worker_life {
    struct letter letter;
    struct scene *scene;
    uint32_t desk;
    int rounds;
    uint64_t number;
    struct ear ear;
    bool is_listening;
};

static void worker_round(struct letter *letter)
{
    struct worker_life *life = (struct worker_life *)(void *)letter;
    struct feed_desk *desk = life->scene->desks[life->desk];
    for (int i = 0; i < EACH_ROUND; i++)
        show(desk, JOB_EVENT_PUSHED, life->desk ? "b" : "a", ++life->number);
    if (life->is_listening)
        feed_unlisten(&life->ear.listener);
    else
        assert_true(feed_listen(desk, &life->ear.listener));
    life->is_listening = !life->is_listening;
    if (++life->rounds < ROUNDS)
        reactor_post(life->scene->reactors[life->desk], &life->letter);
    else
        reactor_stop(life->scene->reactors[life->desk]);
}

CLAIM(threads_send_and_listen_in_parallel)
{
    struct scene scene = scene_open();
    struct worker_life lives[DESKS];
    for (uint32_t i = 0; i < DESKS; i++) {
        lives[i] = (struct worker_life){
            .letter.run = worker_round, .scene = &scene, .desk = i, .ear = ear_of(JOB_EVENTS_ALL)};
        reactor_post(scene.reactors[i], &lives[i].letter);
    }
    for (uint32_t i = 0; i < DESKS; i++)
        assert_int_equal(reactor_start(scene.reactors[i]), 0);
    for (uint32_t i = 0; i < DESKS; i++)
        reactor_join(scene.reactors[i]);
    scene_close(&scene);
}

/* The other reactor's thread sends, this one listens. */
struct speaker {
    struct letter letter;
    struct scene *scene;
};

static void speaker_run(struct letter *letter)
{
    struct speaker *speaker = (struct speaker *)(void *)letter;
    for (uint64_t i = 1; i <= 500; i++)
        show(speaker->scene->desks[1], JOB_EVENT_DUE, "mail", i);
    reactor_stop(speaker->scene->reactors[1]);
}

CLAIM(events_of_another_thread_arrive_in_order)
{
    struct scene scene = scene_open();
    struct ear ear = ear_of(job_event_bit(JOB_EVENT_DUE));
    struct speaker speaker = {.letter.run = speaker_run, .scene = &scene};
    ear.stops = scene.reactors[0];
    ear.until = 500;
    assert_true(feed_listen(scene.desks[0], &ear.listener));
    reactor_post(scene.reactors[1], &speaker.letter);
    assert_int_equal(reactor_start(scene.reactors[1]), 0);
    reactor_run(scene.reactors[0]);
    reactor_join(scene.reactors[1]);
    assert_int_equal(ear.reported, 500);
    assert_true(ear.in_order);
    feed_unlisten(&ear.listener);
    scene_close(&scene);
}

CLAIMS_MAIN(NULL, NULL)
