#include "net/tls.h"

#include "base/error.h"
#include "net/activity.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct tls_context {
    SSL_CTX *ssl;
    int64_t expires_s;
    atomic_uint holders;
};

struct tls_session {
    SSL *ssl;
    enum tls_state state;
    bool is_server, is_plain_http, is_out_of_memory;
    const char *in; /* fed and not consumed yet */
    size_t in_len;
    struct buffer *out; /* the caller's, during a call only */
    char *why, *name;   /* NULL: not set */
};

/* ---- the caller's bytes as an OpenSSL BIO ---- */

static int on_bio_read(BIO *bio, char *into, size_t cap, size_t *got)
{
    struct tls_session *session = BIO_get_data(bio);
    size_t len = session->in_len < cap ? session->in_len : cap;
    BIO_clear_retry_flags(bio);
    if (len == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(into, session->in, len);
    session->in += len;
    session->in_len -= len;
    *got = len;
    return 1;
}

static int on_bio_write(BIO *bio, const char *bytes, size_t len, size_t *done)
{
    struct tls_session *session = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (!session->out)
        return 0;
    buffer_append(session->out, bytes, len);
    if (session->out->failed) {
        session->is_out_of_memory = true;
        return 0;
    }
    *done = len;
    return 1;
}

static long on_bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *bio_method;

static void make_bio_method(void)
{
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tarry");
    if (!bio_method || !BIO_meth_set_read_ex(bio_method, on_bio_read) ||
        !BIO_meth_set_write_ex(bio_method, on_bio_write) ||
        !BIO_meth_set_ctrl(bio_method, on_bio_control))
        abort(); /* out of memory at the start */
}

static BIO *bio_new(struct tls_session *session)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_bio_method);
    BIO *bio = BIO_new(bio_method);
    if (!bio)
        return NULL;
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    return bio;
}

/* ---- contexts ---- */

/* Returns OpenSSL's reason for the failure, the first if there are several. */
static const char *first_reason(void)
{
    unsigned long code = ERR_peek_error();
    if (ERR_SYSTEM_ERROR(code))
        return strerror(ERR_GET_REASON(code));
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    return reason ? reason : "the reason is unknown";
}

/* Refuses a key with a passphrase, because a server cannot prompt for it. */
static int refuse_passphrase(char *into, int cap, int is_write, void *ctx)
{
    (void)into;
    (void)cap;
    (void)is_write;
    (void)ctx;
    return -1;
}

/* Selects the first supported protocol that the client offers; `ctx` is NULL without HTTP/2. Rejects
 * a client that offers only other protocols, since it could not use the connection. */
