/*
 * io_trace: all operations of a program on the files of a directory and on its sockets, in one
 * order that is true. Preloaded (LD_PRELOAD); read by tests/e2e/support/io_trace.py.
 *
 *   TARRY_TEST_IO_TRACE       the file that is written: mapped, so it survives kill -9. An int64 where
 *                        its records end, 56 bytes of nothing, the records
 *   TARRY_TEST_IO_TRACE_DIR   the directory, absolute, as the program names it. Names relative to a
 *                        descriptor of it, or of one below it, are followed
 * TARRY_TEST_IO_TRACE_DROP  n: every n-th sync reports success without a sync. For the trace's own tests
 *
 * A record's place in the file is its time. The beginning of something (a write, a sync, bytes to a
 * socket) is recorded before the call, its end after: if one record is before another, so was
 * its event. Names are recorded after the call.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind {
    OPENED = 1, /* id: the handle; a: flags; text: the path */
    WRITING,    /* id; a: offset; b: bytes; data: omitted if all are zeros */
    WRITTEN,    /* id; a: place of WRITING; b: result */
    SYNCING,    /* id */
    SYNCED,     /* id; a: place of SYNCING; b: result */
    SIZED,      /* id; a: size; b: result */
    PUNCHED,    /* id; a: offset; b: bytes */
    RENAMED,    /* text: from, a zero byte, to */
    UNLINKED,   /* text */
    MADE_DIR,   /* text */
    RECEIVED,   /* id: the connection; data */
    SENDING,    /* id; data */
    UNKNOWN     /* text: a call that the reader does not know how to follow */
};

struct record {
    _Atomic uint32_t bytes; /* whole record, a multiple of 8; written last */
    uint16_t kind;
    uint16_t is_zero;
    uint32_t id;
    uint32_t data_bytes;
    int64_t a, b;
};

/* The same call under the name it has where files may be large. */
#define SAME(NAME, OTHER) extern __typeof__(OTHER) NAME __attribute__((alias(#OTHER)))

enum { HEAD_BYTES = 64, FDS = 1 << 16 };
static const int64_t TRACE_BYTES = (int64_t)8 << 30;

/* Kinds of descriptors: 0 not ours, FILE_BIT with its handle, or SOCKET_BIT with its connection. */
enum { FILE_BIT = 1 << 30, SOCKET_BIT = 1 << 29, NOTHING = 1 << 28 };
static _Atomic uint32_t fds[FDS];
static char *_Atomic names[FDS]; /* of descriptors of files within the directory; never freed */
static _Atomic uint32_t ids, syncs;
static char *trace;
static const char *dir;
static size_t dir_bytes;
static uint32_t drop;

static void fail(const char *what)
{
    fprintf(stderr, "io_trace: %s\n", what);
    abort();
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("TARRY_TEST_IO_TRACE"), *every = getenv("TARRY_TEST_IO_TRACE_DROP");
    int fd;
    dir = getenv("TARRY_TEST_IO_TRACE_DIR");
    if (!path || !dir)
        return;
    dir_bytes = strlen(dir);
    drop = every ? (uint32_t)strtoul(every, NULL, 10) : 0;
    fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || syscall(SYS_ftruncate, fd, TRACE_BYTES) < 0)
        fail("cannot make the file");
    void *at = mmap(NULL, (size_t)TRACE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        fail("cannot map the file");
    syscall(SYS_close, fd);
    atomic_store((_Atomic int64_t *)at, HEAD_BYTES);
    trace = at;
}

/* ---- records ---- */

static bool all_zero(const struct iovec *sections, int count)
{
    for (int i = 0; i < count; i++) {
        const char *at = sections[i].iov_base;
        size_t len = sections[i].iov_len;
        if (len && (at[0] || memcmp(at, at + 1, len - 1) != 0))
            return false;
    }
    return true;
}

static size_t bytes_of(const struct iovec *sections, int count)
{
    size_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += sections[i].iov_len;
    return sum;
}

