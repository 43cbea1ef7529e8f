/* Listeners on real sockets. */
#include "net/listener.h"

#include "unit/cases.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_INHERITED = 3 };

static struct listeners listeners;
static char error[LISTENER_ERROR_BYTES];
static char directory[] = "/tmp/tarry-listener-XXXXXX";

static struct listener_options on_loopback(uint16_t port)
{
    struct listener_options options = {.kind = LISTENER_TCP};
    struct sockaddr_in *address = (struct sockaddr_in *)&options.address;
    address->sin_family = AF_INET;
    address->sin_port = htons(port);
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return options;
}

static struct listener_options on_path(const char *name)
{
    struct listener_options options = {.kind = LISTENER_UNIX};
    (void)snprintf(options.path, sizeof options.path, "%.60s/%.30s", directory, name);
    return options;
}

static struct listener_options on_inherited(const char *name)
{
    struct listener_options options = {.kind = LISTENER_INHERITED};
    (void)snprintf(options.path, sizeof options.path, "%s", name);
    return options;
}

static bool opens(struct listener_options options)
{
    error[0] = '\0';
    return listeners_open(&listeners, &options, 1, error);
}

/* Returns -1 with errno if no server listens. */
static int dial(const struct sockaddr *address, socklen_t bytes)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, address, bytes) == 0)
        return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

static int dial_port(uint16_t port)
{
    const struct listener_options to = on_loopback(port);
    return dial((const struct sockaddr *)&to.address, sizeof(struct sockaddr_in));
}

static int dial_path(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return dial((const struct sockaddr *)&address, sizeof address);
}

static int accept_one(int fd, struct peer *peer)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 5000), 1);
    return listener_accept(&listeners.at[0], fd, peer);
}

static void an_address_is_shared_only_by_threads_of_one_server(void **state)
{
    static struct listeners others;
    struct peer peer;
    char text[PEER_TEXT_BYTES];
    (void)state;
    assert_true(opens(on_loopback(0)));
    struct listener *listener = &listeners.at[0];
    uint16_t port = listener->address.port;
    assert_true(port != 0 && listener->is_local);
    int fds[3];
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        fds[i] = listener_descriptor(listener, error);
        assert_true(fds[i] >= 0);
        assert_int_equal(listener_accept(listener, fds[i], &peer), -EAGAIN);
    }
    struct listener_options same = on_loopback(port);
    assert_false(listeners_open(&others, &same, 1, error));
    assert_non_null(strstr(error, "the port is taken, stop the other server"));

    int came = 0, client = dial_port(port);
    assert_true(client >= 0);
    for (size_t i = 0; i < COUNT_OF(fds) && came <= 0; i++)
        came = listener_accept(listener, fds[i], &peer);
    assert_true(came > 0);
    assert_true(fcntl(came, F_GETFL) & O_NONBLOCK);
    assert_int_equal(peer.kind, PEER_ADDRESS);
    assert_true(peer_is_loopback(&peer));
    peer_emit(&peer, text);
    assert_int_equal(strncmp(text, "127.0.0.1:", 10), 0);
    close(came);
    close(client);
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        close(fds[i]);
    listeners_close(&listeners);
    assert_int_equal(dial_port(port), -1);
}

static void the_system_stores_little_for_a_peer_that_does_not_read(void **state)
{
    enum { WAITS_MAX = 5000 };
    struct peer peer;
    static char bytes[64 * 1024];
    int arrived = 0;
    size_t written = 0;
    ssize_t some;
    (void)state;
    assert_true(opens(on_loopback(0)));
    struct listener *listener = &listeners.at[0];
    int fd = listener_descriptor(listener, error);
    int reader = dial_port(listener->address.port);
    int writer = accept_one(fd, &peer);
    assert_true(reader >= 0 && writer >= 0);
    while ((some = write(writer, bytes, sizeof bytes)) > 0 && written < (size_t)256 << 20)
        written += (size_t)some;
    assert_int_equal(some, -1);
    assert_int_equal(errno, EAGAIN);
    /* What is on its way arrives soon; the rest waits until the peer reads. qemu has no SIOCOUTQNSD. */
    for (int i = 0; i < WAITS_MAX; i++) {
        assert_int_equal(ioctl(reader, FIONREAD, &arrived), 0);
        if (written - (size_t)arrived <= LISTENER_UNSENT_BYTES_MAX + sizeof bytes)
            break;
        usleep(1000);
    }
    assert_in_range(written - (size_t)arrived, 0, LISTENER_UNSENT_BYTES_MAX + sizeof bytes);
    close(reader);
    close(writer);
    close(fd);
    listeners_close(&listeners);
}

