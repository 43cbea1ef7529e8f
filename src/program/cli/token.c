/* token: creates, lists, revokes and rotates tokens and certificates. */
#include "access/token_file.h"
#include "access/token_list.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/json_write.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/private_file.h"
#include "cli/show.h"
#include "server/callers.h"
#include "server/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPIRES_MS_MAX (INT64_C(3650) * 24 * 3600 * 1000)
#define OVERLAP "24h"
enum {
    LIST_BYTES_MAX = 16 << 20,
    TRIES_MAX = 100 /* attempts while others change the tokens concurrently */
};

/* ---- where tokens are stored ----
 *
 * As given to the commands by their own options or by the server's environment variables and
 * configuration file. Either a file or the store that servers share. */

struct token_store_flags { /* NULL: not given */
    const char *tokens, *config, *store, *password_file;
};

struct token_store {
    struct config config;
    const struct stored_tokens_ops *ops; /* NULL: tokens are stored in a file */
    char place[OPTION_TEXT_BYTES];       /* for display */
};

/* Finds the store. Returns CLI_OK, or the exit code after printing the error. */
static int token_store_find(struct token_store *store, const struct token_store_flags *flags)
{
    char error[CONFIG_ERROR_BYTES];
    char names[][24] = {"--tokens", "--config", "--store", "--redis-password-file"};
    const char *const values[] = {flags->tokens, flags->config, flags->store, flags->password_file};
    char *args[2 * sizeof values / sizeof values[0]];
    int count = 0;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (values[i]) {
            args[count++] = names[i];
            args[count++] = (char *)(uintptr_t)values[i]; /* only read */
        }
    if (!config_load(&store->config, count, args, getenv, error))
        return cli_usage("%s", error);
    bool is_file = store->config.tokens[0] && !config_tokens_are_stored(&store->config);
    store->ops =
        !is_file || (flags->store && !flags->tokens) ? stored_tokens_ops_of(&store->config) : NULL;
    if (!is_file && !store->ops)
        return cli_usage("no place for tokens is configured, give --tokens FILE or --store URL, or "
                         "set TARRY_TOKENS");
    snprintf(store->place, sizeof store->place, "%s",
             !store->ops                     ? store->config.tokens
             : config_is_sql(&store->config) ? "the database"
                                             : "redis");
    return CLI_OK;
}

static int read_stored(const struct token_store *store, struct buffer *out)
{
    char error[STORED_TOKENS_ERROR_BYTES] = "";
    void *tokens = NULL;
    bool is_changed;
    int result = store->ops->open(&store->config, &tokens, error);
    if (result == 0)
        result = store->ops->read(tokens, out, &is_changed, error);
    store->ops->close(tokens);
    return result == 0 ? CLI_OK : cli_store_error(result, error);
}

/* Edits the current tokens once. Returns an exit code or a negative errno; errors are printed
 * except -EAGAIN. */
static int edit_once(const struct stored_tokens_ops *ops, void *tokens, struct buffer *before,
                     token_file_editor *edit, void *ctx)
{
    char error[STORED_TOKENS_ERROR_BYTES] = "";
    struct buffer after;
    bool is_changed;
    buffer_init(&after, TOKEN_LIST_BYTES_MAX);
    int result = ops->read(tokens, before, &is_changed, error);
    int exit_code = result == 0 ? edit(ctx, buffer_slice(before), &after) : CLI_OK;
    if (result == 0 && exit_code == CLI_OK)
        result = after.failed
                     ? error_result(-EFBIG, error, sizeof error,
                                    "too many tokens, at most %d bytes", TOKEN_LIST_BYTES_MAX)
                     : ops->write(tokens, buffer_slice(&after), error);
    buffer_fini(&after);
    if (result == 0 || result == -EAGAIN)
        return result == 0 ? exit_code : result;
    return cli_store_error(result, error);
}

