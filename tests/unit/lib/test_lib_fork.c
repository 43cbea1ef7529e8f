/* A child is detected on kernels that wipe the mark, on those that do not know this, and under emulators that report success and do not wipe. */
#include "lib/state.h"

#include "unit/claim.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static enum { WIPES = 1, REFUSES, PRETENDS } kernel;

static int imitated_madvise(void *at, size_t bytes, int advice)
{
    if (kernel == WIPES)
        return madvise(at, bytes, advice);
    errno = EINVAL;
    return kernel == PRETENDS ? 0 : -1;
}

#define madvise imitated_madvise
#include "lib/lock.c"
#undef madvise

/* Returns whether a child, made by fork or by the bare system call, is detected; and the parent is not. */
static bool detects_child(bool bare)
{
    static struct tarry queue;
    memset(&queue, 0, sizeof queue);
    lib_fork_mark_make(&queue);
    pid_t child = bare ? (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) : fork();
    assert_true(child >= 0);
    if (!child)
        _exit(lib_is_forked(&queue) ? 7 : 8);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(lib_is_forked(&queue));
    lib_fork_mark_free(&queue);
    return WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

CLAIM(detects_a_child_if_the_kernel_wipes_the_mark)
{
    kernel = WIPES;
    assert_true(detects_child(false));
}

CLAIM(detects_a_child_without_the_mark)
{
    kernel = REFUSES;
    assert_true(detects_child(false));
    assert_true(detects_child(true));
}

CLAIM(detects_a_child_if_the_mark_is_not_wiped)
{
    kernel = PRETENDS;
    assert_true(detects_child(false));
}

CLAIMS_MAIN(NULL, NULL)
