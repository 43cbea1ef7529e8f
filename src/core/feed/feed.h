/*
 * feed: what happens to jobs and topics, from the threads where it happens to whoever listens. Never a
 * brake: nobody who tells waits, and what is told is bounded.
 *
 * A server has one feed, and in it a desk for each reactor. Telling and listening are done at the desk
 * of one's own reactor, on its thread. What a desk is told is gathered into a page, and a page goes to
 * every desk with listeners FEED_PAGE_MS after the last one at the earliest (and FEED_PAGE_MS_EACH more
 * for each listener, since each costs something), whole, by one letter however many pages wait.
 *
 * While nobody listens a call costs one relaxed load (feed_has_changed). While somebody does, only what he
 * wants is told: a busy topic that nobody named takes nothing from a quiet one that somebody did.
 *
 * Bounds, beyond which events are lost, and their number told (`gap`) before the next one: FEED_RATE
 * events a second for a desk to tell (as many as FEED_BURST at once), and as many again for one to
 * hand to its listeners, all together; FEED_WAITING_BYTES_MAX of pages on their way to a desk.
 *
 * Events of one desk come in the order in which they were told; those of two in any.
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

/* With so many desks. NULL: out of memory. */
struct feed *feed_new(uint32_t desks);
/* Once no reactor of its desks runs any more, and before they are freed; nobody listens. NULL is
 * fine. */
void feed_free(struct feed *feed);

/* Before the reactor runs: its desk, as long as the feed. NULL: out of memory or descriptors. */
struct feed_desk *feed_desk_open(struct feed *feed, uint32_t index, struct reactor *reactor);
/* The one that was opened. */
struct feed_desk *feed_desk_at(const struct feed *feed, uint32_t index);

/* ---- telling ---- */

/* Tells whether what is wanted may be other kinds than when it was asked for: one relaxed load. */
struct feed_watch {
    const _Atomic uint64_t *version;
    uint64_t known;
};
static inline bool feed_has_changed(const struct feed_watch *watch)
{
    return __builtin_expect(
        atomic_load_explicit(watch->version, memory_order_relaxed) != watch->known, 0);
}
/* Of a desk; of NULL it never changes. */
struct feed_watch feed_watch_of(const struct feed_desk *desk);

/* The kinds that somebody wants, of some topic, a bit each (job_event_bit); 0: nobody listens, or
 * `desk` is NULL. `watch` (or NULL) is of this moment. */
uint32_t feed_wants(struct feed_desk *desk, struct feed_watch *watch);

/* Whether an event of this kind is to be told: somebody wants it, and there is room. Where there is
 * none it counts as lost. After true comes one feed_tell, or feed_lose of one. */
bool feed_admit(struct feed_desk *desk, enum job_event_kind kind, struct slice topic);
/* One that was admitted. It is copied. */
void feed_tell(struct feed_desk *desk, const struct job_event *event);
/* So many will not be told. */
void feed_lose(struct feed_desk *desk, uint64_t events);

/* ---- listening ---- */

struct feed_listener;
struct feed_listener_ops {
    /* Not inside a call of the feed. What the event points at is good during the call. `serial` is
     * another one for each event of the desk: all listeners are told of one before the next. It may
     * end this listener, and no other. */
    void (*told)(struct feed_listener *listener, const struct job_event *event, uint64_t serial);
    void (*gap)(struct feed_listener *listener, uint64_t lost);
    /* Whether he may see the topic. NULL: every one. */
    bool (*may_see)(struct feed_listener *listener, struct slice topic);
};

/* Embed it. */
struct feed_listener {
    const struct feed_listener_ops *ops;
    uint32_t kinds;             /* that he wants, a bit each */
    uint32_t topic_count;       /* 0: all topics; at most JOB_EVENT_TOPICS_MAX */
    const struct slice *topics; /* his own memory as long as he listens */
    struct list list, all;      /* the desk's and the feed's, from here on */
    struct feed_desk *desk;
    uint64_t lost; /* not told yet */
};

/* What happens from now on is told; what other desks were told before may come, too. False: out of
 * memory. */
bool feed_listen(struct feed_desk *desk, struct feed_listener *listener);
void feed_unlisten(struct feed_listener *listener);

#endif
