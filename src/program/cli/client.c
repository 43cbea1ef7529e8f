#include "cli/client.h"

#include "cli/credentials.h"
#include "cli/show.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_BYTES_MAX = 64 << 20, CONNECT_MS = 5000, CALL_MS = 30000 };

static const char unix_prefix[] = "unix:";

static size_t on_bytes(char *bytes, size_t size, size_t count, void *ctx)
{
    struct client *client = ctx;
    buffer_append(&client->answer, bytes, size * count);
    return client->answer.failed ? 0 : size * count;
}

bool client_open(struct client *client, const char *base)
{
    *client = (struct client){.base = base};
    if (strncmp(base, unix_prefix, sizeof unix_prefix - 1) == 0) {
        client->socket_path = base + sizeof unix_prefix - 1;
        client->base = "http://localhost";
    }
    cli_url_show(base, client->shown, sizeof client->shown);
    buffer_init(&client->target, CLI_URL_BYTES_MAX);
    buffer_init(&client->full_url, CLI_URL_BYTES_MAX + 4096);
    buffer_init(&client->answer, ANSWER_BYTES_MAX);
    client->curl = curl_easy_init();
    if (client->curl)
        return true;
    cli_error("out of memory");
    return false;
}

void client_close(struct client *client)
{
    curl_easy_cleanup(client->curl);
    curl_slist_free_all(client->headers);
    json_decref(client->json);
    buffer_fini(&client->target);
    buffer_fini(&client->full_url);
    buffer_fini(&client->answer);
}

struct buffer *client_begin(struct client *client)
{
    curl_slist_free_all(client->headers);
    client->headers = NULL;
    client->is_prepared = false;
    client->wants_raw = false;
    buffer_clear(&client->target);
    buffer_append_text(&client->target, "/v1");
    return &client->target;
}

void client_add_header(struct client *client, const char *header)
{
    struct curl_slist *longer = curl_slist_append(client->headers, header);
    if (longer)
        client->headers = longer;
    else
        client->target.failed = true;
}

void client_want_raw(struct client *client)
{
    client_add_header(client, "Accept: application/octet-stream");
    client->wants_raw = true;
}

struct slice client_header(const struct client *client, const char *name)
{
    struct curl_header *header;
    if (curl_easy_header(client->curl, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
        return (struct slice){0};
    return slice_of(header->value);
}

static void make_url(struct client *client)
{
    size_t len = strlen(client->base);
    while (len > 0 && client->base[len - 1] == '/')
        len--;
    buffer_clear(&client->full_url);
    buffer_append(&client->full_url, client->base, len);
    buffer_append_slice(&client->full_url, buffer_slice(&client->target));
    buffer_append_byte(&client->full_url, '\0');
}

/* Adds the headers of every request, once even if it is sent again. */
static void add_own_headers(struct client *client)
{
    const struct credentials *credentials = credentials_get();
    char header[CREDENTIALS_TOKEN_BYTES_MAX + 32];
    if (client->is_prepared)
        return;
    client->is_prepared = true;
    /* Without this, curl asks first whether a long body is accepted, and waits a second for an
     * answer. */
    client_add_header(client, "Expect:");
    if (!credentials->token)
        return;
    snprintf(header, sizeof header, "Authorization: Bearer %s", credentials->token);
    client_add_header(client, header);
    explicit_bzero(header, sizeof header);
}

/* Opens a socket that is not inherited by programs started from here. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)ctx;
    (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* Ends the connection even if another process holds a copy of the socket: otherwise the server
 * could hand a job to a take that nothing reads. */
static int close_socket(void *ctx, curl_socket_t socket)
{
    (void)ctx;
    (void)shutdown(socket, SHUT_RDWR);
    return close(socket);
}

/* Sets the trusted CAs and the client certificate. */
static void set_credentials(struct client *client)
{
    const struct credentials *credentials = credentials_get();
    CURL *curl = client->curl;
    if (client->socket_path)
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, client->socket_path);
    if (credentials->ca_file)
        curl_easy_setopt(curl, CURLOPT_CAINFO, credentials->ca_file);
    if (credentials->certificate_file) {
        curl_easy_setopt(curl, CURLOPT_SSLCERT, credentials->certificate_file);
        curl_easy_setopt(curl, CURLOPT_SSLKEY, credentials->key_file);
    }
}

bool client_prepare(struct client *client, const char *method, const struct slice *body,
                    int64_t wait_ms)
{
    CURL *curl = client->curl;
    make_url(client);
    buffer_clear(&client->answer);
    json_decref(client->json);
    client->json = NULL;
    client->status = 0;
    client->error[0] = '\0';
    add_own_headers(client);
    curl_easy_reset(curl);
    set_credentials(client);
    if (client->target.failed || client->full_url.failed) {
        cli_error("request too long, give fewer or shorter arguments");
        return false;
    }
    curl_easy_setopt(curl, CURLOPT_URL, client->full_url.at);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    /* libcurl 7.88 can forget an answer over HTTP/2 that arrives while it reads another one. */
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L); /* an id of dots is rejected as an id */
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(curl, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, client->headers);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "tarry/" TARRY_VERSION);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, client);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, client->error);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(CALL_MS + wait_ms));
    if (body || strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(body ? body->len : 0));
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body && body->len ? body->at : "");
    }
    return true;
}