/* Writes at most `limit` bytes of the parts. Returns its place. */
static int64_t put_sections(enum kind kind, uint32_t id, int64_t a, int64_t b,
                            const struct iovec *sections, int count, size_t limit)
{
    size_t sum = bytes_of(sections, count), len = sum < limit ? sum : limit;
    bool is_zero = kind == WRITING && all_zero(sections, count);
    size_t kept = is_zero ? 0 : len, bytes = (sizeof(struct record) + kept + 7) & ~(size_t)7;
    int64_t at = atomic_fetch_add((_Atomic int64_t *)(void *)trace, (int64_t)bytes);
    struct record *record = (void *)(trace + at);
    char *into = trace + at + sizeof *record;
    if (at + (int64_t)bytes > TRACE_BYTES)
        fail("the trace is full");
    record->kind = (uint16_t)kind;
    record->is_zero = is_zero;
    record->id = id & ~(uint32_t)(FILE_BIT | SOCKET_BIT);
    record->data_bytes = (uint32_t)kept;
    record->a = a;
    record->b = b;
    for (int i = 0; kept && i < count; i++) {
        size_t some = sections[i].iov_len < kept ? sections[i].iov_len : kept;
        memcpy(into, sections[i].iov_base, some);
        into += some;
        kept -= some;
    }
    atomic_store(&record->bytes, (uint32_t)bytes);
    return at;
}

static int64_t put(enum kind kind, uint32_t id, int64_t a, int64_t b, const void *data, size_t len)
{
    struct iovec section = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    return put_sections(kind, id, a, b, &section, 1, len);
}

/* The path within the directory; NULL: it is elsewhere. The directory itself: "". */
static const char *within(const char *path)
{
    if (!trace || strncmp(path, dir, dir_bytes) != 0)
        return NULL;
    if (path[dir_bytes] == '\0')
        return "";
    return path[dir_bytes] == '/' ? path + dir_bytes + 1 : NULL;
}

enum { NAME_BYTES = 4096 };

/* The path within the directory of `path`, seen from the descriptor `at`. */
static const char *within_at(int at, const char *path, char out[NAME_BYTES])
{
    const char *parent = at >= 0 && at < FDS ? atomic_load(&names[at]) : NULL;
    if (at == AT_FDCWD || *path == '/')
        return within(path);
    if (!trace || !parent)
        return NULL;
    if (strcmp(path, ".") == 0)
        return parent;
    snprintf(out, NAME_BYTES, "%s%s%s", parent, *parent ? "/" : "", path);
    return out;
}

static void put_path(enum kind kind, int at, const char *path)
{
    char whole[NAME_BYTES];
    int saved = errno;
    const char *name = within_at(at, path, whole);
    if (name)
        put(kind, 0, 0, 0, name, strlen(name));
    errno = saved;
}

static void put_unknown(const char *call)
{
    put(UNKNOWN, 0, 0, 0, call, strlen(call));
}

/* ---- descriptors ---- */

static void set_fd(int fd, uint32_t what)
{
    if (fd >= FDS)
        fail("too many descriptors");
    if (fd >= 0)
        atomic_store(&fds[fd], what);
}

static uint32_t new_id(void)
{
    return atomic_fetch_add(&ids, 1) + 1;
}

static uint32_t what_is(int fd)
{
    uint32_t what;
    int family = 0;
    socklen_t len = sizeof family;
    if (!trace || fd < 0 || fd >= FDS)
        return 0;
    what = atomic_load(&fds[fd]);
    if (what == 0) {
        int saved = errno;
        bool is_inet = getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) == 0 &&
                       (family == AF_INET || family == AF_INET6);
        what = is_inet ? SOCKET_BIT | new_id() : NOTHING;
        set_fd(fd, what);
        errno = saved;
    }
    return what;
}

static bool is_file(uint32_t what)
{
    return (what & FILE_BIT) != 0;
}

static bool is_socket(uint32_t what)
{
    return (what & SOCKET_BIT) != 0;
}

/* ---- opening, closing ---- */

static int open_at(int at, const char *path, int flags, mode_t mode)
{
    char whole[NAME_BYTES];
    int fd = (int)syscall(SYS_openat, at, path, flags, mode);
    const char *name = fd >= 0 && trace ? within_at(at, path, whole) : NULL;
    if (fd >= 0 && trace)
        set_fd(fd, NOTHING);
    if (fd >= 0 && trace)
        atomic_store(&names[fd], name ? strdup(name) : NULL);
    if (name) {
        uint32_t what = FILE_BIT | new_id();
        set_fd(fd, what);
        put(OPENED, what, flags, 0, name, strlen(name));
    }
    return fd;
}

