#include "targets/amqp/connection.h"

#include "base/clock.h"
#include "base/error.h"
#include "guard/resolve.h"

#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { CONNECT_MS = 5000, TLS_MS = 4000, HANDSHAKE_S = 5, CALL_S = 10, FRAME_BYTES_MAX = 131072 };

/* ---- address ---- */

bool target_amqp_place_parse(struct slice text, struct target_amqp_place *out, struct slice *query,
                             char *error)
{
    struct url url;
    if (!target_place_parse(text, target_amqp_schemes, &url, &out->at, error))
        return false;
    if (url.has_query && !query)
        return error_text(error, TARGET_ERROR_BYTES,
                          "it has parameters, remove the '?' and everything after it");
    bool is_one_name = url.path.len < 2 || !(memchr(url.path.at + 1, '/', url.path.len - 1) ||
                                             memchr(url.path.at, '{', url.path.len));
    if (!is_one_name || !target_place_name(&url, out->vhost))
        return error_text(error, TARGET_ERROR_BYTES,
                          "malformed virtual host '%.*s', give one name, at most 255 bytes, '/' in "
                          "it as %%2f, without templates",
                          ERROR_SHOWN(url.path, 80));
    if (!out->vhost[0])
        strcpy(out->vhost, "/");
    if (query)
        *query = url.has_query ? url.query : (struct slice){0};
    return true;
}

/* ---- connecting ---- */

static socklen_t address_bytes(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

/* Waits until the socket is connected. Returns 0 or an errno. */
static int wait_connected(int fd, int wake_fd, const atomic_bool *is_cut)
{
    uint64_t woken;
    struct pollfd polled[] = {{.fd = fd, .events = POLLOUT}, {.fd = wake_fd, .events = POLLIN}};
    int fault = 0;
    socklen_t bytes = sizeof fault;
    int64_t until_us = clock_boot_us() + CONNECT_MS * 1000;
    for (int64_t left; (left = until_us - clock_boot_us()) > 0;) {
        int ready = poll(polled, 2, (int)(left / 1000 + 1));
        if (ready > 0 && polled[0].revents)
            return getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &bytes) == 0 ? fault : errno;
        if (ready > 0 && read(wake_fd, &woken, sizeof woken) > 0 && atomic_load(is_cut))
            return ECANCELED;
    }
    return ETIMEDOUT;
}

/* Connects to one address and passes the socket to librabbitmq. librabbitmq itself would block in
 * connect(), which a cut could not interrupt. */
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

/* Sets the peer's name for the handshake, because the library only receives an address. */
static void name_peer(const SSL *ssl, int where, int value)
{
    (void)value;
    char *host = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    unsigned char address[sizeof(struct in6_addr)];
    if (!(where & SSL_CB_HANDSHAKE_START))
        return;
    bool is_address = inet_pton(AF_INET, host, address) == 1 || strchr(host, ':');
    /* Do not set addresses: RFC 6066 section 3 */
    SSL_set_tlsext_host_name((SSL *)(uintptr_t)ssl, is_address ? NULL : host);
}

/* Configures OpenSSL with the expected certificate name and the trusted CAs. */
static bool prepare_tls(amqp_socket_t *socket, struct guard *guard,
                        const struct target_amqp_place *place)
{
    char ca_file[GUARD_PATH_BYTES_MAX];
    SSL_CTX *context = amqp_ssl_socket_get_context(socket);
    X509_VERIFY_PARAM *checks = SSL_CTX_get0_param(context);
    unsigned char address[sizeof(struct in6_addr)];
    bool is_address =
        inet_pton(AF_INET, place->at.host, address) == 1 || strchr(place->at.host, ':');
    /* OpenSSL checks the chain and the name: the name in the URL, not the address. */
    amqp_ssl_socket_set_verify_peer(socket, 1);
    amqp_ssl_socket_set_verify_hostname(socket, 0);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_default_verify_paths(context);
    if (guard_ca_file(guard, ca_file) && !SSL_CTX_load_verify_locations(context, ca_file, NULL))
        return false;
    SSL_CTX_set_app_data(context, (void *)(uintptr_t)place->at.host);
    SSL_CTX_set_info_callback(context, name_peer);
    return is_address ? X509_VERIFY_PARAM_set1_ip_asc(checks, place->at.host)
                      : X509_VERIFY_PARAM_set1_host(checks, place->at.host, 0);
}

