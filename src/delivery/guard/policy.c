#include "guard/policy.h"

#include "base/error.h"
#include "base/file_mode.h"
#include "base/key_value.h"
#include "base/text.h"
#include "guard/target_rows.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a line: its key, and a reader for each key ---- */

struct line {
    struct policy *policy;
    char *value; /* trimmed and not empty */
    const char *where;
    char *error;
};

#define KEY_PREFIX "whsec_"
enum { KEY_BYTES_MIN = 24, KEY_TEXT_BYTES_MAX = 4 * ((GUARD_KEY_BYTES_MAX + 2) / 3) };

static int line_refuse(const struct line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int line_refuse(const struct line *line, const char *format, ...)
{
    va_list args;
    int len = snprintf(line->error, GUARD_ERROR_BYTES, "%s: ", line->where);
    va_start(args, format);
    (void)vsnprintf(line->error + len, GUARD_ERROR_BYTES - (size_t)len, format, args);
    va_end(args);
    for (char *at = line->error; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
    return -EINVAL;
}

/* ---- words ---- */

/* Splits `text` into words. Returns their number, even if there are more than `count_max`. */
static size_t split(char *text, char **words, size_t count_max)
{
    size_t count = 0;
    while (*(text += strspn(text, " \t"))) {
        if (count < count_max)
            words[count] = text;
        count++;
        text += strcspn(text, " \t");
        if (*text)
            *text++ = 0;
    }
    return count;
}

static bool is_name(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return len > 0 && len <= GUARD_NAME_BYTES_MAX && text[len] == 0;
}

static int line_refuse_name(const struct line *line)
{
    return line_refuse(line, "bad name, it has 1 to %d of letters, digits, '.', '_' and '-'",
                       GUARD_NAME_BYTES_MAX);
}

static void *add_item(void *list, size_t bytes)
{
    void **last = list;
    while (*last)
        last = *last;
    return *last = calloc(1, bytes);
}

/* ---- hosts and networks ---- */

static int add_host(const struct line *line)
{
    struct policy_host host = {0};
    const char *text = line->value;
    bool is_suffix = strncmp(text, "*.", 2) == 0;
    enum guard_spelling spelling =
        guard_address_parse(slice_of(is_suffix ? text + 2 : text), &host.address);
    if (strcmp(text, "*") != 0 &&
        (spelling == GUARD_SPELLS_NOTHING || (is_suffix && spelling != GUARD_SPELLS_NAME)))
        return line_refuse(line,
                           "bad host '%.64s', write a name, '*.example.com', '*', or an address "
                           "without brackets; letters beyond ASCII as xn--…",
                           text);
    host.is_address = spelling == GUARD_SPELLS_ADDRESS;
    size_t len = (size_t)snprintf(host.name, sizeof host.name, "%s", is_suffix ? text + 1 : text);
    for (size_t i = 0; i < len; i++)
        host.name[i] = (char)tolower((unsigned char)host.name[i]);
    if (len > 1 && host.name[len - 1] == '.')
        host.name[len - 1] = 0;
    struct policy_host *item = add_item(&line->policy->hosts, sizeof *item);
    if (!item)
        return line_refuse(line, "out of memory");
    *item = host;
    return 0;
}

static int add_network(const struct line *line)
{
    struct guard_network network;
    char why[GUARD_NETWORK_ERROR_BYTES];
    if (!guard_network_parse(slice_of(line->value), &network, why))
        return line_refuse(line, "%s", why);
    return policy_networks_add(&line->policy->networks, network)
               ? 0
               : line_refuse(line, "out of memory");
}

/* ---- secrets: no error quotes any part of the line ---- */

static bool decode_key(const char *text, struct guard_key *out)
{
    struct buffer bytes;
    size_t prefix = strlen(KEY_PREFIX);
    if (strncmp(text, KEY_PREFIX, prefix) != 0 || strlen(text) > prefix + KEY_TEXT_BYTES_MAX)
        return false;
    buffer_init(&bytes, KEY_TEXT_BYTES_MAX);
    bool is_right = text_base64_decode(slice_of(text + prefix), &bytes) &&
                    bytes.len >= KEY_BYTES_MIN && bytes.len <= GUARD_KEY_BYTES_MAX;
    if (is_right) {
        memcpy(out->key, bytes.at, bytes.len);
        out->bytes = bytes.len;
    }
    if (bytes.at)
        explicit_bzero(bytes.at, bytes.cap);
    buffer_fini(&bytes);
    return is_right;
}

/* Checks the keys of a name: it may have several, but each only once. */
static int check_other_keys(const struct line *line, const struct policy_key *added)
{
    size_t count = 0;
    for (const struct policy_key *other = line->policy->keys; other != added; other = other->next) {
        if (strcmp(other->name, added->name) != 0)
            continue;
        if (memcmp(&other->key, &added->key, sizeof added->key) == 0)
            return line_refuse(line, "the key of '%s' is given twice, remove one", added->name);
        if (++count == GUARD_KEYS_MAX)
            return line_refuse(line, "too many keys of '%s', at most %d", added->name,
                               GUARD_KEYS_MAX);
    }
    return 0;
}

/* Reads `sign = NAME whsec_BASE64`. */
static int add_key(const struct line *line)
{
    char *words[2];
    if (split(line->value, words, 2) != 2)
        return line_refuse(line, "write: sign = NAME whsec_BASE64");
    if (!is_name(words[0]))
        return line_refuse_name(line);
    struct policy_key *item = add_item(&line->policy->keys, sizeof *item);
    if (!item)
        return line_refuse(line, "out of memory");
    memcpy(item->name, words[0], strlen(words[0]));
    if (!decode_key(words[1], &item->key))
        return line_refuse(line,
                           "bad key of '%s', write " KEY_PREFIX
                           " and %d to %d random bytes in base64, "
                           "as from: openssl rand -base64 32",
                           item->name, KEY_BYTES_MIN, GUARD_KEY_BYTES_MAX);
    return check_other_keys(line, item);
}

/* Decodes percent-escapes as in a URL, so that blanks and '#' can be written. */
static int decode_secret(const struct line *line, const char *text, const char *what, char *out)
{
    char bytes[POLICY_LINE_BYTES_MAX + 1];
    struct buffer decoded = {.at = bytes, .cap = sizeof bytes, .bytes_max = sizeof bytes};
    bool is_escaped = text_percent_decode(slice_of(text), false, &decoded);
    bool is_clean = true;
    for (size_t i = 0; i < decoded.len; i++)
        is_clean = is_clean && (unsigned char)bytes[i] >= ' ' && bytes[i] != 0x7f;
    if (is_escaped && is_clean && decoded.len < GUARD_SECRET_BYTES_MAX)
        memcpy(out, bytes, decoded.len);
    explicit_bzero(bytes, sizeof bytes);
    if (!is_escaped)
        return line_refuse(line, "bad escape in the %s, write a '%%' as %%25", what);
    if (!is_clean)
        return line_refuse(line, "control byte in the %s, remove it", what);
    if (decoded.len >= GUARD_SECRET_BYTES_MAX)
        return line_refuse(line, "the %s is too long, at most %d bytes", what,
                           GUARD_SECRET_BYTES_MAX - 1);
    return 0;
}

/* Returns the default port of a scheme; 0 if it is unknown. */
static uint16_t default_port(const struct url *url)
{
#define PORTS(NAME, PLAIN, PORT, TLS, TLS_PORT, OPS) {PLAIN, PORT}, {TLS, TLS_PORT},
    static const struct {
        const char *scheme;
        uint16_t port;
    } ports[] = {TARGET_KIND_ROWS(PORTS)};
#undef PORTS
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++)
        if (url_scheme_is(url, ports[i].scheme))
            return ports[i].port;
    return 0;
}

uint16_t guard_port(const struct url *url, size_t host)
{
    return url->hosts[host].port ? url->hosts[host].port : default_port(url);
}

bool guard_origin(const struct url *url, size_t host, char out[GUARD_ORIGIN_BYTES])
{
    char text[GUARD_ORIGIN_BYTES];
    struct buffer origin = {.at = text, .cap = sizeof text, .bytes_max = sizeof text};
    uint16_t port = host < url->host_count ? guard_port(url, host) : 0;
    if (!port)
        return false;
    url_emit_origin(url, host, port, &origin);
    buffer_append_byte(&origin, 0);
    if (!origin.failed)
        memcpy(out, text, origin.len);
    return !origin.failed;
}

/* Parses an origin, written without user and path, because a credential applies to the whole
 * server. */
static bool read_origin(const char *text, char out[GUARD_ORIGIN_BYTES])
{
    struct url url;
    return url_parse(slice_of(text), &url) == URL_OK && url.host_count == 1 && !url.has_user &&
           url.path.len == 0 && !url.has_query && guard_origin(&url, 0, out);
}

static bool is_http(const char *origin)
{
    return strncmp(origin, "http://", 7) == 0 || strncmp(origin, "https://", 8) == 0;
}

/* Returns true if a credential of the origin may be a token alone. */
static bool takes_token(const char *origin)
{
    static const char *const schemes[] = {TARGET_TOKEN_SCHEMES};
    size_t len = strcspn(origin, ":");
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strlen(schemes[i]) == len && memcmp(origin, schemes[i], len) == 0)
            return true;
    return false;
}

