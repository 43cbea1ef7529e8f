/*
 * flush: the disk, for turns whose commits do not wait for it.
 *
 * Calls that are committed, and may be answered once the disk has them, wait here. A connection beside
 * the one of the turns makes all durable that was committed before: databases write one log, so what
 * is in it later is never there without what was in it before. Meanwhile turns of what need not wait
 * for the disk go on. Where the connection is lost the calls stay, for the next one.
 *
 * A flush costs one more round trip than a commit that waits by itself: it is chosen where takes come
 * while a slow disk is waited for.
 *
 * Everything on the reactor's thread. A dialect without send_flush has none: its commits wait.
 */
#ifndef TARRY_SQL_FLUSH_H
#define TARRY_SQL_FLUSH_H

#include "net/reactor.h"
#include "sql/call.h"
#include "sql/dialect.h"

struct sql_flush {
    struct reactor *reactor;
    struct sql_link *link; /* NULL: none is there, or the dialect has no need of it */
    uv_poll_t *poll;
    struct list calls; /* in the order of their commits */
    bool is_under_way;
    bool is_over;     /* the disk has all of `calls` */
    bool is_lost;     /* the connection is of no use any more */
    bool is_cut;      /* it was under way when the connection ended */
    int64_t begun_us; /* elapsed */
    int64_t disk_us;  /* how long the disk is waited for, by a flush or by a commit */
    int overlaps;     /* so many more durable turns may be flushed */
};

void sql_flush_init(struct sql_flush *flush, struct reactor *reactor);
/* False: out of memory, and there is nothing to disconnect. */
bool sql_flush_connect(struct sql_flush *flush, struct sql_link *link);
void sql_flush_disconnect(struct sql_flush *flush);

/* Is a turn that begins to be flushed after its commit? `is_durable`: it has what must be. */
bool sql_flush_choose(struct sql_flush *flush, bool is_durable);
/* A take, which needs no disk, came while a commit or a flush waits for one. */
void sql_flush_note_take(struct sql_flush *flush);
/* A commit or a flush that began then has waited for the disk. */
void sql_flush_note_disk(struct sql_flush *flush, int64_t begun_us);

/* Is the disk busy with turns before, so that what is to be durable collects? */
bool sql_flush_is_busy(const struct sql_flush *flush);
/* Only while none is under way. */
void sql_flush_add(struct sql_flush *flush, struct sql_call *call);
/* Where there are calls, and it is not under way. */
void sql_flush_begin(struct sql_flush *flush);
/* When it is over: the calls that the disk has by now. */
void sql_flush_take(struct sql_flush *flush, struct list *out);
/* Those that were committed under a later number, which the database has lost; to go again. */
void sql_flush_take_lost(struct sql_flush *flush, int64_t ticket, struct list *out);

#endif