/* Makes librabbitmq connect to one address with TLS. The time is limited, but a cut does not
 * interrupt it. */
static int open_tls(amqp_connection_state_t state, const struct sockaddr_storage *address,
                    struct guard *guard, const struct target_amqp_place *place, char *error)
{
    char text[NI_MAXHOST];
    const struct timeval timeout = {.tv_sec = TLS_MS / 1000};
    amqp_socket_t *socket = amqp_ssl_socket_new(state);
    if (!socket || !prepare_tls(socket, guard, place)) {
        snprintf(error, TARGET_ERROR_BYTES, "no connection, TLS cannot be set up%s",
                 socket ? ", check ca-file in the policy file" : "");
        return -1;
    }
    int status = getnameinfo((const struct sockaddr *)address, address_bytes(address), text,
                             sizeof text, NULL, 0, NI_NUMERICHOST);
    if (status == 0)
        status = amqp_socket_open_noblock(socket, text, place->at.port, &timeout);
    if (status == 0)
        return amqp_socket_get_sockfd(socket);
    bool is_handshake = status == AMQP_STATUS_SSL_CONNECTION_FAILED;
    snprintf(error, TARGET_ERROR_BYTES, "no connection, %s%s", amqp_error_string2(status),
             is_handshake
                 ? ", check that its certificate is valid for the host and signed by a trusted CA"
                 : "");
    return -1;
}

/* Gives `state` a connected socket and returns its descriptor, which belongs to `state`; -1 with
 * `error` on failure. Blocks for at most 5 s per address. Without TLS, *is_cut and data on
 * `wake_fd` interrupt it. */
static int open_socket(amqp_connection_state_t state, struct guard *guard,
                       const struct target_amqp_place *place, int wake_fd,
                       const atomic_bool *is_cut, char *error)
{
    struct resolved resolved;
    resolve_now(guard, place->at.host, place->at.port, &resolved);
    if (resolved.count == 0)
        snprintf(error, TARGET_ERROR_BYTES, "no connection, %.200s", resolved.error);
    for (size_t i = 0; i < resolved.count; i++) {
        const struct sockaddr_storage *address = &resolved.addresses[i];
        int fd = place->at.is_tls ? open_tls(state, address, guard, place, error)
                                  : open_tcp(state, address, wake_fd, is_cut, error);
        if (fd >= 0)
            return fd;
    }
    return -1;
}

/* ---- texts ---- */

void target_amqp_connection_describe(char *error, unsigned code, amqp_bytes_t text)
{
    int at = snprintf(error, TARGET_ERROR_BYTES, "rabbitmq %u: ", code);
    size_t room = TARGET_ERROR_BYTES - (size_t)at - 1;
    size_t len = text.len < room ? text.len : room;
    const char *from = text.bytes;
    for (size_t i = 0; i < len; i++)
        error[(size_t)at + i] = from[i] >= ' ' && from[i] < 0x7f ? from[i] : '?';
    error[(size_t)at + len] = '\0';
}

void target_amqp_connection_fault(amqp_rpc_reply_t reply, const char *what, char *error)
{
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
        reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
        const amqp_connection_close_t *close = reply.reply.decoded;
        target_amqp_connection_describe(error, close->reply_code, close->reply_text);
    } else if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
               reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *close = reply.reply.decoded;
        target_amqp_connection_describe(error, close->reply_code, close->reply_text);
    } else {
        snprintf(error, TARGET_ERROR_BYTES, "%s, %s", what,
                 reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION
                     ? amqp_error_string2(reply.library_error)
                     : "the answer does not match the request");
    }
}

/* ---- life ---- */

int target_amqp_connection_init(struct target_amqp_connection *connection, struct guard *guard,
                                const struct target_amqp_place *place, const char *version,
                                const char *purpose)
{
    *connection = (struct target_amqp_connection){
        .guard = guard, .place = place, .version = version, .purpose = purpose, .fd = -1};
    connection->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (connection->wake_fd < 0)
        return -errno;
    pthread_mutex_init(&connection->mutex, NULL);
    return 0;
}

void target_amqp_connection_fini(struct target_amqp_connection *connection)
{
    target_amqp_connection_close(connection, false);
    close(connection->wake_fd);
    pthread_mutex_destroy(&connection->mutex);
}

/* ---- opening ---- */

