/* A flight in progress: the library's calls, in their non-blocking form. */
#include "base/clock.h"
#include "sql/mysql/turn.h"

#include <sys/socket.h>

/* ---- results ---- */

/* Reads the result of a step. `result` is NULL if the statement has no rows; otherwise it is freed
 * or kept. Returns false if out of memory. */
static bool take_answer(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    bool is_good = true;
    switch (step->kind) {
    case MYSQL_NOTHING:
    case MYSQL_AFTER:
        break;
    case MYSQL_TICKET:
        if (libmariadb.mysql_affected_rows(link->mysql) != 1)
            mysql_note_fault(link, SQL_FAULT_GONE, "TY001",
                             "the ticket of this server is not the next one");
        break;
    case MYSQL_NOW:
        row = result ? libmariadb.mysql_fetch_row(result) : NULL;
        link->now_ms = row ? mysql_number(row[0]) : 0;
        link->context->now_ms = link->now_ms;
        link->context->now_seen_us = clock_inner_us();
        break;
    case MYSQL_NUMBER:
        link->number = libmariadb.mysql_insert_id(link->mysql) * MYSQL_NUMBERS;
        break;
    case MYSQL_DELIVERY:
        link->delivery = libmariadb.mysql_insert_id(link->mysql) * MYSQL_NUMBERS;
        break;
    case MYSQL_TOPICS:
        is_good = mysql_read_topics(link, result);
        break;
    case MYSQL_TOPIC_COUNT:
        row = libmariadb.mysql_fetch_row(result);
        link->topic_count = row ? mysql_number(row[0]) : 0;
        break;
    case MYSQL_READ_ROWS:
        is_good = mysql_read_rows(link, result, NULL);
        break;
    case MYSQL_ACKS:
        is_good = mysql_read_acks(link, result);
        break;
    case MYSQL_OWN_ROWS:
        is_good = mysql_read_rows(link, result, step->call);
        break;
    case MYSQL_FINISHED:
        is_good = mysql_read_finished(link, result);
        break;
    case MYSQL_JOB_COUNT:
        row = libmariadb.mysql_fetch_row(result);
        step->topic->jobs = row ? mysql_number(row[0]) : 0;
        break;
    case MYSQL_TAKE:
        return mysql_read_take(link, step, result);
    case MYSQL_BODIES:
        return mysql_read_bodies(link, step->number, result);
    case MYSQL_CHANGED:
        if (libmariadb.mysql_affected_rows(link->mysql) != step->number)
            mysql_note_fault(link, SQL_FAULT_PASSING, "TY002", "a row changed under its lock");
        break;
    case MYSQL_LOOK:
        mysql_read_look(link, step->topic, step->number, result);
        break;
    case MYSQL_NEWS:
        is_good = mysql_read_news(link, result);
        break;
    case MYSQL_MESSAGES:
        return mysql_read_messages(link, step->call, result);
    case MYSQL_CALL:
        return mysql_read_call(link, step, result);
    }
    if (result)
        libmariadb.mysql_free_result(result);
    return is_good;
}

/* ---- calls of the library ---- */

enum moved { MOVED_ON = 1, MOVED_WAITS, MOVED_LOST, MOVED_OVER };

static enum moved op_wait(struct mysql_link *link, int waits)
{
    link->is_started = true;
    link->waits = waits;
    return MOVED_WAITS;
}

static enum moved op_next(struct mysql_link *link, enum mysql_op op)
{
    link->op = op;
    link->is_started = false;
    return op == MYSQL_OP_NONE ? MOVED_OVER : MOVED_ON;
}

static enum moved op_query(struct mysql_link *link, int ready)
{
    size_t from = link->packet ? link->ends.at[link->packet - 1] : 0;
    int failed = 0;
    int waits = link->is_started
                    ? libmariadb.mysql_real_query_cont(&failed, link->mysql, ready)
                    : libmariadb.mysql_real_query_start(&failed, link->mysql, link->text.at + from,
                                                        link->ends.at[link->packet] - from);
    if (waits)
        return op_wait(link, waits);
    if (failed)
        return mysql_note_error(link) ? MOVED_LOST : op_next(link, MYSQL_OP_NONE);
    return op_next(link, MYSQL_OP_STORE);
}

/* Assigns a result to its step. A procedure returns rows and then a status; only the status ends
 * its step. */
