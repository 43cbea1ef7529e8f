/*
 * feed: events of jobs and topics, from the threads where they occur to the listeners. It never slows the sender: a
 * sender does not wait, and the number of events is bounded.
 *
 * A server has one feed, with a desk for each reactor. A thread sends and listens at the desk of its own reactor. The
 * events of a desk are gathered into a page. A page is sent to every desk with listeners, at the earliest
 * FEED_PAGE_MS after the previous one (and FEED_PAGE_MS_EACH more for each listener, for its cost). It is sent whole,
 * by one letter for all waiting pages.
 *
 * Without listeners a call costs one relaxed load (feed_has_changed). With listeners, only the requested events are
 * sent: a busy topic without listeners takes no room from a quiet one that has some.
 *
 * Bounds, beyond which events are lost, and their number is reported (`gap`) before the next event: FEED_RATE events
 * a second that a desk may send (up to FEED_BURST in a burst), and as many again that a desk may pass to its
 * listeners, all together; FEED_WAITING_BYTES_MAX of pages on their way to a desk.
 *
 * Events of one desk arrive in the order in which they were sent; those of two desks in any order.
 */
#ifndef TARRY_FEED_FEED_H
#define TARRY_FEED_FEED_H

#include "base/list.h"
#include "job/event.h"
#include "net/reactor.h"

#include <stdatomic.h>

enum {
    FEED_RATE = 10000,
    FEED_BURST = 8192,
    FEED_PAGE_MS = 20,
    FEED_PAGE_MS_EACH = 2,
    FEED_PAGE_BYTES_MAX = 1 << 20,
    FEED_WAITING_BYTES_MAX = 4 << 20
};

struct feed;
struct feed_desk;

/* Creates a feed with this number of desks. NULL: out of memory. */
struct feed *feed_new(uint32_t desks);
/* Frees a feed, once no reactor of its desks runs, before the reactors are freed, and without listeners. NULL is
 * allowed. */
void feed_free(struct feed *feed);

/* Opens the desk of a reactor, before the reactor runs; it lives as long as the feed. NULL: out of memory or
 * descriptors. */
struct feed_desk *feed_desk_open(struct feed *feed, uint32_t index, struct reactor *reactor);
/* Returns a desk that was opened. */
struct feed_desk *feed_desk_at(const struct feed *feed, uint32_t index);

/* ---- sending ---- */

/* Detects a change of the requested kinds since a call of feed_wants: one relaxed load. */
struct feed_watch {
    const _Atomic uint64_t *version;
    uint64_t known;
};
static inline bool feed_has_changed(const struct feed_watch *watch)
{
    return __builtin_expect(
        atomic_load_explicit(watch->version, memory_order_relaxed) != watch->known, 0);
}
/* Returns the watch of a desk; of NULL it never changes. */
struct feed_watch feed_watch_of(const struct feed_desk *desk);

/* Returns the kinds that any listener requests, of any topic, a bit each (job_event_bit); 0: there is no listener,
 * or `desk` is NULL. `watch` (or NULL) is set to this moment. */
uint32_t feed_wants(struct feed_desk *desk, struct feed_watch *watch);

/* Returns whether to send an event of this kind: a listener requests it, and there is room. Without room it counts
 * as lost. After true the caller must call feed_publish once, or feed_lose with 1. */
bool feed_admit(struct feed_desk *desk, enum job_event_kind kind, struct slice topic);
/* Sends an event that was admitted. It is copied. */
void feed_publish(struct feed_desk *desk, const struct job_event *event);
/* Counts events that will not be sent. */
void feed_lose(struct feed_desk *desk, uint64_t events);

/* ---- listening ---- */

struct feed_listener;
struct feed_listener_ops {
    /* Receives an event, not inside a call of the feed. Pointers in the event are valid during the call. `serial`
     * differs for each event of the desk: all listeners receive one event before the next. The callback may end
     * this listener, but no other. */
    void (*event)(struct feed_listener *listener, const struct job_event *event, uint64_t serial);
    void (*gap)(struct feed_listener *listener, uint64_t lost);
    /* Returns whether the listener may see the topic. NULL: every topic. */
    bool (*may_see)(struct feed_listener *listener, struct slice topic);
};

/* A listener, embedded in a structure of its owner. */
struct feed_listener {
    const struct feed_listener_ops *ops;
    uint32_t kinds;             /* requested kinds, a bit each */
    uint32_t topic_count;       /* 0: all topics; at most JOB_EVENT_TOPICS_MAX */
    const struct slice *topics; /* memory of the listener, valid while it listens */
    struct list list, all;      /* of the desk and of the feed; private from here on */
    struct feed_desk *desk;
    uint64_t lost; /* not reported yet */
};

/* Starts to listen: events from now on are received; earlier ones of other desks may also arrive. False: out of
 * memory. */
bool feed_listen(struct feed_desk *desk, struct feed_listener *listener);
void feed_unlisten(struct feed_listener *listener);

#endif