static int edit_stored(const struct token_store *store, token_file_editor *edit, void *ctx)
{
    char error[STORED_TOKENS_ERROR_BYTES] = "";
    void *tokens = NULL;
    struct buffer before;
    int result = store->ops->open(&store->config, &tokens, error);
    if (result != 0)
        return cli_store_error(result, error);
    buffer_init(&before, TOKEN_LIST_BYTES_MAX + 1);
    int exit_code = -EAGAIN;
    for (int i = 0; exit_code == -EAGAIN && i < TRIES_MAX; i++) {
        buffer_clear(&before);
        exit_code = edit_once(store->ops, tokens, &before, edit, ctx);
    }
    buffer_fini(&before);
    store->ops->close(tokens);
    return exit_code == -EAGAIN ? cli_error("the tokens are being changed by others, try again")
                                : exit_code;
}

/* Appends the text of all tokens; appends nothing if there are no tokens yet. Returns CLI_OK, or
 * the exit code after printing the error. */
static int token_store_read(const struct token_store *store, struct buffer *out)
{
    struct token_file_mark mark;
    char error[ACCESS_ERROR_BYTES];
    const char *path = store->config.tokens;
    if (store->ops)
        return read_stored(store, out);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return CLI_OK;
    return token_file_read(path, out, &mark, error) == 0 ? CLI_OK : cli_error("%s", error);
}

/* Edits the tokens as token_file_edit does; a positive number that `edit` returns is the exit
 * code. */
static int token_store_edit(const struct token_store *store, token_file_editor *edit, void *ctx)
{
    char error[ACCESS_ERROR_BYTES];
    if (store->ops)
        return edit_stored(store, edit, ctx);
    int result = token_file_edit(store->config.tokens, edit, ctx, error);
    return result >= 0 ? result : cli_error("%s", error);
}

/* ---- changes ---- */

struct wishes { /* command line options; NULL: not given */
    const char *scope, *topics, *expires, *overlap, *output;
    const char *rate, *requests, *max_jobs, *max_waiting, *max_connections;
    bool is_certificate, is_access_key;
};

struct change {
    const struct wishes *wishes;
    const struct token_store *store;
    struct slice name;
    int64_t now_ms;
    struct token token;           /* the token after the change */
    char secret[TOKEN_BYTES + 1]; /* "": no secret was created */
    struct buffer *json;          /* the change for --json; NULL: print text for the user */
    int (*make)(struct change *change, const struct token *old);
};

/* ---- command line options ---- */

static int read_count(const char *text, const char *flag, uint64_t *out)
{
    if (!text || access_count_parse(slice_of(text), INT64_MAX, out))
        return CLI_OK;
    return cli_usage("bad value '%s' for '--%s', give a number from 1 on, such as 5000 or 1M", text,
                     flag);
}

static int read_rate(const char *text, const char *flag, struct access_rate *out)
{
    if (!text || access_rate_parse(slice_of(text), out))
        return CLI_OK;
    return cli_usage("bad value '%s' for '--%s', give a rate such as 1000/s or 90/m", text, flag);
}

static int read_limits(const struct wishes *wishes, struct access_limits *limits)
{
    int exit_code = read_rate(wishes->rate, "rate", &limits->push_rate);
    if (exit_code == CLI_OK)
        exit_code = read_rate(wishes->requests, "requests", &limits->request_rate);
    if (exit_code == CLI_OK)
        exit_code = read_count(wishes->max_jobs, "max-jobs", &limits->jobs_max);
    if (exit_code == CLI_OK)
        exit_code = read_count(wishes->max_waiting, "max-waiting", &limits->waiting_max);
    if (exit_code == CLI_OK)
        exit_code =
            read_count(wishes->max_connections, "max-connections", &limits->connections_max);
    return exit_code;
}

static int read_span(const char *text, const char *flag, int64_t *out)
{
    if (duration_parse(slice_of(text), EXPIRES_MS_MAX, out))
        return CLI_OK;
    return cli_usage("bad value '%s' for '--%s', give a time such as 24h or 90d", text, flag);
}

