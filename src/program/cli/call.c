#include "cli/call.h"

#include "base/text.h"

#include "cli/body.h"
#include "cli/bulk.h"

#include <string.h>

/* ---- values ---- */

const char *call_argument(const struct call *call, size_t i)
{
    return i < call->args.list.count ? call->args.list.at[i] : NULL;
}

static size_t find_flag(const struct call *call, const char *name, size_t len)
{
    size_t i = 0;
    while (call->row->flags[i].name && (strlen(call->row->flags[i].name) != len ||
                                        memcmp(call->row->flags[i].name, name, len) != 0))
        i++;
    return i;
}

const char *call_value(const struct call *call, const char *flag)
{
    size_t i = find_flag(call, flag, strlen(flag));
    return call->row->flags[i].name ? call->values[i] : NULL;
}

void call_set(struct call *call, const char *flag, const char *value)
{
    call->values[find_flag(call, flag, strlen(flag))] = value;
}

const json_t *call_member(const struct call *call, const char *member)
{
    return json_object_get(call->client.json, member);
}

/* ---- the command line ---- */

/* Values as cli_parse stores them. */
struct parsed {
    struct cli_flag flags[CALL_FLAGS_MAX + 1];
    bool is_on[CALL_FLAGS_MAX];
    uint64_t counts[CALL_FLAGS_MAX];
};

static void *find_place(struct call *call, struct parsed *parsed, size_t i)
{
    switch (call->row->flags[i].kind) {
    case CLI_SWITCH:
        return &parsed->is_on[i];
    case CLI_LIST:
        return &call->list;
    default:
        return &call->values[i];
    }
}

static int call_parse(struct call *call, int argc, char **argv)
{
    struct parsed parsed = {0};
    const struct call_row *row = call->row;
    const struct call_flag *flag = row->flags;
    struct cli_syntax syntax = {.usage = row->usage,
                                .about = row->about,
                                .flags = parsed.flags,
                                .least = row->least,
                                .most = row->most};
    for (size_t i = 0; i < CLI_VERBS_MAX && row->requests[i].verb; i++)
        syntax.verbs[i] = row->requests[i].verb;
    for (size_t i = 0; flag[i].name; i++)
        parsed.flags[i] = (struct cli_flag){
            flag[i].name, flag[i].kind, find_place(call, &parsed, i), flag[i].value, flag[i].help};
    int exit_code = cli_parse(argc, argv, &syntax, &call->args);
    for (size_t i = 0; flag[i].name; i++)
        if (parsed.is_on[i])
            call->values[i] = "true";
    return exit_code;
}

static int check_pairs(const struct call *call)
{
    for (size_t i = 0; i < CALL_PAIRS_MAX && call->row->pairs[i][0]; i++) {
        const char *const *pair = call->row->pairs[i];
        if (call_value(call, pair[0]) && call_value(call, pair[1]))
            return cli_usage("both '--%s' and '--%s' are given, choose one", pair[0], pair[1]);
    }
    return -1;
}

static bool has_choice(const struct call *call, const struct call_request *request)
{
    for (size_t i = 0; i < CALL_CHOICES_MAX && request->flags[i]; i++)
        if (call_value(call, request->flags[i]))
            return true;
    return !request->flags[0];
}

static bool request_fits(const struct call *call, const struct call_request *request)
{
    const char *verb = call_argument(call, 0);
    return (!request->verb || !verb || strcmp(verb, request->verb) == 0) &&
           call->args.list.count >= request->least && has_choice(call, request) &&
           (!request->bulk || bulk_is_meant(&call->args));
}

/* Finds the first request that fits. Returns -1, or an exit code if no request fits. */
static int find_request(struct call *call)
{
    const struct call_request *request = call->row->requests;
    for (size_t i = 0; i < CALL_REQUESTS_MAX && (request[i].path || request[i].bulk); i++)
        if (request_fits(call, &request[i])) {
            call->request = &request[i];
            call->wait_ms = request[i].wait_ms;
            return -1;
        }
    return cli_usage("unknown '%s', usage: tarry %s", call->args.list.at[0], call->row->usage);
}

/* ---- the request ---- */

/* Returns the value that {0} or {name} stands for, and moves behind it. */
static const char *read_place(const struct call *call, const char **at)
{
    const char *name = *at + 1;
    size_t len = strcspn(name, "}");
    *at = name + len + 1;
    if (len == 1 && text_is_digit(*name))
        return call_argument(call, (size_t)(*name - '0'));
    return call->values[find_flag(call, name, len)];
}

/* Reads a segment or a parameter's value: a place or plain text up to `end`. */
static const char *read_part(const struct call *call, const char **at, const char *ends,
                             char plain[64])
{
    if (**at == '{')
        return read_place(call, at);
    size_t len = strcspn(*at, ends);
    snprintf(plain, 64, "%.*s", (int)len, *at);
    *at += len;
    return plain;
}

