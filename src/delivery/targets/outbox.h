/*
 * outbox: what a target keeps of each message until its report: its tag, its time, where it stands.
 *
 * Brokers differ in how they are connected to and how they confirm, not in what target.h promises.
 * The outbox keeps these promises for all of them:
 *   - each message is reported exactly once, at the end of a turn, never inside a call (rule 3)
 *   - what was lost is UNSENT where nothing of it left, else FAILED (rule 4)
 *   - when a message's time is over the kind is asked to settle it (rule 5)
 *   - what a library or thread still holds is kept, though reported long ago, until it is returned
 *   - `closed` comes after the last report and after the kind has said that its peer is gone
 *
 * A message goes from `waiting` to `sent` to `settled`; it may be settled from either. A kind embeds
 * struct outbox_message first in its own, and struct outbox in its target; both are the kind's
 * memory. One thread, the reactor's. A fifth broker brings connect, write and what its confirms
 * mean; stomp_target.c shows how little else it needs.
 */
#ifndef TARRY_TARGETS_OUTBOX_H
#define TARRY_TARGETS_OUTBOX_H

#include "base/list.h"
#include "targets/target.h"

enum outbox_stage {
    OUTBOX_WAITING = 1, /* here */
    OUTBOX_SENT,        /* waits for its confirm */
    OUTBOX_SETTLED,     /* `report` holds and goes out at the end of the turn */
    OUTBOX_REPORTED     /* and is held by somebody */
};

struct outbox_message {
    struct list list; /* the outbox's, one for each stage */
    enum outbox_stage stage;
    bool has_left; /* the kind's: the peer may have got some of it */
    bool is_held;  /* the kind's: a library or a thread has it; outbox_return ends that */
    uint64_t tag;
    int64_t added_ms, timeout_ms, until_ms; /* inner clock */
    struct buffer *explained;               /* or NULL; only until the report */
    struct target_report report;            /* from OUTBOX_SETTLED on */
};

struct outbox_kind { /* none of them is called inside a call, but for `settled` */
    /* Its time is over: settle it. */
    void (*overdue)(void *ctx, struct outbox_message *message);
    /* It has just been settled: what only its way needed may go. May be NULL. */
    void (*settled)(void *ctx, struct outbox_message *message);
    /* Lines for people are wanted: append to message->explained. */
    void (*explain)(void *ctx, const struct outbox_message *message);
    /* It is reported and nobody holds it: free it. */
    void (*free_message)(void *ctx, struct outbox_message *message);
    /* After overdue ones were settled: the kind's own times. May be NULL. */
    void (*woken)(void *ctx, int64_t now_ms);
    /* At the end of a turn in which something was settled or asked for, before the reports. May be
     * NULL. */
    void (*turned)(void *ctx);
    /* Nothing is left to report and the peer is gone: frees the target, and its outbox with it. */
    void (*free_target)(void *ctx);
};

struct outbox {
    const struct target_env *env;
    const struct outbox_kind *kind;
    void *ctx;
    struct list waiting, sent, settled, held; /* in the order they came there */
    struct deadline *deadline;
    int64_t deadline_ms;
    struct turn_end_call turn_end;
    bool is_gone;              /* the kind's peer and threads are */
    void (*closed)(void *ctx); /* set: it is being closed */
    void *closed_ctx;
};

/* False: out of memory or descriptors; nothing is left behind. */
bool outbox_init(struct outbox *outbox, const struct target_env *env,
                 const struct outbox_kind *kind, void *ctx);
/* For a target that could not be opened, without a message. Else the outbox ends by itself. */
void outbox_fini(struct outbox *outbox);

/* A new message waits; it was zeroed. Its time is its setting's `timeout_ms` and `grace_ms`, for a
 * library that keeps the time as well and knows more when it is over. */
void outbox_add(struct outbox *outbox, struct outbox_message *message,
                const struct target_message *from, int64_t grace_ms);
/* All of it is on its way: it waits for its confirm. */
void outbox_mark_sent(struct outbox *outbox, struct outbox_message *message);

/* What became of it; it was not settled before. */
void outbox_settle(struct outbox *outbox, struct outbox_message *message,
                   const struct target_report *report);
void outbox_settle_as(struct outbox *outbox, struct outbox_message *message,
                      enum target_outcome outcome, bool is_ailing, const char *error);
/* It is lost, and its peer is to blame: UNSENT where nothing has left, else FAILED. */
void outbox_lose(struct outbox *outbox, struct outbox_message *message, const char *error);
/* So are all that are sent, or these and all that wait. */
void outbox_lose_sent(struct outbox *outbox, const char *error);
void outbox_lose_all(struct outbox *outbox, const char *error);

/* Nobody holds it any more: it is freed once it is reported, or now. It has been settled. */
void outbox_return(struct outbox *outbox, struct outbox_message *message);
/* The same for all that are settled or reported: whoever held them is gone. */
void outbox_return_all(struct outbox *outbox);

/* Calls `woken` then at the latest. */
void outbox_wake_at(struct outbox *outbox, int64_t at_ms);
/* Calls `turned` at the end of this turn. */
void outbox_turn(struct outbox *outbox);

/* As target.h's close. The kind then ends what is under way, and says when nothing is. */
void outbox_close(struct outbox *outbox, void (*closed)(void *ctx), void *ctx);
void outbox_gone(struct outbox *outbox);

/* Pauses between tries to reach a peer: 100 ms after a failure, doubled with each up to 5 s. Zeroed:
 * none. Any thread, any clock. */
struct outbox_pause {
    uint32_t failures; /* in a row */
    int64_t until_ms;
};
void outbox_pause_longer(struct outbox_pause *pause, int64_t now_ms);

#endif
