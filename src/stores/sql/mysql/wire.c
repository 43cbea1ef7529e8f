/* The pipelines of a connection: the text of several statements, the values in it, the library's
 * calls in their non-blocking form, and the faults that end a pipeline. */
#include "base/clock.h"
#include "sql/mysql/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* ---- faults, by the necessary reaction ---- */

void mysql_note_fault(struct mysql_link *link, enum sql_fault_kind kind, const char *state,
                      const char *message)
{
    struct sql_fault *fault = &link->link.fault;
    if (fault->kind != SQL_FAULT_NONE)
        return;
    fault->kind = kind;
    (void)snprintf(fault->state, sizeof fault->state, "%s", state);
    (void)snprintf(fault->message, sizeof fault->message, "%s", message);
}

void mysql_note_no_memory(struct mysql_link *link)
{
    mysql_note_fault(link, SQL_FAULT_NO_MEMORY, "", "out of memory");
}

static const struct {
    unsigned number;
    enum sql_fault_kind kind;
} faults[] = {
    {1213, SQL_FAULT_PASSING}, /* deadlock */
    {1205, SQL_FAULT_PASSING}, /* lock wait timeout */
    {3572, SQL_FAULT_PASSING}, /* NOWAIT in MySQL */
    {1062, SQL_FAULT_PASSING}, /* another transaction inserted the key first */
    {1020, SQL_FAULT_PASSING}, /* a row has changed since it was read */
    {1048, SQL_FAULT_PASSING}, /* an extra row among those to be leased, a `once` that another transaction has used */
    {1412, SQL_FAULT_PASSING}, /* a table has changed, for example by a new day of the history */
    {1969, SQL_FAULT_PASSING}, /* max_statement_time */
    {3024, SQL_FAULT_PASSING},   {1021, SQL_FAULT_NO_SPACE},
    {1114, SQL_FAULT_NO_SPACE}, /* the table is full */
    {1153, SQL_FAULT_OTHER},    /* a packet above max_allowed_packet */
    {1026, SQL_FAULT_NO_SPACE}, /* cannot write a file, for example the binary log */
    {1290, SQL_FAULT_GONE},     /* read only */
    {1792, SQL_FAULT_GONE},      {1836, SQL_FAULT_GONE},
    {1053, SQL_FAULT_GONE},      {1927, SQL_FAULT_GONE}, /* killed */
    {3169, SQL_FAULT_GONE},      {4031, SQL_FAULT_GONE},
    {1037, SQL_FAULT_NO_MEMORY}, {1038, SQL_FAULT_NO_MEMORY},
    {1041, SQL_FAULT_NO_MEMORY},
};

/* Records the library's error. Returns true if the connection is lost. */
static bool note_error(struct mysql_link *link)
{
    unsigned number = libmariadb.mysql_errno(link->mysql);
    const bool is_of_the_client = number >= 2000 && number < 3000;
    enum sql_fault_kind kind = SQL_FAULT_OTHER;
    const struct mysql_step *step =
        link->wire.step < link->wire.steps.count ? &link->wire.steps.at[link->wire.step] : NULL;
    if (!is_of_the_client && step && step->is_optional)
        return false; /* all essential changes are committed */
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (faults[i].number == number)
            kind = faults[i].kind;
    if (step && step->repeats && mysql_prepared_stop(&link->prepared, number))
        kind = SQL_FAULT_OUTDATED;
    if (step && step->is_guess && kind == SQL_FAULT_PASSING) {
        link->takes.locks = MYSQL_LOCKS_AFTER;
        kind = SQL_FAULT_OUTDATED;
    }
    mysql_note_fault(link, is_of_the_client ? SQL_FAULT_GONE : kind,
                     libmariadb.mysql_sqlstate(link->mysql), libmariadb.mysql_error(link->mysql));
    return is_of_the_client;
}

/* ---- text ---- */

enum { PACKET_BYTES = 512 * 1024, PACKET_SHARE = 4 };

