#include "cli/show.h"

#include "base/clock.h"
#include "base/text.h"
#include "base/timestamp.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- text that is safe on a terminal ---- */

void show_disarm(char *text)
{
    struct slice rest = slice_of(text);
    char *to = text;
    uint32_t character;
    while (rest.len) {
        size_t unshown = text_unshown_bytes(rest, &character), taken = unshown ? unshown : 1;
        *to++ = *rest.at;
        if (unshown)
            to[-1] = '?';
        rest = slice_make(rest.at + taken, rest.len - taken);
    }
    *to = '\0';
}

/* Returns whether the byte is a line end or tab between JSON values. */
static bool is_between(char byte)
{
    return byte == '\n' || byte == '\r' || byte == '\t';
}

bool show_json_text(struct slice json, FILE *out)
{
    size_t plain = 0;
    uint32_t character;
    while (plain < json.len) {
        struct slice rest = slice_make(json.at + plain, json.len - plain);
        size_t unshown = is_between(*rest.at) ? 0 : text_unshown_bytes(rest, &character);
        if (!unshown) {
            plain++;
            continue;
        }
        if (fwrite(json.at, 1, plain, out) != plain || fprintf(out, "\\u%04x", character) < 0)
            return false;
        json = slice_make(rest.at + unshown, rest.len - unshown);
        plain = 0;
    }
    return fwrite(json.at, 1, json.len, out) == json.len;
}

char *show_dump(const json_t *value)
{
    enum { FLAGS = JSON_ENCODE_ANY | JSON_COMPACT };
    char *text = json_dumps(value, FLAGS | JSON_REAL_PRECISION(15));
    json_t *again = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    if (again && !json_equal(again, value)) {
        free(text);
        text = json_dumps(value, FLAGS);
    }
    json_decref(again);
    return text;
}

bool show_json(const json_t *value, FILE *out)
{
    char *text = show_dump(value);
    bool is_shown = text && show_json_text(slice_of(text), out) && putc('\n', out) != EOF;
    free(text);
    return is_shown;
}

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

static size_t width(const char *text)
{
    size_t columns = 0;
    for (; *text; text++)
        columns += !is_continuation(*text);
    return columns;
}

/* Copies as many whole characters as fit, with "..." at the end if the text is cut. */
static void copy_cut(char *out, size_t out_bytes, const char *text, size_t columns)
{
    size_t len = strlen(text);
    if (len < out_bytes && width(text) <= columns) {
        memcpy(out, text, len + 1);
        return;
    }
    size_t end = 0;
    for (size_t used = 0; text[end] && end < out_bytes - 8 && used + 3 < columns; used++) {
        end++;
        while (is_continuation(text[end]))
            end++;
    }
    snprintf(out, out_bytes, "%.*s...", (int)end, text);
}

/* ---- tables ---- */

void show_table_init(struct show_table *table, const char *const *heads)
{
    *table = (struct show_table){0};
    while (heads[table->columns])
        table->columns++;
    for (size_t i = 0; i < table->columns; i++) {
        table->right[i] = heads[i][0] == '>';
        show_table_add(table, heads[i] + table->right[i]);
    }
}

void show_table_fini(struct show_table *table)
{
    show_cells_fini(&table->cells);
}

void show_table_add(struct show_table *table, const char *text)
{
    if (!show_cells_reserve(&table->cells, table->cells.count + 1))
        abort();
    char *cell = table->cells.at[table->cells.count++].text;
    copy_cut(cell, SHOW_CELL_BYTES, text ? text : "", SHOW_CELL_BYTES);
    show_disarm(cell);
}