/* Rejects credentials that HTTP cannot transfer: RFC 6750 section 2.1, RFC 7617 section 2. */
static int check_http_credential(const struct line *line, const struct guard_credential *credential)
{
    if (!credential->is_token)
        return strchr(credential->user, ':')
                   ? line_refuse(line, "a user of http and https cannot contain ':', remove it")
                   : 0;
    for (const char *at = credential->password; *at; at++)
        if (*at <= ' ' || *at > '~')
            return line_refuse(
                line,
                "bad byte in the token, it may have letters, digits and punctuation of ASCII");
    return 0;
}

static int read_credential(const struct line *line, char **words, size_t count,
                           struct policy_credential *item)
{
    struct guard_credential *credential = &item->credential;
    credential->is_token = count == 2;
    int code = count == 2 ? 0 : decode_secret(line, words[1], "user", credential->user);
    if (code == 0)
        code = decode_secret(line, words[count - 1], count == 2 ? "token" : "password",
                             credential->password);
    return code == 0 && is_http(item->origin) ? check_http_credential(line, credential) : code;
}

/* Reads `credential = ORIGIN USER PASSWORD` or `ORIGIN TOKEN`. */
static int add_credential(const struct line *line)
{
    char *words[3], origin[GUARD_ORIGIN_BYTES];
    size_t count = split(line->value, words, 3);
    bool is_notified = count == 2 || count == 3;
    if (is_notified && !read_origin(words[0], origin))
        return line_refuse(line, "bad origin, write SCHEME://HOST:PORT without user and path");
    if (!is_notified || (count == 2 && !takes_token(origin)))
        return line_refuse(
            line, "write: credential = SCHEME://HOST:PORT USER PASSWORD, for " TARGET_TOKEN_KINDS
                  " also: ORIGIN TOKEN; in a secret write a blank as %%20, a leading '#' as %%23, "
                  "a '%%' as %%25");
    for (const struct policy_credential *other = line->policy->credentials; other;
         other = other->next)
        if (strcmp(other->origin, origin) == 0)
            return line_refuse(line, "the credential of an origin is given twice, remove one");
    struct policy_credential *item = add_item(&line->policy->credentials, sizeof *item);
    if (!item)
        return line_refuse(line, "out of memory");
    memcpy(item->origin, origin, sizeof origin);
    return read_credential(line, words, count, item);
}