void mysql_pipeline_begin(struct mysql_link *link)
{
    buffer_clear(&link->wire.text);
    link->wire.steps.count = link->wire.ends.count = link->wire.packet_steps.count = 0;
    link->wire.packet = link->wire.step = link->wire.begun = 0;
}

static bool read_prepared(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    (void)result;
    mysql_prepared_done(&link->prepared, step->number);
    return true;
}

/* Adds the preparation of the last statement, which is sent before it. */
static void prepare_last(struct mysql_link *link, uint64_t form)
{
    struct mysql_steps *steps = &link->wire.steps;
    struct mysql_step step = {.read = read_prepared, .number = form, .repeats = true};
    if (!mysql_steps_add(steps, steps->at[steps->count - 1]))
        link->wire.text.failed = true;
    else
        steps->at[steps->count - 2] = step;
}

static void statement_end(struct mysql_link *link)
{
    const struct mysql_steps *steps = &link->wire.steps;
    uint64_t form = 0;
    if (steps->count && steps->at[steps->count - 1].repeats)
        form = mysql_prepared_use(&link->prepared, &link->wire.text, link->wire.begun);
    if (form)
        prepare_last(link, form);
}

static struct buffer *statement_begin(struct mysql_link *link, struct mysql_step step, bool apart)
{
    statement_end(link);
    size_t begun = link->wire.ends.count ? link->wire.ends.at[link->wire.ends.count - 1] : 0;
    size_t full = link->packet_bytes_max / PACKET_SHARE;
    if (full > PACKET_BYTES)
        full = PACKET_BYTES;
    if (link->wire.text.len > begun && (apart || link->wire.text.len - begun > full)) {
        if (!mysql_ends_add(&link->wire.ends, link->wire.text.len) ||
            !mysql_ends_add(&link->wire.packet_steps, link->wire.steps.count))
            link->wire.text.failed = true;
    } else if (link->wire.text.len > begun) {
        buffer_append_byte(&link->wire.text, ';');
    }
    link->wire.begun = link->wire.text.len;
    if (!mysql_steps_add(&link->wire.steps, step))
        link->wire.text.failed = true;
    return &link->wire.text;
}

struct buffer *mysql_statement_of(struct mysql_link *link, struct mysql_step step)
{
    return statement_begin(link, step, false);
}

struct buffer *mysql_statement(struct mysql_link *link, mysql_reader *read)
{
    return statement_begin(link, (struct mysql_step){.read = read}, false);
}

struct buffer *mysql_statement_repeated(struct mysql_link *link, mysql_reader *read)
{
    return statement_begin(link, (struct mysql_step){.read = read, .repeats = true}, false);
}

struct buffer *mysql_statement_apart(struct mysql_link *link)
{
    return statement_begin(link, (struct mysql_step){0}, true);
}

static bool read_changed(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    (void)result;
    if (libmariadb.mysql_affected_rows(link->mysql) != step->number)
        mysql_note_fault(link, SQL_FAULT_PASSING, "TY002", "a row changed under its lock");
    return true;
}

struct buffer *mysql_statement_changing_apart(struct mysql_link *link, size_t count)
{
    return statement_begin(link, (struct mysql_step){.read = read_changed, .number = count}, true);
}

struct buffer *mysql_statement_changing(struct mysql_link *link, size_t count)
{
    return mysql_statement_of(
        link, (struct mysql_step){.read = read_changed, .number = count, .repeats = true});
}

/* Returns whether the byte is escaped in a quoted text. */
static bool is_escaped(char byte)
{
    return byte == '\'' || byte == '\\' || byte == '\0';
}

size_t mysql_quoted_bytes(struct slice text)
{
    size_t bytes = text.len;
    for (size_t i = 0; i < text.len; i++)
        bytes += is_escaped(text.at[i]);
    return bytes;
}

/* Appends escaped text. Also correct if a byte is part of a multi-byte character, since all bytes of
 * such a character are 0x80 or above. */
