#include "net/listener.h"

#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BACKLOG = 1024, FIRST_INHERITED = 3, GROUP_BYTES_MAX = 1 << 20 };

/* ---- shared by all kinds ---- */

static bool open_failed(const struct listener *listener, const char *why, const char *advice,
                        char *error)
{
    return error_text(error, LISTENER_ERROR_BYTES, "cannot listen on '%s', %s, %s", listener->name,
                      why, advice);
}

static void close_descriptor(struct listener *listener)
{
    if (listener->fd >= 0)
        (void)close(listener->fd);
    listener->fd = -1;
}

/* Returns the number of inherited sockets: FIRST_INHERITED and the following descriptors. */
static uint32_t inherited_count(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    uint64_t number = 0;
    if (!pid || !count || !text_parse_u64(slice_of(pid), INT32_MAX, &number) ||
        number != (uint64_t)getpid() || !text_parse_u64(slice_of(count), 1 << 20, &number))
        return 0;
    return (uint32_t)number;
}

static void name_by_address(struct listener *listener, const struct sockaddr_storage *address)
{
    char text[PEER_TEXT_BYTES];
    listener->address = peer_of_socket(address);
    listener->is_local = peer_is_loopback(&listener->address);
    peer_emit(&listener->address, text);
    (void)snprintf(listener->name, sizeof listener->name, "%s", text);
}

static void name_by_path(struct listener *listener, const char *path)
{
    listener->is_local = true;
    (void)snprintf(listener->name, sizeof listener->name, "unix:%.*s", (int)LISTENER_PATH_BYTES,
                   path);
}

/* ---- IP addresses ---- */

static socklen_t address_bytes(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* Returns a socket bound to the listener's address, exclusively or shared within this process, or a
 * negative errno. */
static int bind_address(const struct listener *listener, bool is_shared)
{
    const int on = 1;
    const struct sockaddr_storage *address = &listener->options.address;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    bool ok = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0;
    if (listener->is_v6_only)
        ok = ok && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0;
    ok = ok && (!is_shared || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0) &&
         bind(fd, (const struct sockaddr *)address, address_bytes(address)) == 0;
    if (ok)
        return fd;
    int code = -errno;
    (void)close(fd);
    return code;
}

static bool address_failed(const struct listener *listener, int code, char *error)
{
    bool is_taken = code == -EADDRINUSE;
    return open_failed(listener, is_taken ? "the port is taken" : strerror(-code),
                       is_taken && inherited_count()
                           ? "if systemd holds it for this server, give --listen fd:NAME"
                       : is_taken        ? "stop the other server or choose another --listen"
                       : code == -EACCES ? "choose a port from 1024 on"
                                         : "choose another --listen",
                       error);
}

/* Opens an address. Binds it exclusively first, which fails if another process uses the port. Then
 * allows shared binding, for the sockets of this process's other threads. */
static bool open_address(struct listener *listener, char *error)
{
    const int on = 1;
    struct sockaddr_storage *address = &listener->options.address;
    socklen_t bytes = sizeof *address;
    listener->kind = LISTENER_TCP;
    name_by_address(listener, address);
    int fd = bind_address(listener, false);
    if (fd < 0)
        return address_failed(listener, fd, error);
    listener->fd = fd;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0 ||
        getsockname(fd, (struct sockaddr *)address, &bytes) != 0)
        return address_failed(listener, -errno, error);
    name_by_address(listener, address); /* port 0 is now a real port */
    return true;
}

/* ---- unix sockets ---- */

static struct sockaddr_un unix_address(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return address;
}

/* Returns whether a process accepts connections at that path. */
static bool is_served(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;
    bool is_refused = connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                      (errno == ECONNREFUSED || errno == ENOENT);
    (void)close(fd);
    return !is_refused;
}

/* Removes the socket file of a process that has ended. Removes nothing but a socket that no process
 * serves. */