/* ---- programs and files ---- */

static bool is_file(const char *path, int access_mode)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, access_mode) == 0;
}

static int check_path(const struct line *line, const char *path)
{
    if (path[0] != '/')
        return line_refuse(line, "'%.64s' is not a whole path, begin with '/'", path);
    if (strlen(path) >= GUARD_PATH_BYTES_MAX)
        return line_refuse(line, "the path is too long, at most %d bytes",
                           GUARD_PATH_BYTES_MAX - 1);
    return 0;
}

/* Reads `command = NAME /path/of/program`; the program must exist and be executable. */
static int add_command(const struct line *line)
{
    char *words[2];
    if (split(line->value, words, 2) != 2)
        return line_refuse(line, "write: command = NAME /path/of/program, without arguments");
    if (!is_name(words[0]))
        return line_refuse_name(line);
    int code = check_path(line, words[1]);
    if (code)
        return code;
    if (!is_file(words[1], X_OK))
        return line_refuse(line, "'%.100s' is not a program that can be run", words[1]);
    for (const struct policy_command *other = line->policy->commands; other; other = other->next)
        if (strcmp(other->name, words[0]) == 0)
            return line_refuse(line, "command '%s' is given twice, remove one", words[0]);
    struct policy_command *item = add_item(&line->policy->commands, sizeof *item);
    if (!item)
        return line_refuse(line, "out of memory");
    memcpy(item->name, words[0], strlen(words[0]));
    memcpy(item->path, words[1], strlen(words[1]));
    return 0;
}