/* Stores the error and prints it unless the client is silent. Returns `exit_code`. */
static int client_fail(struct client *client, int exit_code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int client_fail(struct client *client, int exit_code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(client->problem, sizeof client->problem, format, args);
    va_end(args);
    if (!client->is_silent)
        cli_error("%s", client->problem);
    return exit_code;
}

static int client_fail_unexpected(struct client *client)
{
    return client_fail(client, CLI_REFUSED,
                       "unexpected answer %ld from '%s', check that it is a tarry server",
                       client->status, client->shown);
}

/* Reports a problem document, whose `detail` includes what to do. Any other answer is not from a
 * tarry server. */
static int client_explain(struct client *client)
{
    const char *detail = json_string_value(json_object_get(client->json, "detail"));
    const char *title = json_string_value(json_object_get(client->json, "title"));
    const char *code = json_string_value(json_object_get(client->json, "code"));
    const char *what = detail ? detail : title;
    if (!what)
        return client_fail_unexpected(client);
    if (client->status == 401 && !credentials_get()->token)
        return client_fail(client, CLI_REFUSED,
                           "'%s' requires a token, give --token-file FILE or set TARRY_TOKEN_FILE",
                           client->shown);
    snprintf(client->problem, sizeof client->problem, "%s%s%s%s", what, code ? " (" : "",
             code ? code : "", code ? ")" : "");
    if (!client->is_silent)
        cli_problem(what, code, client->status);
    return client->status == 404 && code ? CLI_NOTHING : CLI_REFUSED;
}

static bool is_tls_fault(CURLcode code)
{
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
           code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_CONNECT_ERROR;
}

static const char *tls_advice(const struct client *client, CURLcode code)
{
    if (code == CURLE_SSL_CERTPROBLEM)
        return "check --cert and --key";
    if (code == CURLE_SSL_CONNECT_ERROR)
        return strstr(client->error, "wrong version") ? "check whether it uses http://"
                                                      : "it may require --cert FILE and --key FILE";
    if (code == CURLE_SSL_CACERT_BADFILE)
        return "check that the file of --ca can be read and is PEM";
    if (strstr(client->error, "subject name") || strstr(client->error, "does not match"))
        return "call it by a name of its certificate";
    return "give the CA that signed its certificate with --ca FILE";
}

/* Returns whether the URL names a port. */
static bool has_port(const char *url)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    size_t len = strcspn(host, "/");
    const char *end = host[0] == '[' ? memchr(host, ']', len) : host;
    return end && memchr(end, ':', len - (size_t)(end - host));
}

static const char *reach_advice(const struct client *client, CURLcode code)
{
    if (code == CURLE_COULDNT_RESOLVE_HOST)
        return "check the name in --url";
    if (!client->socket_path && !has_port(client->base))
        return "give the port in --url, as in " CLI_URL_DEFAULT;
    if (strcmp(client->base, CLI_URL_DEFAULT) != 0)
        return "start it with 'tarry serve' or correct --url";
    return "start it with 'tarry serve' or give --url";
}

bool client_look(struct client *client, CURLcode *code, bool *is_absent)
{
    long status = 0;
    if (!client_prepare(client, "GET", NULL, 0))
        return false;
    *code = curl_easy_perform(client->curl);
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    *is_absent = *code == CURLE_OK && status == 404;
    return true;
}

int client_finish(struct client *client, CURLcode code)
{
    client->problem[0] = '\0';
    if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
        return cli_usage("bad URL '%s', give one such as " CLI_URL_DEFAULT, client->shown);
    if (is_tls_fault(code))
        return client_fail(client, CLI_UNREACHABLE, "cannot trust '%s', %s, %s", client->shown,
                           client->error[0] ? client->error : curl_easy_strerror(code),
                           tls_advice(client, code));
    if (code != CURLE_OK)
        return client_fail(client, CLI_UNREACHABLE, "cannot reach '%s', %s, %s", client->shown,
                           client->error[0] ? client->error : curl_easy_strerror(code),
                           reach_advice(client, code));
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &client->status);
    if (client->wants_raw && client->status < 300)
        return client->status == 204 ? CLI_NOTHING : CLI_OK;
    client->json = json_loadb(client->answer.at ? client->answer.at : "", client->answer.len,
                              JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (client->status >= 400)
        return client_explain(client);
    return client->json ? CLI_OK : client_fail_unexpected(client);
}

int client_call(struct client *client, const char *method, const struct slice *body,
                int64_t wait_ms)
{
    if (!client_prepare(client, method, body, wait_ms))
        return CLI_USAGE;
    return client_finish(client, curl_easy_perform(client->curl));
}

int client_expect(struct client *client, const char *member)
{
    return json_object_get(client->json, member) ? CLI_OK : client_fail_unexpected(client);
}

int client_set_answer(struct client *client, json_t *answer)
{
    char *text = answer ? show_dump(answer) : NULL;
    json_decref(client->json);
    client->json = answer;
    buffer_clear(&client->answer);
    buffer_append_text(&client->answer, text ? text : "");
    free(text);
    return text && !client->answer.failed ? CLI_OK : cli_error("out of memory");
}

void client_print_json(const struct client *client)
{
    (void)show_json_text(buffer_slice(&client->answer), stdout);
    if (client->answer.len == 0 || client->answer.at[client->answer.len - 1] != '\n')
        putchar('\n');
}
