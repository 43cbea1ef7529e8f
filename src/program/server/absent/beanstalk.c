/* Stubs for a build without beanstalkd's protocol: --beanstalk is refused. */
#include "base/feature.h"
#include "server/protocol.h"

static void *on_open(const struct side_front_options *options, char *error)
{
    (void)options;
    (void)feature_missing("beanstalk", error, SIDE_FRONT_ERROR_BYTES);
    return NULL;
}

static void on_free(void *self)
{
    (void)self;
}

const struct side_front_ops side_front_beanstalk = {.open = on_open, .free = on_free};