static bool remove_left_over(const struct listener *listener, const struct sockaddr_un *address,
                             char *error)
{
    struct stat status;
    if (lstat(address->sun_path, &status) != 0)
        return errno == ENOENT || open_failed(listener, strerror(errno), "choose another", error);
    if (!S_ISSOCK(status.st_mode))
        return open_failed(listener, "a file that is not a socket is there",
                           "remove it or choose another path", error);
    if (is_served(address))
        return open_failed(listener, "another server listens there",
                           "stop the other server or choose another path", error);
    return unlink(address->sun_path) == 0 || errno == ENOENT ||
           open_failed(listener, strerror(errno), "remove it or choose another path", error);
}

/* Binds the socket with a mode that allows no connections until it has its group and mode. */
static int bind_closed(int fd, const struct sockaddr_un *address)
{
    mode_t before = umask(0777);
    int code = bind(fd, (const struct sockaddr *)address, sizeof *address) == 0 ? 0 : -errno;
    (void)umask(before);
    return code;
}

/* Looks up a group. Returns false if it does not exist. */
static bool find_group(const char *name, gid_t *out)
{
    struct group entry, *found = NULL;
    uint64_t number;
    if (text_parse_u64(slice_of(name), UINT32_MAX - 1, &number)) {
        *out = (gid_t)number;
        return true;
    }
    for (size_t bytes = 4096; bytes <= GROUP_BYTES_MAX; bytes *= 4) {
        char *room = malloc(bytes);
        int code = room ? getgrnam_r(name, &entry, room, bytes, &found) : ENOMEM;
        gid_t group = found ? entry.gr_gid : 0;
        free(room);
        if (code == ERANGE)
            continue;
        *out = group;
        return code == 0 && found;
    }
    return false;
}

/* Sets the group and mode, which decide who may connect. */
static bool set_owner_and_mode(const struct listener *listener, const char *path, char *error)
{
    const struct listener_options *options = &listener->options;
    gid_t group;
    if (options->group[0]) {
        if (!find_group(options->group, &group))
            return error_text(
                error, LISTENER_ERROR_BYTES,
                "cannot listen on '%s', there is no group '%s', create it or choose another group=",
                listener->name, options->group);
        if (lchown(path, (uid_t)-1, group) != 0)
            return error_text(
                error, LISTENER_ERROR_BYTES,
                "cannot give '%s' to the group '%s', %s, make the server's user a member of it",
                listener->name, options->group, strerror(errno));
    }
    if (chmod(path, options->mode ? options->mode : 0600) == 0)
        return true;
    return open_failed(listener, strerror(errno), "choose another mode=", error);
}

static bool open_path(struct listener *listener, char *error)
{
    struct sockaddr_un address = unix_address(listener->options.path);
    listener->kind = LISTENER_UNIX;
    name_by_path(listener, address.sun_path);
    if (!remove_left_over(listener, &address, error))
        return false;
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int code = listener->fd < 0 ? -errno : bind_closed(listener->fd, &address);
    if (code == 0)
        (void)lstat(address.sun_path, &listener->file);
    if (code == 0 && listen(listener->fd, BACKLOG) != 0)
        code = -errno;
    if (code != 0)
        return open_failed(listener, strerror(-code),
                           code == -ENOENT ? "create its directory first"
                                           : "choose another path or let the server write there",
                           error);
    if (!set_owner_and_mode(listener, address.sun_path, error))
        return false;
    (void)lstat(address.sun_path, &listener->file);
    return true;
}

/* Removes the socket file if it still is the one created here. The inode number of a removed file
 * is soon reused, but not with the same time. */
static void remove_path(struct listener *listener)
{
    const struct stat *ours = &listener->file;
    struct stat now;
    if (ours->st_ino && lstat(listener->options.path, &now) == 0 && now.st_dev == ours->st_dev &&
        now.st_ino == ours->st_ino && now.st_ctim.tv_sec == ours->st_ctim.tv_sec &&
        now.st_ctim.tv_nsec == ours->st_ctim.tv_nsec)
        (void)unlink(listener->options.path);
    listener->file = (struct stat){0};
}

/* ---- inherited sockets (sd_listen_fds(3)) ---- */

/* Returns whether `name`, such as "web" or a descriptor number, identifies the socket at
 * `index`. */
