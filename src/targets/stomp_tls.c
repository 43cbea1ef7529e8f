#include "targets/stomp_tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

struct stomp_tls {
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out; /* the ssl's */
    char why[STOMP_TLS_WHY_BYTES];
};

static bool is_address(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

static bool expect_host(SSL *ssl, const char *host)
{
    if (is_address(host))
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set_tlsext_host_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1;
}

static bool set_up_context(SSL_CTX *context, const char *ca_file)
{
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_default_verify_paths(context) == 1 &&
           (!ca_file || SSL_CTX_load_verify_locations(context, ca_file, NULL) == 1);
}

static bool set_up(struct stomp_tls *tls, const char *host, const char *ca_file)
{
    tls->context = SSL_CTX_new(TLS_client_method());
    if (!tls->context || !set_up_context(tls->context, ca_file))
        return false;
    tls->ssl = SSL_new(tls->context);
    if (!tls->ssl || !expect_host(tls->ssl, host))
        return false;
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (!tls->in || !tls->out) {
        BIO_free(tls->in);
        BIO_free(tls->out);
        return false;
    }
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_connect_state(tls->ssl);
    return true;
}

struct stomp_tls *stomp_tls_new(const char *host, const char *ca_file)
{
    struct stomp_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return NULL;
    ERR_clear_error();
    if (set_up(tls, host, ca_file))
        return tls;
    stomp_tls_free(tls);
    return NULL;
}

void stomp_tls_free(struct stomp_tls *tls)
{
    if (!tls)
        return;
    SSL_free(tls->ssl);
    SSL_CTX_free(tls->context);
    free(tls);
}

/* Memory takes all it is given; what does not fit shows as a broken conversation. */
void stomp_tls_take_in(struct stomp_tls *tls, const char *at, size_t len)
{
    (void)BIO_write(tls->in, at, (int)len);
}

void stomp_tls_take_out(struct stomp_tls *tls, struct buffer *out)
{
    size_t waiting;
    while ((waiting = BIO_ctrl_pending(tls->out)) > 0) {
        char *at = buffer_reserve(out, waiting);
        int count = at ? BIO_read(tls->out, at, (int)waiting) : 0;
        if (count <= 0)
            return;
        out->len += (size_t)count;
    }
}

/* Coarse: what a certificate is refused for, else the library's word for it. */
static const char *explain(struct stomp_tls *tls, const char *what)
{
    long verdict = SSL_get_verify_result(tls->ssl);
    unsigned long code = ERR_peek_last_error();
    const char *reason = verdict != X509_V_OK ? X509_verify_cert_error_string(verdict)
                         : code               ? ERR_reason_error_string(code)
                                              : NULL;
    (void)snprintf(tls->why, sizeof tls->why, "%s%s%s", what, reason ? ": " : "",
                   reason ? reason : "");
    ERR_clear_error();
    return tls->why;
}

bool stomp_tls_shake_hands(struct stomp_tls *tls, const char **fault)
{
    ERR_clear_error();
    int done = SSL_do_handshake(tls->ssl);
    int error = done == 1 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, done);
    if (error != SSL_ERROR_NONE && error != SSL_ERROR_WANT_READ)
        *fault = explain(tls, "tls failed");
    return error == SSL_ERROR_NONE;
}

ssize_t stomp_tls_read(struct stomp_tls *tls, char *into, size_t len, const char **fault)
{
    ERR_clear_error();
    int count = SSL_read(tls->ssl, into, (int)len);
    if (count > 0)
        return count;
    int error = SSL_get_error(tls->ssl, count);
    if (error == SSL_ERROR_ZERO_RETURN)
        *fault = "closed by the peer";
    else if (error != SSL_ERROR_WANT_READ)
        *fault = explain(tls, "tls failed");
    return 0;
}

bool stomp_tls_write(struct stomp_tls *tls, const char *at, size_t len)
{
    ERR_clear_error();
    return SSL_write(tls->ssl, at, (int)len) == (int)len;
}
