#include "targets/http_name.h"

#include "base/clock.h"
#include "base/hash.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

/* Answers are asked for again after FRESH_MS, and not used after KNOWN_MS without one. */
enum { FRESH_MS = 1000, KNOWN_MS = 15 * 1000, LINE_BYTES_MAX = 1024 };

/* It outlives the name where that goes first. */
struct name_question {
    struct target_name *name;
};

void target_name_init(struct target_name *name, const struct target_env *env, struct slice host,
                      uint16_t port, void (*answered)(void *ctx), void *ctx)
{
    *name = (struct target_name){.env = env, .port = port, .answered = answered, .ctx = ctx};
    (void)snprintf(name->host, sizeof name->host, "%.*s", (int)host.len, host.at);
    buffer_init(&name->line, LINE_BYTES_MAX);
}

void target_name_fini(struct target_name *name)
{
    if (name->question)
        name->question->name = NULL;
    buffer_fini(&name->line);
}

/* ---- answers ---- */

static void append_address(struct buffer *out, const struct sockaddr_storage *address)
{
    char text[INET6_ADDRSTRLEN];
    const void *generic = address;
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *ipv6 = generic;
        (void)inet_ntop(AF_INET6, &ipv6->sin6_addr, text, sizeof text);
        buffer_append_format(out, "[%s]", text);
    } else {
        const struct sockaddr_in *ipv4 = generic;
        (void)inet_ntop(AF_INET, &ipv4->sin_addr, text, sizeof text);
        buffer_append_text(out, text);
    }
}

/* "host:port:address,address": libcurl keeps it until it is told otherwise. */
static void keep(struct target_name *name, const struct resolved *resolved)
{
    struct buffer line;
    buffer_init(&line, LINE_BYTES_MAX);
    buffer_append_format(&line, strchr(name->host, ':') ? "[%s]:%u:" : "%s:%u:", name->host,
                         (unsigned)name->port);
    for (size_t i = 0; i < resolved->count; i++) {
        if (i > 0)
            buffer_append_byte(&line, ',');
        append_address(&line, &resolved->addresses[i]);
    }
    buffer_append_byte(&line, '\0');
    if (line.failed || slice_equals(buffer_slice(&line), buffer_slice(&name->line))) {
        buffer_fini(&line);
        return;
    }
    buffer_fini(&name->line);
    name->line = line;
    name->generation++;
}

static void forget(struct target_name *name, const struct resolved *resolved)
{
    name->known_ms = 0;
    name->is_temporary = resolved->is_temporary;
    name->is_unasked = resolved->is_unasked;
    (void)snprintf(name->error, sizeof name->error, "%s", resolved->error);
}

static void on_answer(void *owner, uint64_t tag, const struct resolved *resolved)
{
    struct name_question *question = owner;
    struct target_name *name = question->name;
    (void)tag;
    free(question);
    if (!name)
        return;
    name->question = NULL;
    if (resolved->count == 0) {
        forget(name, resolved);
    } else {
        keep(name, resolved);
        name->known_ms = clock_boot_us() / 1000;
    }
    name->answered(name->ctx);
}

/* ---- questions ---- */

bool target_name_look_up(struct target_name *name, struct slice topic, int64_t now_ms)
{
    uint64_t policy = guard_generation(name->env->guard);
    if (name->policy != policy)
        name->known_ms = 0;
    name->policy = policy;
    uint64_t group = hash_64(topic.at, topic.len);
    bool is_known = name->known_ms && now_ms - name->known_ms < KNOWN_MS;
    if (name->question && !is_known)
        resolver_join(name->env->resolver, name->host, group);
    if (name->question || (is_known && now_ms - name->asked_ms < FRESH_MS))
        return is_known;
    struct name_question *question = malloc(sizeof *question);
    if (!question)
        return is_known;
    question->name = name;
    name->question = question;
    name->asked_ms = now_ms;
    resolver_ask(name->env->resolver, name->host, name->port, group, on_answer, question, 0);
    return is_known;
}
