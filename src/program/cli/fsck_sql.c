#include "cli/fsck_sql.h"

#include "cli/cli.h"
#include "sql/sql.h"

bool fsck_sql_is_store(const char *store)
{
    return sql_kind(store) != NULL;
}

int fsck_sql(const char *store, bool repair, bool json)
{
    char error[512] = "";
    int left = sql_fsck(store, repair, json, error, sizeof error);
    if (left < 0)
        return cli_error("%s", error);
    return left == 0 ? CLI_OK : CLI_REFUSED;
}
