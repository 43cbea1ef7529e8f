#include "access/caller.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

struct counted {
    struct access_caller caller;
    atomic_uint holders; /* references; not counted for the anonymous caller */
    atomic_bool has_ended;
    _Atomic int64_t used_ms;
    char text[]; /* name and topics */
};

static struct counted anyone = {.caller = {.kind = ACCESS_ANYONE,
                                           .scopes = ACCESS_SCOPES_ALL,
                                           .has_all_topics = true,
                                           .name = {"anonymous", 9},
                                           .topics = {"*", 1},
                                           .ends_ms = INT64_MAX}};

static struct counted *counted_of(const struct access_caller *caller)
{
    return (struct counted *)(void *)((const char *)caller - offsetof(struct counted, caller));
}

const char *access_kind_name(enum access_kind kind)
{
    static const char *const names[] = {[ACCESS_ANYONE] = "anonymous",
                                        [ACCESS_TOKEN] = "token",
                                        [ACCESS_CERTIFICATE] = "certificate",
                                        [ACCESS_KEY] = "access-key",
                                        [ACCESS_JWT] = "jwt"};
    return names[kind];
}

struct access_caller *caller_new(const struct access_caller *like)
{
    struct counted *made = calloc(1, sizeof *made + like->name.len + 1 + like->topics.len);
    if (!made)
        return NULL;
    char *topics = made->text + like->name.len + 1;
    made->caller = *like;
    memcpy(made->text, like->name.at, like->name.len);
    memcpy(topics, like->topics.at, like->topics.len);
    made->caller.name.at = made->text;
    made->caller.topics.at = topics;
    made->caller.has_all_topics = access_topics_are_all(like->topics);
    atomic_init(&made->holders, 1);
    return &made->caller;
}

bool caller_equals(const struct access_caller *a, const struct access_caller *b)
{
    return a->kind == b->kind && a->scopes == b->scopes && a->ends_ms == b->ends_ms &&
           slice_equals(a->name, b->name) && slice_equals(a->topics, b->topics) &&
           memcmp(&a->limits, &b->limits, sizeof a->limits) == 0;
}

void caller_end(struct access_caller *caller)
{
    atomic_store_explicit(&counted_of(caller)->has_ended, true, memory_order_release);
}

bool caller_has_ended(const struct access_caller *caller)
{
    return atomic_load_explicit(&counted_of(caller)->has_ended, memory_order_acquire);
}

void access_caller_use(const struct access_caller *caller, int64_t now_ms)
{
    struct counted *counted = counted_of(caller);
    int64_t used_ms = atomic_load_explicit(&counted->used_ms, memory_order_relaxed);
    if (now_ms - used_ms >= 1000 && caller->kind != ACCESS_ANYONE)
        atomic_store_explicit(&counted->used_ms, now_ms, memory_order_relaxed);
}

int64_t caller_used_ms(const struct access_caller *caller)
{
    return atomic_load_explicit(&counted_of(caller)->used_ms, memory_order_relaxed);
}

struct access_caller *access_anyone(void)
{
    return &anyone.caller;
}

struct access_caller *access_caller_hold(const struct access_caller *caller)
{
    struct counted *counted = counted_of(caller);
    if (caller->kind != ACCESS_ANYONE)
        atomic_fetch_add_explicit(&counted->holders, 1, memory_order_relaxed);
    return &counted->caller;
}

void access_caller_release(struct access_caller *caller)
{
    if (!caller || caller->kind == ACCESS_ANYONE)
        return;
    if (atomic_fetch_sub_explicit(&counted_of(caller)->holders, 1, memory_order_acq_rel) == 1)
        free(counted_of(caller));
}