static int read_expiry(const struct change *change, int64_t *expires_ms)
{
    int64_t span_ms;
    if (!change->wishes->expires)
        return CLI_OK;
    int exit_code = read_span(change->wishes->expires, "expires", &span_ms);
    if (exit_code == CLI_OK)
        *expires_ms = change->now_ms + span_ms;
    return exit_code;
}

/* ---- changing one token ---- */

static void draw_secret(struct change *change)
{
    struct token *token = &change->token;
    token_make(change->secret);
    token_hash(slice_of(change->secret), token->secrets[0].hash);
    token->secrets[0].text = slice_of(change->secret);
    token->secrets[0].until_ms = INT64_MAX;
    token->secret_count = 1;
}

static int make_new(struct change *change, const struct token *old)
{
    const struct wishes *wishes = change->wishes;
    struct token *token = &change->token;
    *token = (struct token){.kind = wishes->is_certificate  ? ACCESS_CERTIFICATE
                                    : wishes->is_access_key ? ACCESS_KEY
                                                            : ACCESS_TOKEN,
                            .name = change->name,
                            .created_ms = change->now_ms,
                            .expires_ms = INT64_MAX,
                            .revoked_ms = INT64_MAX};
    if (wishes->is_certificate && wishes->is_access_key)
        return cli_usage("'--certificate' and '--access-key' exclude each other");
    if (old && old->revoked_ms == INT64_MAX)
        return cli_error("'%.*s' already exists in '%s', rotate or revoke it",
                         (int)change->name.len, change->name.at, change->store->place);
    if (!wishes->scope)
        return cli_usage("'--scope' is missing, give one or more of push,consume,read,admin");
    if (!wishes->topics)
        return cli_usage("'--topics' is missing, give patterns such as 'orders-*,mail', or '*' for "
                         "all");
    if (!(token->scopes = access_scopes_parse(slice_of(wishes->scope))))
        return cli_usage(
            "bad value '%s' for '--scope', give one or more of push,consume,read,admin",
            wishes->scope);
    if (!access_topics_are_valid(slice_of(wishes->topics)))
        return cli_usage("bad value '%s' for '--topics', give patterns such as 'orders-*,mail', "
                         "or '*' for all",
                         wishes->topics);
    token->topics = slice_of(wishes->topics);
    int exit_code = read_limits(wishes, &token->limits);
    if (exit_code == CLI_OK)
        exit_code = read_expiry(change, &token->expires_ms);
    if (exit_code == CLI_OK && !wishes->is_certificate)
        draw_secret(change);
    return exit_code;
}

static int refuse_absent(const struct change *change, const struct token *old)
{
    int len = (int)change->name.len;
    if (!old) {
        cli_error("there is no '%.*s' in '%s', see 'tarry token list'", len, change->name.at,
                  change->store->place);
        return CLI_NOTHING;
    }
    if (old->revoked_ms != INT64_MAX)
        return cli_error("'%.*s' is already revoked, nothing was changed", len, change->name.at);
    return CLI_OK;
}

static int make_revoked(struct change *change, const struct token *old)
{
    int exit_code = refuse_absent(change, old);
    if (exit_code != CLI_OK)
        return exit_code;
    change->token = *old;
    change->token.revoked_ms = change->now_ms;
    return CLI_OK;
}

/* Rotates the secret. The current secret stays valid for the overlap; an older one becomes
 * invalid. */
static int make_rotated(struct change *change, const struct token *old)
{
    const struct wishes *wishes = change->wishes;
    struct token *token = &change->token;
    int64_t overlap_ms = 0;
    int exit_code = refuse_absent(change, old);
    if (exit_code == CLI_OK && old->kind == ACCESS_CERTIFICATE)
        exit_code = cli_error("'%.*s' is a certificate and has no secret, nothing was changed",
                              (int)change->name.len, change->name.at);
    if (exit_code == CLI_OK)
        exit_code = read_span(wishes->overlap ? wishes->overlap : OVERLAP, "overlap", &overlap_ms);
    if (exit_code != CLI_OK)
        return exit_code;
    *token = *old;
    exit_code = read_expiry(change, &token->expires_ms);
    if (exit_code != CLI_OK)
        return exit_code;
    if (token->expires_ms <= change->now_ms)
        return cli_error("'%.*s' has expired, give --expires to rotate it anyway",
                         (int)change->name.len, change->name.at);
    draw_secret(change);
    token->secrets[1].until_ms = INT64_MAX;
    if (overlap_ms) {
        token->secrets[1] = old->secrets[0];
        token->secrets[1].until_ms = change->now_ms + overlap_ms;
        token->secret_count = 2;
    }
    return CLI_OK;
}

