/* Stubs for a library without queues in a directory: TARRY_LIBRARY_DIRECTORY=OFF. Opening one
 * always fails, so the other functions are never called. */
#include "lib/directory.h"

#include <assert.h>
#include <stdio.h>

int directory_open(struct tarry *queue, const struct tarry_options *options, char *error,
                   size_t error_bytes)
{
    (void)queue;
    (void)options;
    if (error && error_bytes)
        snprintf(error, error_bytes,
                 "bad value in 'dir': this library was built without queues in a directory, use "
                 "one built with TARRY_LIBRARY_DIRECTORY=ON");
    return TARRY_BAD_OPTION;
}

void directory_end_waits(struct directory *directory)
{
    (void)directory;
    assert(false);
}

void directory_close(struct directory *directory)
{
    (void)directory;
    assert(false);
}

void directory_leave(struct directory *directory)
{
    (void)directory;
    assert(false);
}

void directory_post(struct directory *directory, struct directory_call *call)
{
    (void)directory;
    (void)call;
    assert(false);
}

void directory_post_take(struct directory *directory, struct directory_take *take)
{
    (void)directory;
    (void)take;
    assert(false);
}

void directory_post_await(struct directory *directory, struct directory_await *await)
{
    (void)directory;
    (void)await;
    assert(false);
}

int directory_wait(struct directory_call *call)
{
    assert(false);
    return call->code;
}

int directory_run(struct directory *directory, struct directory_call *call)
{
    (void)directory;
    return directory_wait(call);
}

size_t directory_interrupt(struct directory *directory, uint64_t tag)
{
    (void)directory;
    (void)tag;
    assert(false);
    return 0;
}

uint64_t directory_dropped(struct directory *directory)
{
    (void)directory;
    assert(false);
    return 0;
}

void directory_return_jobs(struct directory *directory, struct memory_job *const *jobs,
                           size_t count)
{
    (void)directory;
    (void)jobs;
    (void)count;
    assert(false);
}