static void append_escaped(struct buffer *out, struct slice text)
{
    size_t from = 0;
    for (size_t i = 0; i < text.len; i++) {
        char byte = text.at[i];
        if (!is_escaped(byte))
            continue;
        buffer_append(out, text.at + from, i - from);
        buffer_append_byte(out, '\\');
        buffer_append_byte(out, byte ? byte : '0');
        from = i + 1;
    }
    if (text.len > from)
        buffer_append(out, text.at + from, text.len - from);
}

void mysql_quote(struct buffer *out, struct slice text)
{
    buffer_append_byte(out, '\'');
    append_escaped(out, text);
    buffer_append_byte(out, '\'');
}

void mysql_quote_bytes(struct buffer *out, struct slice text)
{
    if (!text.len) {
        buffer_append_text(out, "NULL");
        return;
    }
    buffer_append_text(out, "_binary");
    mysql_quote(out, text);
}

int64_t mysql_number(const char *text)
{
    return text ? strtoll(text, NULL, 10) : 0;
}

MYSQL_RES *mysql_result_take(struct mysql_link *link)
{
    MYSQL_RES *result = link->wire.result;
    link->wire.result = NULL;
    return result;
}

struct mysql_result *mysql_result_keep(struct mysql_link *link)
{
    MYSQL_RES *result = mysql_result_take(link);
    struct mysql_result *kept = calloc(1, sizeof *kept);
    if (kept && mysql_results_add(&link->wire.results, kept)) {
        *kept = (struct mysql_result){.result = result, .users = 1};
        return kept;
    }
    free(kept);
    libmariadb.mysql_free_result(result);
    return NULL;
}

void mysql_results_drop(struct mysql_link *link)
{
    for (size_t i = 0; i < link->wire.results.count; i++)
        mysql_result_free(link->wire.results.at[i]);
    link->wire.results.count = 0;
}

void mysql_result_free(void *result)
{
    struct mysql_result *kept = result;
    if (--kept->users > 0)
        return;
    libmariadb.mysql_free_result(kept->result);
    free(kept);
}

/* ---- calls of the library ---- */

enum moved { MOVED_ON = 1, MOVED_WAITS, MOVED_LOST, MOVED_OVER };

static enum moved op_wait(struct mysql_link *link, int waits)
{
    link->wire.is_started = true;
    link->wire.waits = waits;
    return MOVED_WAITS;
}

static enum moved op_next(struct mysql_link *link, enum mysql_op op)
{
    link->wire.op = op;
    link->wire.is_started = false;
    return op == MYSQL_OP_NONE ? MOVED_OVER : MOVED_ON;
}

static enum moved op_query(struct mysql_link *link, int ready)
{
    size_t from = link->wire.packet ? link->wire.ends.at[link->wire.packet - 1] : 0;
    int failed = 0;
    int waits =
        link->wire.is_started
            ? libmariadb.mysql_real_query_cont(&failed, link->mysql, ready)
            : libmariadb.mysql_real_query_start(&failed, link->mysql, link->wire.text.at + from,
                                                link->wire.ends.at[link->wire.packet] - from);
    if (waits)
        return op_wait(link, waits);
    if (failed)
        return note_error(link) ? MOVED_LOST : op_next(link, MYSQL_OP_NONE);
    return op_next(link, MYSQL_OP_STORE);
}

/* Assigns a result to its step. A procedure returns rows and then a status; only the status ends
 * its step. */
static void note_answer(struct mysql_link *link, MYSQL_RES *result)
{
    const struct mysql_step *step =
        link->wire.step < link->wire.steps.count ? &link->wire.steps.at[link->wire.step] : NULL;
    bool is_read = step && step->read && (result || !step->is_procedure);
    link->wire.result = result;
    if (is_read && !step->read(link, step, result))
        mysql_note_no_memory(link);
    if (link->wire.result)
        libmariadb.mysql_free_result(mysql_result_take(link));
    if (step && (!step->is_procedure || !result))
        link->wire.step++;
}