/* ---- output as JSON ---- */

static const char *state_of(const struct token *token, int64_t now_ms)
{
    return token->revoked_ms != INT64_MAX                                   ? "revoked"
           : token->expires_ms <= now_ms                                    ? "expired"
           : token->secret_count > 1 && token->secrets[1].until_ms > now_ms ? "rotating"
                                                                            : "valid";
}

static void write_time(struct buffer *out, const char *key, int64_t ms)
{
    if (!ms || ms == INT64_MAX)
        return;
    json_write_member(out, key);
    json_write_time(out, ms);
}

static void write_rate(struct buffer *out, const char *key, struct access_rate rate)
{
    if (!rate.count)
        return;
    json_write_member(out, key);
    buffer_append_byte(out, '"');
    access_rate_emit(rate, out);
    buffer_append_byte(out, '"');
}

static void write_count(struct buffer *out, const char *key, uint64_t count)
{
    if (count)
        json_write_member_number(out, key, count);
}

static void write_token(struct buffer *out, const struct token *token, int64_t now_ms)
{
    char scopes[ACCESS_SCOPES_TEXT_BYTES];
    access_scopes_emit(token->scopes, scopes);
    buffer_append_byte(out, '{');
    json_write_member_text(out, "name", token->name);
    json_write_member_text(out, "kind", slice_of(access_kind_name(token->kind)));
    json_write_member_text(out, "state", slice_of(state_of(token, now_ms)));
    json_write_member_text(out, "scope", slice_of(scopes));
    json_write_member_text(out, "topics", token->topics);
    write_rate(out, "rate", token->limits.push_rate);
    write_rate(out, "requests", token->limits.request_rate);
    write_count(out, "max_jobs", token->limits.jobs_max);
    write_count(out, "max_waiting", token->limits.waiting_max);
    write_count(out, "max_connections", token->limits.connections_max);
    write_time(out, "created_at", token->created_ms);
    write_time(out, "expires_at", token->expires_ms);
    write_time(out, "revoked_at", token->revoked_ms);
    if (token->secret_count > 1)
        write_time(out, "old_until", token->secrets[1].until_ms);
    buffer_append_byte(out, '}');
}

/* Writes the token as in the list, with its secret unless that is written to a file. */
static void write_change(const struct change *change)
{
    struct buffer *out = change->json;
    buffer_clear(out);
    write_token(out, &change->token, change->now_ms);
    if (change->secret[0] && !change->wishes->output) {
        out->len--; /* the brace follows below */
        json_write_member_text(out, change->token.kind == ACCESS_KEY ? "secret" : "token",
                               slice_of(change->secret));
        buffer_append_byte(out, '}');
    }
    buffer_append_byte(out, '\n');
}

/* ---- the stored list ---- */

static int edit_list(void *ctx, struct slice text, struct buffer *out)
{
    struct change *change = ctx;
    struct token_list list;
    char error[ACCESS_ERROR_BYTES];
    if (token_list_read(text, change->store->place, &list, error) != 0)
        return cli_error("%s", error);
    int exit_code = change->make(change, token_list_find(&list, change->name));
    if (exit_code == CLI_OK)
        token_list_put(text, &change->token, out);
    if (exit_code == CLI_OK && change->json)
        write_change(change);
    change->token.name = change->name; /* the text is freed before the name is printed */
    token_list_fini(&list);
    return exit_code;
}