static int set_ca_file(const struct line *line)
{
    if (line->policy->ca_file[0])
        return line_refuse(line, "'ca-file' is given twice, put the certificates into one file");
    int code = check_path(line, line->value);
    if (code)
        return code;
    if (!is_file(line->value, R_OK))
        return line_refuse(line, "'%.100s' is not a file that can be read", line->value);
    memcpy(line->policy->ca_file, line->value, strlen(line->value));
    return 0;
}

/* ---- a line ---- */

static const struct {
    const char *key;
    int (*read)(const struct line *line);
    bool is_secret;
} readers[] = {
    {"allow-host", add_host, false}, {"allow-network", add_network, false},
    {"sign", add_key, true},         {"credential", add_credential, true},
    {"command", add_command, false}, {"ca-file", set_ca_file, false},
};
enum { READERS = sizeof readers / sizeof readers[0] };

static int line_refuse_key(const struct line *line, const char *key)
{
    const char *names[READERS + 1] = {0};
    for (size_t i = 0; i < READERS; i++)
        names[i] = readers[i].key;
    const char *nearest = text_nearest(key, names);
    if (!nearest)
        return line_refuse(line, "unknown key, use allow-host, allow-network, sign, credential, "
                                 "command and ca-file");
    return line_refuse(line, "unknown key, did you mean '%s'", nearest);
}

int policy_read_line(struct policy *policy, char *text, const char *where,
                     char error[GUARD_ERROR_BYTES])
{
    struct line line = {.policy = policy, .where = where, .error = error};
    struct key_value pair;
    enum key_value_line what = key_value_parse(text, &pair);
    if (what == KEY_VALUE_NOTHING)
        return 0;
    if (policy->rule_count++ == POLICY_RULES_MAX)
        return line_refuse(&line, "too many rules, at most %d", POLICY_RULES_MAX);
    if (what == KEY_VALUE_BAD)
        return line_refuse(&line, "no '=', write: key = value");
    line.value = pair.value;
    for (size_t i = 0; i < READERS; i++) {
        if (strcmp(pair.key, readers[i].key) != 0)
            continue;
        if (!*line.value)
            return line_refuse(&line, "'%s' has no value, write: %s = value", pair.key, pair.key);
        if (readers[i].is_secret && pair.has_comment)
            return line_refuse(&line, "a comment after a secret, move it to a line of its own; "
                                      "write a '#' of the secret as %%23");
        return readers[i].read(&line);
    }
    return line_refuse_key(&line, pair.key);
}

/* ---- the file ---- */

static int cannot_read(int code, char *error, const char *path, const char *why)
{
    return error_result(code, error, GUARD_ERROR_BYTES, "cannot read the policy '%.120s', %s", path,
                        why);
}

/* Opens the file without blocking; rejects anything but a regular file, such as a pipe. */
static int open_file(const char *path, struct stat *info, char *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, info) != 0) {
        int code = -errno;
        if (fd >= 0)
            close(fd);
        return cannot_read(code, error, path, strerror(-code));
    }
    const char *why = !S_ISREG(info->st_mode)                 ? "it is not a file"
                      : info->st_size > POLICY_FILE_BYTES_MAX ? "it is larger than 1 MiB"
                                                              : NULL;
    if (!why)
        return fd;
    close(fd);
    return cannot_read(-EINVAL, error, path, why);
}

