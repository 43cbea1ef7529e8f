#include "sql/mysql/prepared.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

void mysql_prepared_init(struct mysql_prepared *prepared, bool is_off)
{
    buffer_init(&prepared->form, MYSQL_FORM_BYTES_MAX);
    buffer_init(&prepared->values, MYSQL_FORM_BYTES_MAX);
    prepared->is_off = is_off;
}

void mysql_prepared_free(struct mysql_prepared *prepared)
{
    table_fini(&prepared->table.table);
    for (size_t i = 0; i < MYSQL_FORMS_MAX; i++)
        free(prepared->forms[i].text);
    buffer_fini(&prepared->form);
    buffer_fini(&prepared->values);
}

bool mysql_prepared_stop(struct mysql_prepared *prepared, unsigned error)
{
    static const unsigned errors[] = {
        1461, /* max_prepared_stmt_count */
        1295, /* a kind of statement that cannot be prepared */
        1243, /* an unknown statement: something else has reset the session */
        1615, /* the tables changed again and again while it was prepared */
    };
    if (prepared->is_off)
        return false;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i] == error)
            return prepared->is_off = true;
    return false;
}

/* ---- forms ---- */

static bool is_word(char byte)
{
    return text_is_letter(byte) || text_is_digit(byte) || byte == '_' || byte == '.' || byte == '@';
}

/* Returns the end of the quoted text that begins at `at`. */
static size_t quote_end(struct slice text, size_t at)
{
    size_t end = at + 1;
    while (end < text.len && text.at[end] != '\'')
        end += text.at[end] == '\\' ? 2 : 1;
    return end < text.len ? end + 1 : text.len;
}

/* Returns the end of the number, or of the rest of a word. */
static size_t word_end(struct slice text, size_t at)
{
    while (at < text.len && is_word(text.at[at]))
        at++;
    return at;
}

static void add_value(struct mysql_prepared *prepared, struct slice value)
{
    static const char binary[] = "_binary";
    enum { BINARY = sizeof binary - 1 };
    struct buffer *form = &prepared->form;
    if (prepared->values.len)
        buffer_append_byte(&prepared->values, ',');
    if (form->len >= BINARY && memcmp(form->at + form->len - BINARY, binary, BINARY) == 0) {
        form->len -= BINARY;
        buffer_append_text(&prepared->values, binary);
    }
    buffer_append_slice(&prepared->values, value);
    buffer_append_byte(form, '?');
}

/* Splits a statement into its form and its values. Returns false if it is too long. */
static bool split(struct mysql_prepared *prepared, struct slice text)
{
    size_t at = 0;
    buffer_clear(&prepared->form);
    buffer_clear(&prepared->values);
    while (at < text.len) {
        size_t end = at + 1;
        bool is_value = text.at[at] == '\'';
        if (is_value) {
            end = quote_end(text, at);
        } else if (is_word(text.at[at])) {
            end = word_end(text, at);
            is_value = end - at > 1;
            for (size_t i = at; i < end; i++)
                is_value = is_value && text_is_digit(text.at[i]);
        }
        if (is_value)
            add_value(prepared, slice_make(text.at + at, end - at));
        else
            buffer_append(&prepared->form, text.at + at, end - at);
        at = end;
    }
    return !prepared->form.failed && !prepared->values.failed;
}

static struct mysql_form *form_find(struct mysql_prepared *prepared)
{
    struct slice text = slice_make(prepared->form.at, prepared->form.len);
    return mysql_form_table_find(&prepared->table, text);
}

/* Remembers the form in the place of the one that was not used for the longest time. */
static void form_add(struct mysql_prepared *prepared)
{
    struct mysql_form *place = &prepared->forms[0];
    char *text = malloc(prepared->form.len);
    for (size_t i = 1; i < MYSQL_FORMS_MAX; i++)
        if (prepared->forms[i].used < place->used)
            place = &prepared->forms[i];
    if (!text)
        return;
    if (place->text)
        mysql_form_table_remove(&prepared->table, place);
    free(place->text);
    memcpy(text, prepared->form.at, prepared->form.len);
    *place = (struct mysql_form){.text = text, .id = prepared->uses, .used = prepared->uses};
    place->by_text.key = slice_make(text, prepared->form.len);
    mysql_form_table_add(&prepared->table, place);
}

/* ---- statements ---- */

void mysql_prepared_done(struct mysql_prepared *prepared, uint64_t id)
{
    for (size_t i = 0; i < MYSQL_FORMS_MAX; i++)
        if (prepared->forms[i].id == id)
            prepared->forms[i].is_prepared = true;
}

uint64_t mysql_prepared_use(struct mysql_prepared *prepared, struct buffer *out, size_t from)
{
    struct slice text = slice_make(out->at + from, out->len - from);
    if (prepared->is_off || out->failed || text.len > MYSQL_FORM_BYTES_MAX ||
        !split(prepared, text))
        return 0;
    prepared->uses++;
    struct mysql_form *form = form_find(prepared);
    if (!form) {
        form_add(prepared);
        return 0;
    }
    int name = (int)(form - prepared->forms);
    form->used = prepared->uses;
    out->len = from;
    if (!form->is_prepared) /* a form has neither quotes nor backslashes */
        buffer_append_format(out, "PREPARE tarry_%d FROM '%.*s';", name, (int)form->by_text.key.len,
                             form->by_text.key.at);
    buffer_append_format(out, "EXECUTE tarry_%d%s", name, prepared->values.len ? " USING " : "");
    buffer_append(out, prepared->values.at, prepared->values.len);
    return form->is_prepared ? 0 : form->id;
}
