/* Stub for a build without the beanstalk protocol: importing from a beanstalkd fails with an
 * error. */
#include "base/feature.h"
#include "cli/import_beanstalk.h"

enum { ERROR_BYTES = 256 };

int import_beanstalk(const struct import_beanstalk_wish *wish)
{
    char error[ERROR_BYTES];
    (void)wish;
    (void)feature_missing("beanstalk", error, sizeof error);
    return cli_usage("%s", error);
}
