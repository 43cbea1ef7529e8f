#include "targets/amqp_socket.h"

#include "base/clock.h"
#include "guard/resolve.h"
#include "targets/target.h"

#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { CONNECT_MS = 5000, TLS_MS = 4000 };

static socklen_t address_bytes(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

/* 0 once connected, else an errno. */
static int wait_connected(int fd, int wake_fd, const atomic_bool *is_cut)
{
    uint64_t woken;
    struct pollfd polled[] = {{.fd = fd, .events = POLLOUT}, {.fd = wake_fd, .events = POLLIN}};
    int fault = 0;
    socklen_t bytes = sizeof(fault);
    int64_t until_us = clock_boot_us() + CONNECT_MS * 1000;
    for (int64_t left; (left = until_us - clock_boot_us()) > 0;) {
        int ready = poll(polled, 2, (int)(left / 1000 + 1));
        if (ready > 0 && polled[0].revents)
            return getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &bytes) == 0 ? fault : errno;
        if (ready > 0 && read(wake_fd, &woken, sizeof(woken)) > 0 && atomic_load(is_cut))
            return ECANCELED;
    }
    return ETIMEDOUT;
}

static int open_tcp(amqp_connection_state_t state, const struct sockaddr_storage *address,
                    int wake_fd, const atomic_bool *is_cut, char *error)
{
    amqp_socket_t *amqp_socket = NULL;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), fault = 0;
    if (fd < 0 || connect(fd, (const struct sockaddr *)address, address_bytes(address)) != 0)
        fault = errno;
    if (fd >= 0 && fault == EINPROGRESS)
        fault = wait_connected(fd, wake_fd, is_cut);
    if (fault == 0 && !(amqp_socket = amqp_tcp_socket_new(state)))
        fault = ENOMEM;
    if (fault != 0) {
        snprintf(error, TARGET_ERROR_BYTES, "no connection, %s", strerror(fault));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    amqp_tcp_socket_set_sockfd(amqp_socket, fd);
    return fd;
}

/* The library is given an address, so it cannot ask for the peer's name in the handshake. */
static void name_peer(const SSL *ssl, int where, int value)
{
    (void)value;
    char *host = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    unsigned char address[sizeof(struct in6_addr)];
    if (!(where & SSL_CB_HANDSHAKE_START))
        return;
    bool is_address = inet_pton(AF_INET, host, address) == 1 || strchr(host, ':');
    /* Addresses are not named: RFC 6066 section 3 */
    SSL_set_tlsext_host_name((SSL *)(uintptr_t)ssl, is_address ? NULL : host);
}

static bool prepare_tls(amqp_socket_t *socket, struct guard *guard,
                        const struct target_amqp_url *url)
{
    char ca_file[GUARD_PATH_BYTES_MAX];
    SSL_CTX *context = amqp_ssl_socket_get_context(socket);
    X509_VERIFY_PARAM *checks = SSL_CTX_get0_param(context);
    unsigned char address[sizeof(struct in6_addr)];
    bool is_address = inet_pton(AF_INET, url->host, address) == 1 || strchr(url->host, ':');
    /* The chain and the name are OpenSSL's to check: the name is the URL's, not the address's. */
    amqp_ssl_socket_set_verify_peer(socket, 1);
    amqp_ssl_socket_set_verify_hostname(socket, 0);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_default_verify_paths(context);
    if (guard_ca_file(guard, ca_file) && !SSL_CTX_load_verify_locations(context, ca_file, NULL))
        return false;
    SSL_CTX_set_app_data(context, (void *)(uintptr_t)url->host);
    SSL_CTX_set_info_callback(context, name_peer);
    return is_address ? X509_VERIFY_PARAM_set1_ip_asc(checks, url->host)
                      : X509_VERIFY_PARAM_set1_host(checks, url->host, 0);
}

static int open_tls(amqp_connection_state_t state, const struct sockaddr_storage *address,
                    struct guard *guard, const struct target_amqp_url *url, char *error)
{
    char text[NI_MAXHOST];
    const struct timeval patience = {.tv_sec = TLS_MS / 1000};
    amqp_socket_t *socket = amqp_ssl_socket_new(state);
    if (!socket || !prepare_tls(socket, guard, url)) {
        snprintf(error, TARGET_ERROR_BYTES, "no connection, TLS cannot be set up%s",
                 socket ? ", look at ca-file in the policy file" : "");
        return -1;
    }
    int status = getnameinfo((const struct sockaddr *)address, address_bytes(address), text,
                             sizeof(text), NULL, 0, NI_NUMERICHOST);
    if (status == 0)
        status = amqp_socket_open_noblock(socket, text, url->port, &patience);
    if (status == 0)
        return amqp_socket_get_sockfd(socket);
    bool is_handshake = status == AMQP_STATUS_SSL_CONNECTION_FAILED;
    snprintf(error, TARGET_ERROR_BYTES, "no connection, %s%s", amqp_error_string2(status),
             is_handshake ? ", is its certificate good for the host and from a known authority"
                          : "");
    return -1;
}

int target_amqp_socket_open(amqp_connection_state_t state, struct guard *guard,
                            const struct target_amqp_url *url, int wake_fd,
                            const atomic_bool *is_cut, char *error)
{
    struct resolved resolved;
    resolve_now(guard, url->host, url->port, &resolved);
    if (resolved.count == 0)
        snprintf(error, TARGET_ERROR_BYTES, "no connection, %.200s", resolved.error);
    for (size_t i = 0; i < resolved.count; i++) {
        const struct sockaddr_storage *address = &resolved.addresses[i];
        int fd = url->is_tls ? open_tls(state, address, guard, url, error)
                             : open_tcp(state, address, wake_fd, is_cut, error);
        if (fd >= 0)
            return fd;
    }
    return -1;
}
