/* The answer of each step of a flight, by the kind of the step. */
#include "base/clock.h"
#include "sql/mysql/turn.h"

bool maria_take_answer(struct maria_link *link, const struct maria_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    bool is_good = true;
    switch (step->kind) {
    case MARIA_NOTHING:
    case MARIA_AFTER:
        break;
    case MARIA_TICKET:
        if (libmariadb.mysql_affected_rows(link->mysql) != 1)
            maria_note_fault(link, SQL_FAULT_GONE, "TY001",
                             "the ticket of this server is not the next one");
        break;
    case MARIA_NOW:
        row = result ? libmariadb.mysql_fetch_row(result) : NULL;
        link->now_ms = row ? maria_number(row[0]) : 0;
        link->context->now_ms = link->now_ms;
        link->context->now_seen_us = clock_inner_us();
        break;
    case MARIA_NUMBER:
        link->number = libmariadb.mysql_insert_id(link->mysql) * MARIA_NUMBERS;
        break;
    case MARIA_DELIVERY:
        link->delivery = libmariadb.mysql_insert_id(link->mysql) * MARIA_NUMBERS;
        break;
    case MARIA_TOPICS:
        is_good = maria_read_topics(link, result);
        break;
    case MARIA_TOPIC_COUNT:
        row = libmariadb.mysql_fetch_row(result);
        link->topic_count = row ? maria_number(row[0]) : 0;
        break;
    case MARIA_ROWS:
        is_good = maria_read_rows(link, result, NULL);
        break;
    case MARIA_ACKS:
        is_good = maria_read_acks(link, result);
        break;
    case MARIA_OWN_ROWS:
        is_good = maria_read_rows(link, result, step->call);
        break;
    case MARIA_FINISHED:
        is_good = maria_read_finished(link, result);
        break;
    case MARIA_JOB_COUNT:
        row = libmariadb.mysql_fetch_row(result);
        step->topic->jobs = row ? maria_number(row[0]) : 0;
        break;
    case MARIA_TAKE:
        return maria_read_take(link, step, result);
    case MARIA_BODIES:
        return maria_read_bodies(link, step->number, result);
    case MARIA_CHANGED:
        if (libmariadb.mysql_affected_rows(link->mysql) != step->number)
            maria_note_fault(link, SQL_FAULT_PASSING, "TY002", "a row changed under its lock");
        break;
    case MARIA_LOOK:
        maria_read_look(link, step->topic, step->number, result);
        break;
    case MARIA_NEWS:
        is_good = maria_read_news(link, result);
        break;
    case MARIA_MESSAGES:
        return maria_read_messages(link, step->call, result);
    case MARIA_CALL:
        return maria_read_call(link, step, result);
    }
    if (result)
        libmariadb.mysql_free_result(result);
    return is_good;
}