static void note_answer(struct mysql_link *link, MYSQL_RES *result)
{
    const struct mysql_step *step =
        link->step < link->steps.count ? &link->steps.at[link->step] : NULL;
    bool is_end_of_call = step && step->kind == MYSQL_CALL && !result;
    if (!step) {
        if (result)
            libmariadb.mysql_free_result(result);
        return;
    }
    if (is_end_of_call) {
        link->step++;
        return;
    }
    if (!take_answer(link, step, result))
        mysql_note_no_memory(link);
    if (step->kind != MYSQL_CALL || !mysql_step_is_procedure(step))
        link->step++;
}

static enum moved op_store(struct mysql_link *link, int ready)
{
    MYSQL_RES *result = NULL;
    int waits = link->is_started ? libmariadb.mysql_store_result_cont(&result, link->mysql, ready)
                                 : libmariadb.mysql_store_result_start(&result, link->mysql);
    if (waits)
        return op_wait(link, waits);
    if (!result && libmariadb.mysql_errno(link->mysql) != 0)
        return mysql_note_error(link) ? MOVED_LOST : op_next(link, MYSQL_OP_NONE);
    note_answer(link, result);
    if (libmariadb.mysql_more_results(link->mysql))
        return op_next(link, MYSQL_OP_NEXT);
    if (link->link.fault.kind == SQL_FAULT_NONE && ++link->packet < link->ends.count)
        return op_next(link, MYSQL_OP_QUERY);
    return op_next(link, MYSQL_OP_NONE);
}

static enum moved op_more(struct mysql_link *link, int ready)
{
    int failed = 0;
    int waits = link->is_started ? libmariadb.mysql_next_result_cont(&failed, link->mysql, ready)
                                 : libmariadb.mysql_next_result_start(&failed, link->mysql);
    if (waits)
        return op_wait(link, waits);
    if (failed > 0)
        return mysql_note_error(link) ? MOVED_LOST : op_next(link, MYSQL_OP_NONE);
    return op_next(link, MYSQL_OP_STORE);
}

bool mysql_flight_send(struct mysql_link *link)
{
    if (link->text.failed || !mysql_ends_add(&link->ends, link->text.len) ||
        !mysql_ends_add(&link->packet_steps, link->steps.count)) {
        mysql_note_no_memory(link);
        return false;
    }
    link->op = MYSQL_OP_QUERY;
    link->is_started = false;
    link->is_in_flight = true;
    switch (op_query(link, 0)) {
    case MOVED_WAITS:
        return true;
    case MOVED_LOST:
        return false;
    case MOVED_ON:
    case MOVED_OVER:
        break;
    }
    link->waits = MYSQL_WAIT_READ | MYSQL_WAIT_WRITE; /* `advance` continues soon */
    return true;
}

enum mysql_flight_state mysql_flight_advance(struct mysql_link *link, int ready)
{
    for (;;) {
        enum moved moved = link->op == MYSQL_OP_NONE    ? MOVED_OVER
                           : link->op == MYSQL_OP_QUERY ? op_query(link, ready)
                           : link->op == MYSQL_OP_STORE ? op_store(link, ready)
                                                        : op_more(link, ready);
        if (moved == MOVED_WAITS)
            return MYSQL_FLIGHT_WAITS;
        if (moved == MOVED_LOST)
            return MYSQL_FLIGHT_LOST;
        if (moved == MOVED_OVER)
            break;
    }
    link->is_in_flight = false;
    return MYSQL_FLIGHT_OVER;
}

void mysql_flight_abandon(struct mysql_link *link)
{
    enum { TRIES = 100 };
    (void)shutdown(libmariadb.mysql_get_socket(link->mysql), SHUT_RDWR);
    for (int i = 0; i < TRIES && link->op != MYSQL_OP_NONE && link->is_started; i++) {
        MYSQL_RES *result = NULL;
        int failed, ready = MYSQL_WAIT_READ | MYSQL_WAIT_WRITE, waits = 0;
        if (link->op == MYSQL_OP_QUERY)
            waits = libmariadb.mysql_real_query_cont(&failed, link->mysql, ready);
        else if (link->op == MYSQL_OP_STORE)
            waits = libmariadb.mysql_store_result_cont(&result, link->mysql, ready);
        else
            waits = libmariadb.mysql_next_result_cont(&failed, link->mysql, ready);
        if (result)
            libmariadb.mysql_free_result(result);
        link->is_started = waits != 0;
    }
}
