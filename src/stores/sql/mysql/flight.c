/* The text of a flight, and the values in it. */
#include "sql/mysql/turn.h"

#include <stdlib.h>
#include <string.h>

enum { PACKET_BYTES = 512 * 1024, PACKET_SHARE = 4 };

void mysql_flight_begin(struct mysql_link *link)
{
    buffer_clear(&link->text);
    link->steps.count = link->ends.count = link->packet_steps.count = 0;
    link->packet = link->step = 0;
}

static struct buffer *statement_begin(struct mysql_link *link, struct mysql_step step, bool apart)
{
    size_t begun = link->ends.count ? link->ends.at[link->ends.count - 1] : 0;
    size_t full = link->packet_bytes_max / PACKET_SHARE;
    if (full > PACKET_BYTES)
        full = PACKET_BYTES;
    if (link->text.len > begun && (apart || link->text.len - begun > full)) {
        if (!mysql_ends_add(&link->ends, link->text.len) ||
            !mysql_ends_add(&link->packet_steps, link->steps.count))
            link->text.failed = true;
    } else if (link->text.len > begun) {
        buffer_append_byte(&link->text, ';');
    }
    if (!mysql_steps_add(&link->steps, step))
        link->text.failed = true;
    return &link->text;
}

struct buffer *mysql_statement_of(struct mysql_link *link, struct mysql_step step)
{
    return statement_begin(link, step, false);
}

struct buffer *mysql_statement(struct mysql_link *link, mysql_reader *read)
{
    return statement_begin(link, (struct mysql_step){.read = read}, false);
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

struct buffer *mysql_statement_changing(struct mysql_link *link, size_t count)
{
    return mysql_statement_of(link, (struct mysql_step){.read = read_changed, .number = count});
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
    MYSQL_RES *result = link->result;
    link->result = NULL;
    return result;
}

struct mysql_result *mysql_result_keep(struct mysql_link *link)
{
    MYSQL_RES *result = mysql_result_take(link);
    struct mysql_result *kept = calloc(1, sizeof *kept);
    if (kept && mysql_results_add(&link->results, kept)) {
        *kept = (struct mysql_result){.result = result, .users = 1};
        return kept;
    }
    free(kept);
    libmariadb.mysql_free_result(result);
    return NULL;
}

void mysql_results_drop(struct mysql_link *link)
{
    for (size_t i = 0; i < link->results.count; i++)
        mysql_result_free(link->results.at[i]);
    link->results.count = 0;
}

void mysql_result_free(void *result)
{
    struct mysql_result *kept = result;
    if (--kept->users > 0)
        return;
    libmariadb.mysql_free_result(kept->result);
    free(kept);
}
