#include "cli/import_state.h"

#include "base/clock.h"
#include "base/hash.h"
#include "cli/cli.h"
#include "cli/private_file.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

enum { PAUSE_US = 1000 * 1000, PATH_BYTES_MAX = 4096 };

static int not_ours(const struct import_state *state)
{
    return cli_error("'%s' is not the state of an import, give another name", state->path);
}

/* Reads the progress of an earlier import into this server. */
static int read_file(struct import_state *state)
{
    json_error_t error;
    json_t *json = json_load_file(state->path, 0, &error);
    const char *url = json_string_value(json_object_get(json, "url"));
    const char *hash = json_string_value(json_object_get(json, "hash"));
    json_int_t line = json_integer_value(json_object_get(json, "line"));
    int exit_code = CLI_OK;
    if (json_integer_value(json_object_get(json, "tarry_import")) != 1 || !url || !hash ||
        line <= 0 || sscanf(hash, "%" SCNx64, &state->line_hash) != 1)
        exit_code = not_ours(state);
    else if (strcmp(url, state->url) != 0)
        exit_code =
            cli_error("'%s' belongs to an import into '%s', remove it to import all into '%s'",
                      state->path, url, state->url);
    else
        state->line = state->kept_line = (uint64_t)line;
    json_decref(json);
    return exit_code;
}

int import_state_open(struct import_state *state, const char *path, const char *url)
{
    state->path = path;
    state->url = url;
    if (!path || (access(path, F_OK) != 0 && errno == ENOENT))
        return CLI_OK;
    return read_file(state);
}

bool import_state_add(struct import_state *state, struct slice line, uint64_t n)
{
    if (!state->path)
        return true;
    state->read = n;
    uint64_t pair[2] = {state->hash, hash_64(line.at, line.len)};
    state->hash = hash_64(pair, sizeof pair);
    state->hashes[n % IMPORT_STATE_LINES] = state->hash;
    if (n != state->line || state->hash == state->line_hash)
        return true;
    cli_error("'%s' is the state of another import, remove it to start again", state->path);
    return false;
}

/* Replaces the file atomically: writes a new file beside it and renames it. */
static int write_file(const struct import_state *state, uint64_t done)
{
    char beside[PATH_BYTES_MAX];
    if ((size_t)snprintf(beside, sizeof beside, "%s.new", state->path) >= sizeof beside)
        return cli_error("cannot write '%s', the name is too long", state->path);
    FILE *out = private_file_open(beside, "w", 0);
    json_t *json = json_pack("{s:i,s:s,s:I,s:o}", "tarry_import", 1, "url", state->url, "line",
                             (json_int_t)done, "hash",
                             json_sprintf("%016" PRIx64, state->hashes[done % IMPORT_STATE_LINES]));
    bool is_written = out && json && json_dumpf(json, out, JSON_COMPACT) == 0 &&
                      fputc('\n', out) != EOF && fflush(out) == 0 && fsync(fileno(out)) == 0;
    int error = errno;
    json_decref(json);
    if (out && fclose(out) != 0 && is_written)
        is_written = false, error = errno;
    if (is_written && rename(beside, state->path) == 0)
        return CLI_OK;
    return cli_error("cannot write '%s', %s", state->path, strerror(is_written ? errno : error));
}

int import_state_keep(struct import_state *state, uint64_t done, bool now)
{
    int64_t now_us = clock_boot_us();
    if (!state->path || done <= state->kept_line || state->read - done >= IMPORT_STATE_LINES)
        return CLI_OK;
    if (!now && now_us - state->kept_us < PAUSE_US)
        return CLI_OK;
    state->kept_us = now_us;
    state->kept_line = done;
    return write_file(state, done);
}

void import_state_remove(struct import_state *state)
{
    if (state->path && state->kept_line)
        unlink(state->path);
}