/* Publishes the descriptor, so that a cut can interrupt blocking calls. */
static bool show_fd(struct target_amqp_connection *connection, int fd)
{
    pthread_mutex_lock(&connection->mutex);
    bool ok = fd < 0 || !connection->is_cut;
    connection->fd = fd;
    pthread_mutex_unlock(&connection->mutex);
    return ok;
}

/* Logs in and opens the virtual host; the credential is wiped immediately. */
static bool log_in(struct target_amqp_connection *connection, char *error)
{
    struct guard_credential credential;
    const struct timeval handshake = {.tv_sec = HANDSHAKE_S}, call = {.tv_sec = CALL_S};
    /* Capabilities that the library does not announce: RabbitMQ sends these methods only to clients
     * that announce them. */
    static const amqp_field_value_t yes = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1};
    amqp_table_entry_t capabilities[] = {
        {amqp_cstring_bytes("connection.blocked"), yes},
        {amqp_cstring_bytes("consumer_cancel_notify"), yes},
        {amqp_cstring_bytes("basic.nack"), yes},
        {amqp_cstring_bytes("publisher_confirms"), yes},
    };
    amqp_table_entry_t entries[] = {
        {amqp_cstring_bytes("product"),
         {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes("tarry")}},
        {amqp_cstring_bytes("version"),
         {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(connection->version)}},
        {amqp_cstring_bytes("connection_name"),
         {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(connection->purpose)}},
        {amqp_cstring_bytes("capabilities"),
         {.kind = AMQP_FIELD_KIND_TABLE, .value.table = {4, capabilities}}},
    };
    const amqp_table_t properties = {.num_entries = 4, .entries = entries};
    if (!guard_find_credential(connection->guard, connection->place->at.origin, &credential)) {
        strcpy(credential.user, "guest");
        strcpy(credential.password, "guest");
    }
    amqp_set_handshake_timeout(connection->state, &handshake);
    amqp_set_rpc_timeout(connection->state, &call);
    amqp_rpc_reply_t reply = amqp_login_with_properties(
        connection->state, connection->place->vhost, 0, FRAME_BYTES_MAX, TARGET_AMQP_HEARTBEAT_S,
        &properties, AMQP_SASL_METHOD_PLAIN, credential.user, credential.password);
    OPENSSL_cleanse(&credential, sizeof credential);
    if (reply.reply_type == AMQP_RESPONSE_NORMAL)
        return true;
    target_amqp_connection_fault(reply, "no connection, the handshake failed", error);
    return false;
}

bool target_amqp_connection_open(struct target_amqp_connection *connection, char *error)
{
    connection->state = amqp_new_connection();
    if (!connection->state) {
        snprintf(error, TARGET_ERROR_BYTES, "no connection, out of memory");
        return false;
    }
    const int on = 1;
    connection->policy = guard_generation(connection->guard);
    int fd = open_socket(connection->state, connection->guard, connection->place,
                         connection->wake_fd, &connection->is_cut, error);
    bool ok = fd >= 0;
    if (ok) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        if (!show_fd(connection, fd)) {
            snprintf(error, TARGET_ERROR_BYTES, "no connection, tarry is stopping");
            ok = false;
        }
    }
    ok = ok && log_in(connection, error);
    if (!ok)
        target_amqp_connection_close(connection, false);
    return ok;
}

void target_amqp_connection_close(struct target_amqp_connection *connection, bool in_order)
{
    const struct timeval timeout = {.tv_sec = 1};
    if (!connection->state)
        return;
    if (in_order) {
        amqp_set_rpc_timeout(connection->state, &timeout);
        (void)amqp_connection_close(connection->state, AMQP_REPLY_SUCCESS);
    }
    show_fd(connection, -1);
    amqp_destroy_connection(connection->state);
    connection->state = NULL;
}

bool target_amqp_connection_is_misread(amqp_rpc_reply_t reply)
{
    return reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION &&
           (reply.library_error == AMQP_STATUS_BAD_AMQP_DATA ||
            reply.library_error == AMQP_STATUS_INVALID_PARAMETER ||
            reply.library_error == AMQP_STATUS_TABLE_TOO_BIG ||
            reply.library_error == AMQP_STATUS_UNKNOWN_CLASS ||
            reply.library_error == AMQP_STATUS_UNKNOWN_METHOD);
}