/* ---- the list ---- */

static void add_cell(struct show_table *table, struct slice text)
{
    char cell[SHOW_CELL_BYTES];
    snprintf(cell, sizeof cell, "%.*s", (int)text.len, text.len ? text.at : "");
    show_table_add(table, cell);
}

static void add_time(struct show_table *table, int64_t ms)
{
    char cell[SHOW_CELL_BYTES], text[TIMESTAMP_BYTES + 1] = "";
    timestamp_write(text, ms);
    json_t *time = json_string(text);
    bool is_set = ms && ms != INT64_MAX;
    show_table_add(table, is_set && time ? show_time_from_now(time, cell) : "");
    json_decref(time);
}

static void add_token(struct show_table *table, const struct token *token, int64_t now_ms)
{
    char scopes[ACCESS_SCOPES_TEXT_BYTES];
    access_scopes_emit(token->scopes, scopes);
    add_cell(table, token->name);
    show_table_add(table, access_kind_name(token->kind));
    show_table_add(table, state_of(token, now_ms));
    show_table_add(table, scopes);
    add_cell(table, token->topics);
    add_time(table, token->created_ms);
    add_time(table, token->expires_ms);
}

static void print_list(const struct token_list *list, int64_t now_ms)
{
    static const char *const heads[] = {"NAME",   "KIND",    "STATE",   "SCOPE",
                                        "TOPICS", "CREATED", "EXPIRES", NULL};
    struct show_table table;
    show_table_init(&table, heads);
    for (size_t i = 0; i < list->count; i++)
        add_token(&table, &list->tokens[i], now_ms);
    show_table_print(&table);
    show_table_fini(&table);
}

static int print_json_list(const struct token_list *list, int64_t now_ms)
{
    struct buffer out;
    buffer_init(&out, LIST_BYTES_MAX);
    buffer_append_text(&out, "{\"tokens\":[");
    for (size_t i = 0; i < list->count; i++) {
        if (i)
            buffer_append_byte(&out, ',');
        write_token(&out, &list->tokens[i], now_ms);
    }
    buffer_append_text(&out, "]}\n");
    bool ok = !out.failed && fwrite(out.at, 1, out.len, stdout) == out.len;
    buffer_fini(&out);
    return ok ? CLI_OK : cli_error("cannot write to standard output");
}

static int run_list(const struct token_store *store, bool json)
{
    struct token_list list;
    struct buffer text;
    char error[ACCESS_ERROR_BYTES];
    buffer_init(&text, TOKEN_LIST_BYTES_MAX + 1);
    int exit_code = token_store_read(store, &text);
    if (exit_code == CLI_OK &&
        token_list_read(buffer_slice(&text), store->place, &list, error) != 0)
        exit_code = cli_error("%s", error);
    else if (exit_code == CLI_OK) {
        if (json)
            exit_code = print_json_list(&list, clock_wall_ms());
        else
            print_list(&list, clock_wall_ms());
        token_list_fini(&list);
    }
    buffer_fini(&text);
    return exit_code;
}

/* ---- messages ---- */

/* Prints only the secret on standard output, so that it can be piped. */
static int hand_over(const struct change *change, FILE *output)
{
    if (!change->secret[0])
        return CLI_OK;
    bool ok = fprintf(output ? output : stdout, "%s\n", change->secret) > 0 &&
              fflush(output ? output : stdout) == 0;
    return ok ? CLI_OK
              : cli_error("cannot write the token, %s, make another one: tarry token rotate %.*s",
                          strerror(errno), (int)change->name.len, change->name.at);
}