void show_table_print(const struct show_table *table)
{
    size_t widths[SHOW_COLUMNS_MAX] = {0};
    for (size_t i = 0; i < table->cells.count; i++) {
        size_t w = width(table->cells.at[i].text);
        if (w > widths[i % table->columns])
            widths[i % table->columns] = w;
    }
    for (size_t i = 0; i < table->cells.count; i++) {
        size_t column = i % table->columns;
        bool is_last = column + 1 == table->columns;
        int pad = (int)(widths[column] - width(table->cells.at[i].text));
        if (table->right[column])
            printf("%*s%s", pad, "", table->cells.at[i].text);
        else
            printf("%s%*s", table->cells.at[i].text, is_last ? 0 : pad, "");
        fputs(is_last ? "\n" : "  ", stdout);
    }
}

/* ---- values ---- */

const char *show_text(const json_t *value, char out[SHOW_CELL_BYTES])
{
    out[0] = '\0';
    if (!value || json_is_null(value))
        return out;
    if (json_is_string(value)) {
        copy_cut(out, SHOW_CELL_BYTES, json_string_value(value), SHOW_CELL_BYTES);
    } else {
        char *text = show_dump(value);
        copy_cut(out, SHOW_CELL_BYTES, text ? text : "", SHOW_CELL_BYTES);
        free(text);
    }
    show_disarm(out);
    return out;
}

static bool read_time(const json_t *value, int64_t *ms)
{
    const char *text = json_string_value(value);
    return text && timestamp_parse(slice_of(text), ms);
}

const char *show_time(const json_t *value, char out[SHOW_CELL_BYTES])
{
    int64_t ms;
    struct tm local;
    if (!read_time(value, &ms))
        return show_text(value, out);
    time_t seconds = (time_t)(ms / 1000);
    localtime_r(&seconds, &local);
    size_t len = strftime(out, SHOW_CELL_BYTES, "%Y-%m-%d %H:%M:%S", &local);
    long minutes = local.tm_gmtoff / 60, away = minutes < 0 ? -minutes : minutes;
    snprintf(out + len, SHOW_CELL_BYTES - len, ".%03d%c%02ld:%02ld", (int)(ms % 1000),
             minutes < 0 ? '-' : '+', away / 60, away % 60);
    return out;
}

/* Writes the two largest units: "29m 12s", "3s", "400ms". */
static void emit_span(int64_t ms, char *out, size_t out_bytes)
{
    static const struct {
        int64_t ms;
        char unit;
    } units[] = {{86400000, 'd'}, {3600000, 'h'}, {60000, 'm'}, {1000, 's'}};
    if (ms < 1000) {
        snprintf(out, out_bytes, "%" PRId64 "ms", ms);
        return;
    }
    for (size_t i = 0; i < 4; i++)
        if (ms >= units[i].ms) {
            int64_t rest = i < 3 ? ms % units[i].ms / units[i + 1].ms : 0;
            if (rest > 0)
                snprintf(out, out_bytes, "%" PRId64 "%c %" PRId64 "%c", ms / units[i].ms,
                         units[i].unit, rest, units[i + 1].unit);
            else
                snprintf(out, out_bytes, "%" PRId64 "%c", ms / units[i].ms, units[i].unit);
            return;
        }
}

const char *show_time_from_now(const json_t *value, char out[SHOW_CELL_BYTES])
{
    int64_t ms;
    char span[48];
    show_time(value, out);
    if (!read_time(value, &ms))
        return out;
    int64_t from_now = ms - clock_wall_ms();
    int64_t away_ms = from_now < 0 ? -from_now : from_now;
    /* Rounds to seconds: a job delayed by 30 s is printed some milliseconds later, and is still
     * due "in 30s". */
    emit_span(away_ms < 1000 ? away_ms : (away_ms + 500) / 1000 * 1000, span, sizeof span);
    size_t len = strlen(out);
    if (from_now <= 0 && away_ms < 1000)
        snprintf(out + len, SHOW_CELL_BYTES - len, " (now)");
    else
        snprintf(out + len, SHOW_CELL_BYTES - len, from_now < 0 ? " (%s ago)" : " (in %s)", span);
    return out;
}