void target_amqp_connection_close_unread(struct target_amqp_connection *connection)
{
    enum { WAIT_MS = 1000 };
    const amqp_connection_close_t close = {.reply_code = AMQP_REPLY_SUCCESS};
    char ignored[4096];
    int64_t until_ms = clock_boot_ms() + WAIT_MS, left_ms;
    int fd = amqp_get_sockfd(connection->state);
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    bool is_open = amqp_send_method(connection->state, 0, AMQP_CONNECTION_CLOSE_METHOD,
                                    (void *)(uintptr_t)&close) == AMQP_STATUS_OK &&
                   shutdown(fd, SHUT_WR) == 0;
    /* The peer ends the connection after it has processed everything before the close. */
    while (is_open && (left_ms = until_ms - clock_boot_ms()) > 0)
        if (poll(&polled, 1, (int)left_ms) > 0)
            is_open = recv(fd, ignored, sizeof ignored, 0) > 0;
    target_amqp_connection_close(connection, false);
}

/* ---- operation ---- */

static void wait_for(struct target_amqp_connection *connection, int fd, int64_t wait_ms)
{
    uint64_t woken;
    struct pollfd polled[] = {{.fd = connection->wake_fd, .events = POLLIN},
                              {.fd = fd, .events = POLLIN}};
    (void)poll(polled, 2, wait_ms < 0 ? -1 : (int)(wait_ms < 3600000 ? wait_ms : 3600000));
    while (read(connection->wake_fd, &woken, sizeof woken) > 0)
        ;
}

void target_amqp_connection_wait(struct target_amqp_connection *connection, int64_t wait_ms)
{
    int fd = connection->state ? amqp_get_sockfd(connection->state) : -1;
    if (connection->state &&
        (amqp_frames_enqueued(connection->state) || amqp_data_in_buffer(connection->state)))
        wait_ms = 0;
    wait_for(connection, fd, wait_ms);
}

void target_amqp_connection_wait_woken(struct target_amqp_connection *connection, int64_t wait_ms)
{
    wait_for(connection, -1, wait_ms);
}

bool target_amqp_connection_is_allowed(struct target_amqp_connection *connection, char *error)
{
    uint64_t policy = guard_generation(connection->guard);
    if (policy == connection->policy)
        return true;
    connection->policy = policy;
    if (guard_check_peer(connection->guard, slice_of(connection->place->at.host),
                         amqp_get_sockfd(connection->state)) == GUARD_ALLOWED)
        return true;
    snprintf(error, TARGET_ERROR_BYTES, "connection ended, the policy file forbids it now");
    return false;
}

int target_amqp_connection_next(struct target_amqp_connection *connection, amqp_frame_t *frame,
                                char *error)
{
    const struct timeval at_once = {0};
    if (!target_amqp_connection_is_allowed(connection, error))
        return -1;
    int status = amqp_simple_wait_frame_noblock(connection->state, frame, &at_once);
    if (status == AMQP_STATUS_OK)
        return 1;
    if (status == AMQP_STATUS_TIMEOUT)
        return 0;
    snprintf(error, TARGET_ERROR_BYTES, "connection lost, %s", amqp_error_string2(status));
    return -1;
}

void target_amqp_connection_release(struct target_amqp_connection *connection)
{
    amqp_maybe_release_buffers(connection->state);
}

void target_amqp_connection_gather(struct target_amqp_connection *connection, bool on)
{
    const int value = on;
    setsockopt(amqp_get_sockfd(connection->state), IPPROTO_TCP, TCP_CORK, &value, sizeof value);
}

void target_amqp_connection_closed_by_peer(struct target_amqp_connection *connection,
                                           const amqp_connection_close_t *close, char *error)
{
    amqp_connection_close_ok_t answer = {0};
    target_amqp_connection_describe(error, close->reply_code, close->reply_text);
    (void)amqp_send_method(connection->state, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &answer);
}

/* ---- any thread ---- */

void target_amqp_connection_wake(struct target_amqp_connection *connection)
{
    const uint64_t one = 1;
    (void)!write(connection->wake_fd, &one, sizeof one);
}

void target_amqp_connection_cut(struct target_amqp_connection *connection)
{
    pthread_mutex_lock(&connection->mutex);
    connection->is_cut = true;
    if (connection->fd >= 0)
        shutdown(connection->fd, SHUT_RDWR);
    pthread_mutex_unlock(&connection->mutex);
    target_amqp_connection_wake(connection);
}
