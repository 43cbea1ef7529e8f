#include "program.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { READ_S = 5, WALK_FILES = 16 };

static struct {
    char directory[64];
    int port;
    pid_t pid;
} program;

static int remove_path(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static void remove_directory(void)
{
    if (program.pid > 0)
        kill(program.pid, SIGKILL);
    nftw(program.directory, remove_path, WALK_FILES, FTW_DEPTH | FTW_PHYS);
}

const char *program_directory(void)
{
    if (!program.directory[0]) {
        strcpy(program.directory, "/tmp/tarry-rig-XXXXXX");
        assert_non_null(mkdtemp(program.directory));
        assert_int_equal(atexit(remove_directory), 0);
    }
    return program.directory;
}

static struct sockaddr_in address_of(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int program_port(void)
{
    struct sockaddr_in address = address_of(0);
    socklen_t len = sizeof address;
    if (program.port)
        return program.port;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    close(fd);
    return program.port = ntohs(address.sin_port);
}

void program_start(const char *const *words)
{
    program.pid = fork();
    assert_true(program.pid >= 0);
    if (program.pid > 0)
        return;
    int none = open("/dev/null", O_RDWR);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(none, STDIN_FILENO);
    dup2(none, STDOUT_FILENO);
    dup2(none, STDERR_FILENO);
    execv(words[0], (char *const *)(uintptr_t)words);
    _exit(1);
}

void program_stop(void)
{
    int status;
    kill(program.pid, SIGKILL);
    assert_int_equal(waitpid(program.pid, &status, 0), program.pid);
    program.pid = 0;
}

void program_stall(bool on)
{
    int status;
    if (!program.pid)
        return;
    kill(program.pid, on ? SIGSTOP : SIGCONT);
    if (on) /* until all of its threads stand still */
        assert_int_equal(waitpid(program.pid, &status, WUNTRACED), program.pid);
}

int program_connect(void)
{
    struct sockaddr_in address = address_of(program_port());
    const struct timeval limit = {.tv_sec = READ_S};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

const char *program_url(const char *scheme)
{
    static char text[64];
    snprintf(text, sizeof text, "%s://127.0.0.1:%d", scheme, program_port());
    return text;
}