static enum moved op_store(struct mysql_link *link, int ready)
{
    MYSQL_RES *result = NULL;
    int waits = link->wire.is_started
                    ? libmariadb.mysql_store_result_cont(&result, link->mysql, ready)
                    : libmariadb.mysql_store_result_start(&result, link->mysql);
    if (waits)
        return op_wait(link, waits);
    if (!result && libmariadb.mysql_errno(link->mysql) != 0)
        return note_error(link) ? MOVED_LOST : op_next(link, MYSQL_OP_NONE);
    note_answer(link, result);
    if (libmariadb.mysql_more_results(link->mysql))
        return op_next(link, MYSQL_OP_NEXT);
    if (link->link.fault.kind == SQL_FAULT_NONE && ++link->wire.packet < link->wire.ends.count)
        return op_next(link, MYSQL_OP_QUERY);
    return op_next(link, MYSQL_OP_NONE);
}

static enum moved op_more(struct mysql_link *link, int ready)
{
    int failed = 0;
    int waits = link->wire.is_started
                    ? libmariadb.mysql_next_result_cont(&failed, link->mysql, ready)
                    : libmariadb.mysql_next_result_start(&failed, link->mysql);
    if (waits)
        return op_wait(link, waits);
    if (failed > 0)
        return note_error(link) ? MOVED_LOST : op_next(link, MYSQL_OP_NONE);
    return op_next(link, MYSQL_OP_STORE);
}

bool mysql_pipeline_send(struct mysql_link *link)
{
    statement_end(link);
    if (link->wire.text.failed || !mysql_ends_add(&link->wire.ends, link->wire.text.len) ||
        !mysql_ends_add(&link->wire.packet_steps, link->wire.steps.count)) {
        mysql_note_no_memory(link);
        return false;
    }
    link->wire.op = MYSQL_OP_QUERY;
    link->wire.is_started = false;
    link->wire.is_in_flight = true;
    switch (op_query(link, 0)) {
    case MOVED_WAITS:
        return true;
    case MOVED_LOST:
        return false;
    case MOVED_ON:
    case MOVED_OVER:
        break;
    }
    link->wire.waits = MYSQL_WAIT_READ | MYSQL_WAIT_WRITE; /* `advance` continues soon */
    return true;
}

enum mysql_pipeline_state mysql_pipeline_advance(struct mysql_link *link, int ready)
{
    for (;;) {
        enum moved moved = link->wire.op == MYSQL_OP_NONE    ? MOVED_OVER
                           : link->wire.op == MYSQL_OP_QUERY ? op_query(link, ready)
                           : link->wire.op == MYSQL_OP_STORE ? op_store(link, ready)
                                                             : op_more(link, ready);
        if (moved == MOVED_WAITS)
            return MYSQL_PIPELINE_WAITS;
        if (moved == MOVED_LOST)
            return MYSQL_PIPELINE_LOST;
        if (moved == MOVED_OVER)
            break;
    }
    link->wire.is_in_flight = false;
    return MYSQL_PIPELINE_OVER;
}

void mysql_pipeline_abandon(struct mysql_link *link)
{
    enum { TRIES = 100 };
    (void)shutdown(libmariadb.mysql_get_socket(link->mysql), SHUT_RDWR);
    for (int i = 0; i < TRIES && link->wire.op != MYSQL_OP_NONE && link->wire.is_started; i++) {
        MYSQL_RES *result = NULL;
        int failed, ready = MYSQL_WAIT_READ | MYSQL_WAIT_WRITE, waits = 0;
        if (link->wire.op == MYSQL_OP_QUERY)
            waits = libmariadb.mysql_real_query_cont(&failed, link->mysql, ready);
        else if (link->wire.op == MYSQL_OP_STORE)
            waits = libmariadb.mysql_store_result_cont(&result, link->mysql, ready);
        else
            waits = libmariadb.mysql_next_result_cont(&failed, link->mysql, ready);
        if (result)
            libmariadb.mysql_free_result(result);
        link->wire.is_started = waits != 0;
    }
}
