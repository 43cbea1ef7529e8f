#include "targets/amqp_link.h"

#include "targets/amqp_socket.h"
#include "targets/target.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { HANDSHAKE_S = 5, CALL_S = 10, FRAME_BYTES_MAX = 131072 };

int target_amqp_link_init(struct target_amqp_link *link, struct guard *guard,
                          const struct target_amqp_url *url, const char *version,
                          const char *purpose)
{
    *link = (struct target_amqp_link){
        .guard = guard, .url = url, .version = version, .purpose = purpose, .fd = -1};
    link->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (link->wake_fd < 0)
        return -errno;
    pthread_mutex_init(&link->mutex, NULL);
    return 0;
}

void target_amqp_link_fini(struct target_amqp_link *link)
{
    target_amqp_link_close(link, false);
    close(link->wake_fd);
    pthread_mutex_destroy(&link->mutex);
}

void target_amqp_link_say(char *error, unsigned code, amqp_bytes_t text)
{
    int at = snprintf(error, TARGET_ERROR_BYTES, "rabbitmq %u: ", code);
    size_t room = TARGET_ERROR_BYTES - (size_t)at - 1;
    size_t len = text.len < room ? text.len : room;
    const char *from = text.bytes;
    for (size_t i = 0; i < len; i++)
        error[(size_t)at + i] = from[i] >= ' ' && from[i] < 0x7f ? from[i] : '?';
    error[(size_t)at + len] = '\0';
}

void target_amqp_link_fault(amqp_rpc_reply_t reply, const char *what, char *error)
{
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
        reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
        const amqp_connection_close_t *close = reply.reply.decoded;
        target_amqp_link_say(error, close->reply_code, close->reply_text);
    } else if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
               reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *close = reply.reply.decoded;
        target_amqp_link_say(error, close->reply_code, close->reply_text);
    } else {
        snprintf(error, TARGET_ERROR_BYTES, "%s, %s", what,
                 reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION
                     ? amqp_error_string2(reply.library_error)
                     : "the answer is not what was asked for");
    }
}

/* ---- opening ---- */

/* From here on a cut ends what blocks. */
static bool show_fd(struct target_amqp_link *link, int fd)
{
    pthread_mutex_lock(&link->mutex);
    bool ok = fd < 0 || !link->is_cut;
    link->fd = fd;
    pthread_mutex_unlock(&link->mutex);
    return ok;
}

static bool log_in(struct target_amqp_link *link, char *error)
{
    struct guard_credential credential;
    const struct timeval handshake = {.tv_sec = HANDSHAKE_S}, call = {.tv_sec = CALL_S};
    /* What the library does not say by itself: these are told to us only if we understand them. */
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
         {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(link->version)}},
        {amqp_cstring_bytes("connection_name"),
         {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(link->purpose)}},
        {amqp_cstring_bytes("capabilities"),
         {.kind = AMQP_FIELD_KIND_TABLE, .value.table = {4, capabilities}}},
    };
    const amqp_table_t properties = {.num_entries = 4, .entries = entries};
    if (!guard_find_credential(link->guard, link->url->origin, &credential)) {
        strcpy(credential.user, "guest");
        strcpy(credential.password, "guest");
    }
    amqp_set_handshake_timeout(link->state, &handshake);
    amqp_set_rpc_timeout(link->state, &call);
    amqp_rpc_reply_t reply = amqp_login_with_properties(
        link->state, link->url->vhost, 0, FRAME_BYTES_MAX, TARGET_AMQP_HEARTBEAT_S, &properties,
        AMQP_SASL_METHOD_PLAIN, credential.user, credential.password);
    OPENSSL_cleanse(&credential, sizeof(credential));
    if (reply.reply_type == AMQP_RESPONSE_NORMAL)
        return true;
    target_amqp_link_fault(reply, "no connection, the handshake failed", error);
    return false;
}

