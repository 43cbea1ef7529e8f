/* Side front for clients of beanstalkd: --beanstalk. */
#include "beanstalk/front.h"
#include "server/protocol.h"

_Static_assert((int)BEANSTALK_ERROR_BYTES <= (int)SIDE_FRONT_ERROR_BYTES,
               "errors are handed through");

static void *on_open(const struct side_front_options *options, char *error)
{
    const struct beanstalk_options front = {.reactor = options->reactor,
                                            .queue = options->queue,
                                            .waiters = options->waiters,
                                            .listener = options->listener,
                                            .quota = options->quota,
                                            .budget = options->budget,
                                            .job_bytes_max = options->job_bytes_max,
                                            .connections_max = options->connections_max};
    return beanstalk_front_new(&front, error);
}

static void on_start(void *self)
{
    beanstalk_front_start(self);
}

static void on_stop(void *self, void (*stopped)(void *ctx), void *ctx)
{
    beanstalk_front_stop(self, stopped, ctx);
}

static void on_free(void *self)
{
    beanstalk_front_free(self);
}

const struct side_front_ops side_front_beanstalk = {
    .open = on_open, .start = on_start, .stop = on_stop, .free = on_free};
