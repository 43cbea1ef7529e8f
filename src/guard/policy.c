#include "guard/policy.h"

#include "base/access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(char *error, const char *path, const char *why, int code)
{
    (void)snprintf(error, GUARD_ERROR_BYTES, "cannot read the policy '%.120s', %s", path, why);
    return code;
}

/* ---- the file ---- */

/* Waits for nothing: what is no regular file, such as a pipe, is refused. */
static int open_file(const char *path, struct stat *info, char *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, info) != 0) {
        int code = -errno;
        if (fd >= 0)
            close(fd);
        return fail(error, path, strerror(-code), code);
    }
    const char *why = !S_ISREG(info->st_mode)                 ? "it is not a file"
                      : info->st_size > POLICY_FILE_BYTES_MAX ? "it is larger than 1 MiB"
                                                              : NULL;
    if (!why)
        return fd;
    close(fd);
    return fail(error, path, why, -EINVAL);
}

/* Up to `bytes_max`, which is more than the file had when it was opened. */
static ssize_t read_all(int fd, char *into, size_t bytes_max)
{
    size_t len = 0;
    while (len < bytes_max) {
        ssize_t count = read(fd, into + len, bytes_max - len);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return count < 0 ? -errno : (ssize_t)len;
        len += (size_t)count;
    }
    return -EFBIG;
}

static int read_lines(struct policy *policy, const char *path, char *text, size_t len, char *error)
{
    size_t path_len = strlen(path);
    const char *shown = path_len > 80 ? path + path_len - 80 : path;
    char *end = text + len;
    for (unsigned number = 1; text < end; number++) {
        char where[128];
        char *line_end = memchr(text, '\n', (size_t)(end - text));
        line_end = line_end ? line_end : end;
        (void)snprintf(where, sizeof where, "%s:%u", shown, number);
        if (line_end - text > POLICY_LINE_BYTES_MAX || memchr(text, 0, (size_t)(line_end - text))) {
            (void)snprintf(error, GUARD_ERROR_BYTES,
                           "%s: bad line, one has at most %d bytes of text", where,
                           POLICY_LINE_BYTES_MAX);
            return -EINVAL;
        }
        *line_end = 0;
        int code = policy_read_line(policy, text, where, error);
        if (code != 0)
            return code;
        text = line_end + 1;
    }
    return 0;
}

/* Others who can read it know the secrets; others who can write it decide what is reached. */
static int check_mode(const struct policy *policy, const char *path, mode_t mode, char *error)
{
    bool has_secrets = policy->keys || policy->credentials;
    if (mode & (S_IWGRP | S_IWOTH)) {
        (void)snprintf(error, GUARD_ERROR_BYTES,
                       "others may write the policy '%.120s', run: chmod %s", path,
                       has_secrets ? "600" : "644");
        return -EPERM;
    }
    if (has_secrets && mode & (S_IRGRP | S_IROTH)) {
        (void)snprintf(error, GUARD_ERROR_BYTES,
                       "others may read the secrets of the policy '%.120s', run: chmod 600", path);
        return -EPERM;
    }
    return 0;
}

static int read_open(struct policy *policy, const char *path, int fd, const struct stat *info,
                     char *error)
{
    size_t room = (size_t)info->st_size + 1;
    char *text = malloc(room + 1); /* a zero byte behind the last line */
    if (!text)
        return fail(error, path, "out of memory", -ENOMEM);
    ssize_t len = read_all(fd, text, room);
    int code = len < 0 ? fail(error, path, strerror((int)-len), (int)len)
                       : read_lines(policy, path, text, (size_t)len, error);
    if (code == 0)
        code = check_mode(policy, path, access_of_others(fd, info->st_mode), error);
    explicit_bzero(text, room + 1);
    free(text);
    return code;
}

int policy_read(const char *path, struct policy **out, char error[GUARD_ERROR_BYTES])
{
    struct stat info;
    struct policy *policy = calloc(1, sizeof *policy);
    if (!policy)
        return fail(error, path, "out of memory", -ENOMEM);
    int fd = open_file(path, &info, error);
    int code = fd < 0 ? fd : read_open(policy, path, fd, &info, error);
    if (fd >= 0)
        close(fd);
    if (code == 0)
        *out = policy;
    else
        policy_free(policy);
    return code;
}

/* ---- its end ---- */

/* All items begin with the next one. */
static void free_items(void *first, size_t item_bytes)
{
    while (first) {
        void *next = *(void **)first;
        explicit_bzero(first, item_bytes);
        free(first);
        first = next;
    }
}

void policy_free(struct policy *policy)
{
    if (!policy)
        return;
    free_items(policy->hosts, sizeof *policy->hosts);
    free_items(policy->keys, sizeof *policy->keys);
    free_items(policy->credentials, sizeof *policy->credentials);
    free_items(policy->commands, sizeof *policy->commands);
    free(policy->networks);
    free(policy);
}
