#include "deliver/check.h"

#include "base/error.h"
#include "base/json_read.h"
#include "base/url.h"
#include "deliver/dead_letter_worker.h"
#include "deliver/endpoint.h"

#include <stdio.h>

enum { NAME_BYTES = 64 };

/* ---- the two members ---- */

bool extension_parse(struct slice text, struct extension *out, char error[DELIVER_ERROR_BYTES])
{
    struct json_value object, value;
    struct json_cursor cursor = {0};
    /* other: belongs to another part of the server and is ignored here */
    struct slice key, other = {0};
    *out = (struct extension){0};
    if (text.len == 0)
        return true;
    if (!json_check(text, &object, NULL) || object.kind != JSON_OBJECT)
        return error_text(error, DELIVER_ERROR_BYTES,
                          "not a JSON object, give one with 'deliver' or 'dead_letter'");
    while (json_next_member(object, &cursor, &key, &value)) {
        struct slice *member = json_string_is(key, "deliver")       ? &out->deliver
                               : json_string_is(key, "dead_letter") ? &out->dead_letter
                               : json_string_is(key, "sqs")         ? &other
                                                                    : NULL;
        if (!member)
            return error_text(error, DELIVER_ERROR_BYTES,
                              "unknown member '%.*s', give 'deliver' or 'dead_letter'",
                              ERROR_SHOWN(slice_make(key.at + 1, key.len - 2), NAME_BYTES));
        if (member->len > 0)
            return error_text(error, DELIVER_ERROR_BYTES, "a member is given twice");
        if (value.kind != JSON_NULL)
            *member = value.raw;
    }
    return true;
}

/* ---- what the policy allows ---- */

/* Returns true if allowed, otherwise false with `error`, which names the remedy. */
static bool check_decision(enum guard_decision decision, struct slice host,
                           char error[DELIVER_ERROR_BYTES])
{
    switch (decision) {
    case GUARD_ALLOWED:
        return true;
    case GUARD_OFF:
        return error_text(error, DELIVER_ERROR_BYTES,
                          "delivery is off, start the server with --deliver FILE");
    case GUARD_HOST_NOT_NAMED:
        return error_text(error, DELIVER_ERROR_BYTES,
                          "host '%.*s' is not allowed, add 'allow-host = %.*s' to the policy file",
                          ERROR_SHOWN(host, NAME_BYTES), ERROR_SHOWN(host, NAME_BYTES));
    case GUARD_NOT_AN_ADDRESS:
        return error_text(error, DELIVER_ERROR_BYTES,
                          "'%.*s' is neither a name nor an address, write one of them",
                          ERROR_SHOWN(host, NAME_BYTES));
    case GUARD_NETWORK_FORBIDDEN:
        return error_text(error, DELIVER_ERROR_BYTES,
                          "address '%.*s' is not public, add it as 'allow-network' to the policy "
                          "file",
                          ERROR_SHOWN(host, NAME_BYTES));
    }
    return error_text(error, DELIVER_ERROR_BYTES, "not allowed");
}

bool check_hosts(struct guard *guard, struct slice endpoint, char error[DELIVER_ERROR_BYTES])
{
    struct url url;
    if (!guard_is_on(guard))
        return check_decision(GUARD_OFF, endpoint, error);
    if (slice_is(endpoint, "null:")) /* needs no network access */
        return true;
    enum url_fault fault = url_parse(endpoint, &url);
    if (fault != URL_OK)
        return error_text(error, DELIVER_ERROR_BYTES, "%s", url_fault_text(fault));
    for (size_t i = 0; i < url.host_count; i++) {
        struct slice host = url.hosts[i].name;
        if (!check_decision(guard_check_host(guard, host), host, error))
            return false;
    }
    return true;
}

/* Checks that a target supports `to` and that the policy allows it. */
static bool check_to(struct guard *guard, const struct target_setting *setting, struct slice to,
                     char error[DELIVER_ERROR_BYTES])
{
    char why[TARGET_ERROR_BYTES] = "";
    struct buffer endpoint;
    const struct target_ops *ops = target_find(to);
    buffer_init(&endpoint, ENDPOINT_BYTES_MAX - 1);
    bool ok = target_endpoint(to, &endpoint, why) && ops && ops->check(setting, to, why);
    if (!ok)
        error_text(error, DELIVER_ERROR_BYTES, "%s",
                   why[0] ? why : "this build has no such target");
    else
        ok = check_hosts(guard, buffer_slice(&endpoint), error);
    buffer_fini(&endpoint);
    return ok;
}

/* Prefixes the error: "MEMBER: ERROR". */
static bool error_prefix(char error[DELIVER_ERROR_BYTES], const char *member)
{
    char what[DELIVER_ERROR_BYTES];
    snprintf(what, sizeof what, "%s", error);
    return error_text(error, DELIVER_ERROR_BYTES, "%s: %.480s", member, what);
}

/* Checks that the signing keys exist. Otherwise every job would fail until it is dead. */
static bool check_sign(struct guard *guard, const struct target_setting *setting,
                       char error[DELIVER_ERROR_BYTES])
{
    struct guard_key keys[GUARD_KEYS_MAX];
    if (!setting->sign || !setting->sign[0])
        return true;
    size_t count = guard_find_keys(guard, slice_of(setting->sign), keys);
    explicit_bzero(keys, sizeof keys);
    if (count == 0)
        error_text(error, DELIVER_ERROR_BYTES,
                   "no key '%.64s' to sign with, add 'sign = %.64s whsec_…' to the policy file",
                   setting->sign, setting->sign);
    return count > 0;
}

