/* One line of the policy: its key, and a reader for each. */
#include "base/text.h"
#include "guard/policy.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct line {
    struct policy *policy;
    char *value; /* trimmed, not empty */
    const char *where;
    char *error;
};

#define KEY_PREFIX "whsec_"
enum { KEY_BYTES_MIN = 24, KEY_TEXT_BYTES_MAX = 4 * ((GUARD_KEY_BYTES_MAX + 2) / 3) };

static int refuse(const struct line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int refuse(const struct line *line, const char *format, ...)
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

static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r", text[len - 1]))
        text[--len] = 0;
    return text;
}

static void cut_comment(char *line)
{
    for (char *at = line; (at = strchr(at, '#')); at++)
        if (at == line || at[-1] == ' ' || at[-1] == '\t') {
            *at = 0;
            return;
        }
}

/* The words of `text`, which is cut up; returns how many there are, also where more than
 * `count_max` are not told. */
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

static int refuse_name(const struct line *line)
{
    return refuse(line, "bad name, it has 1 to %d of letters, digits, '.', '_' and '-'",
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
        return refuse(line,
                      "bad host '%.64s', write a name, '*.example.com', '*', or an address without "
                      "brackets; other than ASCII as xn--…",
                      text);
    host.is_address = spelling == GUARD_SPELLS_ADDRESS;
    size_t len = (size_t)snprintf(host.name, sizeof host.name, "%s", is_suffix ? text + 1 : text);
    for (size_t i = 0; i < len; i++)
        host.name[i] = (char)tolower((unsigned char)host.name[i]);
    if (len > 1 && host.name[len - 1] == '.')
        host.name[len - 1] = 0;
    struct policy_host *item = add_item(&line->policy->hosts, sizeof *item);
    if (!item)
        return refuse(line, "out of memory");
    *item = host;
    return 0;
}

static int add_network(const struct line *line)
{
    struct policy *policy = line->policy;
    struct guard_network network, *grown;
    char why[GUARD_NETWORK_ERROR_BYTES];
    if (!guard_network_parse(slice_of(line->value), &network, why))
        return refuse(line, "%s", why);
    grown = realloc(policy->networks, (policy->network_count + 1) * sizeof *grown);
    if (!grown)
        return refuse(line, "out of memory");
    policy->networks = grown;
    policy->networks[policy->network_count++] = network;
    return 0;
}

/* ---- secrets: no error quotes any of the line ---- */

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

static int check_other_keys(const struct line *line, const struct policy_key *added)
{
    size_t count = 0;
    for (const struct policy_key *other = line->policy->keys; other != added; other = other->next) {
        if (strcmp(other->name, added->name) != 0)
            continue;
        if (memcmp(&other->key, &added->key, sizeof added->key) == 0)
            return refuse(line, "the key of '%s' is given twice, remove one", added->name);
        if (++count == GUARD_KEYS_MAX)
            return refuse(line, "too many keys of '%s', at most %d", added->name, GUARD_KEYS_MAX);
    }
    return 0;
}

static int add_key(const struct line *line)
{
    char *words[2];
    if (split(line->value, words, 2) != 2)
        return refuse(line, "write: sign = NAME whsec_BASE64");
    if (!is_name(words[0]))
        return refuse_name(line);
    struct policy_key *item = add_item(&line->policy->keys, sizeof *item);
    if (!item)
        return refuse(line, "out of memory");
    memcpy(item->name, words[0], strlen(words[0]));
    if (!decode_key(words[1], &item->key))
        return refuse(line,
                      "bad key of '%s', write " KEY_PREFIX " and %d to %d random bytes in base64, "
                      "as from: openssl rand -base64 32",
                      item->name, KEY_BYTES_MIN, GUARD_KEY_BYTES_MAX);
    return check_other_keys(line, item);
}

/* Percent-escapes as in a URL, so that blanks and '#' can be written. */
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
        return refuse(line, "bad escape in the %s, write a '%%' as %%25", what);
    if (!is_clean)
        return refuse(line, "control byte in the %s, remove it", what);
    if (decoded.len >= GUARD_SECRET_BYTES_MAX)
        return refuse(line, "the %s is too long, at most %d bytes", what,
                      GUARD_SECRET_BYTES_MAX - 1);
    return 0;
}

/* An origin is written without a path: one credential for all of a server. */
static bool read_origin(const char *text, char *out)
{
    const char *authority = strstr(text, "://");
    return authority && !authority[3 + strcspn(authority + 3, "/?#,@")] &&
           policy_origin(slice_of(text), out);
}

static bool is_http(const char *origin)
{
    return strncmp(origin, "http://", 7) == 0 || strncmp(origin, "https://", 8) == 0;
}

