/* check: would these settings do? Asked by fronts before they are kept. Any thread. */
#include "base/json_write.h"
#include "deliver/private.h"

#include <stdio.h>

enum { NAME_BYTES = 64 };

static bool fail(char *error, const char *what)
{
    snprintf(error, DELIVER_ERROR_BYTES, "%s", what);
    return false;
}

bool check_verdict(enum guard_verdict verdict, struct slice host, char error[DELIVER_ERROR_BYTES])
{
    int len = host.len < NAME_BYTES ? (int)host.len : NAME_BYTES;
    switch (verdict) {
    case GUARD_ALLOWED:
        return true;
    case GUARD_OFF:
        return fail(error, "delivery is off, start the server with --deliver FILE");
    case GUARD_HOST_NOT_NAMED:
        snprintf(error, DELIVER_ERROR_BYTES,
                 "host '%.*s' is not allowed, add 'allow-host = %.*s' to the policy file", len,
                 host.at, len, host.at);
        return false;
    case GUARD_NOT_AN_ADDRESS:
        snprintf(error, DELIVER_ERROR_BYTES,
                 "'%.*s' is neither a name nor an address, write one of them", len, host.at);
        return false;
    case GUARD_NETWORK_FORBIDDEN:
        snprintf(error, DELIVER_ERROR_BYTES,
                 "address '%.*s' is not public, add it as 'allow-network' to the policy file", len,
                 host.at);
        return false;
    }
    return fail(error, "not allowed");
}

/* "host:port" without its port and brackets. */
static struct slice bare_host(struct slice place)
{
    size_t len = place.len;
    while (len > 0 && place.at[len - 1] != ':')
        len--;
    if (len > 0)
        place.len = len - 1;
    if (place.len > 1 && place.at[0] == '[')
        place = slice_make(place.at + 1, place.len - 2);
    return place;
}

/* All hosts of "scheme://host:port,host:port/…". */
bool check_hosts(struct guard *guard, struct slice endpoint, char error[DELIVER_ERROR_BYTES])
{
    const char *at = memmem(endpoint.at, endpoint.len, "://", 3);
    const char *end = endpoint.at + endpoint.len;
    if (!guard_is_on(guard))
        return check_verdict(GUARD_OFF, endpoint, error);
    if (!at)
        return true; /* null: reaches nobody */
    at += 3;
    const char *slash = memchr(at, '/', (size_t)(end - at));
    end = slash ? slash : end;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        struct slice host = bare_host(slice_make(at, (size_t)((comma ? comma : end) - at)));
        if (!check_verdict(guard_check_host(guard, host), host, error))
            return false;
        at = comma ? comma + 1 : end;
    }
    return true;
}

static bool check_to(struct guard *guard, const struct target_setting *setting, struct slice to,
                     char error[DELIVER_ERROR_BYTES])
{
    char why[TARGET_ERROR_BYTES] = "";
    struct buffer endpoint;
    const struct target_ops *ops = target_find(to);
    buffer_init(&endpoint, ENDPOINT_BYTES_MAX - 1);
    bool ok = target_endpoint(to, &endpoint, why) && ops && ops->check(setting, to, why);
    if (!ok)
        fail(error, why[0] ? why : "no way there in this build");
    else
        ok = check_hosts(guard, buffer_slice(&endpoint), error);
    buffer_fini(&endpoint);
    return ok;
}

static bool prefix(char error[DELIVER_ERROR_BYTES], const char *member)
{
    char what[DELIVER_ERROR_BYTES];
    snprintf(what, sizeof(what), "%s", error);
    snprintf(error, DELIVER_ERROR_BYTES, "%s: %.480s", member, what);
    return false;
}

/* Without it every job would fail until it is dead. */
static bool check_sign(struct guard *guard, const struct target_setting *setting,
                       char error[DELIVER_ERROR_BYTES])
{
    struct guard_key keys[GUARD_KEYS_MAX];
    if (!setting->sign || !setting->sign[0])
        return true;
    size_t count = guard_find_keys(guard, slice_of(setting->sign), keys);
    explicit_bzero(keys, sizeof keys);
    if (count == 0)
        snprintf(error, DELIVER_ERROR_BYTES,
                 "no key '%.64s' to sign with, add 'sign = %.64s whsec_…' to the policy file",
                 setting->sign, setting->sign);
    return count > 0;
}