bool target_amqp_link_open(struct target_amqp_link *link, char *error)
{
    link->state = amqp_new_connection();
    if (!link->state) {
        snprintf(error, TARGET_ERROR_BYTES, "no connection, out of memory");
        return false;
    }
    const int on = 1;
    link->policy = guard_generation(link->guard);
    int fd = target_amqp_socket_open(link->state, link->guard, link->url, link->wake_fd,
                                     &link->is_cut, error);
    bool ok = fd >= 0;
    if (ok) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        if (!show_fd(link, fd)) {
            snprintf(error, TARGET_ERROR_BYTES, "no connection, tarry is going down");
            ok = false;
        }
    }
    ok = ok && log_in(link, error);
    if (!ok)
        target_amqp_link_close(link, false);
    return ok;
}

void target_amqp_link_close(struct target_amqp_link *link, bool in_order)
{
    const struct timeval patience = {.tv_sec = 1};
    if (!link->state)
        return;
    if (in_order) {
        amqp_set_rpc_timeout(link->state, &patience);
        (void)amqp_connection_close(link->state, AMQP_REPLY_SUCCESS);
    }
    show_fd(link, -1);
    amqp_destroy_connection(link->state);
    link->state = NULL;
}

/* ---- at work ---- */

static void wait_for(struct target_amqp_link *link, int fd, int64_t wait_ms)
{
    uint64_t woken;
    struct pollfd polled[] = {{.fd = link->wake_fd, .events = POLLIN},
                              {.fd = fd, .events = POLLIN}};
    (void)poll(polled, 2, wait_ms < 0 ? -1 : (int)(wait_ms < 3600000 ? wait_ms : 3600000));
    while (read(link->wake_fd, &woken, sizeof(woken)) > 0)
        ;
}

void target_amqp_link_wait(struct target_amqp_link *link, int64_t wait_ms)
{
    int fd = link->state ? amqp_get_sockfd(link->state) : -1;
    if (link->state && (amqp_frames_enqueued(link->state) || amqp_data_in_buffer(link->state)))
        wait_ms = 0;
    wait_for(link, fd, wait_ms);
}

void target_amqp_link_wait_woken(struct target_amqp_link *link, int64_t wait_ms)
{
    wait_for(link, -1, wait_ms);
}

bool target_amqp_link_is_allowed(struct target_amqp_link *link, char *error)
{
    uint64_t policy = guard_generation(link->guard);
    if (policy == link->policy)
        return true;
    link->policy = policy;
    if (guard_check_peer(link->guard, slice_of(link->url->host), amqp_get_sockfd(link->state)) ==
        GUARD_ALLOWED)
        return true;
    snprintf(error, TARGET_ERROR_BYTES, "connection ended, the policy file forbids it now");
    return false;
}

int target_amqp_link_next(struct target_amqp_link *link, amqp_frame_t *frame, char *error)
{
    const struct timeval at_once = {0};
    if (!target_amqp_link_is_allowed(link, error))
        return -1;
    int status = amqp_simple_wait_frame_noblock(link->state, frame, &at_once);
    if (status == AMQP_STATUS_OK)
        return 1;
    if (status == AMQP_STATUS_TIMEOUT)
        return 0;
    snprintf(error, TARGET_ERROR_BYTES, "connection lost, %s", amqp_error_string2(status));
    return -1;
}

void target_amqp_link_release(struct target_amqp_link *link)
{
    amqp_maybe_release_buffers(link->state);
}

void target_amqp_link_gather(struct target_amqp_link *link, bool on)
{
    const int value = on;
    setsockopt(amqp_get_sockfd(link->state), IPPROTO_TCP, TCP_CORK, &value, sizeof(value));
}

void target_amqp_link_closed_by_peer(struct target_amqp_link *link,
                                     const amqp_connection_close_t *close, char *error)
{
    amqp_connection_close_ok_t answer = {0};
    target_amqp_link_say(error, close->reply_code, close->reply_text);
    (void)amqp_send_method(link->state, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &answer);
}

/* ---- any thread ---- */

void target_amqp_link_wake(struct target_amqp_link *link)
{
    const uint64_t one = 1;
    (void)!write(link->wake_fd, &one, sizeof(one));
}

void target_amqp_link_cut(struct target_amqp_link *link)
{
    pthread_mutex_lock(&link->mutex);
    link->is_cut = true;
    if (link->fd >= 0)
        shutdown(link->fd, SHUT_RDWR);
    pthread_mutex_unlock(&link->mutex);
    target_amqp_link_wake(link);
}