static mode_t mode_in(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_in(flags, args);
    va_end(args);
    return open_at(AT_FDCWD, path, flags, mode);
}
SAME(open64, open);

int openat(int at, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_in(flags, args);
    va_end(args);
    return open_at(at, path, flags, mode);
}
SAME(openat64, openat);

int close(int fd)
{
    if (trace && fd >= 0 && fd < FDS) {
        atomic_store(&fds[fd], 0);
        atomic_store(&names[fd], NULL);
    }
    return (int)syscall(SYS_close, fd);
}

int accept4(int fd, struct sockaddr *restrict address, socklen_t *restrict len, int flags)
{
    int got = (int)syscall(SYS_accept4, fd, address, len, flags);
    if (trace)
        set_fd(got, SOCKET_BIT | new_id());
    return got;
}

int accept(int fd, struct sockaddr *restrict address, socklen_t *restrict len)
{
    return accept4(fd, address, len, 0);
}

/* ---- writing ---- */

/* `offset` -1: at the position of the descriptor. */
static ssize_t write_sections(int fd, const struct iovec *sections, int count, int64_t offset)
{
    uint32_t what = what_is(fd);
    int64_t at = 0;
    ssize_t put_bytes;
    if (is_file(what)) {
        int64_t where = offset >= 0 ? offset : syscall(SYS_lseek, fd, 0, SEEK_CUR);
        at = put_sections(WRITING, what, where, (int64_t)bytes_of(sections, count), sections, count,
                          SIZE_MAX);
    } else if (is_socket(what)) {
        put_sections(SENDING, what, 0, 0, sections, count, SIZE_MAX);
    }
    put_bytes = offset >= 0 ? syscall(SYS_pwritev, fd, sections, count, offset, 0)
                            : syscall(SYS_writev, fd, sections, count);
    if (is_file(what) || is_socket(what)) {
        int saved = errno;
        put(WRITTEN, what, at, put_bytes, NULL, 0);
        errno = saved;
    }
    return put_bytes;
}

ssize_t pwrite(int fd, const void *from, size_t len, off_t offset)
{
    struct iovec section = {.iov_base = (void *)(uintptr_t)from, .iov_len = len};
    return write_sections(fd, &section, 1, offset);
}
SAME(pwrite64, pwrite);

ssize_t pwritev(int fd, const struct iovec *sections, int count, off_t offset)
{
    return write_sections(fd, sections, count, offset);
}
SAME(pwritev64, pwritev);

ssize_t write(int fd, const void *from, size_t len)
{
    struct iovec section = {.iov_base = (void *)(uintptr_t)from, .iov_len = len};
    return write_sections(fd, &section, 1, -1);
}

ssize_t writev(int fd, const struct iovec *sections, int count)
{
    return write_sections(fd, sections, count, -1);
}

/* ---- sockets ---- */

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    uint32_t what = what_is(fd);
    ssize_t sent;
    if (is_socket(what))
        put_sections(SENDING, what, 0, 0, message->msg_iov, (int)message->msg_iovlen, SIZE_MAX);
    sent = syscall(SYS_sendmsg, fd, message, flags);
    if (is_socket(what)) {
        int saved = errno;
        put(WRITTEN, what, 0, sent, NULL, 0);
        errno = saved;
    }
    return sent;
}

ssize_t send(int fd, const void *from, size_t len, int flags)
{
    struct iovec section = {.iov_base = (void *)(uintptr_t)from, .iov_len = len};
    struct msghdr message = {.msg_iov = &section, .msg_iovlen = 1};
    return sendmsg(fd, &message, flags);
}

static ssize_t received(int fd, const struct iovec *sections, int count, ssize_t got)
{
    int saved = errno;
    uint32_t what = got > 0 ? what_is(fd) : 0;
    if (is_socket(what))
        put_sections(RECEIVED, what, 0, 0, sections, count, (size_t)got);
    errno = saved;
    return got;
}

