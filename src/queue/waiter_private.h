/* The waiters' own structures, shared by waiter*.c only. */
#ifndef TARRY_QUEUE_WAITER_PRIVATE_H
#define TARRY_QUEUE_WAITER_PRIVATE_H

#include "base/list.h"
#include "base/slab.h"
#include "queue/waiter.h"

/*
 * The line of those who wait for one topic, in the order they came. It exists while somebody stands
 * in it.
 *
 * `may_have` says that asking the queue is worth while. It is cleared only by an empty answer, and
 * only in a line that is watched: so either somebody may ask at once, or on_ready will come.
 *
 * `window` bounds how many takes of a line are under way. A wake-up begins with one, for the head
 * alone; every answer with jobs doubles it, an empty one sets it back. So a single job does not set
 * off a stampede, and a backlog is not handed out one by one.
 */
struct line {
    struct line *next; /* the map's chain */
    struct list todo;  /* in waiters.todo, or alone */
    struct list slots; /* of struct slot, first come first */
    uint64_t hash;
    uint64_t news;   /* how often on_ready came */
    uint32_t asking; /* takes under way for it */
    uint32_t window; /* and how many there may be */
    bool may_have;
    bool watched;
    struct slice name; /* own memory, behind the struct */
};

/* One place of one waiter in one line. */
struct slot {
    struct list node;
    struct line *line;
    struct waiter *waiter;
    uint64_t asked_news; /* line.news when it asked */
    bool asked;          /* its waiter's take under way is for this line too */
};

/* A take that was not answered yet. */
struct waiter {
    uint32_t slab_link; /* the slab's */
    uint32_t heap_at;   /* place in the heap of deadlines, from 1; 0: not there */
    uint64_t handle;
    waiter_done *done;
    void *owner;
    uint64_t tag;
    int64_t deadline_ms;
    int64_t lease_ms;
    uint32_t max;
    uint32_t slot_count; /* 0: it does not wait */
    struct slot *slots;  /* in the order its topics were named */
    struct slot only;    /* room for the common case of one topic */
    struct list failed;  /* in waiters.failed, or alone */
    bool asking;         /* a take of it is under way */
    bool over;           /* its wait ended meanwhile: the take's answer is its answer */
    bool cancelled;      /* nobody wants the answer */
    bool crowded_out;    /* it would wait, but too many do */
};

struct waiters {
    struct queue *queue;
    struct slab slab; /* of struct waiter */
    uint32_t generation;
    size_t waiting_max;
    size_t waiting; /* with slots, and not cancelled */
    size_t asking;
    int64_t now_ms; /* as last told */
    bool draining;
    struct list todo;   /* lines that may go on */
    struct list failed; /* waiters to be told that memory ran out */

    struct line **buckets; /* map of lines by name; a power of two in size */
    size_t bucket_count, line_count;

    struct waiter **heap; /* by deadline_ms, from 1 */
    size_t heap_count, heap_cap;
};

/* ---- waiter_line.c: the map of lines ---- */
bool waiter_lines_init(struct waiters *waiters);
void waiter_lines_fini(struct waiters *waiters);
struct line *waiter_line_find(const struct waiters *waiters,
                              struct slice topic); /* NULL when absent */
/* Finds or makes it. NULL: out of memory. */
struct line *waiter_line_need(struct waiters *waiters, struct slice topic);
void waiter_line_remove(struct waiters *waiters, struct line *line);

/* ---- waiter_heap.c: whose wait is over next ---- */
bool waiter_heap_reserve(struct waiters *waiters); /* room for one more */
void waiter_heap_add(struct waiters *waiters, struct waiter *waiter);
/* Does nothing where it is not there. */
void waiter_heap_remove(struct waiters *waiters, struct waiter *waiter);
struct waiter *waiter_heap_first(const struct waiters *waiters); /* NULL when empty */

#endif