static void add_path(struct call *call, struct buffer *target)
{
    char plain[64], name[64];
    const char *at = call->request->path;
    while (*at && *at != '?') {
        const char *segment = read_part(call, &at, "/?", plain);
        if (segment)
            cli_url_add_segment(target, segment);
        at += *at == '/';
    }
    while (*at) {
        size_t len = strcspn(++at, "=");
        snprintf(name, sizeof name, "%.*s", (int)len, at);
        at += len + 1;
        cli_url_add_query(target, name, read_part(call, &at, "&", plain));
    }
}

static void add_flag(const struct call *call, size_t i, struct buffer *target)
{
    char name[64];
    snprintf(name, sizeof name, "%s", call->row->flags[i].name);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : *c;
    if (!call->row->flags[i].is_unsent)
        cli_url_add_query(target, name, call->values[i]);
}

void call_begin(struct call *call)
{
    struct buffer *target = client_begin(&call->client);
    add_path(call, target);
    for (size_t i = 0; call->request->repeat && i < call->args.list.count; i++)
        cli_url_add_query(target, call->request->repeat, call->args.list.at[i]);
    for (size_t i = 0; call->row->flags[i].name; i++)
        add_flag(call, i, target);
}

static int make_with_body(struct call *call, struct buffer *body)
{
    const struct call_request *request = call->request;
    call_begin(call);
    int exit_code = request->body ? request->body(call, body) : CLI_OK;
    struct slice bytes = buffer_slice(body), *given = request->body ? &bytes : NULL;
    if (exit_code == CLI_OK)
        exit_code = request->make
                        ? request->make(call, given)
                        : client_call(&call->client, request->method, given, call->wait_ms);
    if (exit_code == CLI_OK && request->expects)
        exit_code = client_expect(&call->client, request->expects);
    return exit_code;
}

static int call_make(struct call *call)
{
    struct buffer body;
    buffer_init(&body, BODY_BYTES_MAX);
    int exit_code = make_with_body(call, &body);
    buffer_fini(&body);
    return exit_code;
}

/* Makes the request and prints its answer. */
static int call_answer(struct call *call)
{
    const struct call_request *request = call->request;
    if (!client_open(&call->client, call->args.url))
        return request->conclude ? request->conclude(call, CLI_REFUSED) : CLI_REFUSED;
    int exit_code = call_make(call);
    bool is_answered = exit_code == CLI_OK;
    if (request->conclude)
        exit_code = request->conclude(call, exit_code);
    if (is_answered && call->args.json)
        client_print_json(&call->client);
    else if (is_answered && request->print)
        request->print(call);
    client_close(&call->client);
    return exit_code;
}

/* Changes the jobs whose ids are arguments or on standard input. */
static int call_bulk(const struct call *call)
{
    struct bulk_option options[CALL_FLAGS_MAX + 1] = {0};
    size_t count = 0;
    for (size_t i = 0; call->row->flags[i].name; i++)
        if (!call->row->flags[i].is_unsent)
            options[count++] = (struct bulk_option){call->row->flags[i].name, call->values[i]};
    const struct bulk_change change = {
        .verb = call->request->bulk, .done = call->request->done, .options = options};
    return bulk_run(&call->args, &change);
}

int call_run(const struct call_row *row, int argc, char **argv)
{
    static struct call call; /* too large for the stack */
    call = (struct call){.row = row};
    int exit_code = call_parse(&call, argc, argv);
    if (exit_code < 0)
        exit_code = find_request(&call);
    if (exit_code < 0)
        exit_code = check_pairs(&call);
    if (exit_code < 0 && row->check)
        exit_code = row->check(&call);
    if (exit_code >= 0)
        return exit_code;
    return call.request->bulk ? call_bulk(&call) : call_answer(&call);
}

/* ---- bodies and output ---- */

int call_body(struct call *call, struct buffer *out)
{
    const char *text = call_value(call, "body"), *file = call_value(call, "file");
    if (text)
        buffer_append_text(out, text);
    return file ? body_read(file, out) : CLI_OK;
}

int call_body_or_input(struct call *call, struct buffer *out)
{
    bool is_given = call_value(call, "body") || call_value(call, "file");
    return is_given ? call_body(call, out) : body_read("-", out);
}

void call_print_next(const struct call *call)
{
    const char *next = json_string_value(call_member(call, "cursor"));
    json_int_t seen = json_integer_value(call_member(call, "seen"));
    if (!next || !*next)
        return;
    if (seen)
        fprintf(stderr, "%lld jobs searched, ", (long long)seen);
    const char *quote = strchr(next, ' ') ? "'" : "";
    fprintf(stderr, "there are more: --cursor %s%s%s\n", quote, next, quote);
}

void call_print_done(const struct call *call)
{
    printf("%s %s\n", call->request->done, call_argument(call, 0));
}