ssize_t read(int fd, void *into, size_t len)
{
    struct iovec section = {.iov_base = into, .iov_len = len};
    return received(fd, &section, 1, syscall(SYS_read, fd, into, len));
}

ssize_t readv(int fd, const struct iovec *sections, int count)
{
    return received(fd, sections, count, syscall(SYS_readv, fd, sections, count));
}

ssize_t recv(int fd, void *into, size_t len, int flags)
{
    struct iovec section = {.iov_base = into, .iov_len = len};
    return received(fd, &section, 1, syscall(SYS_recvfrom, fd, into, len, flags, NULL, NULL));
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    return received(fd, message->msg_iov, (int)message->msg_iovlen,
                    syscall(SYS_recvmsg, fd, message, flags));
}

/* ---- syncs, sizes ---- */

static int sync_with(long call, int fd)
{
    uint32_t what = what_is(fd);
    int64_t at;
    int result;
    if (!is_file(what))
        return (int)syscall(call, fd);
    if (drop && (atomic_fetch_add(&syncs, 1) + 1) % drop == 0)
        return 0;
    at = put(SYNCING, what, 0, 0, NULL, 0);
    result = (int)syscall(call, fd);
    int saved = errno;
    put(SYNCED, what, at, result, NULL, 0);
    errno = saved;
    return result;
}

int fdatasync(int fd)
{
    return sync_with(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    return sync_with(SYS_fsync, fd);
}

int ftruncate(int fd, off_t size)
{
    uint32_t what = what_is(fd);
    int result = (int)syscall(SYS_ftruncate, fd, size), saved = errno;
    if (is_file(what) && result == 0)
        put(SIZED, what, size, result, NULL, 0);
    errno = saved;
    return result;
}
SAME(ftruncate64, ftruncate);

int fallocate(int fd, int mode, off_t offset, off_t len)
{
    uint32_t what = what_is(fd);
    int result = (int)syscall(SYS_fallocate, fd, mode, offset, len), saved = errno;
    if (is_file(what) && result == 0) {
        if (mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE))
            put(PUNCHED, what, offset, len, NULL, 0);
        else
            put_unknown("fallocate");
    }
    errno = saved;
    return result;
}
SAME(fallocate64, fallocate);

/* ---- names ---- */

static int rename_at(int from_at, const char *from, int to_at, const char *to)
{
    char old_whole[NAME_BYTES], new_whole[NAME_BYTES];
    int result = (int)syscall(SYS_renameat, from_at, from, to_at, to), saved = errno;
    const char *old = result == 0 ? within_at(from_at, from, old_whole) : NULL;
    const char *new = result == 0 ? within_at(to_at, to, new_whole) : NULL;
    if (old && new) {
        struct iovec sections[] = {{(void *)(uintptr_t)old, strlen(old) + 1},
                                   {(void *)(uintptr_t) new, strlen(new)}};
        put_sections(RENAMED, 0, 0, 0, sections, 2, SIZE_MAX);
    } else if (old || new) {
        put_unknown("rename");
    }
    errno = saved;
    return result;
}

int rename(const char *from, const char *to)
{
    return rename_at(AT_FDCWD, from, AT_FDCWD, to);
}

int renameat(int from_at, const char *from, int to_at, const char *to)
{
    return rename_at(from_at, from, to_at, to);
}

int unlinkat(int at, const char *path, int flags)
{
    int result = (int)syscall(SYS_unlinkat, at, path, flags);
    if (result == 0)
        put_path(UNLINKED, at, path);
    return result;
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int mkdirat(int at, const char *path, mode_t mode)
{
    int result = (int)syscall(SYS_mkdirat, at, path, mode);
    if (result == 0)
        put_path(MADE_DIR, at, path);
    return result;
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

int link(const char *from, const char *to)
{
    int result = (int)syscall(SYS_link, from, to);
    if (result == 0 && within(to))
        put_unknown("link");
    return result;
}

int rmdir(const char *path)
{
    int result = (int)syscall(SYS_rmdir, path);
    if (result == 0 && within(path))
        put_unknown("rmdir");
    return result;
}
