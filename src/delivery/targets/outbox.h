/*
 * outbox: the state of a target's messages until their reports: tag, timeout, stage, text.
 *
 * Brokers differ in their connections and confirms, but not in the guarantees of target.h. The
 * outbox provides these for all of them:
 *   - each message is reported exactly once, at the end of a loop iteration, never inside a call
 *     (rule 3)
 *   - a lost message is UNSENT if nothing of it was sent, else FAILED (rule 4)
 *   - when a message times out, the kind is asked to settle it (rule 5)
 *   - a message that a library or thread still holds is kept after its report until it is returned
 *   - `closed` is called after the last report, and after the kind has reported that its peer is
 *     gone
 *
 * A message goes from `waiting` to `sent` to `settled`; it may be settled from both. A kind embeds
 * struct outbox_message as the first member of its message, and struct outbox in its target; it
 * owns the memory of both. Used on the reactor's thread. A further broker only has to implement
 * connecting, writing and the meaning of its confirms; stomp/target.c is an example.
 */
#ifndef TARRY_TARGETS_OUTBOX_H
#define TARRY_TARGETS_OUTBOX_H

#include "base/list.h"
#include "targets/target.h"

enum outbox_stage {
    OUTBOX_WAITING = 1, /* not sent yet */
    OUTBOX_SENT,        /* waits for its confirm */
    OUTBOX_SETTLED,     /* `report` is set and is sent at the end of the loop iteration */
    OUTBOX_REPORTED     /* reported, but still held */
};

struct outbox_message {
    struct list list; /* used by the outbox, one for each stage */
    enum outbox_stage stage;
    bool has_left; /* set by the kind: the peer may have received part of it */
    bool is_held;  /* set by the kind: a library or a thread holds it; outbox_return ends that */
    uint64_t tag;
    int64_t added_ms, timeout_ms, until_ms; /* inner clock */
    struct buffer *explained;               /* or NULL; only until the report */
    struct buffer text;                     /* see outbox_hold_text */
    struct target_report report;            /* set from OUTBOX_SETTLED on */
};

struct outbox_kind { /* never called inside a call, except `settled` */
    /* Called when it has timed out; has to settle it. outbox_lose_overdue is the shortest. */
    void (*overdue)(void *ctx, struct outbox_message *message);
    /* Called when it was settled; may free data that was only needed for sending. May be NULL. */
    void (*settled)(void *ctx, struct outbox_message *message);
    /* Called if an explanation is requested; appends to message->explained. */
    void (*explain)(void *ctx, const struct outbox_message *message);
    /* Called when it is reported and no longer held; has to free it. NULL: free. */
    void (*free_message)(void *ctx, struct outbox_message *message);
    /* Called after overdue messages were settled, for the kind's own timers. May be NULL. */
    void (*woken)(void *ctx, int64_t now_ms);
    /* Called before the reports at the end of a loop iteration in which a message was settled or
     * this was requested. May be NULL. */
    void (*iteration_end)(void *ctx);
    /* Called when nothing is left to report and the peer is gone; frees the target and its
     * outbox. NULL: free. */
    void (*free_target)(void *ctx);
};

struct outbox {
    const struct target_env *env;
    const struct outbox_kind *kind;
    void *ctx;
    size_t text_bytes;                        /* of all messages */
    struct list waiting, sent, settled, held; /* in order of arrival */
    struct deadline *deadline;
    int64_t deadline_ms;
    struct iteration_end_call iteration_end;
    bool is_gone;              /* the kind's peer and threads have ended */
    void (*closed)(void *ctx); /* set while the target is being closed */
    void *closed_ctx;
};

/* Returns false without memory or descriptors; nothing has to be freed then. */
bool outbox_init(struct outbox *outbox, const struct target_env *env,
                 const struct outbox_kind *kind, void *ctx);
/* Frees the outbox of a target that could not be opened, without messages. Otherwise the outbox
 * frees itself. */
void outbox_fini(struct outbox *outbox);

/* Adds a new message as waiting; it has to be zeroed. Its timeout is its setting's `timeout_ms`
 * plus `grace_ms`. The grace is for a library that has the same timeout and can report more when it
 * expires. */
void outbox_add(struct outbox *outbox, struct outbox_message *message,
                const struct target_message *from, int64_t grace_ms);
/* Counts message->text, which the kind has filled with what it is going to send. Returns NULL, or
 * the reason if the message cannot wait: it is then to be settled as UNSENT. The outbox frees the
 * text when the message is settled. */
const char *outbox_hold_text(struct outbox *outbox, const struct outbox_message *message);
/* Frees the text when it is no longer needed, if the kind does not wait until it is settled. */
void outbox_drop_text(struct outbox *outbox, struct outbox_message *message);
/* Marks a message as completely sent: it waits for its confirm. */
void outbox_mark_sent(struct outbox *outbox, struct outbox_message *message);

/* Sets the result of a message that was not settled before. */
void outbox_settle(struct outbox *outbox, struct outbox_message *message,
                   const struct target_report *report);
void outbox_settle_as(struct outbox *outbox, struct outbox_message *message,
                      enum target_outcome outcome, bool is_ailing, const char *error);
/* Settles a lost message as a fault of the peer: UNSENT if nothing was sent, else FAILED. */
void outbox_lose(struct outbox *outbox, struct outbox_message *message, const char *error);
/* Settles an overdue message in the same way: "timed out after 10000 ms". */
void outbox_lose_overdue(struct outbox *outbox, struct outbox_message *message);
/* Do the same for all sent messages, or for all sent and waiting ones. */
void outbox_lose_sent(struct outbox *outbox, const char *error);
void outbox_lose_all(struct outbox *outbox, const char *error);

/* Ends the hold on a settled message: frees it after its report, or now. */
void outbox_return(struct outbox *outbox, struct outbox_message *message);
/* Does the same for all settled or reported messages, when the holder is gone. */
void outbox_return_all(struct outbox *outbox);

/* Calls `woken` at that time at the latest. */
void outbox_wake_at(struct outbox *outbox, int64_t at_ms);
/* Calls `iteration_end` at the end of this loop iteration. */
void outbox_call_at_iteration_end(struct outbox *outbox);

/* Closes the target as in target.h. The kind then ends everything in progress, and calls
 * outbox_gone when nothing is left. */
void outbox_close(struct outbox *outbox, void (*closed)(void *ctx), void *ctx);
void outbox_gone(struct outbox *outbox);

/* Pause between connection attempts: 100 ms after a failure, doubled with each one up to 5 s. All
 * zero: no pause. Any thread, any clock. */
struct outbox_pause {
    uint32_t failures; /* consecutive failures */
    int64_t until_ms;
};
void outbox_pause_longer(struct outbox_pause *pause, int64_t now_ms);

#endif