static void begun_connections_are_accepted_and_new_ones_are_not(void **state)
{
    struct peer peer;
    (void)state;
    assert_true(opens(on_loopback(0)));
    struct listener *listener = &listeners.at[0];
    uint16_t port = listener->address.port;
    int fd = listener_descriptor(listener, error);
    int early = dial_port(port);
    assert_true(early >= 0);
    if (listener_refuse_more(listener, fd) == -EPERM) {
        print_message("skipped: on this system only root may attach a filter to a socket\n");
        close(early);
        close(fd);
        listeners_close(&listeners);
        skip();
    }

    int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const struct listener_options to = on_loopback(port);
    assert_int_equal(
        connect(late, (const struct sockaddr *)&to.address, sizeof(struct sockaddr_in)), -1);
    assert_int_equal(errno, EINPROGRESS);
    int came = listener_accept(listener, fd, &peer);
    assert_true(came >= 0);
    assert_int_equal(write(early, "hello", 5), 5);
    char got[8];
    struct pollfd ready = {.fd = came, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 5000), 1);
    assert_int_equal(read(came, got, sizeof got), 5);
    assert_int_equal(listener_accept(listener, fd, &peer), -EAGAIN);
    ready = (struct pollfd){.fd = late, .events = POLLOUT};
    assert_int_equal(poll(&ready, 1, 50), 0);
    close(fd);
    listeners_close(&listeners);
    assert_int_equal(write(early, "on", 2), 2);
    close(came);
    close(early);
    close(late);
}

static mode_t mode_of(const char *path)
{
    struct stat status;
    assert_int_equal(lstat(path, &status), 0);
    return status.st_mode & 07777;
}

static void a_socket_file_has_the_configured_mode_and_group(void **state)
{
    struct listener_options options = on_path("mode");
    struct stat status;
    (void)state;
    assert_true(opens(options));
    assert_int_equal(mode_of(options.path), 0600);
    listeners_close(&listeners);
    options.mode = 0660;
    (void)snprintf(options.group, sizeof options.group, "%u", (unsigned)getgid());
    assert_true(opens(options));
    assert_int_equal(mode_of(options.path), 0660);
    assert_int_equal(lstat(options.path, &status), 0);
    assert_int_equal(status.st_gid, getgid());
    listeners_close(&listeners);
    strcpy(options.group, "no such group");
    assert_false(opens(options));
    assert_non_null(strstr(error, "there is no group 'no such group'"));
    assert_int_equal(access(options.path, F_OK), -1);
}

static void a_socket_file_goes_with_its_listener_and_is_taken_from_the_dead_only(void **state)
{
    static struct listeners others;
    struct listener_options options = on_path("file");
    struct peer peer;
    (void)state;
    assert_true(opens(options));
    int fd = listener_descriptor(&listeners.at[0], error);
    assert_false(listeners_open(&others, &options, 1, error));
    assert_non_null(strstr(error, "another server listens there, stop the other server"));

    int client = dial_path(options.path);
    int came = accept_one(fd, &peer);
    assert_true(client >= 0 && came >= 0);
    assert_int_equal(peer.kind, PEER_UNIX);
    assert_int_equal(peer.uid, getuid());
    assert_int_equal(peer.pid, getpid());
    close(came);
    close(client);

    /* A process that is killed leaves its file: here the descriptors go without listeners_close. */
    close(fd);
    close(listeners.at[0].fd);
    assert_int_equal(dial_path(options.path), -1);
    usleep(20 * 1000); /* the clock of files ticks */
    assert_true(listeners_open(&others, &options, 1, error));
    /* A leftover that has been replaced is not the first listener's to remove. */
    listeners.at[0].fd = -1;
    listeners_close(&listeners);
    client = dial_path(options.path);
    assert_true(client >= 0);
    close(client);
    listeners_close(&others);
    listeners_close(&others);
    assert_int_equal(access(options.path, F_OK), -1);
}

static void no_other_file_is_touched(void **state)
{
    struct listener_options options = on_path("other"), target = on_path("target");
    (void)state;
    int fd = open(options.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "kept", 4), 4);
    close(fd);
    assert_false(opens(options));
    assert_non_null(strstr(error, "a file that is not a socket is there, remove it"));
    assert_int_equal(access(options.path, F_OK), 0);
    unlink(options.path);

    assert_int_equal(symlink(target.path, options.path), 0);
    assert_false(opens(options));
    assert_int_equal(access(target.path, F_OK), -1);
    unlink(options.path);

    struct listener_options nowhere = on_path("none/file");
    assert_false(opens(nowhere));
    assert_non_null(strstr(error, "create its directory first"));
}

