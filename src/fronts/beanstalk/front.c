#include "beanstalk/front.h"

#include "beanstalk/commands.h"
#include "beanstalk/job_view.h"
#include "beanstalk/session.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "net/activity.h"
#include "queue/status.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- dispatch: cuts the input of a client into commands and executes them in order ---- */

/* Closes the connection of a web page, or of a client for another port, without an answer. */
static bool end_foreign(struct beanstalk_session *session)
{
    beanstalk_session_end(session);
    return false;
}

/* Discards a line that is too long. Returns false if its end has not arrived or the session has
 * ended. */
static bool skip_line(struct beanstalk_session *session)
{
    struct beanstalk_connection *connection = &session->connection;
    struct slice input = beanstalk_connection_input(connection);
    const char *end = memmem(input.at, input.len, "\r\n", 2);
    if (beanstalk_has_http_version(
            slice_make(input.at, end ? (size_t)(end - input.at) : input.len)))
        return end_foreign(session);
    if (!end) { /* keeps bytes that may begin the line's end or an HTTP version */
        size_t kept =
            input.len < BEANSTALK_VERSION_BYTES ? input.len : (size_t)BEANSTALK_VERSION_BYTES;
        beanstalk_connection_consume(connection, input.len - kept);
        return false;
    }
    beanstalk_connection_consume(connection, (size_t)(end - input.at) + 2);
    session->skip.line = false;
    beanstalk_answer(session, "BAD_FORMAT\r\n");
    return true;
}

/* Discards unwanted input. Returns false if more of it must arrive. */
static bool skip_input(struct beanstalk_session *session)
{
    struct beanstalk_connection *connection = &session->connection;
    struct slice input = beanstalk_connection_input(connection);
    if (session->skip.line)
        return skip_line(session);
    size_t bytes = session->skip.bytes < input.len ? (size_t)session->skip.bytes : input.len;
    beanstalk_connection_consume(connection, bytes);
    session->skip.bytes -= bytes;
    if (session->skip.bytes)
        return false;
    beanstalk_answer(session, session->skip.answer);
    return true;
}

/* ---- commands ---- */

/* Stops reading; commands before quit are still answered. */
static void quit(struct beanstalk_session *session)
{
    session->connection.has_ended = true;
    beanstalk_connection_consume(&session->connection,
                                 beanstalk_connection_input(&session->connection).len);
}

static const struct beanstalk_handler own_handlers[] = {{BEANSTALK_QUIT, quit, false}, {0}};

/* All commands but put, which has a body; the most frequent first. */
static const struct beanstalk_handler *const tables[] = {beanstalk_reservations_handlers,
                                                         beanstalk_jobs_handlers,
                                                         beanstalk_tubes_handlers, own_handlers};

static const struct beanstalk_handler *find_handler(enum beanstalk_verb verb)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (const struct beanstalk_handler *row = tables[i]; row->verb; row++)
            if (row->verb == verb)
                return row;
    return NULL;
}

static void become_worker(struct beanstalk_session *session)
{
    if (session->is_worker)
        return;
    session->is_worker = true;
    session->front->workers++;
}

/* Returns the action under which the audit records a command, or NULL if it is not recorded.
 * Recorded commands are those that require the scope admin over HTTP. */
static const char *audit_name(const struct beanstalk_command *command)
{
    switch (command->verb) {
    case BEANSTALK_KICK:
    case BEANSTALK_KICK_JOB:
        return "topic redriven";
    case BEANSTALK_PAUSE_TUBE:
        return command->number ? "topic paused" : "topic resumed";
    default:
        return NULL;
    }
}

/* Begins an audit record for the command in progress. beanstalk_change_end is called when the
 * command has ended. */
static void beanstalk_change_begin(struct beanstalk_session *session, const char *action)
{
    char peer[PEER_TEXT_BYTES];
    const struct access_caller *caller = session->call.caller;
    peer_emit(&session->peer, peer);
    session->call.change = audit_change_begin(
        action, &(struct audit_who){
                    .name = caller->name, .kind = access_kind_name(caller->kind), .peer = peer});
}

