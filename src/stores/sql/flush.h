/*
 * flush: makes transactions durable whose commits do not wait for the disk.
 *
 * Calls that are committed, but must not be answered before they are on disk, wait here. A second
 * connection makes everything durable that was committed before: a database writes one log, so a
 * later entry is never on disk without the earlier ones. In the meantime, transactions that need
 * not wait for the disk continue. If the connection is lost, the calls stay here for the next one.
 *
 * A flush costs one more round trip than a commit that waits by itself. It is chosen if takes
 * arrive while a slow disk is waited for.
 *
 * Used on the reactor's thread only. A dialect without send_flush has no flush: its commits wait.
 */
#ifndef TARRY_SQL_FLUSH_H
#define TARRY_SQL_FLUSH_H

#include "net/reactor.h"
#include "sql/call.h"
#include "sql/dialect.h"

struct sql_flush {
    struct reactor *reactor;
    struct sql_link *link; /* NULL: no connection, or the dialect does not need a flush */
    uv_poll_t *poll;
    struct list calls; /* in commit order */
    bool is_under_way;
    bool is_over;     /* all of `calls` are on disk */
    bool is_lost;     /* the connection is no longer usable */
    bool is_cut;      /* a flush was in progress when the connection ended */
    int64_t begun_us; /* elapsed time */
    int64_t disk_us;  /* average time for which a flush or a commit waits for the disk */
    int overlaps;     /* number of further durable transactions that may be flushed */
};

void sql_flush_init(struct sql_flush *flush, struct reactor *reactor);
/* Returns false if out of memory; there is then no need to disconnect. */
bool sql_flush_connect(struct sql_flush *flush, struct sql_link *link);
void sql_flush_disconnect(struct sql_flush *flush);

/* Returns true if the transaction that begins is to be flushed after its commit. `is_durable`: the
 * transaction has calls that must be durable. */
bool sql_flush_choose(struct sql_flush *flush, bool is_durable);
/* Notes a take, which does not need the disk, that arrived while a commit or a flush waits for it. */
void sql_flush_note_take(struct sql_flush *flush);
/* Notes that a commit or a flush that began at `begun_us` has waited for the disk. */
void sql_flush_note_disk(struct sql_flush *flush, int64_t begun_us);

/* Returns true if the disk is busy with earlier transactions, so that durable calls should be
 * collected. */
bool sql_flush_is_busy(const struct sql_flush *flush);
/* Adds a committed call. Must not be called during a flush. */
void sql_flush_add(struct sql_flush *flush, struct sql_call *call);
/* Begins a flush if there are calls and no flush is in progress. */
void sql_flush_begin(struct sql_flush *flush);
/* Takes the calls that are on disk after a flush has ended. */
void sql_flush_take(struct sql_flush *flush, struct list *out);
/* Takes the calls that were committed under a number above `ticket`. The database has lost them, so
 * they must be repeated. */
void sql_flush_take_lost(struct sql_flush *flush, int64_t ticket, struct list *out);

#endif
