#include "sql/postgres/libpq.h"

#include "sql/client.h"

struct libpq libpq;

#define ROW(NAME) {#NAME, &libpq.NAME},
static const struct sql_client_function functions[] = {LIBPQ_FUNCTIONS(ROW)};
#undef ROW

static struct sql_client_library library = {
    .file = "libpq.so.5",
    .database = "PostgreSQL",
    .package = "libpq5",
    .functions = functions,
    .count = sizeof functions / sizeof functions[0],
};

bool libpq_load(char *error, size_t error_bytes)
{
    return sql_client_library_load(&library, error, error_bytes);
}