static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_len,
                           const unsigned char *offered, unsigned offered_len, void *ctx)
{
    static const unsigned char all[] = "\x02h2\x08http/1.1";
    const unsigned char *ours = ctx ? all : all + 3;
    unsigned len = (unsigned)(all + sizeof all - 1 - ours);
    (void)ssl;
    if (SSL_select_next_proto((unsigned char **)(uintptr_t)chosen, chosen_len, ours, len, offered,
                              offered_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    return SSL_TLSEXT_ERR_OK;
}

static bool load_certificate(SSL_CTX *ssl, const struct tls_options *options, char *error,
                             size_t error_bytes)
{
    const char *certificate = options->certificate_file, *key = options->key_file;
    if (!certificate != !key)
        return error_text(error, error_bytes,
                          "a certificate without its key, or a key without its certificate, give "
                          "both files");
    if (!certificate)
        return !options->is_server ||
               error_text(
                   error, error_bytes,
                   "TLS without a certificate, give the files of the certificate and its key");
    if (SSL_CTX_use_certificate_chain_file(ssl, certificate) != 1)
        return error_text(error, error_bytes, "cannot read the certificate in '%s', %s",
                          certificate, first_reason());
    ERR_clear_error();
    if (SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM) != 1) {
        if (ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH)
            return error_text(error, error_bytes,
                              "the key in '%s' does not belong to the certificate in '%s'", key,
                              certificate);
        return error_text(error, error_bytes,
                          "cannot read the key in '%s', %s; it must be PEM without a passphrase",
                          key, first_reason());
    }
    return true;
}

static bool load_authorities(SSL_CTX *ssl, const struct tls_options *options, char *error,
                             size_t error_bytes)
{
    if (options->ca_file) {
        if (SSL_CTX_load_verify_file(ssl, options->ca_file) != 1)
            return error_text(error, error_bytes, "cannot read the certificates in '%s', %s",
                              options->ca_file, first_reason());
        if (options->is_server)
            SSL_CTX_set_client_CA_list(ssl, SSL_load_client_CA_file(options->ca_file));
        return true;
    }
    if (!options->is_server && SSL_CTX_set_default_verify_paths(ssl) != 1)
        return error_text(error, error_bytes, "cannot read the CA certificates of the system, %s",
                          first_reason());
    return options->client_auth == TLS_CLIENT_AUTH_OFF ||
           error_text(
               error, error_bytes,
               "clients must present certificates, but no CA certificates are given to check them");
}

static int verify_mode(const struct tls_options *options)
{
    if (!options->is_server)
        return SSL_VERIFY_PEER;
    switch (options->client_auth) {
    case TLS_CLIENT_AUTH_OFF:
        return SSL_VERIFY_NONE;
    case TLS_CLIENT_AUTH_REQUEST:
        return SSL_VERIFY_PEER;
    case TLS_CLIENT_AUTH_REQUIRE:
        break;
    }
    return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
}

static bool set_up(SSL_CTX *ssl, const struct tls_options *options)
{
    static const unsigned char context_id[] = "tarry";
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_default_passwd_cb(ssl, refuse_passphrase);
    SSL_CTX_set_verify(ssl, verify_mode(options), NULL);
    if (options->is_server) {
        SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, options->offers_http2 ? ssl : NULL);
        (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
        if (SSL_CTX_set_num_tickets(ssl, 1) != 1 ||
            SSL_CTX_set_session_id_context(ssl, context_id, sizeof context_id - 1) != 1)
            return false;
    }
    return SSL_CTX_set_min_proto_version(ssl, options->wants_tls_1_3 ? TLS1_3_VERSION
                                                                     : TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(ssl, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&
           SSL_CTX_set1_groups_list(ssl, "X25519:P-256:P-384") == 1;
}

static int64_t end_of_certificate(SSL_CTX *ssl)
{
    const X509 *certificate = SSL_CTX_get0_certificate(ssl);
    struct tm tm = {0};
    if (!certificate || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) != 1)
        return INT64_MAX;
    return timegm(&tm);
}

struct tls_context *tls_context_new(const struct tls_options *options, char *error,
                                    size_t error_bytes)
{
    struct tls_context *context = calloc(1, sizeof *context);
    ERR_clear_error();
    SSL_CTX *ssl = SSL_CTX_new(options->is_server ? TLS_server_method() : TLS_client_method());
    if (!context || !ssl || !set_up(ssl, options)) {
        error_write(error, error_bytes, "cannot set up TLS, %s", first_reason());
        goto failed;
    }
    if (!load_certificate(ssl, options, error, error_bytes) ||
        !load_authorities(ssl, options, error, error_bytes))
        goto failed;
    context->ssl = ssl;
    context->expires_s = end_of_certificate(ssl);
    atomic_init(&context->holders, 1);
    return context;

failed:
    ERR_clear_error();
    SSL_CTX_free(ssl);
    free(context);
    return NULL;
}

struct tls_context *tls_context_hold(struct tls_context *context)
{
    atomic_fetch_add_explicit(&context->holders, 1, memory_order_relaxed);
    return context;
}

void tls_context_release(struct tls_context *context)
{
    if (!context || atomic_fetch_sub_explicit(&context->holders, 1, memory_order_acq_rel) != 1)
        return;
    SSL_CTX_free(context->ssl); /* sessions also hold it */
    free(context);
}

int64_t tls_context_expires_s(const struct tls_context *context)
{
    return context->expires_s;
}

/* ---- sessions ---- */

static struct tls_session *session_new(struct tls_context *context)
{
    struct tls_session *session = calloc(1, sizeof *session);
    BIO *bio = NULL;
    if (!session)
        return NULL;
    session->state = TLS_HANDSHAKE;
    session->ssl = SSL_new(context->ssl);
    bio = bio_new(session);
    if (!session->ssl || !bio) {
        ERR_clear_error();
        BIO_free(bio);
        SSL_free(session->ssl);
        free(session);
        return NULL;
    }
    SSL_set_bio(session->ssl, bio, bio);
    return session;
}

struct tls_session *tls_session_accept(struct tls_context *context)
{
    struct tls_session *session = session_new(context);
    if (!session)
        return NULL;
    session->is_server = true;
    SSL_set_accept_state(session->ssl);
    return session;
}

/* Requires the certificate to be for this name. An address is compared with the addresses in the
 * certificate and not sent to the server, since SNI is for names. */
static bool expect_name(SSL *ssl, const char *name)
{
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1)
        return true;
    ERR_clear_error();
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

void tls_session_free(struct tls_session *session)
{
    if (!session)
        return;
    SSL_free(session->ssl);
    free(session->why);
    free(session->name);
    free(session);
}

/* Stores a copy. When out of memory, the field stays empty, since this cannot be reported. */
static void keep_text(char **field, const char *text, size_t len)
{
    free(*field);
    *field = strndup(text, len);
}

/* Stores a name from a certificate. Rejects bytes that could end it early or hide the rest. */
static bool keep_name(struct tls_session *session, const ASN1_STRING *text)
{
    size_t len = text ? (size_t)ASN1_STRING_length(text) : 0;
    const char *at = len ? (const char *)ASN1_STRING_get0_data(text) : NULL;
    if (!len || len >= TLS_NAME_BYTES)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)at[i] <= ' ' || (unsigned char)at[i] >= 0x7f)
            return false;
    keep_text(&session->name, at, len);
    return true;
}

