/* A connection to Redis that does not come about. */
#include "sync_peer.h"
#include "unit/claim.h"

CLAIM(a_refused_connection_is_reported)
{
    struct connection connection = {0};
    uint16_t port;
    char begins[64];
    int fd = talk_listen(-1, &port); /* bound, without a listener */
    snprintf(begins, sizeof begins, "no connection to '127.0.0.1:%u'", port);
    talk_connect(&connection, "127.0.0.1", port, TIMEOUT_MS);
    redis_command_words(talk_out(&connection), "PING", NULL);
    talk_expect_down(&connection, begins, "refused");
    assert_int_equal(connection.ups, 0);
    close(fd);
}

CLAIM(an_unresolvable_name_is_reported)
{
    struct connection connection = {0};
    talk_connect(&connection, "nowhere.invalid", 6379, 5000);
    talk_expect_down(&connection, "no address of 'nowhere.invalid:6379'", ": ");
}

CLAIM(a_missing_socket_is_reported)
{
    struct connection connection = {0}, longer = {0};
    char path[200] = "/";
    talk_connect(&connection, "/nowhere/socket", 0, TIMEOUT_MS);
    talk_expect_down(&connection, "no connection to '/nowhere/socket'", "no such file");
    memset(path + 1, 'x', 150);
    talk_connect(&longer, path, 0, TIMEOUT_MS);
    talk_expect_down(&longer, "no connection to '/xxx", "at most 107 bytes");
}

/* A listener whose queue is full answers nothing at all. */
CLAIM(connecting_has_an_end)
{
    struct connection connection = {0};
    struct sockaddr_in address = {.sin_family = AF_INET};
    int fillers[4];
    uint16_t port;
    int fd = talk_listen(0, &port);
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (size_t i = 0; i < COUNT_OF(fillers); i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(fillers[i], (struct sockaddr *)&address, sizeof address);
    }
    talk_connect(&connection, "127.0.0.1", port, 50);
    talk_expect_down(&connection, "no connection to", "it took longer than 50 ms");
    assert_int_equal(connection.ups, 0);
    for (size_t i = 0; i < COUNT_OF(fillers); i++)
        close(fillers[i]);
    close(fd);
}

CLAIM(may_go_before_it_is_connected)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "nowhere.invalid", "::1"};
    for (size_t i = 0; i < COUNT_OF(hosts); i++)
        for (int rounds = 0; rounds < 2; rounds++) {
            struct connection connection = {0};
            talk_connect(&connection, hosts[i], server->port, TIMEOUT_MS);
            redis_command_words(talk_out(&connection), "PING", NULL);
            for (int round = 0; round < rounds; round++)
                (void)uv_run(reactor_loop(connection.reactor), UV_RUN_NOWAIT);
            redis_connection_free(connection.connection);
            connection.connection = NULL;
            int reported = connection.ups + connection.downs;
            talk_finish(&connection);
            assert_int_equal(connection.ups + connection.downs, reported);
        }
}

CLAIMS_MAIN(start_server, stop_server)
