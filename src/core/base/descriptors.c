#include "base/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FIRST = STDERR_FILENO + 1, CLOSE_ON_EXEC = 1 << 2 /* from linux/close_range.h */ };

void descriptors_hide(void)
{
    struct rlimit limit;
    if (syscall(SYS_close_range, (unsigned)FIRST, ~0U, (unsigned)CLOSE_ON_EXEC) == 0)
        return;
    /* Linux before 5.11 lacks this call. */
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    for (int fd = FIRST; (rlim_t)fd < limit.rlim_cur && fd < 1 << 20; fd++)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}