/* Hands sockets over like systemd: they are 3 and those that follow. */
static void hand_over(const int *fds, int count, const char *names)
{
    char number[16];
    for (int i = 0; i < count; i++)
        assert_int_equal(dup2(fds[i], FIRST_INHERITED + i), FIRST_INHERITED + i);
    (void)snprintf(number, sizeof number, "%d", count);
    setenv("LISTEN_FDS", number, 1);
    (void)snprintf(number, sizeof number, "%d", (int)getpid());
    setenv("LISTEN_PID", number, 1);
    setenv("LISTEN_FDNAMES", names, 1);
}

static int listen_somewhere(bool listens)
{
    const struct listener_options options = on_loopback(0);
    int low = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = fcntl(low, F_DUPFD_CLOEXEC, 20);
    close(low);
    assert_int_equal(
        bind(fd, (const struct sockaddr *)&options.address, sizeof(struct sockaddr_in)), 0);
    assert_int_equal(listens ? listen(fd, 5) : 0, 0);
    return fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    return ntohs(address.sin_port);
}

static void inherited_sockets_are_found_by_name_and_number(void **state)
{
    int fds[] = {listen_somewhere(true), listen_somewhere(true), listen_somewhere(true),
                 listen_somewhere(false)};
    struct peer peer;
    (void)state;
    hand_over(fds, COUNT_OF(fds), "web:admin:web:closed");
    assert_true(opens(on_inherited("web")));
    assert_int_equal(listeners.count, 2);
    assert_int_equal(listeners.at[0].address.port, port_of(fds[0]));
    assert_int_equal(listeners.at[1].address.port, port_of(fds[2]));
    assert_true(listeners.at[0].is_inherited && listeners.at[0].is_local);
    assert_int_equal(listeners.at[0].kind, LISTENER_TCP);
    listeners_close(&listeners);
    assert_true(opens(on_inherited("4")));
    assert_int_equal(listeners.count, 1);
    assert_int_equal(listeners.at[0].address.port, port_of(fds[1]));

    /* A connection that comes during the restart waits for the successor. */
    listeners_close(&listeners);
    int client = dial_port(port_of(fds[1]));
    assert_true(client >= 0);
    assert_true(opens(on_inherited("admin")));
    int fd = listener_descriptor(&listeners.at[0], error);
    int came = accept_one(fd, &peer);
    assert_true(came >= 0);
    close(came);
    close(client);
    close(fd);
    listeners_close(&listeners);

    assert_false(opens(on_inherited("closed")));
    assert_non_null(strstr(error, "it is not a listening socket"));
    assert_false(opens(on_inherited("we")));
    assert_non_null(
        strstr(error, "cannot listen on 'fd:we', this process did not receive such a socket"));
    assert_false(opens(on_inherited("9")));
    setenv("LISTEN_PID", "1", 1);
    assert_false(opens(on_inherited("web")));
    assert_non_null(strstr(error, "this process did not receive a socket"));
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        close(fds[i]);
}

static void both_families_share_one_port(void **state)
{
    struct listener_options both[2] = {{.kind = LISTENER_TCP}, {.kind = LISTENER_TCP}};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&both[0].address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&both[1].address;
    (void)state;
    assert_true(opens(on_loopback(0)));
    in_port_t port = htons(listeners.at[0].address.port);
    listeners_close(&listeners);
    v4->sin_family = AF_INET;
    v6->sin6_family = AF_INET6;
    v4->sin_port = v6->sin6_port = port;
    if (!listeners_open(&listeners, both, 2, error))
        fail_msg("%s", error);
    assert_false(listeners.at[0].is_local);
    assert_false(listeners.at[1].is_local);
    listeners_close(&listeners);
    /* Takes all of them or nothing. */
    both[1] = on_path("none/file");
    assert_false(listeners_open(&listeners, both, 2, error));
    assert_true(opens(on_loopback(ntohs(port))));
    listeners_close(&listeners);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_shared_only_by_threads_of_one_server),
        cmocka_unit_test(the_system_stores_little_for_a_peer_that_does_not_read),
        cmocka_unit_test(begun_connections_are_accepted_and_new_ones_are_not),
        cmocka_unit_test(a_socket_file_has_the_configured_mode_and_group),
        cmocka_unit_test(a_socket_file_goes_with_its_listener_and_is_taken_from_the_dead_only),
        cmocka_unit_test(no_other_file_is_touched),
        cmocka_unit_test(inherited_sockets_are_found_by_name_and_number),
        cmocka_unit_test(both_families_share_one_port),
    };
    if (!mkdtemp(directory))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return rmdir(directory) == 0 ? failed : 1;
}
