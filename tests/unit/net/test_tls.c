/* A client's session and a server's, with nothing between them but buffers. */
#include "net/tls.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DAY_S = 24 * 3600, PLAIN_BYTES = 70000 };

static char directory[] = "/tmp/tarry-tls-XXXXXX";
static char error[TLS_ERROR_BYTES];
static int64_t began_s, made_s; /* when the making of the certificates began and ended */

/* ---- certificates ---- */

struct authority {
    EVP_PKEY *key;
    X509 *certificate;
};

static struct authority authority, stranger;

static const char *path_of(const char *name)
{
    static char paths[8][100];
    static int next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static void write_certificate(const char *name, X509 *certificate)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, certificate), 1);
    assert_int_equal(fclose(file), 0);
}

static void write_key(const char *name, EVP_PKEY *key, const char *passphrase)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_PrivateKey(file, key, passphrase ? EVP_aes_256_cbc() : NULL, NULL, 0,
                                          NULL, (void *)(uintptr_t)passphrase),
                     1);
    assert_int_equal(fclose(file), 0);
}

static void add_extension(X509 *certificate, X509 *issuer, int kind, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* `by` NULL: of an authority, by itself. `names`: "DNS:a,IP:127.0.0.1" or NULL. */
static X509 *certify(EVP_PKEY *key, const char *common_name, const char *names,
                     const struct authority *by, long ends_s)
{
    static long serial;
    X509 *certificate = X509_new();
    X509_NAME *subject = X509_get_subject_name(certificate);
    assert_int_equal(X509_set_version(certificate, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), -2 * DAY_S));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), ends_s));
    assert_int_equal(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                                (const unsigned char *)common_name, -1, -1, 0),
                     1);
    assert_int_equal(
        X509_set_issuer_name(certificate, by ? X509_get_subject_name(by->certificate) : subject),
        1);
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    if (!by)
        add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE");
    if (names)
        add_extension(certificate, by ? by->certificate : certificate, NID_subject_alt_name, names);
    assert_true(X509_sign(certificate, by ? by->key : key, EVP_sha256()) > 0);
    return certificate;
}

static struct authority make_authority(const char *name)
{
    struct authority made = {.key = EVP_EC_gen("P-256")};
    made.certificate = certify(made.key, name, NULL, NULL, 10 * DAY_S);
    return made;
}

/* NAME.pem and NAME.key. */
static void make_certificate(const char *name, const char *common_name, const char *names,
                             const struct authority *by, long ends_s)
{
    char file[64];
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = certify(key, common_name, names, by, ends_s);
    (void)snprintf(file, sizeof file, "%s.pem", name);
    write_certificate(file, certificate);
    (void)snprintf(file, sizeof file, "%s.key", name);
    write_key(file, key, NULL);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static int set_up_all(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(directory));
    began_s = time(NULL);
    authority = make_authority("a test's authority");
    stranger = make_authority("a stranger");
    write_certificate("ca.pem", authority.certificate);
    write_certificate("stranger-ca.pem", stranger.certificate);
    make_certificate("server", "server", "DNS:queue.test,IP:127.0.0.1", &authority, 5 * DAY_S);
    make_certificate("old", "old", "DNS:queue.test", &authority, -DAY_S);
    make_certificate("client", "orders", NULL, &authority, 5 * DAY_S);
    make_certificate("named", "cn", "DNS:mail.svc,DNS:other", &authority, 5 * DAY_S);
    make_certificate("blank", "two words", NULL, &authority, 5 * DAY_S);
    make_certificate("strange", "orders", NULL, &stranger, 5 * DAY_S);
    EVP_PKEY *locked = EVP_EC_gen("P-256");
    write_key("locked.key", locked, "secret");
    EVP_PKEY_free(locked);
    made_s = time(NULL);
    return 0;
}

