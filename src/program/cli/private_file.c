#include "cli/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OWNER_ONLY = S_IRUSR | S_IWUSR };

static int flags_of(const char *mode)
{
    return *mode == 'w'   ? O_WRONLY | O_CREAT | O_TRUNC
           : *mode == 'a' ? O_WRONLY | O_CREAT | O_APPEND
                          : O_RDWR;
}

FILE *private_file_open(const char *path, const char *mode, int flags)
{
    struct stat before;
    bool is_new = stat(path, &before) != 0;
    int fd = open(path, flags_of(mode) | flags | O_CLOEXEC, OWNER_ONLY);
    if (fd < 0)
        return NULL;
    /* The umask may have removed too many permissions. */
    FILE *file = is_new && fchmod(fd, OWNER_ONLY) != 0 ? NULL : fdopen(fd, mode);
    if (!file) {
        int error = errno;
        close(fd);
        errno = error;
    }
    return file;
}
