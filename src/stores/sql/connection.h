/*
 * connection: a session's connection to the database on the reactor's loop: the link for
 * transactions, which is advanced when its socket is ready, the second connection for the disk, and
 * the connector, which makes the next connection.
 *
 * Used on the reactor's thread only.
 */
#ifndef TARRY_SQL_CONNECTION_H
#define TARRY_SQL_CONNECTION_H

#include "net/reactor.h"
#include "net/worker.h"
#include "sql/call.h"
#include "sql/dialect.h"

/* ---- flushes ---- */

/*
 * Makes transactions durable whose commits do not wait for the disk.
 *
 * Calls that are committed, but must not be answered before they are on disk, wait here. A second
 * connection makes everything durable that was committed before: a database writes one log, so a
 * later entry is never on disk without the earlier ones. In the meantime, transactions that need
 * not wait for the disk continue. If the connection is lost, the calls stay here for the next one.
 *
 * A flush costs one more round trip than a commit that waits by itself. It is chosen if takes
 * arrive while a slow disk is waited for, or while the commit of fires is waited for.
 *
 * Used on the reactor's thread only. A dialect without send_flush has no flush: its commits wait.
 */
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
 * transaction has calls that must be durable. `is_of_schedules`: it is one of many, for which takes
 * would wait even on a fast disk. */
bool sql_flush_choose(struct sql_flush *flush, bool is_durable, bool is_of_schedules);
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

/* ---- the connection ---- */

struct sql_connection {
    struct reactor *reactor;
    struct sql_context *context; /* owner of the link; its link is NULL if not connected */
    struct sql_flush flush;
    uv_poll_t *poll;
    int poll_events;
    bool is_lost; /* no longer usable, must be closed */
    /* Called when data has arrived: results, which may complete the part in progress, or
     * notifications. */
    void (*on_advance)(void *ctx, bool is_part_over);
    void *ctx;
};

/* Returns false if out of memory, or if a connection for the disk is needed but missing. The caller
 * then still owns the link. */
bool sql_connection_open(struct sql_connection *connection, struct sql_link *link,
                         bool needs_flush);
void sql_connection_close(struct sql_connection *connection);
/* Updates the events to wait for. Must be called after each send. */
void sql_connection_poll(struct sql_connection *connection);

/* ---- the next connection ---- */

/*
 * Makes a session's next connection on a helper thread, since connecting blocks. Retries
 * with increasing delays until it succeeds.
 *
 * Used on the reactor's thread.
 */
/* Receives the result. `greeting` is NULL if the attempt failed, with the reason in `error`.
 * Returns false to reject the link, which is then closed. */
typedef bool sql_connected(void *ctx, const struct sql_greeting *greeting, const char *error);

struct sql_connector { /* A connector; closed if zeroed. */
    const struct sql_dialect *dialect;
    char *url;
    struct worker *worker;
    struct sql_attempt *attempt; /* in progress, or NULL */
    int64_t next_ms, wait_ms;    /* elapsed time */
    sql_connected *connected;
    void *ctx;
};

/* Opens a connector and copies `url`. Returns false if out of memory; closing it is still allowed. */
bool sql_connector_open(struct sql_connector *connector, struct reactor *reactor,
                        const struct sql_dialect *dialect, const char *url,
                        sql_connected *connected, void *ctx);
void sql_connector_close(struct sql_connector *connector);

/* Starts an attempt if no other is in progress and the delay after the last failure has passed. */
void sql_connector_try(struct sql_connector *connector, const struct sql_wish *wish);
/* Resets the delay after a successful connection. */
void sql_connector_reset(struct sql_connector *connector);

#endif