static bool is_meant(uint32_t index, const char *name)
{
    const char *names = getenv("LISTEN_FDNAMES");
    uint64_t number;
    if (text_parse_u64(slice_of(name), INT32_MAX, &number))
        return number == FIRST_INHERITED + index;
    for (; names && index > 0; index--) {
        names = strchr(names, ':');
        names = names ? names + 1 : NULL;
    }
    return names && strcspn(names, ":") == strlen(name) && strncmp(names, name, strlen(name)) == 0;
}

static bool inherited_failed(const char *name, const char *why, char *error)
{
    return error_text(error, LISTENER_ERROR_BYTES, "cannot listen on 'fd:%s', %s", name, why);
}

/* Returns whether `fd` is a listening socket of a supported kind. */
static bool is_listening(int fd, struct sockaddr_storage *address)
{
    int type = 0, listens = 0;
    socklen_t type_bytes = sizeof type, listens_bytes = sizeof listens, bytes = sizeof *address;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_bytes) == 0 && listens &&
           getsockname(fd, (struct sockaddr *)address, &bytes) == 0 &&
           (address->ss_family == AF_INET || address->ss_family == AF_INET6 ||
            address->ss_family == AF_UNIX);
}

static bool take_inherited(struct listener *listener, int inherited, char *error)
{
    struct sockaddr_storage address = {0};
    const char *name = listener->options.path;
    listener->is_inherited = true;
    listener->inherited = inherited;
    if (!is_listening(inherited, &address))
        return inherited_failed(
            name, "it is not a listening socket, give ListenStream= with Accept=no", error);
    /* Duplicate it: another listener may also use the descriptor. */
    listener->fd = fcntl(inherited, F_DUPFD_CLOEXEC, 0);
    if (listener->fd < 0 || fcntl(listener->fd, F_SETFL, O_RDWR | O_NONBLOCK) != 0)
        return inherited_failed(name, strerror(errno), error);
    if (address.ss_family == AF_UNIX) {
        listener->kind = LISTENER_UNIX;
        name_by_path(listener, ((struct sockaddr_un *)&address)->sun_path);
    } else {
        listener->kind = LISTENER_TCP;
        name_by_address(listener, &address);
    }
    return true;
}

/* ---- the list of listeners ---- */

static struct listener *add_listener(struct listeners *listeners,
                                     const struct listener_options *options, char *error)
{
    if (listeners->count == LISTENERS_MAX) {
        error_write(error, LISTENER_ERROR_BYTES,
                    "cannot listen on more than %d addresses, leave some --listen out",
                    LISTENERS_MAX);
        return NULL;
    }
    struct listener *listener = &listeners->at[listeners->count++];
    *listener = (struct listener){.options = *options, .fd = -1};
    return listener;
}

static bool open_inherited(struct listeners *listeners, const struct listener_options *options,
                           char *error)
{
    uint32_t there = inherited_count(), found = 0;
    for (uint32_t i = 0; i < there; i++) {
        if (!is_meant(i, options->path))
            continue;
        struct listener *listener = add_listener(listeners, options, error);
        if (!listener || !take_inherited(listener, (int)(FIRST_INHERITED + i), error))
            return false;
        found++;
    }
    return found || inherited_failed(options->path,
                                     there ? "this process did not receive such a socket, give a "
                                             "name of LISTEN_FDNAMES, or a number from 3 on"
                                           : "this process did not receive a socket, start it with "
                                             "a socket unit of systemd, or choose another --listen",
                                     error);
}

/* Returns whether an IPv4 listener has the same port. "[::]" also accepts IPv4, unless there is
 * such a listener. */
static bool has_v4_sibling(const struct listener_options *one, const struct listener_options *all,
                           uint32_t count)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&one->address;
    for (uint32_t i = 0; i < count && one->address.ss_family == AF_INET6; i++) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&all[i].address;
        if (all[i].kind == LISTENER_TCP && v4->sin_family == AF_INET &&
            v4->sin_port == v6->sin6_port)
            return true;
    }
    return false;
}