const char *show_due(const json_t *job, char out[SHOW_CELL_BYTES])
{
    const char *state = json_string_value(json_object_get(job, "state"));
    const json_t *due_at = json_object_get(job, "due_at");
    char due[SHOW_CELL_BYTES];
    bool waits = !due_at && state && strcmp(state, "delayed") == 0;
    if (due_at)
        snprintf(out, SHOW_CELL_BYTES, ", due %.240s", show_time_from_now(due_at, due));
    else
        snprintf(out, SHOW_CELL_BYTES, "%s", waits ? ", waits for its members" : "");
    return out;
}

const char *show_span(const json_t *ms, char out[SHOW_CELL_BYTES])
{
    emit_span((int64_t)json_integer_value(ms), out, SHOW_CELL_BYTES);
    return out;
}

const char *show_result_size(const json_t *job, char out[SHOW_CELL_BYTES])
{
    const json_t *bytes = json_object_get(job, "result_bytes");
    char type[SHOW_CELL_BYTES];
    out[0] = '\0';
    if (!bytes)
        return out;
    show_text(json_object_get(job, "result_type"), type);
    (void)snprintf(out, SHOW_CELL_BYTES, "%" JSON_INTEGER_FORMAT " byte%s%s%.150s",
                   json_integer_value(bytes), json_integer_value(bytes) == 1 ? "" : "s",
                   type[0] ? ", " : "", type);
    return out;
}

void show_lines(const char *label, const json_t *value)
{
    char *text = json_is_string(value) ? strdup(json_string_value(value)) : show_dump(value);
    size_t len = text ? strlen(text) : 0, most = len < SHOW_LINES_BYTES ? len : SHOW_LINES_BYTES;
    while (most < len && most > 0 && is_continuation(text[most]))
        most--;
    if (text)
        text[most] = '\0';
    for (char *line = text, *end; line; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        show_disarm(line);
        printf("%-13s %s\n", line == text ? label : "", line);
    }
    if (most < len)
        printf("%-13s (%zu more bytes, --json shows all)\n", "", len - most);
    free(text);
}

/* Writes how a client has encoded the body (docs/codec.md). Returns false if it is not encoded. */
static bool write_encoding(const json_t *job, char out[SHOW_CELL_BYTES])
{
    static const char prefix[] = "application/vnd.tarry.encoded; steps=";
    static const struct {
        const char *step, *word;
    } rows[] = {
        {"gzip", "compressed"}, {"aes-gcm", "encrypted"}, {"claim-check", "stored elsewhere"}};
    const char *type = json_string_value(json_object_get(job, "content_type"));
    if (!type || strncmp(type, prefix, sizeof prefix - 1) != 0)
        return false;
    char steps[SHOW_CELL_BYTES];
    snprintf(steps, sizeof steps, "%.*s", (int)strcspn(type + sizeof prefix - 1, ";"),
             type + sizeof prefix - 1);
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strstr(steps, rows[i].step))
            len += (size_t)snprintf(out + len, SHOW_CELL_BYTES - len, "%s%s", len ? ", " : "",
                                    rows[i].word);
    return len > 0;
}

const char *show_body(const json_t *job, size_t columns, char out[SHOW_CELL_BYTES])
{
    const json_t *body = json_object_get(job, "body");
    const char *base64 = json_string_value(json_object_get(job, "body_base64"));
    char whole[SHOW_CELL_BYTES];
    const bool is_encoded = write_encoding(job, whole);
    if (is_encoded && !base64) {
        snprintf(out, SHOW_CELL_BYTES, "(%.200s)", whole);
        return out;
    }
    if (base64) {
        size_t pads = strlen(base64) >= 2 ? (size_t)(base64[strlen(base64) - 1] == '=') +
                                                (size_t)(base64[strlen(base64) - 2] == '=')
                                          : 0;
        snprintf(out, SHOW_CELL_BYTES, "(%.200s%s%zu bytes)", is_encoded ? whole : "",
                 is_encoded ? ", " : "", strlen(base64) / 4 * 3 - pads);
        return out;
    }
    show_text(body, whole);
    copy_cut(out, SHOW_CELL_BYTES, whole, columns);
    return out;
}