/* What HTTP could not carry: RFC 6750 section 2.1, RFC 7617 section 2. */
static int check_http_credential(const struct line *line, const struct guard_credential *credential)
{
    if (!credential->is_token)
        return strchr(credential->user, ':')
                   ? refuse(line, "a user of http and https has no ':', remove it")
                   : 0;
    for (const char *at = credential->password; *at; at++)
        if (*at <= ' ' || *at > '~')
            return refuse(line, "bad byte in the token, it has letters, digits and marks of ASCII");
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

static int add_credential(const struct line *line)
{
    char *words[3], origin[POLICY_ORIGIN_BYTES];
    size_t count = split(line->value, words, 3);
    bool is_told = count == 2 || count == 3;
    if (is_told && !read_origin(words[0], origin))
        return refuse(line, "bad origin, write SCHEME://HOST:PORT without user and path");
    if (!is_told || (count == 2 && !is_http(origin)))
        return refuse(line, "write: credential = SCHEME://HOST:PORT USER PASSWORD, for http and "
                            "https also: ORIGIN TOKEN, in a secret a blank as %%20, a leading '#' "
                            "as %%23, a '%%' as %%25");
    for (const struct policy_credential *other = line->policy->credentials; other;
         other = other->next)
        if (strcmp(other->origin, origin) == 0)
            return refuse(line, "the credential of an origin is given twice, remove one");
    struct policy_credential *item = add_item(&line->policy->credentials, sizeof *item);
    if (!item)
        return refuse(line, "out of memory");
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
        return refuse(line, "'%.64s' is not a whole path, begin with '/'", path);
    if (strlen(path) >= GUARD_PATH_BYTES_MAX)
        return refuse(line, "the path is too long, at most %d bytes", GUARD_PATH_BYTES_MAX - 1);
    return 0;
}

static int add_command(const struct line *line)
{
    char *words[2];
    if (split(line->value, words, 2) != 2)
        return refuse(line, "write: command = NAME /path/of/program, arguments belong into it");
    if (!is_name(words[0]))
        return refuse_name(line);
    int code = check_path(line, words[1]);
    if (code)
        return code;
    if (!is_file(words[1], X_OK))
        return refuse(line, "'%.100s' is no program that can be run", words[1]);
    for (const struct policy_command *other = line->policy->commands; other; other = other->next)
        if (strcmp(other->name, words[0]) == 0)
            return refuse(line, "command '%s' is given twice, remove one", words[0]);
    struct policy_command *item = add_item(&line->policy->commands, sizeof *item);
    if (!item)
        return refuse(line, "out of memory");
    memcpy(item->name, words[0], strlen(words[0]));
    memcpy(item->path, words[1], strlen(words[1]));
    return 0;
}

static int set_ca_file(const struct line *line)
{
    if (line->policy->ca_file[0])
        return refuse(line, "'ca-file' is given twice, put the certificates into one file");
    int code = check_path(line, line->value);
    if (code)
        return code;
    if (!is_file(line->value, R_OK))
        return refuse(line, "'%.100s' is no file that can be read", line->value);
    memcpy(line->policy->ca_file, line->value, strlen(line->value));
    return 0;
}

/* ---- a line ---- */

static const struct {
    const char *key;
    int (*read)(const struct line *line);
} readers[] = {
    {"allow-host", add_host},       {"allow-network", add_network}, {"sign", add_key},
    {"credential", add_credential}, {"command", add_command},       {"ca-file", set_ca_file},
};
enum { READERS = sizeof readers / sizeof readers[0] };

static int refuse_key(const struct line *line, const char *key)
{
    const char *names[READERS + 1] = {0};
    for (size_t i = 0; i < READERS; i++)
        names[i] = readers[i].key;
    const char *nearest = text_nearest(key, names);
    if (!nearest)
        return refuse(line, "unknown key, there are allow-host, allow-network, sign, credential, "
                            "command and ca-file");
    return refuse(line, "unknown key, did you mean '%s'", nearest);
}

int policy_read_line(struct policy *policy, char *text, const char *where,
                     char error[GUARD_ERROR_BYTES])
{
    struct line line = {.policy = policy, .where = where, .error = error};
    cut_comment(text);
    char *key = trim(text);
    if (!*key)
        return 0;
    if (policy->rule_count++ == POLICY_RULES_MAX)
        return refuse(&line, "too many rules, at most %d", POLICY_RULES_MAX);
    char *equals = strchr(key, '=');
    if (!equals)
        return refuse(&line, "no '=', write: key = value");
    *equals = 0;
    line.value = trim(equals + 1);
    key = trim(key);
    for (size_t i = 0; i < READERS; i++) {
        if (strcmp(key, readers[i].key) != 0)
            continue;
        if (!*line.value)
            return refuse(&line, "'%s' has no value, write: %s = value", key, key);
        return readers[i].read(&line);
    }
    return refuse_key(&line, key);
}
