#include "load/conn.h"

#include "load/socket.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER_BYTES_MAX = 1 << 28, READ_BYTES = 1 << 18, READ_BYTES_MIN = 1 << 16 };

static uint32_t ring_size(const struct load_plan *plan)
{
    uint32_t most = plan->pipeline > 4 * LOAD_TAKE_MAX ? plan->pipeline : 4 * LOAD_TAKE_MAX;
    uint32_t size = 1;
    while (size < most + 16)
        size *= 2;
    return size;
}

bool load_conn_open(struct load_conn *conn, const struct load_plan *plan, enum load_role role,
                    bool to_second, char problem[LOAD_TEXT_BYTES_MAX])
{
    uint32_t size = ring_size(plan);
    *conn = (struct load_conn){.fd = -1, .role = role, .expected_mask = size - 1};
    buffer_init(&conn->out, BUFFER_BYTES_MAX);
    buffer_init(&conn->in, BUFFER_BYTES_MAX);
    conn->expected = calloc(size, sizeof *conn->expected);
    if (!conn->expected) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "out of memory");
        return false;
    }
    conn->fd = load_socket_open(plan->host, to_second ? plan->second_port : plan->port, problem);
    return conn->fd >= 0 && load_socket_unblock(conn->fd);
}

void load_conn_close(struct load_conn *conn)
{
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
    buffer_fini(&conn->out);
    buffer_fini(&conn->in);
    free(conn->expected);
    conn->expected = NULL;
}

void load_conn_expect(struct load_conn *conn, enum load_kind kind, unsigned answers, uint32_t count,
                      int64_t sent_us)
{
    assert(answers > 0 && count % answers == 0);
    assert(conn->expected_tail - conn->expected_head + answers <= conn->expected_mask + 1);
    for (unsigned i = 0; i < answers; i++)
        conn->expected[conn->expected_tail++ & conn->expected_mask] =
            (struct load_expected){.sent_us = sent_us, .count = count / answers, .kind = kind};
    conn->waiting[kind] += answers;
}

const struct load_expected *load_conn_next(const struct load_conn *conn)
{
    if (conn->expected_head == conn->expected_tail)
        return NULL;
    return &conn->expected[conn->expected_head & conn->expected_mask];
}

void load_conn_settle(struct load_conn *conn)
{
    const struct load_expected *next = load_conn_next(conn);
    assert(next && conn->waiting[next->kind] > 0);
    conn->waiting[next->kind]--;
    conn->expected_head++;
}

bool load_conn_is_idle(const struct load_conn *conn)
{
    return !load_conn_next(conn) && conn->out.len == 0 && conn->in.len == 0;
}

bool load_conn_send(struct load_conn *conn, char problem[LOAD_TEXT_BYTES_MAX])
{
    if (conn->out.failed) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX,
                 "out of memory for requests: fewer or smaller jobs a batch");
        return false;
    }
    while (conn->out_sent < conn->out.len) {
        ssize_t sent = send(conn->fd, conn->out.at + conn->out_sent, conn->out.len - conn->out_sent,
                            MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN) {
            conn->blocked = true;
            return true;
        }
        if (sent < 0) {
            snprintf(problem, LOAD_TEXT_BYTES_MAX, "connection lost while sending: %s",
                     strerror(errno));
            return false;
        }
        conn->out_sent += (size_t)sent;
    }
    conn->blocked = false;
    conn->out_sent = 0;
    buffer_clear(&conn->out);
    return true;
}

bool load_conn_receive(struct load_conn *conn, char problem[LOAD_TEXT_BYTES_MAX])
{
    if (conn->in.cap - conn->in.len < READ_BYTES_MIN && !buffer_reserve(&conn->in, READ_BYTES)) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "an answer is too long");
        return false;
    }
    ssize_t got = recv(conn->fd, conn->in.at + conn->in.len, conn->in.cap - conn->in.len, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got <= 0) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "the server closed a connection%s%s",
                 got < 0 ? ": " : "", got < 0 ? strerror(errno) : "");
        return false;
    }
    conn->in.len += (size_t)got;
    return true;
}

void load_conn_consume(struct load_conn *conn, size_t bytes)
{
    assert(bytes <= conn->in.len);
    if (bytes < conn->in.len)
        memmove(conn->in.at, conn->in.at + bytes, conn->in.len - bytes);
    conn->in.len -= bytes;
}
