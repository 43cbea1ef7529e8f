/* Which MariaDB and MySQL are taken, by how they name themselves. */
#include "sql/mysql/client.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <string.h>

static const char *refusal_of(const char *version)
{
    static char error[200];
    error[0] = '\0';
    if (mysql_version_check(version, error, sizeof error))
        return NULL;
    return error;
}

CLAIM(servers_that_pass_over_locked_rows_are_taken)
{
    static const char *const versions[] = {
        "8.0.15",         "8.0.44-0ubuntu0.24.04.1",        "8.4.7",         "9.7.4-2",
        "10.6.0-MariaDB", "10.11.19-MariaDB-0+deb12u1-log", "11.4.2-MariaDB"};
    for (size_t i = 0; i < COUNT_OF(versions); i++)
        assert_null(refusal_of(versions[i]));
}

CLAIM(older_versions_are_rejected_with_the_required_one)
{
    static const char *const versions[] = {"5.7.44-log", "10.5.29-MariaDB", "5.5.68-MariaDB"};
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        assert_non_null(refusal_of(versions[i]));
        assert_non_null(strstr(refusal_of(versions[i]), versions[i]));
        assert_non_null(strstr(refusal_of(versions[i]), "use MariaDB 10.6 or MySQL 8.0"));
    }
}

CLAIM(a_fork_that_reports_a_new_mysql_version_is_rejected)
{
    assert_non_null(strstr(refusal_of("8.0.11-TiDB-v7.5.1"), "TiDB"));
}

CLAIMS_MAIN(NULL, NULL)
