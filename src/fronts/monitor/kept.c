#include "monitor/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PORTION_BYTES = 256 * 1024, NAME_BYTES = 64 };
#define FOLDER "monitor"

/* Gives a new file or folder to the owner of the store, which a server that runs as root is not. */
static void give_to_owner(int store, int fd)
{
    struct stat owner;
    if (geteuid() == 0 && fstat(store, &owner) == 0)
        (void)!fchown(fd, owner.st_uid, owner.st_gid);
}

/* Opens the folder, without following a link. Returns a descriptor or a negative errno. */
static int open_folder(const char *directory, bool creates)
{
    int store = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store < 0)
        return -errno;
    bool is_new = creates && mkdirat(store, FOLDER, 0700) == 0;
    int folder = openat(store, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int result = folder < 0 ? -errno : folder;
    if (is_new && folder >= 0)
        give_to_owner(store, folder);
    close(store);
    return result;
}

static int read_whole(int fd, struct buffer *out)
{
    ssize_t got;
    do {
        char *room = buffer_reserve(out, PORTION_BYTES);
        if (!room)
            return -EFBIG;
        got = read(fd, room, PORTION_BYTES);
        if (got > 0)
            out->len += (size_t)got;
    } while (got > 0 || (got < 0 && errno == EINTR));
    return got < 0 ? -errno : 0;
}

int monitor_kept_read(const char *directory, const char *name, struct buffer *out)
{
    int folder = open_folder(directory, false);
    if (folder < 0)
        return folder;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int result = fd < 0 ? -errno : read_whole(fd, out);
    if (fd >= 0)
        close(fd);
    close(folder);
    return result;
}

static int write_whole(int fd, struct slice bytes)
{
    while (bytes.len) {
        ssize_t put = write(fd, bytes.at, bytes.len);
        if (put < 0 && errno != EINTR)
            return -errno;
        if (put > 0)
            bytes = slice_make(bytes.at + put, bytes.len - (size_t)put);
    }
    return 0;
}

/* Writes the file under another name, then renames it. */
static int replace(int folder, const char *name, struct slice bytes)
{
    char fresh[NAME_BYTES];
    int len = snprintf(fresh, sizeof fresh, "%s.tmp", name);
    if (len < 0 || (size_t)len >= sizeof fresh)
        return -ENAMETOOLONG;
    int fd = openat(folder, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    give_to_owner(folder, fd);
    int error = write_whole(fd, bytes);
    if (close(fd) != 0 && !error)
        error = -errno;
    if (!error && renameat(folder, fresh, folder, name) != 0)
        error = -errno;
    if (error)
        (void)unlinkat(folder, fresh, 0);
    return error;
}

int monitor_kept_write(const char *directory, const char *name, struct slice bytes)
{
    int folder = open_folder(directory, true);
    if (folder < 0)
        return folder;
    int error = replace(folder, name, bytes);
    close(folder);
    return error;
}
