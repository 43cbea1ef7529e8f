/* TLS of a connection, both sides. The first byte chooses the side, whether the bytes come
 * before or after a handshake with a good peer, and in what steps; in the second case they may be
 * the peer's output, with one byte of it changed on the way. */
#include "net/tls.h"

#include "claim.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum {
    IS_CLIENT = 1,
    AFTER_HANDSHAKE = 2,
    IS_WRITTEN = 4,
    STEP_SHIFT = 3,
    YEAR_S = 365 * 24 * 3600
};

struct contexts {
    struct tls_context *server, *client;
};

/* ---- a server's context, and that of a client which trusts it ---- */

/* The path of a file in memory that holds what `write` writes. */
static void write_file(char path[64], EVP_PKEY *key, X509 *certificate)
{
    int fd = memfd_create("tls", 0);
    FILE *file = fdopen(dup(fd), "w");
    if (key)
        PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
    if (certificate)
        PEM_write_X509(file, certificate);
    fclose(file);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
}

static X509 *make_certificate(EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1,
                               0);
    X509_set_issuer_name(certificate, name);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -YEAR_S);
    X509_gmtime_adj(X509_getm_notAfter(certificate), YEAR_S);
    X509_set_pubkey(certificate, key);
    X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:localhost");
    X509_add_ext(certificate, names, -1);
    X509_EXTENSION_free(names);
    X509_sign(certificate, key, EVP_sha256());
    return certificate;
}

static struct contexts make_contexts(void)
{
    char certificate_file[64], key_file[64], error[TLS_ERROR_BYTES] = "";
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = make_certificate(key);
    write_file(certificate_file, NULL, certificate);
    write_file(key_file, key, NULL);
    const struct tls_options server = {
        .is_server = true, .certificate_file = certificate_file, .key_file = key_file};
    const struct tls_options client = {.ca_file = certificate_file};
    struct contexts contexts = {.server = tls_context_new(&server, error, sizeof error),
                                .client = tls_context_new(&client, error, sizeof error)};
    CLAIM("there are contexts", contexts.server && contexts.client);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return contexts;
}

/* ---- a session, its output and its input ---- */

struct side {
    struct tls_session *session;
    struct buffer out, read;
};

/* Hands it bytes as they come; each is taken, or the session has ended. */
static void give(struct side *side, const char *bytes, size_t len, size_t step)
{
    char into[1000];
    for (size_t at = 0; at < len; at += step) {
        ssize_t got;
        tls_feed(side->session, bytes + at, len - at < step ? len - at : step);
        while ((got = tls_read(side->session, into, sizeof into, &side->out)) > 0) {
            CLAIM("no more than there is room for", (size_t)got <= sizeof into);
            CLAIM("nothing is read before the handshake",
                  tls_state_of(side->session) != TLS_HANDSHAKE);
            buffer_append(&side->read, into, (size_t)got);
        }
        enum tls_state state = tls_state_of(side->session);
        CLAIM("over is over", (got < 0) == (state == TLS_ENDED || state == TLS_FAILED));
        CLAIM("a failure has a reason", state != TLS_FAILED || tls_why(side->session)[0]);
    }
}

static void shake_hands(struct side *server, struct side *client)
{
    while (server->out.len || client->out.len) {
        struct buffer output = client->out;
        buffer_init(&client->out, 1 << 20);
        give(server, output.at, output.len, output.len ? output.len : 1);
        buffer_fini(&output);
        output = server->out;
        buffer_init(&server->out, 1 << 20);
        give(client, output.at, output.len, output.len ? output.len : 1);
        buffer_fini(&output);
    }
    CLAIM("they understand each other",
          tls_state_of(server->session) == TLS_OPEN && tls_state_of(client->session) == TLS_OPEN);
}

/* Checks that the output of `from` arrives unchanged, and nothing else, whatever happens to it on the way. */
static void write_through(struct side *from, struct side *to, const uint8_t *bytes, size_t len,
                          size_t step)
{
    if (len < 3)
        return;
    size_t damaged = (size_t)bytes[0] << 8 | bytes[1];
    const char *text = (const char *)bytes + 3;
    len -= 3;
    CLAIM("it is written", tls_write(from->session, text, len, &from->out));
    bool is_damaged = bytes[2] && damaged < from->out.len;
    if (is_damaged)
        from->out.at[damaged] = (char)(from->out.at[damaged] ^ bytes[2]);
    give(to, from->out.at, from->out.len, step);
    CLAIM("no more than was written", to->read.len <= len);
    CLAIM("as it was written", to->read.len == 0 || memcmp(to->read.at, text, to->read.len) == 0);
    CLAIM("all that was written", is_damaged || to->read.len == len);
}

static void side_fini(struct side *side)
{
    tls_session_free(side->session);
    buffer_fini(&side->out);
    buffer_fini(&side->read);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static struct contexts contexts;
    struct side server = {0}, client = {0};
    if (len == 0)
        return 0;
    if (!contexts.server)
        contexts = make_contexts();
    size_t step = bytes[0] >> STEP_SHIFT ? (size_t)(bytes[0] >> STEP_SHIFT) * 40 : 1;
    buffer_init(&server.out, 1 << 20);
    buffer_init(&server.read, 1 << 20);
    buffer_init(&client.out, 1 << 20);
    buffer_init(&client.read, 1 << 20);
    server.session = tls_session_accept(contexts.server);
    client.session = tls_session_connect(contexts.client, "localhost", &client.out);
    struct side *tried = bytes[0] & IS_CLIENT ? &client : &server;
    struct side *peer = bytes[0] & IS_CLIENT ? &server : &client;
    if (bytes[0] & AFTER_HANDSHAKE)
        shake_hands(&server, &client);
    if ((bytes[0] & (AFTER_HANDSHAKE | IS_WRITTEN)) == (AFTER_HANDSHAKE | IS_WRITTEN))
        write_through(peer, tried, bytes + 1, len - 1, step);
    else
        give(tried, (const char *)bytes + 1, len - 1, step);
    tls_close(tried->session, &tried->out);
    side_fini(&server);
    side_fini(&client);
    return 0;
}
