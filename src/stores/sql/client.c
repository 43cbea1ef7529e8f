#include "sql/client.h"

#include "base/error.h"
#include "sql/dialect.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the connection ---- */

bool sql_client_open(struct sql_client *client, const struct sql_dialect *dialect, const char *url,
                     char *error, size_t error_bytes)
{
    *client = (struct sql_client){.dialect = dialect};
    client->connection = dialect->client->connect(url, error, error_bytes);
    return client->connection != NULL;
}

void sql_client_close(struct sql_client *client)
{
    if (client->connection)
        client->dialect->client->disconnect(client->connection);
    client->connection = NULL;
}

bool sql_client_refuse(struct sql_client *client, enum sql_refusal refusal, const char *message)
{
    client->refusal = refusal;
    error_write(client->message, sizeof client->message, "%s", message);
    for (char *at = client->message; *at; at++)
        if (*at == '\n' || *at == '\t')
            *at = at[1] ? ' ' : '\0';
    return false;
}

/* ---- questions ---- */

bool sql_ask(struct sql_client *client, const char *text, const struct sql_args *args,
             struct sql_rows *rows)
{
    struct sql_rows unused = {0};
    client->refusal = SQL_REFUSAL_NONE;
    if (rows)
        *rows = (struct sql_rows){0};
    bool is_answered = client->dialect->client->ask(client, text, args, rows ? rows : &unused);
    sql_rows_fini(&unused);
    if (!is_answered && rows)
        sql_rows_fini(rows);
    return is_answered;
}

bool sql_ask_row(struct sql_client *client, const char *text, const struct sql_args *args,
                 struct sql_rows *row)
{
    if (!sql_ask(client, text, args, row))
        return false;
    if (row->count == 1)
        return true;
    sql_rows_fini(row);
    return sql_client_refuse(client, SQL_REFUSAL_OTHER, "unexpected number of rows");
}

/* ---- rows ---- */

bool sql_rows_init(struct sql_rows *rows, size_t count, size_t columns, size_t bytes)
{
    size_t cells = count * columns;
    *rows = (struct sql_rows){.count = count, .columns = columns};
    /* the cells are followed by their bytes */
    rows->cells = malloc(cells * sizeof *rows->cells + bytes + cells + 1);
    return rows->cells != NULL;
}

char *sql_rows_add(struct sql_rows *rows, size_t bytes)
{
    char *at = (char *)(rows->cells + rows->count * rows->columns) + rows->bytes;
    rows->cells[rows->cell_count++] = slice_make(at, bytes);
    rows->bytes += bytes + 1;
    at[bytes] = '\0';
    return at;
}

void sql_rows_add_null(struct sql_rows *rows)
{
    rows->cells[rows->cell_count++] = (struct slice){0};
}

void sql_rows_fini(struct sql_rows *rows)
{
    free(rows->cells);
    *rows = (struct sql_rows){0};
}

struct slice sql_rows_text(const struct sql_rows *rows, size_t row, size_t column)
{
    return rows->cells[row * rows->columns + column];
}

bool sql_rows_is_null(const struct sql_rows *rows, size_t row, size_t column)
{
    return !sql_rows_text(rows, row, column).at;
}

int64_t sql_rows_number(const struct sql_rows *rows, size_t row, size_t column)
{
    const char *text = sql_rows_text(rows, row, column).at;
    return text ? strtoll(text, NULL, 10) : 0;
}

/* ---- libraries of databases ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool library_load(struct sql_client_library *library, char *error, size_t error_bytes)
{
    void *opened = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
    if (!opened)
        return error_text(error, error_bytes,
                          "the store needs the client library of %s: %s, install %s",
                          library->database, dlerror(), library->package);
    for (size_t i = 0; i < library->count; i++) {
        void *symbol = dlsym(opened, library->functions[i].name);
        memcpy(library->functions[i].into, &symbol, sizeof symbol);
        if (!symbol) {
            dlclose(opened);
            return error_text(error, error_bytes, "%s is too old, install a newer %s",
                              library->file, library->package);
        }
    }
    library->is_loaded = true;
    return true;
}

bool sql_client_library_load(struct sql_client_library *library, char *error, size_t error_bytes)
{
    pthread_mutex_lock(&lock);
    bool is_loaded = library->is_loaded || library_load(library, error, error_bytes);
    pthread_mutex_unlock(&lock);
    return is_loaded;
}
