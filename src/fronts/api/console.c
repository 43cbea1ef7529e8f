#include "api/console.h"

#include "api/console_files.h"
#include "api/routes.h"
#include "base/json_write.h"
#include "http/exchange.h"

#include <string.h>

enum { TAG_BYTES_MAX = 80, POLICY_BYTES_MAX = 300 + HTTP_ORIGIN_BYTES_MAX };

static const struct api_console_file *const files[] = {
#define ROW(SYMBOL) &SYMBOL,
    CONSOLE_FILES(ROW)
#undef ROW
};

static const struct api_console_file *console_find(struct slice name)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (slice_is(name, files[i]->name))
            return files[i];
    return NULL;
}

/* Writes the content security policy. The page can run and request only what this server has,
 * cannot be framed, and cannot evaluate text as code. So content of a job is harmless even if the
 * page has a bug. The exception are requests to the issuer at which users log in. */
static struct slice policy_write(char policy[POLICY_BYTES_MAX], const struct http_sign_in *sign_in)
{
    int len = snprintf(
        policy, POLICY_BYTES_MAX,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'%s%s; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
        sign_in ? " " : "", sign_in ? sign_in->origin : "");
    return slice_make(policy, (size_t)len);
}

/* Writes the ETag of the bytes that are sent; a compressed file has its own. */
static struct slice tag_write(char tag[TAG_BYTES_MAX], const struct api_console_file *file,
                              bool is_packed)
{
    int len = snprintf(tag, TAG_BYTES_MAX, "\"%s%s\"", file->tag, is_packed ? "-gzip" : "");
    return slice_make(tag, (size_t)len);
}

/* Returns whether If-None-Match contains the tag. Searches for the text, since a proxy may have
 * made the tag weak. */
static bool tag_is_known(struct slice known, struct slice tag)
{
    return known.len >= tag.len && memmem(known.at, known.len, tag.at, tag.len) != NULL;
}

static void answer_file(struct http_call *call, const struct api_console_file *file)
{
    struct http_exchange *exchange = call->exchange;
    char text[TAG_BYTES_MAX], policy[POLICY_BYTES_MAX];
    struct slice coding = http_request_field(call->request, "accept-encoding");
    bool is_packed = http_list_has(coding, "gzip");
    struct slice tag = tag_write(text, file, is_packed);
    bool is_same = tag_is_known(http_request_field(call->request, "if-none-match"), tag);
    struct buffer *body = http_answer_start(exchange);
    http_answer_field(exchange, "Cache-Control", slice_of("no-cache"));
    http_answer_field(exchange, "ETag", tag);
    http_answer_field(exchange, "Vary", slice_of("Accept-Encoding"));
    http_answer_field(exchange, "Content-Security-Policy",
                      policy_write(policy, call->front->shared->sign_in));
    http_answer_field(exchange, "X-Content-Type-Options", slice_of("nosniff"));
    http_answer_field(exchange, "Referrer-Policy", slice_of("no-referrer"));
    http_answer_field(exchange, "Cross-Origin-Resource-Policy", slice_of("same-origin"));
    http_answer_field(exchange, "Cross-Origin-Opener-Policy", slice_of("same-origin"));
    if (is_same) {
        http_answer_end(exchange, 304, NULL);
        return;
    }
    if (is_packed) {
        http_answer_field(exchange, "Content-Encoding", slice_of("gzip"));
        buffer_append(body, file->packed, file->packed_bytes);
    } else {
        buffer_append(body, file->plain, file->plain_bytes);
    }
    http_answer_end(exchange, 200, file->type);
}

static void get_page(struct http_call *call)
{
    answer_file(call, console_find(slice_of("index.html")));
}

static void get_file(struct http_call *call)
{
    const struct api_console_file *file = console_find(call->id);
    if (file)
        answer_file(call, file);
    else
        http_answer_problem(call->exchange, PROBLEM_NO_SUCH_PATH, 0,
                            "the console has no file '%s'; it begins at /console/",
                            http_quotable(call->id, 60));
}

/* Answers how users log in. The members are null if they paste a token. */
static void get_sign_in(struct http_call *call)
{
    const struct http_sign_in *sign_in = call->front->shared->sign_in;
    struct buffer *body = http_answer_start(call->exchange);
    buffer_append_byte(body, '{');
    json_write_member(body, "issuer");
    json_write_string_or_null(body, slice_of(sign_in ? sign_in->issuer : ""));
    json_write_member(body, "client_id");
    json_write_string_or_null(body, slice_of(sign_in ? sign_in->client : ""));
    json_write_member_text(body, "parameters", slice_of(sign_in ? sign_in->parameters : ""));
    json_write_member_text(body, "token",
                           slice_of(sign_in && sign_in->uses_id_token ? "id" : "access"));
    buffer_append_byte(body, '}');
    http_answer_end_json(call->exchange, 200);
}

/* Redirects to a relative path, which also works behind a proxy that serves the API under a path
 * prefix. */
static void get_folder(struct http_call *call)
{
    (void)http_answer_start(call->exchange);
    http_answer_field(call->exchange, "Location", slice_of("console/"));
    http_answer_end(call->exchange, 308, "text/plain");
}

bool api_console_redirect(struct http_call *call, const char *location)
{
    if (!http_begins(call->request->accept, "text/html"))
        return false;
    (void)http_answer_start(call->exchange);
    http_answer_field(call->exchange, "Location", slice_of(location));
    http_answer_field(call->exchange, "Vary", slice_of("Accept"));
    http_answer_end(call->exchange, 303, "text/plain");
    return true;
}

#define CONSOLE_CALL(PATTERN, NAME, HANDLE, ...)                                                   \
    {                                                                                              \
        .method = HTTP_METHOD_GET, .pattern = (PATTERN), .name = (NAME),                           \
        .scope = HTTP_FOR_EVERYBODY, .topics = HTTP_TOPICS_NONE,                                   \
        .handle = (HANDLE)__VA_OPT__(, ) __VA_ARGS__                                               \
    }

const struct http_route api_console_routes[] = {
    CONSOLE_CALL("/console/", "console", get_page, .ignores_query = true),
    CONSOLE_CALL("/console/{file}", "console", get_file),
    CONSOLE_CALL("/console", "console", get_folder),
    CONSOLE_CALL("/v1/sign-in", "sign_in", get_sign_in),
    {0},
};