static int tear_down_all(void **state)
{
    char command[100];
    (void)state;
    X509_free(authority.certificate);
    EVP_PKEY_free(authority.key);
    X509_free(stranger.certificate);
    EVP_PKEY_free(stranger.key);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

/* ---- two sides ---- */

struct side {
    struct tls_session *session;
    struct buffer out, got;
    ssize_t last;
};

struct pair {
    struct tls_context *server_context, *client_context;
    struct side server, client;
};

static struct tls_options server_options(const char *name)
{
    char pem[40], key[40];
    (void)snprintf(pem, sizeof pem, "%s.pem", name);
    (void)snprintf(key, sizeof key, "%s.key", name);
    return (struct tls_options){
        .is_server = true, .certificate_file = path_of(pem), .key_file = path_of(key)};
}

static struct tls_options client_options(void)
{
    return (struct tls_options){.ca_file = path_of("ca.pem")};
}

static struct tls_context *context_of(struct tls_options options)
{
    struct tls_context *context = tls_context_new(&options, error, sizeof error);
    if (!context)
        fail_msg("no context: %s", error);
    return context;
}

static void open_sessions(struct pair *pair, const char *name)
{
    struct side *sides[] = {&pair->server, &pair->client};
    for (int i = 0; i < 2; i++) {
        buffer_init(&sides[i]->out, 1 << 24);
        buffer_init(&sides[i]->got, 1 << 24);
        sides[i]->last = 0;
    }
    pair->server.session = tls_session_accept(pair->server_context);
    pair->client.session = tls_session_connect(pair->client_context, name, &pair->client.out);
    assert_non_null(pair->server.session);
    assert_non_null(pair->client.session);
}

static void make_pair(struct pair *pair, struct tls_options server, struct tls_options client,
                      const char *name)
{
    *pair =
        (struct pair){.server_context = context_of(server), .client_context = context_of(client)};
    open_sessions(pair, name);
}

static void close_sessions(struct pair *pair)
{
    struct side *sides[] = {&pair->server, &pair->client};
    for (int i = 0; i < 2; i++) {
        tls_session_free(sides[i]->session);
        buffer_fini(&sides[i]->out);
        buffer_fini(&sides[i]->got);
    }
}

static void drop_pair(struct pair *pair)
{
    close_sessions(pair);
    tls_context_release(pair->server_context);
    tls_context_release(pair->client_context);
}

/* Bytes come to one side, in heaps of `step`, each in memory of its own that is gone afterwards. */
static void give(struct side *to, const char *bytes, size_t len, size_t step)
{
    char plain[5000];
    for (size_t at = 0; at < len; at += step) {
        size_t some = len - at < step ? len - at : step;
        char *copy = malloc(some);
        assert_non_null(copy);
        memcpy(copy, bytes + at, some);
        tls_feed(to->session, copy, some);
        while ((to->last = tls_read(to->session, plain, sizeof plain, &to->out)) > 0)
            buffer_append(&to->got, plain, (size_t)to->last);
        free(copy);
        if (to->last < 0)
            return;
    }
}

/* Runs until neither side has anything to send. */
static void talk(struct pair *pair, size_t step)
{
    while (pair->client.out.len || pair->server.out.len) {
        struct side *from = pair->client.out.len ? &pair->client : &pair->server;
        struct side *to = from == &pair->client ? &pair->server : &pair->client;
        struct buffer sent = from->out;
        buffer_init(&from->out, 1 << 24);
        if (to->last >= 0)
            give(to, sent.at, sent.len, step);
        buffer_fini(&sent);
    }
}

static void assert_output(const struct side *side, const char *bytes, size_t len)
{
    assert_int_equal(side->got.len, len);
    assert_memory_equal(side->got.at, bytes, len);
}

static void assert_states(const struct pair *pair, enum tls_state server, enum tls_state client)
{
    assert_int_equal(tls_state_of(pair->server.session), server);
    assert_int_equal(tls_state_of(pair->client.session), client);
}

static const char *many_bytes(void)
{
    static char bytes[PLAIN_BYTES];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    return bytes;
}

/* ---- what it does ---- */

CLAIM(written_bytes_are_read_by_the_peer)
{
    const size_t steps[] = {1, 7, 1000, 1 << 20};
    const char *bytes = many_bytes();
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct pair pair;
        make_pair(&pair, server_options("server"), client_options(), "queue.test");
        talk(&pair, steps[i]);
        assert_states(&pair, TLS_OPEN, TLS_OPEN);
        assert_string_equal(tls_version(pair.server.session), "TLSv1.3");
        assert_true(tls_write(pair.client.session, bytes, PLAIN_BYTES, &pair.client.out));
        assert_true(tls_write(pair.server.session, "short", 5, &pair.server.out));
        talk(&pair, steps[i]);
        assert_output(&pair.server, bytes, PLAIN_BYTES);
        assert_output(&pair.client, "short", 5);
        drop_pair(&pair);
    }
}