static bool open_one(struct listeners *listeners, const struct listener_options *options,
                     bool is_v6_only, char *error)
{
    if (options->kind == LISTENER_INHERITED)
        return open_inherited(listeners, options, error);
    struct listener *listener = add_listener(listeners, options, error);
    if (!listener)
        return false;
    listener->is_v6_only = is_v6_only;
    return options->kind == LISTENER_UNIX ? open_path(listener, error)
                                          : open_address(listener, error);
}

/* Marks the inherited sockets close-on-exec, so that child processes do not get them. */
static void keep_inherited(void)
{
    for (uint32_t i = 0, there = inherited_count(); i < there; i++)
        (void)fcntl((int)(FIRST_INHERITED + i), F_SETFD, FD_CLOEXEC);
}

bool listeners_open(struct listeners *listeners, const struct listener_options *options,
                    uint32_t count, char *error)
{
    listeners->count = 0;
    keep_inherited();
    for (uint32_t i = 0; i < count; i++)
        if (!open_one(listeners, &options[i], has_v4_sibling(&options[i], options, count), error)) {
            listeners_close(listeners);
            listeners->count = 0;
            return false;
        }
    return true;
}

uint32_t listeners_unserved(const struct listeners *listeners)
{
    uint32_t unserved = 0;
    for (uint32_t i = 0, there = inherited_count(); i < there; i++) {
        bool is_served = false;
        for (uint32_t j = 0; j < listeners->count; j++)
            is_served |= listeners->at[j].inherited == (int)(FIRST_INHERITED + i);
        unserved += !is_served;
    }
    return unserved;
}

void listener_words(const struct listener *listener, char out[LISTENER_WORDS_BYTES])
{
    const struct listener_options *options = &listener->options;
    (void)snprintf(out, LISTENER_WORDS_BYTES, "%s%s%s", options->tls ? ",tls" : "",
                   options->proxy_protocol ? ",proxy-protocol" : "",
                   listener->requires_token ? ",require-token" : "");
    if (out[0])
        memmove(out, out + 1, strlen(out));
}

void listeners_close(struct listeners *listeners)
{
    for (uint32_t i = 0; i < listeners->count; i++) {
        remove_path(&listeners->at[i]);
        close_descriptor(&listeners->at[i]);
    }
}

/* Limits the bytes that the system stores for each peer that does not read, beside those on their way. Accepted sockets
 * inherit the limit. */
static void limit_unsent(int fd)
{
    const int bytes = LISTENER_UNSENT_BYTES_MAX;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

int listener_descriptor(struct listener *listener, char *error)
{
    int fd = listener->fd;
    bool is_address = listener->kind == LISTENER_TCP && !listener->is_inherited;
    if (!is_address)
        fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    else if (fd < 0)
        fd = bind_address(listener, true);
    else
        listener->fd = -1; /* handed out */
    if (fd < 0) {
        (void)address_failed(listener, is_address ? fd : -errno, error);
        return -1;
    }
    if (listener->kind == LISTENER_TCP)
        limit_unsent(fd);
    if (is_address && listen(fd, BACKLOG) != 0) {
        (void)address_failed(listener, -errno, error);
        (void)close(fd);
        return -1;
    }
    return fd;
}

int listener_accept(const struct listener *listener, int fd, struct peer *peer)
{
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof address;
    int accepted;
    do
        accepted = accept4(fd, (struct sockaddr *)&address, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    while (accepted < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (accepted < 0)
        return -errno;
    *peer = listener->kind == LISTENER_UNIX ? peer_of_unix(accepted) : peer_of_socket(&address);
    return accepted;
}

int listener_refuse_more(const struct listener *listener, int fd)
{
    enum { TCP_FLAGS_AT = 13, SYN = 2 };
    struct sock_filter drop_syn[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, TCP_FLAGS_AT),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    const struct sock_fprog program = {.len = sizeof drop_syn / sizeof drop_syn[0],
                                       .filter = drop_syn};
    if (listener->kind != LISTENER_TCP || listener->is_inherited)
        return 0;
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0 ? 0 : -errno;
}