/* Reads up to `bytes_max`, which is more than the size of the file when it was opened. */
static ssize_t read_all(int fd, char *into, size_t bytes_max)
{
    size_t len = 0;
    while (len < bytes_max) {
        ssize_t count = read(fd, into + len, bytes_max - len);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return count < 0 ? -errno : (ssize_t)len;
        len += (size_t)count;
    }
    return -EFBIG;
}

/* Reads the text line by line. In errors, `where` is FILE:LINE, with only the end of a long
 * path. */
static int read_lines(struct policy *policy, const char *path, char *text, size_t len, char *error)
{
    size_t path_len = strlen(path);
    const char *shown = path_len > 80 ? path + path_len - 80 : path;
    char *end = text + len;
    for (unsigned number = 1; text < end; number++) {
        char where[128];
        char *line_end = memchr(text, '\n', (size_t)(end - text));
        line_end = line_end ? line_end : end;
        (void)snprintf(where, sizeof where, "%s:%u", shown, number);
        if (line_end - text > POLICY_LINE_BYTES_MAX || memchr(text, 0, (size_t)(line_end - text))) {
            (void)snprintf(error, GUARD_ERROR_BYTES,
                           "%s: bad line, one has at most %d bytes of text", where,
                           POLICY_LINE_BYTES_MAX);
            return -EINVAL;
        }
        *line_end = 0;
        int code = policy_read_line(policy, text, where, error);
        if (code != 0)
            return code;
        text = line_end + 1;
    }
    return 0;
}

/* Checks the permissions: other users must not read a file with secrets, and must not write any,
 * because they could choose what is reached. */
static int check_mode(const struct policy *policy, const char *path, mode_t mode, char *error)
{
    bool has_secrets = policy->keys || policy->credentials;
    if (mode & (S_IWGRP | S_IWOTH)) {
        (void)snprintf(error, GUARD_ERROR_BYTES,
                       "others may write the policy '%.120s', run: chmod %s", path,
                       has_secrets ? "600" : "644");
        return -EPERM;
    }
    if (has_secrets && mode & (S_IRGRP | S_IROTH)) {
        (void)snprintf(error, GUARD_ERROR_BYTES,
                       "others may read the secrets of the policy '%.120s', run: chmod 600", path);
        return -EPERM;
    }
    return 0;
}

/* Reads the open file; wipes its text, which may contain secrets. */
static int read_open(struct policy *policy, const char *path, int fd, const struct stat *info,
                     char *error)
{
    size_t room = (size_t)info->st_size + 1;
    char *text = malloc(room + 1); /* plus a NUL after the last line */
    if (!text)
        return cannot_read(-ENOMEM, error, path, "out of memory");
    ssize_t len = read_all(fd, text, room);
    int code = len < 0 ? cannot_read((int)len, error, path, strerror((int)-len))
                       : read_lines(policy, path, text, (size_t)len, error);
    if (code == 0)
        code = check_mode(policy, path, file_mode_of_others(fd, info->st_mode), error);
    explicit_bzero(text, room + 1);
    free(text);
    return code;
}

int policy_read(const char *path, struct policy **out, char error[GUARD_ERROR_BYTES])
{
    struct stat info;
    struct policy *policy = calloc(1, sizeof *policy);
    if (!policy)
        return cannot_read(-ENOMEM, error, path, "out of memory");
    int fd = open_file(path, &info, error);
    int code = fd < 0 ? fd : read_open(policy, path, fd, &info, error);
    if (fd >= 0)
        close(fd);
    if (code == 0)
        *out = policy;
    else
        policy_free(policy);
    return code;
}

/* ---- freeing ---- */

/* Frees a list of items; each begins with the pointer to the next. */
static void free_items(void *first, size_t item_bytes)
{
    while (first) {
        void *next = *(void **)first;
        explicit_bzero(first, item_bytes);
        free(first);
        first = next;
    }
}

void policy_free(struct policy *policy)
{
    if (!policy)
        return;
    free_items(policy->hosts, sizeof *policy->hosts);
    free_items(policy->keys, sizeof *policy->keys);
    free_items(policy->credentials, sizeof *policy->credentials);
    free_items(policy->commands, sizeof *policy->commands);
    policy_networks_fini(&policy->networks);
    free(policy);
}
