/* front_client: a client of front_fake.h's server, which keeps all that it receives. */
#ifndef TARRY_TESTS_FRONT_CLIENT_H
#define TARRY_TESTS_FRONT_CLIENT_H

#include "front_fake.h"

#include <poll.h>

struct client {
    int fd;
    char *text; /* all that came, ended by NUL */
    size_t len;
};

static inline void client_dial(struct client *client, const struct server *server)
{
    *client = (struct client){.fd = front_rig_dial(&server->rig), .text = calloc(1, 1)};
}

static inline void client_hang_up(struct client *client)
{
    close(client->fd);
    free(client->text);
}

static inline void client_write(struct client *client, const char *text)
{
    size_t len = strlen(text);
    assert_int_equal(send(client->fd, text, len, MSG_NOSIGNAL), len);
}

/* False when nothing comes for so long, or no more ever will. */
static inline bool client_receive(struct client *client, int wait_ms)
{
    static char piece[65536];
    struct pollfd poll_fd = {.fd = client->fd, .events = POLLIN};
    if (poll(&poll_fd, 1, wait_ms) <= 0)
        return false;
    ssize_t got = recv(client->fd, piece, sizeof piece, 0);
    if (got <= 0)
        return false;
    client->text = realloc(client->text, client->len + (size_t)got + 1);
    memcpy(client->text + client->len, piece, (size_t)got);
    client->len += (size_t)got;
    client->text[client->len] = 0;
    return true;
}

static inline int client_count_of(const char *text, const char *what)
{
    const char *end = text + strlen(text);
    size_t len = strlen(what);
    int count = 0;
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), what, len)); at += len)
        count++;
    return count;
}

static inline void client_receive_answers(struct client *client, int count)
{
    while (client_count_of(client->text, "HTTP/1.1 ") < count)
        assert_true(client_receive(client, 60000));
    while (client_receive(client, 20))
        ;
}

static inline void client_receive_all(struct client *client)
{
    while (client_receive(client, 5000))
        ;
    char byte;
    assert_true(recv(client->fd, &byte, 1, MSG_DONTWAIT) <= 0);
}

#define PUSH(ID) "PUT /v1/topics/t/jobs/" ID " HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
#define HEALTH "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
#define TAKE(QUERY) "POST /v1/topics/t/take?" QUERY " HTTP/1.1\r\nHost: a\r\n\r\n"

#endif