CLAIM(nothing_is_written_before_the_handshake_ends)
{
    struct pair pair;
    make_pair(&pair, server_options("server"), client_options(), "queue.test");
    size_t len = pair.client.out.len;
    assert_false(tls_write(pair.client.session, "early", 5, &pair.client.out));
    assert_false(tls_write(pair.server.session, "early", 5, &pair.server.out));
    assert_int_equal(pair.client.out.len, len);
    assert_int_equal(pair.server.out.len, 0);
    tls_close(pair.server.session, &pair.server.out);
    assert_int_equal(pair.server.out.len, 0);
    drop_pair(&pair);
}

CLAIM(a_closed_peer_can_still_be_answered)
{
    struct pair pair;
    make_pair(&pair, server_options("server"), client_options(), "127.0.0.1");
    talk(&pair, 4096);
    assert_true(tls_write(pair.client.session, "last", 4, &pair.client.out));
    tls_close(pair.client.session, &pair.client.out);
    talk(&pair, 4096);
    assert_output(&pair.server, "last", 4);
    assert_int_equal(pair.server.last, -1);
    assert_int_equal(tls_state_of(pair.server.session), TLS_ENDED);
    assert_string_equal(tls_why(pair.server.session), "");
    assert_true(tls_write(pair.server.session, "answer", 6, &pair.server.out));
    talk(&pair, 4096);
    assert_output(&pair.client, "answer", 6);
    drop_pair(&pair);
}

static void assert_client_refuses(const char *server, struct tls_options client, const char *name,
                                  const char *why)
{
    struct pair pair;
    make_pair(&pair, server_options(server), client, name);
    talk(&pair, 4096);
    assert_int_equal(tls_state_of(pair.client.session), TLS_FAILED);
    assert_string_equal(tls_why(pair.client.session), why);
    assert_int_not_equal(tls_state_of(pair.server.session), TLS_OPEN);
    drop_pair(&pair);
}

CLAIM(a_client_trusts_only_the_right_certificate)
{
    assert_client_refuses("server", client_options(), "other.test", "hostname mismatch");
    assert_client_refuses("server", client_options(), "127.0.0.2", "IP address mismatch");
    assert_client_refuses("old", client_options(), "queue.test", "certificate has expired");
    assert_client_refuses("server", (struct tls_options){.ca_file = path_of("stranger-ca.pem")},
                          "queue.test", "unable to get local issuer certificate");
}

static struct pair with_client(const char *certificate, enum tls_client_auth auth)
{
    struct pair pair;
    struct tls_options server = server_options("server"), client = client_options();
    char pem[40], key[40];
    server.client_auth = auth;
    server.ca_file = auth ? path_of("ca.pem") : NULL;
    if (certificate) {
        (void)snprintf(pem, sizeof pem, "%s.pem", certificate);
        (void)snprintf(key, sizeof key, "%s.key", certificate);
        client.certificate_file = path_of(pem);
        client.key_file = path_of(key);
    }
    make_pair(&pair, server, client, "queue.test");
    talk(&pair, 4096);
    return pair;
}