/* Executes a parsed command. Copies its names, since the input is consumed. */
static void begin_command(struct beanstalk_session *session,
                          const struct beanstalk_command *command, size_t line_bytes)
{
    const struct beanstalk_handler *handler = find_handler(command->verb);
    assert(handler);
    session->command = *command;
    if (command->tube.len)
        memcpy(session->tube_name, command->tube.at, command->tube.len);
    session->command.tube = slice_make(session->tube_name, command->tube.len);
    beanstalk_connection_consume(&session->connection, line_bytes);
    session->front->verbs[command->verb]++;
    access_caller_use(session->call.caller, clock_wall_ms());
    if (audit_name(command))
        beanstalk_change_begin(session, audit_name(command));
    if (handler->is_worker)
        become_worker(session);
    activity_begin("commands of beanstalk");
    handler->begin(session);
    if (!session->wait)
        beanstalk_change_end(session);
}

/* Executes the command at the front of the input. Returns false if it is incomplete. */
static bool next_command(struct beanstalk_session *session)
{
    struct slice input = beanstalk_connection_input(&session->connection);
    size_t line_bytes = beanstalk_line_bytes(input);
    struct beanstalk_command command;
    struct slice line = slice_make(input.at, line_bytes ? line_bytes - 2 : input.len);
    if (!line_bytes) {
        if (beanstalk_line_is_foreign(line))
            return end_foreign(session);
        session->skip.line = input.len >= BEANSTALK_LINE_BYTES_MAX;
        return session->skip.line;
    }
    bool is_good = beanstalk_command_parse(line, &command);
    if (is_good && command.verb == BEANSTALK_PUT)
        return beanstalk_put(session, &command, line_bytes);
    if (is_good && command.verb != BEANSTALK_UNKNOWN) {
        begin_command(session, &command, line_bytes);
        return true;
    }
    if (beanstalk_line_is_foreign(line))
        return end_foreign(session);
    beanstalk_connection_consume(&session->connection, line_bytes);
    beanstalk_answer(session, is_good ? "UNKNOWN_COMMAND\r\n" : "BAD_FORMAT\r\n");
    return true;
}

/* ---- phases: what the server expects from the client, and for how long it waits ----
 *
 * Each phase has one time limit and one list of sessions in the front. Since the limit is the same
 * for all sessions of a list, the list is sorted by time. The front has one alarm, set for the
 * earliest session. A session that waits for a job or for the queue, or that holds jobs, is in no
 * phase: a worker may take as long as its TTR allows. */

static int64_t timeout_ms(const struct beanstalk_front *front, enum beanstalk_phase phase)
{
    const struct beanstalk_options *options = &front->options;
    switch (phase) {
    case BEANSTALK_PHASE_IDLE:
        return options->idle_ms;
    case BEANSTALK_PHASE_LINE:
        return options->line_ms;
    case BEANSTALK_PHASE_BODY:
        return options->body_ms;
    default:
        return options->write_ms;
    }
}

static void phases_set_alarm(struct beanstalk_front *front)
{
    int64_t next_ms = INT64_MAX;
    for (int phase = BEANSTALK_PHASE_IDLE; phase < BEANSTALK_PHASES; phase++) {
        const struct list *timed = &front->timed[phase];
        if (list_is_empty(timed))
            continue;
        int64_t until_ms = list_entry(timed->next, struct beanstalk_session, timed)->until_ms;
        next_ms = until_ms < next_ms ? until_ms : next_ms;
    }
    front->alarm_ms = next_ms;
    deadline_set(front->alarm, next_ms);
}

static void phase_begin(struct beanstalk_session *session, enum beanstalk_phase phase)
{
    struct beanstalk_front *front = session->front;
    list_remove(&session->timed);
    session->phase = phase;
    if (phase == BEANSTALK_PHASE_NONE)
        return;
    session->until_ms = clock_inner_ms() + timeout_ms(front, phase);
    session->unsent = beanstalk_connection_unsent(&session->connection);
    list_add_last(&front->timed[phase], &session->timed);
    if (session->until_ms < front->alarm_ms) {
        front->alarm_ms = session->until_ms;
        deadline_set(front->alarm, front->alarm_ms);
    }
}