static void print_new(const struct change *change)
{
    const struct token *token = &change->token;
    char scopes[ACCESS_SCOPES_TEXT_BYTES], until[TIMESTAMP_BYTES + 1] = "";
    access_scopes_emit(token->scopes, scopes);
    timestamp_write(until, token->expires_ms);
    fprintf(stderr, "tarry: %.*s may %s on %.*s%s%s%s\n", (int)token->name.len, token->name.at,
            scopes, (int)token->topics.len, token->topics.at,
            token->expires_ms == INT64_MAX ? "" : " until ",
            token->expires_ms == INT64_MAX ? "" : until,
            token->kind == ACCESS_CERTIFICATE ? ", by its certificate"
            : token->kind == ACCESS_KEY       ? "; its name is the key id, this is the secret"
                                              : "; the token cannot be shown again");
}

static void print_rotated(const struct change *change)
{
    const struct token *token = &change->token;
    char until[TIMESTAMP_BYTES + 1] = "";
    timestamp_write(until, token->secrets[1].until_ms);
    fprintf(stderr, "tarry: %.*s has a new %s; the old one %s%s\n", (int)token->name.len,
            token->name.at,
            token->kind == ACCESS_KEY ? "secret" : "token, which cannot be shown again",
            token->secret_count > 1 ? "is valid until " : "is rejected from now on",
            token->secret_count > 1 ? until : "");
}

static int print_change(struct buffer *json)
{
    bool ok =
        !json->failed && fwrite(json->at, 1, json->len, stdout) == json->len && fflush(stdout) == 0;
    if (json->len)
        explicit_bzero(json->at, json->len);
    return ok ? CLI_OK
              : cli_error("cannot write to standard output, make another one: tarry token rotate");
}

static void print_token_change(const struct change *change, bool is_rotation)
{
    if (!change->secret[0] && change->token.revoked_ms != INT64_MAX)
        fprintf(stderr, "tarry: %.*s is revoked, servers reject it within two seconds\n",
                (int)change->name.len, change->name.at);
    else if (is_rotation)
        print_rotated(change);
    else
        print_new(change);
}

static int run_change(struct change *change, bool is_rotation)
{
    const char *path = change->wishes->output;
    FILE *output = path ? private_file_open(path, "w", 0) : NULL;
    if (path && (!output || fchmod(fileno(output), S_IRUSR | S_IWUSR) != 0))
        return cli_error("cannot write '%s', %s, nothing was changed", path, strerror(errno));
    int exit_code = token_store_edit(change->store, edit_list, change);
    if (exit_code == CLI_OK && !change->json)
        print_token_change(change, is_rotation);
    if (exit_code == CLI_OK && (output || !change->json))
        exit_code = hand_over(change, output);
    if (exit_code == CLI_OK && change->json)
        exit_code = print_change(change->json);
    if (output && fclose(output) != 0 && exit_code == CLI_OK)
        exit_code = cli_error("cannot write '%s', %s, make another one: tarry token rotate", path,
                              strerror(errno));
    explicit_bzero(change->secret, sizeof change->secret);
    return exit_code;
}

/* ---- the command ---- */

static int run_verb(const char *verb, const char *name, const struct wishes *wishes,
                    const struct token_store *store, bool json)
{
    struct change change = {.wishes = wishes, .store = store, .now_ms = clock_wall_ms()};
    bool is_new = strcmp(verb, "new") == 0, is_rotation = strcmp(verb, "rotate") == 0;
    if (strcmp(verb, "list") == 0)
        return name ? cli_usage("unexpected argument '%s', 'tarry token list' shows all", name)
                    : run_list(store, json);
    if (!is_new && !is_rotation && strcmp(verb, "revoke") != 0)
        return cli_usage("unknown '%s', give new, list, revoke or rotate", verb);
    if (!name)
        return cli_usage("no name, write 'tarry token %s NAME'", verb);
    if (!token_name_is_valid(slice_of(name)))
        return cli_usage("bad name '%s', give 1 to %d of letters, digits and . _ @ : / -", name,
                         TOKEN_NAME_BYTES_MAX);
    change.name = slice_of(name);
    change.make = is_new ? make_new : is_rotation ? make_rotated : make_revoked;
    struct buffer text;
    buffer_init(&text, LIST_BYTES_MAX);
    change.json = json ? &text : NULL;
    int exit_code = run_change(&change, is_rotation);
    buffer_fini(&text);
    return exit_code;
}