CLAIM(a_client_is_identified_by_its_certificate)
{
    const struct {
        const char *certificate;
        enum tls_client_auth auth;
        enum tls_state server;
        const char *name;
    } rows[] = {
        {"client", TLS_CLIENT_AUTH_REQUIRE, TLS_OPEN, "orders"},
        {"client", TLS_CLIENT_AUTH_REQUEST, TLS_OPEN, "orders"},
        {"client", TLS_CLIENT_AUTH_OFF, TLS_OPEN, ""},
        {"named", TLS_CLIENT_AUTH_REQUIRE, TLS_OPEN, "mail.svc"},
        {"blank", TLS_CLIENT_AUTH_REQUIRE, TLS_OPEN, ""},
        {"strange", TLS_CLIENT_AUTH_REQUEST, TLS_FAILED, ""},
        {"strange", TLS_CLIENT_AUTH_REQUIRE, TLS_FAILED, ""},
        {NULL, TLS_CLIENT_AUTH_REQUEST, TLS_OPEN, ""},
        {NULL, TLS_CLIENT_AUTH_REQUIRE, TLS_FAILED, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pair pair = with_client(rows[i].certificate, rows[i].auth);
        assert_int_equal(tls_state_of(pair.server.session), rows[i].server);
        assert_string_equal(tls_peer_name(pair.server.session), rows[i].name);
        drop_pair(&pair);
    }
}

CLAIM(damaged_bytes_end_it)
{
    for (size_t at = 0; at < 60; at++) {
        struct pair pair;
        make_pair(&pair, server_options("server"), client_options(), "queue.test");
        talk(&pair, 4096);
        assert_true(tls_write(pair.client.session, "twenty bytes of text", 20, &pair.client.out));
        if (at < pair.client.out.len)
            pair.client.out.at[at] = (char)(pair.client.out.at[at] ^ 1);
        else
            pair.client.out.len -= 5; /* never whole: it waits, and nothing is read */
        bool is_cut = at >= pair.client.out.len;
        talk(&pair, 3);
        assert_int_equal(pair.server.got.len, 0);
        if (!is_cut && (at < 3 || at > 4)) /* there the length announces more bytes */
            assert_int_equal(tls_state_of(pair.server.session), TLS_FAILED);
        drop_pair(&pair);
    }
}

CLAIM(other_protocols_are_recognised)
{
    const char http[] = "GET /v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n",
               other[] = "\x04\x01\x02\x03zzzzzzzz";
    struct pair pair;
    make_pair(&pair, server_options("server"), client_options(), "queue.test");
    give(&pair.server, http, sizeof http - 1, 4096);
    assert_int_equal(tls_state_of(pair.server.session), TLS_FAILED);
    assert_true(tls_is_plain_http(pair.server.session));
    give(&pair.client, other, sizeof other - 1, 4096);
    assert_int_equal(tls_state_of(pair.client.session), TLS_FAILED);
    assert_false(tls_is_plain_http(pair.client.session));
    assert_true(strlen(tls_why(pair.client.session)) > 0);
    drop_pair(&pair);
}

CLAIM(a_full_buffer_fails_it)
{
    struct pair pair;
    struct buffer small;
    make_pair(&pair, server_options("server"), client_options(), "queue.test");
    talk(&pair, 4096);
    buffer_init(&small, 1000);
    assert_false(tls_write(pair.server.session, many_bytes(), PLAIN_BYTES, &small));
    assert_int_equal(tls_state_of(pair.server.session), TLS_FAILED);
    assert_string_equal(tls_why(pair.server.session), "out of memory");
    assert_int_equal(tls_read(pair.server.session, error, sizeof error, &small), -1);
    buffer_fini(&small);
    drop_pair(&pair);
}

CLAIM(a_context_is_replaced_while_sessions_continue)
{
    struct pair pair;
    make_pair(&pair, server_options("server"), client_options(), "queue.test");
    talk(&pair, 4096);
    assert_ptr_equal(tls_context_hold(pair.server_context), pair.server_context);
    tls_context_release(pair.server_context);
    tls_context_release(pair.server_context);
    pair.server_context = NULL;
    assert_true(tls_write(pair.server.session, "still", 5, &pair.server.out));
    talk(&pair, 4096);
    assert_output(&pair.client, "still", 5);
    drop_pair(&pair);
}

/* By hand: the client's side of this project keeps no tickets. */
CLAIM(a_ticket_resumes_until_the_context_is_replaced)
{
    struct tls_context *server = context_of(server_options("server"));
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL_SESSION *ticket = NULL;
    assert_int_equal(SSL_CTX_load_verify_file(context, path_of("ca.pem")), 1);
    for (int round = 0; round < 3; round++) {
        struct side side = {.session = tls_session_accept(server)};
        SSL *ssl = SSL_new(context);
        BIO *to = BIO_new(BIO_s_mem()), *from = BIO_new(BIO_s_mem());
        char bytes[8192];
        buffer_init(&side.out, 1 << 20);
        buffer_init(&side.got, 1 << 20);
        SSL_set_bio(ssl, from, to);
        SSL_set_connect_state(ssl);
        if (ticket)
            assert_int_equal(SSL_set_session(ssl, ticket), 1);
        for (int shake = 0; shake < 6; shake++) {
            (void)SSL_read(ssl, bytes, sizeof bytes);
            int len = BIO_read(to, bytes, sizeof bytes);
            if (len > 0)
                give(&side, bytes, (size_t)len, 4096);
            if (side.out.len)
                assert_int_equal(BIO_write(from, side.out.at, (int)side.out.len), side.out.len);
            buffer_clear(&side.out);
        }
        assert_int_equal(tls_state_of(side.session), TLS_OPEN);
        assert_int_equal(tls_is_resumed(side.session), round == 1);
        SSL_SESSION_free(ticket);
        ticket = SSL_get1_session(ssl);
        (void)SSL_shutdown(ssl); /* without it the ticket would be of no use */
        SSL_free(ssl);
        tls_session_free(side.session);
        buffer_fini(&side.out);
        buffer_fini(&side.got);
        if (round == 1) {
            tls_context_release(server);
            server = context_of(server_options("server"));
        }
    }
    SSL_SESSION_free(ticket);
    SSL_CTX_free(context);
    tls_context_release(server);
}

CLAIM(versions_and_protocols_are_chosen_from_the_allowed_ones)
{
    const struct {
        int least, most;
        const char *protocols;
        bool only_1_3, is_good, offers_http2;
        const char *chosen;
    } rows[] = {
        {TLS1_2_VERSION, TLS1_2_VERSION, NULL, false, true, true, ""},
        {TLS1_2_VERSION, TLS1_2_VERSION, NULL, true, false, false, ""},
        {TLS1_3_VERSION, TLS1_3_VERSION, NULL, true, true, false, ""},
        {TLS1_1_VERSION, TLS1_1_VERSION, NULL, false, false, false, ""},
        {TLS1_VERSION, TLS1_3_VERSION, "\x02h2\x08http/1.1", false, true, false, "http/1.1"},
        {TLS1_VERSION, TLS1_3_VERSION, "\x02h2", false, false, false, ""},
        {TLS1_VERSION, TLS1_3_VERSION, "\x08http/1.1\x02h2", false, true, true, "h2"},
        {TLS1_VERSION, TLS1_3_VERSION, "\x08http/1.1", false, true, true, "http/1.1"},
        {TLS1_VERSION, TLS1_3_VERSION, "\x02h3", false, false, true, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tls_options options = server_options("server");
        options.wants_tls_1_3 = rows[i].only_1_3;
        options.offers_http2 = rows[i].offers_http2;
        struct tls_context *server = context_of(options);
        struct side side = {.session = tls_session_accept(server)};
        SSL_CTX *context = SSL_CTX_new(TLS_client_method());
        char bytes[8192];
        SSL_CTX_set_security_level(context, 0);
        assert_int_equal(SSL_CTX_set_min_proto_version(context, rows[i].least), 1);
        assert_int_equal(SSL_CTX_set_max_proto_version(context, rows[i].most), 1);
        SSL *ssl = SSL_new(context);
        BIO *to = BIO_new(BIO_s_mem()), *from = BIO_new(BIO_s_mem());
        buffer_init(&side.out, 1 << 20);
        buffer_init(&side.got, 1 << 20);
        SSL_set_bio(ssl, from, to);
        SSL_set_connect_state(ssl);
        if (rows[i].protocols)
            assert_int_equal(SSL_set_alpn_protos(ssl, (const unsigned char *)rows[i].protocols,
                                                 (unsigned)strlen(rows[i].protocols)),
                             0);
        for (int shake = 0; shake < 6; shake++) {
            (void)SSL_do_handshake(ssl);
            int len = BIO_read(to, bytes, sizeof bytes);
            if (len > 0 && side.last >= 0)
                give(&side, bytes, (size_t)len, 4096);
            if (side.out.len)
                assert_int_equal(BIO_write(from, side.out.at, (int)side.out.len), side.out.len);
            buffer_clear(&side.out);
        }
        assert_int_equal(tls_state_of(side.session) == TLS_OPEN, rows[i].is_good);
        assert_true(slice_is(tls_protocol(side.session), rows[i].chosen));
        if (rows[i].is_good && rows[i].most == TLS1_2_VERSION) {
            /* Renegotiation is rejected, and the session continues. */
            (void)SSL_renegotiate(ssl);
            (void)SSL_do_handshake(ssl);
            int len = BIO_read(to, bytes, sizeof bytes);
            assert_true(len > 0);
            give(&side, bytes, (size_t)len, 4096);
            assert_true(side.out.len > 0);
            assert_int_equal(side.out.at[0], SSL3_RT_ALERT);
        }
        SSL_free(ssl);
        SSL_CTX_free(context);
        tls_session_free(side.session);
        buffer_fini(&side.out);
        buffer_fini(&side.got);
        tls_context_release(server);
    }
}

/* Each part of what was sent, cut anywhere: the other side has read the rest, to the byte. */
CLAIM(unsent_data_is_counted_in_plaintext_bytes)
{
    const size_t sizes[] = {1, 100, 16384, 16385, PLAIN_BYTES};
    assert_int_equal(tls_unread(0, 300, 200), 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t left = 0; left < 60000; left = left * 3 + 1) {
            struct pair pair;
            make_pair(&pair, server_options("server"), client_options(), "queue.test");
            talk(&pair, 4096);
            assert_true(tls_write(pair.server.session, many_bytes(), sizes[i], &pair.server.out));
            size_t cipher = pair.server.out.len, kept = left < cipher ? left : cipher;
            give(&pair.client, pair.server.out.at, cipher - kept, 4096);
            assert_int_equal(pair.client.got.len, sizes[i] - tls_unread(sizes[i], cipher, kept));
            drop_pair(&pair);
        }
}

static void assert_no_context(struct tls_options options, const char *reports)
{
    assert_null(tls_context_new(&options, error, sizeof error));
    if (!strstr(error, reports))
        fail_msg("'%s' does not say '%s'", error, reports);
}

CLAIM(files_that_will_not_do_are_named)
{
    struct tls_options options = server_options("server");
    options.certificate_file = NULL;
    assert_no_context(options, "a key without its certificate");
    options.key_file = NULL;
    assert_no_context(options, "TLS without a certificate");
    options = server_options("server");
    options.certificate_file = path_of("nowhere.pem");
    assert_no_context(options, "nowhere.pem', No such file");
    options = server_options("server");
    options.certificate_file = path_of("server.key");
    assert_no_context(options, "cannot read the certificate in");
    options = server_options("server");
    options.key_file = path_of("old.key");
    assert_no_context(options, "does not belong to the certificate in");
    options.key_file = path_of("locked.key");
    assert_no_context(options, "PEM without a passphrase");
    options = server_options("server");
    options.client_auth = TLS_CLIENT_AUTH_REQUIRE;
    assert_no_context(options, "no CA certificates are given");
    assert_no_context((struct tls_options){.ca_file = path_of("server.key")},
                      "cannot read the certificates in");
}

CLAIM(the_certificate_end_is_reported)
{
    struct tls_context *server = context_of(server_options("server"));
    struct tls_context *client = context_of(client_options());
    int64_t lasts_s = tls_context_expires_s(server) - began_s;
    assert_in_range(lasts_s, 5 * DAY_S, 5 * DAY_S + made_s - began_s);
    assert_true(tls_context_expires_s(client) == INT64_MAX);
    tls_context_release(server);
    tls_context_release(client);
    tls_context_release(NULL);
    tls_session_free(NULL);
}

CLAIMS_MAIN(set_up_all, tear_down_all)