/* Handles the end of a phase's time limit. A client that has read some output gets another period. */
static void phase_expire(struct beanstalk_session *session)
{
    size_t unsent = beanstalk_connection_unsent(&session->connection);
    if (session->phase == BEANSTALK_PHASE_WRITE && unsent < session->unsent)
        phase_begin(session, BEANSTALK_PHASE_WRITE);
    else
        beanstalk_session_end(session);
}

static void on_alarm(void *ctx)
{
    struct beanstalk_front *front = ctx;
    int64_t now_ms = clock_inner_ms();
    for (int phase = BEANSTALK_PHASE_IDLE; phase < BEANSTALK_PHASES; phase++)
        while (!list_is_empty(&front->timed[phase])) {
            struct beanstalk_session *first =
                list_entry(front->timed[phase].next, struct beanstalk_session, timed);
            if (first->until_ms > now_ms)
                break;
            phase_expire(first);
        }
    phases_set_alarm(front);
}

static enum beanstalk_phase phase_of(const struct beanstalk_session *session)
{
    const struct beanstalk_connection *connection = &session->connection;
    if (connection->is_writing)
        return BEANSTALK_PHASE_WRITE;
    /* The session waits for a job and has sent more input than is buffered. Reading has stopped, so
     * not even the client's end of input is noticed. */
    if (session->wait == SESSION_WAIT_JOB && !connection->is_reading && !connection->has_ended)
        return BEANSTALK_PHASE_LINE;
    if (session->wait || !list_is_empty(&session->later))
        return BEANSTALK_PHASE_NONE;
    if (session->skip.bytes || session->connection.wanted_bytes)
        return BEANSTALK_PHASE_BODY;
    if (session->skip.line || beanstalk_connection_input(connection).len)
        return BEANSTALK_PHASE_LINE;
    return session->reservations.ends.count ? BEANSTALK_PHASE_NONE : BEANSTALK_PHASE_IDLE;
}

/* Determines the phase of a session. `has_moved`: a command has been executed, so the time limit
 * restarts now. */
static void beanstalk_phase_settle(struct beanstalk_session *session, bool has_moved)
{
    enum beanstalk_phase phase = phase_of(session);
    if (phase != session->phase || (has_moved && phase != BEANSTALK_PHASE_WRITE))
        phase_begin(session, phase);
}

/* Returns false if out of memory. */
static bool beanstalk_phases_init(struct beanstalk_front *front)
{
    for (int phase = 0; phase < BEANSTALK_PHASES; phase++)
        list_init(&front->timed[phase]);
    front->alarm_ms = INT64_MAX;
    front->alarm = deadline_new(front->options.reactor, on_alarm, front);
    return front->alarm;
}

static void beanstalk_phases_fini(struct beanstalk_front *front)
{
    deadline_free(front->alarm);
}

/* ---- share: how much of a loop iteration a session may take ----
 *
 * While the iteration has time left, a session begins its commands immediately, up to a limit.
 * After that the session joins the front's waiting list. Each iteration serves this list from its
 * head while there is time. So a client that pipelines delays other clients by at most one command. */

enum { COMMANDS_MAX = 64 /* per session and loop iteration */ };

/* Resumes the sessions that were waiting when this iteration ended, while there is time, but at
 * least the first one. */
static void on_iteration_end(struct iteration_end_call *call)
{
    struct beanstalk_front *front = list_entry(call, struct beanstalk_front, iteration_end);
    struct list now;
    list_take_all(&now, &front->later);
    front->iteration_commands = 0;
    while (!list_is_empty(&now)) {
        struct beanstalk_session *session = list_entry(now.next, struct beanstalk_session, later);
        list_remove(&session->later);
        session->driver->go_on(session);
        if (reactor_is_late(front->options.reactor))
            break;
    }
    if (list_is_empty(&now))
        return;
    /* The remaining sessions precede those that have just used their share. */
    list_add_all_first(&front->later, &now);
    reactor_once_at_iteration_end(front->options.reactor, &front->iteration_end);
}