static int token_command(int argc, char **argv)
{
    struct wishes wishes = {0};
    struct token_store_flags place = {0};
    bool json = false;
    const struct cli_flag flags[] = {
        {"scope", CLI_TEXT, &wishes.scope, "SCOPES", "new: One or more of push,consume,read,admin"},
        {"topics", CLI_TEXT, &wishes.topics, "PATTERNS",
         "new: Names, or prefixes such as orders-*, separated by commas; * is all"},
        {"expires", CLI_DURATION, &wishes.expires, "90d",
         "new, rotate: Lifetime (default: unlimited)"},
        {"rate", CLI_TEXT, &wishes.rate, "1000/s", "new: Limit of pushed jobs"},
        {"requests", CLI_TEXT, &wishes.requests, "2000/s", "new: Limit of requests"},
        {"max-jobs", CLI_TEXT, &wishes.max_jobs, "1M", "new: Limit of pending jobs"},
        {"max-waiting", CLI_TEXT, &wishes.max_waiting, "100", "new: Limit of waiting takes"},
        {"max-connections", CLI_TEXT, &wishes.max_connections, "100", "new: Limit of connections"},
        {"certificate", CLI_SWITCH, &wishes.is_certificate, NULL,
         "new: No secret; NAME is the name in the client certificate"},
        {"access-key", CLI_SWITCH, &wishes.is_access_key, NULL,
         "new: For AWS SDKs; NAME is the key id, and the secret is stored in readable form"},
        {"overlap", CLI_DURATION, &wishes.overlap, OVERLAP,
         "rotate: How long the old token stays valid (default: " OVERLAP ")"},
        {"output", CLI_TEXT, &wishes.output, "FILE",
         "new, rotate: Write the token to this file, readable only by its owner"},
        {"tokens", CLI_TEXT, &place.tokens, "FILE",
         "File of tokens (default: TARRY_TOKENS, then the configuration)"},
        {"store", CLI_TEXT, &place.store, "URL",
         "Store tokens in this Redis or database, for all its servers"},
        {"redis-password-file", CLI_TEXT, &place.password_file, "FILE",
         "File whose first line is the password of Redis"},
        {"config", CLI_TEXT, &place.config, "FILE", "Configuration file of the server"},
        {"json", CLI_SWITCH, &json, NULL, "Print one JSON object; for a new token with its secret"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "token new NAME --scope SCOPES --topics PATTERNS | token list | "
                 "token revoke NAME | token rotate NAME",
        .about =
            "Manages tokens: creates, lists and revokes them, or replaces one while the old one "
            "stays\n"
            "valid for a time. Servers notice a change within two seconds. A token is printed "
            "once, on\n"
            "standard output; only its SHA-256 is stored. For an access key, the secret itself\nis "
            "stored.\n"
            "\n"
            "  tarry token new shop --scope push --topics 'orders-*,mail' --expires 90d\n"
            "  tarry token new worker --scope consume --topics '*' --output worker.token\n"
            "  tarry token new billing.internal --certificate --scope read --topics invoices\n"
            "  tarry token new legacy --access-key --scope push --topics mail > legacy.secret\n"
            "  tarry token rotate shop --overlap 1h\n"
            "\n"
            "Scopes: push (push, cancel, reschedule), consume (take, ack), read (see jobs, topics "
            "and\n"
            "figures), admin (settings, purge, delete, redrive, backup).",
        .flags = flags,
        .least = 1,
        .most = 2,
        .is_local = true,
    };
    struct cli_args args;
    struct token_store store;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    exit_code = token_store_find(&store, &place);
    if (exit_code != CLI_OK)
        return exit_code;
    return run_verb(args.list.at[0], args.list.count > 1 ? args.list.at[1] : NULL, &wishes, &store,
                    json);
}

const struct cli_command cli_token_commands[] = {
    {.name = "token", .run = token_command, .help = "create, list, revoke or rotate tokens"},
    {0},
};
