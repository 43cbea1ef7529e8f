#include "sql/dialect.h"

#include "sql/mysql/mysql.h"
#include "sql/postgres/postgres.h"

#include <string.h>

const struct sql_dialect *const sql_dialects[] = {&sql_postgres, &sql_mysql, NULL};

const struct sql_dialect *sql_dialect_of(const char *url)
{
    const char *end = strstr(url, "://");
    for (size_t i = 0; end && sql_dialects[i]; i++)
        for (const char *const *scheme = sql_dialects[i]->schemes; *scheme; scheme++)
            if (strlen(*scheme) == (size_t)(end - url) &&
                strncmp(*scheme, url, (size_t)(end - url)) == 0)
                return sql_dialects[i];
    return NULL;
}