/* Lets the session continue in a later iteration. */
static void share_wait(struct beanstalk_session *session)
{
    struct beanstalk_front *front = session->front;
    if (list_is_empty(&session->later))
        list_add_last(&front->later, &session->later);
    reactor_once_at_iteration_end(front->options.reactor, &front->iteration_end);
}

/* Returns true if the session may begin a command after `begun` others. If false, the session
 * continues by itself in a later iteration. */
static bool beanstalk_share_take(struct beanstalk_session *session, uint32_t begun)
{
    struct beanstalk_front *front = session->front;
    bool is_over = begun >= COMMANDS_MAX ||
                   (front->iteration_commands && reactor_is_late(front->options.reactor));
    if (!is_over) {
        front->iteration_commands++;
        reactor_once_at_iteration_end(front->options.reactor, &front->iteration_end);
        return true;
    }
    share_wait(session);
    return false;
}

static void beanstalk_share_init(struct beanstalk_front *front)
{
    list_init(&front->later);
    list_init(&front->iteration_end.list);
    front->iteration_end.run = on_iteration_end;
}

static void beanstalk_share_fini(struct beanstalk_front *front)
{
    reactor_cancel_at_iteration_end(&front->iteration_end);
}

/* Executes as many commands as possible, then sends all their answers in one write. */
static void go_on(struct beanstalk_session *session)
{
    struct beanstalk_connection *connection = &session->connection;
    if (!session->wait)
        beanstalk_change_end(session);
    if (session->is_going_on || connection->is_closing)
        return;
    /* A client that has closed its side is still answered, but does not wait any longer. */
    if (connection->has_ended && session->wait == SESSION_WAIT_JOB) {
        beanstalk_reservations_give_up(session, "TIMED_OUT\r\n");
        return;
    }
    beanstalk_connection_hold(connection);
    session->is_going_on = true;
    bool goes_on = true, has_moved = !session->wait;
    uint32_t begun = 0;
    while (goes_on && !connection->is_closing && !session->wait &&
           beanstalk_connection_may_answer(connection) && beanstalk_share_take(session, begun++))
        goes_on =
            session->skip.bytes || session->skip.line ? skip_input(session) : next_command(session);
    has_moved &= begun > 1;
    bool was_full = !connection->is_closing && !beanstalk_connection_may_answer(connection);
    session->is_going_on = false;
    beanstalk_connection_go_on(connection);
    if (was_full && !connection->is_closing && beanstalk_connection_may_answer(connection))
        share_wait(session);
    bool is_later = !list_is_empty(&session->later);
    if (connection->has_ended && !connection->is_writing && !session->wait && !is_later)
        beanstalk_session_end(session);
    if (!connection->is_closing)
        beanstalk_phase_settle(session, has_moved);
    beanstalk_connection_release(connection);
}

/* Executes the commands of a client in order. A command that waits for the queue delays only those
 * behind it. */
static const struct beanstalk_session_driver dispatch = {
    .go_on = go_on, .woken = beanstalk_reservations_woken, .ended = beanstalk_reservations_end};

/* ---- front ---- */

enum { IDLE_MS = 3600 * 1000, LINE_MS = 10 * 1000, BODY_MS = 120 * 1000, WRITE_MS = 60 * 1000 };

/* ---- connections ---- */

static void on_connections(uv_poll_t *poll, int status, int events)
{
    enum { AT_ONCE = 64 };
    struct beanstalk_front *front = poll->data;
    struct listener *listener = front->options.listener;
    struct peer peer;
    (void)status;
    (void)events;
    for (int i = 0; i < AT_ONCE; i++) {
        if (i && reactor_is_late(front->options.reactor))
            return; /* the loop finds the rest again */
        int fd = listener_accept(listener, front->fd, &peer);
        if (fd < 0)
            return;
        if (front->connection_count >= front->options.connections_max)
            (void)close(fd);
        else
            beanstalk_session_open(front, fd, &peer, &dispatch);
    }
}

