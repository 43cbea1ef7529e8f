#include "sql/mysql/libmariadb.h"

#include "sql/client.h"

struct libmariadb libmariadb;

#define ROW(NAME) {#NAME, &libmariadb.NAME},
static const struct sql_client_function functions[] = {LIBMARIADB_FUNCTIONS(ROW)};
#undef ROW

static struct sql_client_library library = {
    .file = "libmariadb.so.3",
    .database = "MariaDB",
    .package = "libmariadb3",
    .functions = functions,
    .count = sizeof functions / sizeof functions[0],
};

bool libmariadb_load(char *error, size_t error_bytes)
{
    return sql_client_library_load(&library, error, error_bytes);
}