bool check_setting(struct guard *guard, const struct target_setting *setting,
                   char error[DELIVER_ERROR_BYTES])
{
    /* Without a destination of the topic's own each job's callback is checked. */
    bool ok = setting->to ? check_to(guard, setting, slice_of(setting->to), error)
                          : guard_is_on(guard) || check_verdict(GUARD_OFF, slice_of(""), error);
    return ok && check_sign(guard, setting, error);
}

static bool check_deliver(struct guard *guard, struct slice json, char error[DELIVER_ERROR_BYTES])
{
    struct target_setting setting = {0};
    char why[TARGET_ERROR_BYTES] = "";
    if (!target_setting_parse(json, &setting, why)) {
        fail(error, why);
        return prefix(error, "deliver");
    }
    bool ok = check_setting(guard, &setting, error);
    target_setting_fini(&setting);
    return ok || prefix(error, "deliver");
}

static bool check_callback_url(struct guard *guard, struct slice url,
                               char error[DELIVER_ERROR_BYTES])
{
    const struct target_setting none = {.timeout_ms = TARGET_TIMEOUT_MS, .max_in_flight = 1};
    return deliver_callback_is_well(url, error) && check_to(guard, &none, url, error);
}

/* What is pushed to these tarry takes for its own work. */
static bool is_own(struct slice topic)
{
    return slice_is(topic, DEAD_LETTER_TOPIC) || slice_is(topic, DEAD_LETTER_CALLBACKS_TOPIC);
}

static bool check_dead_letter(struct guard *guard, struct slice topic, struct slice json,
                              char error[DELIVER_ERROR_BYTES])
{
    struct dead_letter rules = {0};
    char path[GUARD_PATH_BYTES_MAX];
    if (!dead_letter_parse(json, &rules, error))
        return prefix(error, "dead_letter");
    bool ok = true;
    if (rules.to_topic && slice_is(topic, rules.to_topic))
        ok = fail(error, "'to' is the topic itself, name another one");
    if (ok && rules.to_topic && is_own(slice_of(rules.to_topic)))
        ok = fail(error, "'to' is a topic of tarry's own, name another one");
    if (ok && rules.to_url)
        ok = check_callback_url(guard, slice_of(rules.to_url), error);
    if (ok && rules.alert_to)
        ok = check_callback_url(guard, slice_of(rules.alert_to), error);
    if (ok && rules.alert_command &&
        !guard_find_command(guard, slice_of(rules.alert_command), path))
        ok = fail(error, "no such command, name it in the policy file: command = NAME PROGRAM");
    dead_letter_fini(&rules);
    return ok || prefix(error, "dead_letter");
}

bool deliver_check(struct guard *guard, struct slice topic, struct slice extension,
                   char error[DELIVER_ERROR_BYTES])
{
    struct extension parts;
    if (slice_is(topic, DEAD_LETTER_TOPIC))
        return fail(error, "tarry itself works off this topic, it has neither 'deliver' nor "
                           "'dead_letter'");
    return extension_parse(extension, &parts, error) &&
           (parts.deliver.len == 0 || check_deliver(guard, parts.deliver, error)) &&
           (parts.dead_letter.len == 0 ||
            check_dead_letter(guard, topic, parts.dead_letter, error));
}

bool deliver_callback_is_well(struct slice url, char error[DELIVER_ERROR_BYTES])
{
    bool is_http = (url.len > 7 && strncasecmp(url.at, "http://", 7) == 0) ||
                   (url.len > 8 && strncasecmp(url.at, "https://", 8) == 0);
    if (!is_http)
        return fail(error, "a callback is a URL of http or https, such as https://shop.example/x");
    if (url.len > TARGET_TO_BYTES_MAX)
        return fail(error, "the callback is too long, at most 2048 bytes");
    return true;
}

bool deliver_check_callback(struct guard *guard, struct slice url, char error[DELIVER_ERROR_BYTES])
{
    return check_callback_url(guard, url, error);
}