static void on_handle_closed(struct beanstalk_front *front)
{
    if (--front->open_handles || !front->is_stopping || !front->stopped)
        return;
    void (*stopped)(void *ctx) = front->stopped;
    front->stopped = NULL;
    stopped(front->stopped_ctx);
}

static void on_poll_closed(uv_handle_t *handle)
{
    on_handle_closed(handle->data);
}

/* ---- life ---- */

static void set_options(struct beanstalk_options *into, const struct beanstalk_options *given)
{
    *into = *given;
    if (!into->job_bytes_max)
        into->job_bytes_max = BEANSTALK_JOB_BYTES;
    if (!into->idle_ms)
        into->idle_ms = IDLE_MS;
    if (!into->line_ms)
        into->line_ms = LINE_MS;
    if (!into->body_ms)
        into->body_ms = BODY_MS;
    if (!into->write_ms)
        into->write_ms = WRITE_MS;
}

void beanstalk_front_free(struct beanstalk_front *front)
{
    if (!front)
        return;
    if (front->fd >= 0)
        (void)close(front->fd);
    beanstalk_phases_fini(front);
    beanstalk_share_fini(front);
    beanstalk_numbers_free(front->numbers);
    beanstalk_tubes_fini(&front->tubes);
    beanstalk_aliases_fini(front);
    free(front->read_at);
    free(front);
}

struct beanstalk_front *beanstalk_front_new(const struct beanstalk_options *options, char *error)
{
    struct beanstalk_front *front = calloc(1, sizeof *front);
    if (!front) {
        (void)error_text(error, BEANSTALK_ERROR_BYTES, "out of memory");
        return NULL;
    }
    set_options(&front->options, options);
    front->fd = -1;
    front->closed = on_handle_closed;
    list_init(&front->sessions);
    beanstalk_share_init(front);
    front->started_ms = clock_inner_ms();
    front->numbers = beanstalk_numbers_new(options->queue);
    front->read_at = malloc(BEANSTALK_READ_BYTES);
    snprintf(front->instance, sizeof front->instance, "%016" PRIx64, random_u64());
    if (!beanstalk_tubes_init(&front->tubes) || !beanstalk_aliases_init(front) || !front->numbers ||
        !front->read_at || !beanstalk_phases_init(front)) {
        (void)error_text(error, BEANSTALK_ERROR_BYTES, "out of memory");
        beanstalk_front_free(front);
        return NULL;
    }
    front->fd = listener_descriptor(options->listener, error);
    if (front->fd < 0) {
        beanstalk_front_free(front);
        return NULL;
    }
    return front;
}

void beanstalk_front_start(struct beanstalk_front *front)
{
    uv_loop_t *loop = reactor_loop(front->options.reactor);
    if (uv_poll_init(loop, &front->poll, front->fd) != 0)
        return;
    front->poll.data = front;
    front->is_polling = true;
    front->open_handles++;
    uv_poll_start(&front->poll, UV_READABLE, on_connections);
}

/* Returns NULL if all sessions have ended. */
static struct beanstalk_session *beanstalk_session_first(struct beanstalk_front *front)
{
    for (struct list *at = front->sessions.next; at != &front->sessions; at = at->next) {
        struct beanstalk_session *session = list_entry(at, struct beanstalk_session, list);
        if (!beanstalk_session_has_ended(session))
            return session;
    }
    return NULL;
}

void beanstalk_front_stop(struct beanstalk_front *front, void (*stopped)(void *ctx), void *ctx)
{
    struct beanstalk_session *session;
    front->is_stopping = true;
    front->stopped = stopped;
    front->stopped_ctx = ctx;
    front->open_handles++; /* keeps the count above 0 until all handles have been asked to close */
    if (front->is_polling)
        uv_close((uv_handle_t *)&front->poll, on_poll_closed);
    front->is_polling = false;
    while ((session = beanstalk_session_first(front)))
        beanstalk_session_end(session);
    /* Does not call `stopped` here: the poll closes in a later loop iteration. */
    front->open_handles--;
}