static bool keep_dns_name(struct tls_session *session, const X509 *certificate)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    bool found = false;
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && !found; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS) {
            if (!keep_name(session, name->d.dNSName))
                break;
            found = true;
        }
    }
    GENERAL_NAMES_free(names);
    return found;
}

static void keep_peer_name(struct tls_session *session)
{
    const X509 *certificate = SSL_get0_peer_certificate(session->ssl);
    if (!certificate || SSL_get_verify_result(session->ssl) != X509_V_OK ||
        keep_dns_name(session, certificate))
        return;
    const X509_NAME *subject = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at >= 0)
        (void)keep_name(session, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

/* Stores why OpenSSL failed. */
static void note_failure(struct tls_session *session)
{
    long verified = SSL_get_verify_result(session->ssl);
    unsigned long code = ERR_peek_error();
    const char *reason = first_reason();
    int number = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
    session->state = TLS_FAILED;
    session->is_plain_http = number == SSL_R_HTTP_REQUEST;
    if (session->is_out_of_memory)
        reason = "out of memory";
    else if (number == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK)
        reason = X509_verify_cert_error_string(verified);
    else if (session->is_plain_http)
        reason = "the peer speaks plain HTTP";
    else if (number == SSL_R_WRONG_VERSION_NUMBER)
        reason = "the peer does not speak TLS";
    keep_text(&session->why, reason, strlen(reason));
    ERR_clear_error();
}

/* Handles the result of an OpenSSL call that did not complete. */
static void settle(struct tls_session *session, int result)
{
    switch (SSL_get_error(session->ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        break;
    case SSL_ERROR_ZERO_RETURN:
        session->state = TLS_ENDED;
        break;
    default:
        note_failure(session);
    }
}

/* Continues the handshake with the available bytes. */
static bool shake_hands(struct tls_session *session)
{
    ERR_clear_error();
    activity_begin("handshakes");
    int result = SSL_do_handshake(session->ssl);
    if (result == 1) {
        session->state = TLS_OPEN;
        keep_peer_name(session);
        return true;
    }
    settle(session, result);
    return false;
}

struct tls_session *tls_session_connect(struct tls_context *context, const char *name,
                                        struct buffer *out)
{
    struct tls_session *session = session_new(context);
    if (!session)
        return NULL;
    if (!expect_name(session->ssl, name)) {
        ERR_clear_error();
        tls_session_free(session);
        return NULL;
    }
    SSL_set_connect_state(session->ssl);
    session->out = out;
    (void)shake_hands(session);
    session->out = NULL;
    return session;
}

void tls_feed(struct tls_session *session, const char *bytes, size_t len)
{
    session->in = bytes;
    session->in_len = len;
}

ssize_t tls_read(struct tls_session *session, char *into, size_t cap, struct buffer *out)
{
    size_t got = 0;
    session->out = out;
    if (session->state == TLS_HANDSHAKE)
        (void)shake_hands(session);
    if (session->state == TLS_OPEN) {
        ERR_clear_error();
        int result = SSL_read_ex(session->ssl, into, cap, &got);
        if (result != 1)
            settle(session, result);
    }
    session->out = NULL;
    if (got)
        return (ssize_t)got;
    return session->state == TLS_ENDED || session->state == TLS_FAILED ? -1 : 0;
}

bool tls_write(struct tls_session *session, const char *bytes, size_t len, struct buffer *out)
{
    size_t done = 0;
    bool is_open = session->state == TLS_OPEN || session->state == TLS_ENDED;
    if (!is_open || len == 0)
        return is_open;
    ERR_clear_error();
    session->out = out;
    int result = SSL_write_ex(session->ssl, bytes, len, &done);
    if (result != 1)
        note_failure(session);
    session->out = NULL;
    return result == 1;
}

size_t tls_unread(size_t plain, size_t cipher, size_t left)
{
    size_t records = (plain + SSL3_RT_MAX_PLAIN_LENGTH - 1) / SSL3_RT_MAX_PLAIN_LENGTH, unread = 0;
    if (records == 0)
        return 0;
    size_t beside = (cipher - plain) / records; /* head and checksum of each */
    while (left && unread < plain) {
        size_t last = (plain - unread) % SSL3_RT_MAX_PLAIN_LENGTH;
        last = last ? last : SSL3_RT_MAX_PLAIN_LENGTH;
        unread += last;
        left -= left < last + beside ? left : last + beside;
    }
    return unread;
}

void tls_close(struct tls_session *session, struct buffer *out)
{
    if (session->state != TLS_OPEN && session->state != TLS_ENDED)
        return;
    ERR_clear_error();
    session->out = out;
    (void)SSL_shutdown(session->ssl);
    session->out = NULL;
    ERR_clear_error();
}

enum tls_state tls_state_of(const struct tls_session *session)
{
    return session->state;
}

const char *tls_why(const struct tls_session *session)
{
    return session->why ? session->why : "";
}

bool tls_is_plain_http(const struct tls_session *session)
{
    return session->is_plain_http;
}

const char *tls_peer_name(const struct tls_session *session)
{
    return session->name ? session->name : "";
}

struct slice tls_protocol(const struct tls_session *session)
{
    const unsigned char *name = NULL;
    unsigned len = 0;
    SSL_get0_alpn_selected(session->ssl, &name, &len);
    return slice_make(name, len);
}

const char *tls_version(const struct tls_session *session)
{
    return SSL_get_version(session->ssl);
}

bool tls_is_resumed(const struct tls_session *session)
{
    return SSL_session_reused(session->ssl) == 1;
}