/* Checks that the kind has the mode of events. Jobs with their own callback always have it. */
static bool check_event(const struct target_setting *setting, char error[DELIVER_ERROR_BYTES])
{
    const struct target_ops *ops = setting->to ? target_find(slice_of(setting->to)) : NULL;
    if (setting->event.mode != TARGET_EVENT_BINARY || !ops || ops->event.prefix)
        return true;
    return error_text(error, DELIVER_ERROR_BYTES,
                      "%s:// has no binary mode of CloudEvents, write \"mode\": \"structured\" in "
                      "'cloudevents'",
                      ops->schemes[0]);
}

bool check_target_setting(struct guard *guard, const struct target_setting *setting,
                          char error[DELIVER_ERROR_BYTES])
{
    /* If the topic has no destination of its own, each job's callback is checked when it is
     * sent. */
    bool ok = setting->to ? check_to(guard, setting, slice_of(setting->to), error)
                          : guard_is_on(guard) || check_decision(GUARD_OFF, slice_of(""), error);
    return ok && check_sign(guard, setting, error) && check_event(setting, error);
}

static bool check_deliver(struct guard *guard, struct slice json, char error[DELIVER_ERROR_BYTES])
{
    struct target_setting setting = {0};
    char why[TARGET_ERROR_BYTES] = "";
    if (!target_setting_parse(json, &setting, why)) {
        error_text(error, DELIVER_ERROR_BYTES, "%s", why);
        return error_prefix(error, "deliver");
    }
    bool ok = check_target_setting(guard, &setting, error);
    target_setting_fini(&setting);
    return ok || error_prefix(error, "deliver");
}

static bool check_callback_url(struct guard *guard, struct slice url,
                               char error[DELIVER_ERROR_BYTES])
{
    const struct target_setting none = {.timeout_ms = TARGET_TIMEOUT_MS, .max_in_flight = 1};
    return check_callback_form(url, error) && check_to(guard, &none, url, error);
}

static bool check_dead_letter(struct guard *guard, struct slice topic, struct slice json,
                              char error[DELIVER_ERROR_BYTES])
{
    struct dead_letter rules = {0};
    char path[GUARD_PATH_BYTES_MAX];
    if (!dead_letter_parse(json, &rules, error))
        return error_prefix(error, "dead_letter");
    bool ok = true;
    if (rules.to_topic && slice_is(topic, rules.to_topic))
        ok = error_text(error, DELIVER_ERROR_BYTES, "'to' is the topic itself, name another one");
    if (ok && rules.to_topic && job_topic_is_own(slice_of(rules.to_topic)))
        ok = error_text(error, DELIVER_ERROR_BYTES, "'to' is a reserved topic, name another one");
    if (ok && rules.to_url)
        ok = check_callback_url(guard, slice_of(rules.to_url), error);
    if (ok && rules.alert_to)
        ok = check_callback_url(guard, slice_of(rules.alert_to), error);
    if (ok && rules.alert_command &&
        !guard_find_command(guard, slice_of(rules.alert_command), path))
        ok = error_text(error, DELIVER_ERROR_BYTES,
                        "no such command, name it in the policy file: command = NAME PROGRAM");
    dead_letter_fini(&rules);
    return ok || error_prefix(error, "dead_letter");
}

bool deliver_check(struct guard *guard, struct slice topic, struct slice extension,
                   char error[DELIVER_ERROR_BYTES])
{
    struct extension parts;
    if (slice_is(topic, DEAD_LETTER_TOPIC))
        return error_text(error, DELIVER_ERROR_BYTES,
                          "this topic is reserved, it has neither 'deliver' nor 'dead_letter'");
    return extension_parse(extension, &parts, error) &&
           (parts.deliver.len == 0 || check_deliver(guard, parts.deliver, error)) &&
           (parts.dead_letter.len == 0 ||
            check_dead_letter(guard, topic, parts.dead_letter, error));
}

bool deliver_other_topic(struct slice extension, char *other)
{
    char error[DELIVER_ERROR_BYTES];
    struct extension parts;
    struct dead_letter rules = {0};
    if (!extension_parse(extension, &parts, error) || !parts.dead_letter.len ||
        !dead_letter_parse(parts.dead_letter, &rules, error))
        return false;
    bool is_given = rules.to_topic != NULL;
    if (is_given)
        (void)snprintf(other, JOB_TOPIC_BYTES_MAX + 1, "%s", rules.to_topic);
    dead_letter_fini(&rules);
    return is_given;
}

bool check_callback_form(struct slice url, char error[DELIVER_ERROR_BYTES])
{
    bool is_http = (url.len > 7 && strncasecmp(url.at, "http://", 7) == 0) ||
                   (url.len > 8 && strncasecmp(url.at, "https://", 8) == 0);
    if (!is_http)
        return error_text(error, DELIVER_ERROR_BYTES,
                          "a callback is a URL of http or https, such as https://shop.example/x");
    if (url.len > TARGET_TO_BYTES_MAX)
        return error_text(error, DELIVER_ERROR_BYTES,
                          "the callback is too long, at most 2048 bytes");
    return true;
}

bool deliver_check_callback(struct guard *guard, struct slice url, char error[DELIVER_ERROR_BYTES])
{
    return check_callback_url(guard, url, error);
}
