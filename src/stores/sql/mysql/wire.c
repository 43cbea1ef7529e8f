/* A flight in progress: the library's calls, in their non-blocking form. */
#include "base/clock.h"
#include "sql/mysql/turn.h"

#include <sys/socket.h>

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
    bool is_read = step && step->read && (result || !step->is_procedure);
    link->result = result;
    if (is_read && !step->read(link, step, result))
        mysql_note_no_memory(link);
    if (link->result)
        libmariadb.mysql_free_result(mysql_result_take(link));
    if (step && (!step->is_procedure || !result))
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
