/* dispatch: cuts the input of a client into commands and executes them in order. */
#include "beanstalk/commands.h"

#include <assert.h>

/* ---- input that is not a command ---- */

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
static const struct beanstalk_handler *const tables[] = {
    beanstalk_reserve_handlers, beanstalk_jobs_handlers, beanstalk_tubes_handlers, own_handlers};

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
    if (audit_name(command))
        beanstalk_change_begin(session, audit_name(command));
    if (handler->is_worker)
        become_worker(session);
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
        beanstalk_reserve_give_up(session, "TIMED_OUT\r\n");
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
    session->is_going_on = false;
    beanstalk_connection_go_on(connection);
    bool is_later = !list_is_empty(&session->later);
    if (connection->has_ended && !connection->is_writing && !session->wait && !is_later)
        beanstalk_session_end(session);
    if (!connection->is_closing)
        beanstalk_phase_settle(session, has_moved);
    beanstalk_connection_release(connection);
}

const struct beanstalk_session_driver beanstalk_dispatch = {.go_on = go_on,
                                                            .woken = beanstalk_reserve_woken};
