/* A table below replaces the system's resolver: no test may depend on an external name
 * server, and no real one would answer these names. */
#include "guard/resolve.h"

#include "base/clock.h"
#include "guard_rig.h"

#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>

/* ---- the stand-in ---- */

static const struct {
    const char *host;
    int code;
    const char *addresses[40];
} names[] = {
    {"public.example", 0, {"93.184.216.34", "2606:4700::1111"}},
    {"private.example", 0, {"10.2.0.1", "fd12::1"}},
    {"mixed.example", 0, {"127.0.0.1", "93.184.216.34", "::1", "2606:4700::1111", "10.2.0.1"}},
    {"mapped.example", 0, {"::ffff:10.2.0.1", "64:ff9b::169.254.169.254", "::ffff:8.8.8.8"}},
    {"twice.example", 0, {"8.8.8.8", "::ffff:8.8.8.8", "8.8.8.8", "8.8.4.4"}},
    {"many.example",
     0,
     {"10.0.0.1", "8.8.8.1", "8.8.8.2", "8.8.8.3", "8.8.8.4", "8.8.8.5", "8.8.8.6", "8.8.8.7",
      "8.8.8.8", "8.8.8.9", "8.8.8.10"}},
    {"inner.example", 0, {"10.1.2.3"}},
    {"hidden.example", 0, {"10.9.9.9"}},
    {"missing.example", EAI_NONAME, {0}},
    {"silent.example", EAI_AGAIN, {0}},
    {"broken.example", EAI_SYSTEM, {0}},
    {"empty.example", 0, {0}},
};

static atomic_int asked;         /* since the test began */
static atomic_int changing_code; /* of changing.example, which has 8.8.8.8 otherwise */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t first_gate = PTHREAD_MUTEX_INITIALIZER; /* only of first.example */

static struct addrinfo *make_answer(const char *text, struct addrinfo *next)
{
    struct sockaddr_storage *socket = calloc(1, sizeof *socket);
    struct addrinfo *answer = calloc(1, sizeof *answer);
    struct sockaddr_in *v4 = (struct sockaddr_in *)socket;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)socket;
    bool is_v4 = inet_pton(AF_INET, text, &v4->sin_addr) == 1;
    assert_true(is_v4 || inet_pton(AF_INET6, text, &v6->sin6_addr) == 1);
    socket->ss_family = is_v4 ? AF_INET : AF_INET6;
    *answer = (struct addrinfo){.ai_family = socket->ss_family,
                                .ai_addrlen = is_v4 ? sizeof *v4 : sizeof *v6,
                                .ai_addr = (struct sockaddr *)socket,
                                .ai_next = next};
    return answer;
}

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    (void)service;
    (void)hints;
    atomic_fetch_add(&asked, 1);
    pthread_mutex_t *holds = strcmp(host, "first.example") == 0 ? &first_gate : &gate;
    pthread_mutex_lock(holds); /* while it is held, all look-ups wait */
    pthread_mutex_unlock(holds);
    *out = NULL;
    errno = EIO; /* what goes with EAI_SYSTEM */
    if (strcasecmp(host, "changing.example") == 0) {
        *out = changing_code ? NULL : make_answer("8.8.8.8", NULL);
        return changing_code;
    }
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t count = 0;
        if (strcasecmp(host, names[i].host) != 0)
            continue;
        while (names[i].addresses[count])
            count++;
        while (count-- > 0)
            *out = make_answer(names[i].addresses[count], *out);
        return names[i].code;
    }
    return EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *answer)
{
    while (answer) {
        struct addrinfo *next = answer->ai_next;
        free(answer->ai_addr);
        free(answer);
        answer = next;
    }
}

/* ---- what is answered ---- */

static const char policy[] = "allow-host = *.example\nallow-host = 8.8.8.8\nallow-host = 10.2.0.1\n"
                             "allow-host = 10.1.2.3\nallow-network = 10.1.0.0/16\n"
                             "allow-host = private.example\nallow-host = missing.example\n";

/* "8.8.8.8 2606:4700::1111", and the port of all. */
static void describe(const struct resolved *resolved, char *out, size_t bytes)
{
    size_t len = 0;
    out[0] = 0;
    for (size_t i = 0; i < resolved->count; i++) {
        const struct sockaddr_storage *at = &resolved->addresses[i];
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)at;
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)at;
        char text[INET6_ADDRSTRLEN];
        inet_ntop(at->ss_family,
                  at->ss_family == AF_INET ? (const void *)&v4->sin_addr : &v6->sin6_addr, text,
                  sizeof text);
        assert_int_equal(ntohs(v4->sin_port), 443);
        len += (size_t)snprintf(out + len, bytes - len, "%s%s", i ? " " : "", text);
    }
}

static const struct {
    const char *host, *addresses;
    enum guard_decision decision;
    bool is_temporary;
    const char *reports;
} rows[] = {
    {"public.example", "93.184.216.34 2606:4700::1111", GUARD_ALLOWED, false, ""},
    {"PUBLIC.example", "93.184.216.34 2606:4700::1111", GUARD_ALLOWED, false, ""},
    {"private.example", "", GUARD_NETWORK_FORBIDDEN, false, "a network that is not public"},
    {"mixed.example", "93.184.216.34 2606:4700::1111", GUARD_ALLOWED, false, ""},
    {"mapped.example", "8.8.8.8", GUARD_ALLOWED, false, ""},
    {"twice.example", "8.8.8.8 8.8.4.4", GUARD_ALLOWED, false, ""},
    {"many.example", "8.8.8.1 8.8.8.2 8.8.8.3 8.8.8.4 8.8.8.5 8.8.8.6 8.8.8.7 8.8.8.8",
     GUARD_ALLOWED, false, ""},
    {"inner.example", "10.1.2.3", GUARD_ALLOWED, false, ""},
    {"missing.example", "", GUARD_ALLOWED, false, "'missing.example' has no address"},
    {"empty.example", "", GUARD_ALLOWED, false, "has no allowed address"},
    {"hidden.example", "", GUARD_NETWORK_FORBIDDEN, false, "has no allowed address"},
    {"silent.example", "", GUARD_ALLOWED, true, "the name server did not answer"},
    {"broken.example", "", GUARD_ALLOWED, true, "the name server did not answer"},
    {"public.elsewhere", "", GUARD_HOST_NOT_NAMED, false, "add it as allow-host"},
    {"a b", "", GUARD_NOT_AN_ADDRESS, false, "neither a name nor an address"},
    {"", "", GUARD_NOT_AN_ADDRESS, false, "neither a name nor an address"},
    {"8.8.8.8", "8.8.8.8", GUARD_ALLOWED, false, ""},
    {"0x08.8.2056", "8.8.8.8", GUARD_ALLOWED, false, ""},
    {"::ffff:8.8.8.8", "8.8.8.8", GUARD_ALLOWED, false, ""},
    {"10.1.2.3", "10.1.2.3", GUARD_ALLOWED, false, ""},
    {"10.2.0.1", "", GUARD_NETWORK_FORBIDDEN, false, "a network that is not public"},
    {"8.8.4.4", "", GUARD_HOST_NOT_NAMED, false, "add it as allow-host"},
};

static void check_row(size_t i, const struct resolved *resolved)
{
    char found[512];
    describe(resolved, found, sizeof found);
    if (strcmp(found, rows[i].addresses) != 0)
        fail_msg("'%s': found '%s', not '%s'", rows[i].host, found, rows[i].addresses);
    CASE_HOLDS(rows[i].host, resolved->decision == rows[i].decision);
    CASE_HOLDS(rows[i].host, resolved->is_temporary == rows[i].is_temporary);
    CASE_HOLDS(rows[i].host, (resolved->count > 0) == (resolved->error[0] == 0));
    CASE_HOLDS(rows[i].host, strstr(resolved->error, rows[i].reports));
    CASE_HOLDS(rows[i].host, !strstr(resolved->error, "fd12") && !strstr(resolved->error, "127."));
}

static void only_allowed_addresses_are_answered(void **state)
{
    struct guard *guard = guard_rig_open(policy);
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct resolved resolved;
        resolve_now(guard, rows[i].host, 443, &resolved);
        check_row(i, &resolved);
    }
    guard_free(guard);
}

static void addresses_and_rejected_hosts_cause_no_look_up(void **state)
{
    static const char *const hosts[] = {"8.8.8.8", "0x08080808", "10.2.0.1", "x.elsewhere", "a b"};
    struct guard *guard = guard_rig_open(policy), *off;
    struct resolved resolved;
    char error[GUARD_ERROR_BYTES];
    (void)state;
    atomic_store(&asked, 0);
    for (size_t i = 0; i < COUNT_OF(hosts); i++)
        resolve_now(guard, hosts[i], 443, &resolved);
    assert_int_equal(guard_open(NULL, &off, error), 0);
    resolve_now(off, "public.example", 443, &resolved);
    assert_int_equal(resolved.decision, GUARD_OFF);
    assert_non_null(strstr(resolved.error, "--deliver FILE"));
    assert_int_equal(atomic_load(&asked), 0);
    guard_free(off);
    guard_free(guard);
}

/* ---- on a reactor ---- */

struct asker {
    struct reactor *reactor;
    struct resolver *resolver;
    struct guard *guard;
    size_t reported, wanted;
    uint64_t group;
    uint64_t tags; /* a bit for each */
    bool is_asking, frees, asks_again;
    struct resolved last;
};

static void set_up(struct asker *asker)
{
    *asker = (struct asker){.reactor = reactor_new(0), .guard = guard_rig_open(policy)};
    assert_non_null(asker->reactor);
    asker->resolver = resolver_new(asker->reactor, asker->guard);
    assert_non_null(asker->resolver);
    atomic_store(&asked, 0);
}

static void tear_down(struct asker *asker)
{
    resolver_free(asker->resolver);
    reactor_free(asker->reactor);
    guard_free(asker->guard);
}

static void on_answer(void *owner, uint64_t tag, const struct resolved *resolved);

static void ask(struct asker *asker, const char *host, uint64_t tag)
{
    asker->is_asking = true;
    asker->wanted++;
    resolver_ask(asker->resolver, host, 443, asker->group, on_answer, asker, tag);
    asker->is_asking = false;
}

static void on_answer(void *owner, uint64_t tag, const struct resolved *resolved)
{
    struct asker *asker = owner;
    assert_false(asker->is_asking);
    assert_int_equal(asker->tags >> tag & 1, 0);
    asker->tags |= UINT64_C(1) << tag;
    asker->last = *resolved;
    asker->reported++;
    if (asker->frees) {
        resolver_free(asker->resolver);
        asker->resolver = NULL;
        asker->wanted = asker->reported;
    }
    if (asker->asks_again) {
        asker->asks_again = false;
        ask(asker, "8.8.8.8", 60);
    }
    if (asker->reported == asker->wanted)
        uv_stop(reactor_loop(asker->reactor));
}

static void run_until_reported(struct asker *asker)
{
    uv_run(reactor_loop(asker->reactor), UV_RUN_DEFAULT);
    assert_int_equal(asker->reported, asker->wanted);
}

static void the_same_is_answered_on_a_reactor(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct asker asker;
        set_up(&asker);
        ask(&asker, rows[i].host, 1);
        run_until_reported(&asker);
        check_row(i, &asker.last);
        tear_down(&asker);
    }
}

static void equal_look_ups_are_made_once_and_cached(void **state)
{
    struct asker asker;
    (void)state;
    set_up(&asker);
    for (uint64_t tag = 0; tag < 20; tag++)
        ask(&asker, tag % 2 ? "public.example" : "Public.Example", tag);
    run_until_reported(&asker);
    assert_int_equal(asker.tags, 0xfffff);
    for (uint64_t tag = 20; tag < 40; tag++)
        ask(&asker, tag % 2 ? "missing.example" : "silent.example", tag);
    run_until_reported(&asker);
    for (uint64_t tag = 40; tag < 50; tag++)
        ask(&asker, tag % 2 ? "missing.example" : "public.example", tag);
    run_until_reported(&asker);
    assert_int_equal(atomic_load(&asked), 3);
    tear_down(&asker);
}

static void cached_addresses_are_checked_again(void **state)
{
    char path[POLICY_PATH_BYTES], error[GUARD_ERROR_BYTES];
    struct asker asker;
    (void)state;
    set_up(&asker);
    guard_free(asker.guard);
    guard_rig_write(path, policy, 0600);
    assert_int_equal(guard_open(path, &asker.guard, error), 0);
    resolver_free(asker.resolver);
    asker.resolver = resolver_new(asker.reactor, asker.guard);
    ask(&asker, "inner.example", 1);
    run_until_reported(&asker);
    assert_int_equal(asker.last.count, 1);
    guard_rig_rewrite(path, "allow-host = *.example\n", 0600);
    assert_int_equal(guard_reload(asker.guard, error), 0);
    ask(&asker, "inner.example", 2);
    run_until_reported(&asker);
    assert_int_equal(asker.last.count, 0);
    assert_int_equal(asker.last.decision, GUARD_NETWORK_FORBIDDEN);
    guard_rig_rewrite(path, "allow-host = other.example\n", 0600);
    assert_int_equal(guard_reload(asker.guard, error), 0);
    ask(&asker, "inner.example", 3);
    run_until_reported(&asker);
    assert_int_equal(asker.last.decision, GUARD_HOST_NOT_NAMED);
    unlink(path);
    tear_down(&asker);
}

static void a_callback_may_start_a_look_up(void **state)
{
    struct asker asker;
    (void)state;
    set_up(&asker);
    asker.asks_again = true;
    ask(&asker, "8.8.8.8", 1);
    ask(&asker, "public.example", 2);
    run_until_reported(&asker);
    assert_int_equal(asker.reported, 3);
    tear_down(&asker);
}

static void no_callback_after_the_resolver_is_freed(void **state)
{
    struct asker asker;
    (void)state;
    set_up(&asker);
    asker.frees = true;
    ask(&asker, "8.8.8.8", 1);
    ask(&asker, "10.1.2.3", 2);
    ask(&asker, "public.example", 3);
    run_until_reported(&asker);
    assert_int_equal(asker.reported, 1);
    tear_down(&asker);
    assert_int_equal(asker.reported, 1);

    set_up(&asker);
    pthread_mutex_lock(&gate);
    ask(&asker, "public.example", 1);
    ask(&asker, "private.example", 2);
    ask(&asker, "8.8.8.8", 3);
    resolver_free(asker.resolver);
    asker.resolver = NULL;
    pthread_mutex_unlock(&gate);
    tear_down(&asker);
    assert_int_equal(asker.reported, 0);
}

static void finish_look_ups(struct asker *asker)
{
    while (reactor_loop(asker->reactor)->active_reqs.count > 0)
        uv_run(reactor_loop(asker->reactor), UV_RUN_ONCE);
}

/* Asks once `elapsed_ms` later, and lets what is asked for behind the answer's back come in. */
static void expect(struct asker *asker, int64_t elapsed_ms, int asks, bool is_found)
{
    int before = atomic_load(&asked);
    clock_fake_advance(elapsed_ms);
    ask(asker, "changing.example", 1);
    run_until_reported(asker);
    assert_int_equal(asker->last.count, is_found);
    finish_look_ups(asker);
    assert_int_equal(atomic_load(&asked) - before, asks);
    asker->tags = 0;
}

static void old_addresses_are_used_during_a_new_look_up(void **state)
{
    struct asker asker;
    (void)state;
    set_up(&asker);
    clock_fake_start(1000000, 1000000);
    atomic_store(&changing_code, 0);
    expect(&asker, 0, 1, true);
    expect(&asker, 4999, 0, true);
    expect(&asker, 1, 1, true);
    atomic_store(&changing_code, EAI_AGAIN);
    expect(&asker, 5000, 1, true); /* no server answers: the cached addresses are used */
    expect(&asker, 1999, 0, true);
    expect(&asker, 1, 1, true);
    pthread_mutex_lock(&gate); /* and no caller waits */
    clock_fake_advance(2000);
    for (uint64_t tag = 2; tag < 10; tag++)
        ask(&asker, "changing.example", tag);
    run_until_reported(&asker);
    pthread_mutex_unlock(&gate);
    assert_int_equal(asker.last.count, 1);
    finish_look_ups(&asker);
    expect(&asker, 5 * 60 * 1000, 1, false); /* too old to do */
    atomic_store(&changing_code, 0);
    expect(&asker, 1999, 0, false);
    expect(&asker, 1, 1, true);
    atomic_store(&changing_code, EAI_NONAME);
    expect(&asker, 5000, 1, true); /* the name is gone: the next caller gets an error */
    expect(&asker, 0, 0, false);
    clock_fake_end();
    tear_down(&asker);
}

/* The cache keeps 1024 names; further ones replace the least recently used. */
static void the_cache_is_bounded(void **state)
{
    struct asker asker;
    char host[64];
    (void)state;
    set_up(&asker);
    clock_fake_start(1000000, 1000000); /* otherwise names are looked up again after 5 s */
    for (int i = 0; i < 1100; i++) {
        ask(&asker, "public.example", 1); /* stays: it is asked for all the time */
        snprintf(host, sizeof host, "n%d.example", i);
        ask(&asker, host, 2);
        run_until_reported(&asker);
        asker.tags = 0;
    }
    assert_int_equal(atomic_load(&asked), 1101);
    ask(&asker, "n1099.example", 3);
    ask(&asker, "public.example", 4);
    run_until_reported(&asker);
    assert_int_equal(atomic_load(&asked), 1101);
    ask(&asker, "n0.example", 5);
    run_until_reported(&asker);
    assert_int_equal(atomic_load(&asked), 1102);
    clock_fake_end();
    tear_down(&asker);
}

static void too_many_names_are_postponed(void **state)
{
    struct asker asker;
    char host[64];
    (void)state;
    set_up(&asker);
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 1024; i++) {
        snprintf(host, sizeof host, "n%d.example", i);
        resolver_ask(asker.resolver, host, 443, (uint64_t)i, on_answer, &asker, 0);
    }
    ask(&asker, "public.example", 1);
    run_until_reported(&asker);
    assert_int_equal(asker.tags, 2);
    assert_true(asker.last.is_temporary && asker.last.is_unasked);
    assert_true(asker.last.count == 0 && asker.last.error[0]);
    pthread_mutex_unlock(&gate);
    tear_down(&asker);
}

static void wait_asked(int wanted)
{
    for (int i = 0; atomic_load(&asked) < wanted && i < 5000; i++)
        usleep(1000);
    assert_int_equal(atomic_load(&asked), wanted);
}

static void many_silent_names_of_one_group_leave_room_for_others(void **state)
{
    struct asker asker;
    char host[64];
    (void)state;
    set_up(&asker);
    pthread_mutex_lock(&gate);
    asker.group = 7;
    for (uint64_t i = 0; i < 60; i++) {
        snprintf(host, sizeof host, "n%d.example", (int)i);
        ask(&asker, host, i);
    }
    wait_asked(20);
    assert_true(resolver_asked_ms(asker.resolver, "N0.example") >= 0);
    usleep(2000);
    assert_true(resolver_asked_ms(asker.resolver, "N0.example") > 0);
    assert_int_equal(resolver_asked_ms(asker.resolver, "n20.example"), 0);
    assert_int_equal(resolver_asked_ms(asker.resolver, "nobody.example"), 0);
    asker.group = 8;
    ask(&asker, "public.example", 60);
    wait_asked(21);
    pthread_mutex_unlock(&gate);
    run_until_reported(&asker);
    assert_int_equal(atomic_load(&asked), 61);
    tear_down(&asker);
}

static void a_name_that_was_silent_comes_after_others(void **state)
{
    struct asker asker;
    char host[64];
    (void)state;
    set_up(&asker);
    clock_fake_start(1000000, 1000000);
    atomic_store(&changing_code, EAI_AGAIN);
    expect(&asker, 0, 1, false);
    clock_fake_advance(2000);
    atomic_store(&asked, 0);
    pthread_mutex_lock(&gate);
    pthread_mutex_lock(&first_gate);
    asker.group = 7;
    ask(&asker, "first.example", 2);
    for (uint64_t i = 3; i < 22; i++) {
        snprintf(host, sizeof host, "n%d.example", (int)i);
        ask(&asker, host, i);
    }
    ask(&asker, "changing.example", 22);
    ask(&asker, "public.example", 23);
    wait_asked(20);
    pthread_mutex_unlock(&first_gate);
    while (atomic_load(&asked) < 21)
        uv_run(reactor_loop(asker.reactor), UV_RUN_NOWAIT);
    clock_fake_advance(1);
    assert_int_equal(resolver_asked_ms(asker.resolver, "public.example"), 1);
    assert_int_equal(resolver_asked_ms(asker.resolver, "changing.example"), 0);
    pthread_mutex_unlock(&gate);
    run_until_reported(&asker);
    atomic_store(&changing_code, 0);
    clock_fake_end();
    tear_down(&asker);
}

static void a_group_has_so_many_names_that_wait(void **state)
{
    struct asker asker;
    char host[64];
    (void)state;
    set_up(&asker);
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 20 + 256; i++) {
        snprintf(host, sizeof host, "n%d.example", i);
        resolver_ask(asker.resolver, host, 443, 7, on_answer, &asker, 0);
    }
    asker.group = 7;
    ask(&asker, "public.example", 1);
    run_until_reported(&asker);
    assert_true(asker.last.is_unasked);
    asker.group = 8;
    ask(&asker, "mixed.example", 2);
    wait_asked(21);
    pthread_mutex_unlock(&gate);
    tear_down(&asker);
}

static void a_name_covered_by_a_pattern_does_not_reveal_its_network(void **state)
{
    static const char *const hosts[] = {"hidden.example", "absent.example", "empty.example"};
    struct guard *guard = guard_rig_open("allow-host = *\n");
    (void)state;
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        struct resolved resolved;
        char expected[128];
        snprintf(expected, sizeof expected, "'%s' has no allowed address", hosts[i]);
        resolve_now(guard, hosts[i], 443, &resolved);
        assert_string_equal(resolved.error, expected);
    }
    guard_free(guard);
}

int main(void)
{
    setenv("UV_THREADPOOL_SIZE", "64", 1); /* as the server has it */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_allowed_addresses_are_answered),
        cmocka_unit_test(addresses_and_rejected_hosts_cause_no_look_up),
        cmocka_unit_test(the_same_is_answered_on_a_reactor),
        cmocka_unit_test(equal_look_ups_are_made_once_and_cached),
        cmocka_unit_test(cached_addresses_are_checked_again),
        cmocka_unit_test(a_callback_may_start_a_look_up),
        cmocka_unit_test(no_callback_after_the_resolver_is_freed),
        cmocka_unit_test(old_addresses_are_used_during_a_new_look_up),
        cmocka_unit_test(the_cache_is_bounded),
        cmocka_unit_test(too_many_names_are_postponed),
        cmocka_unit_test(many_silent_names_of_one_group_leave_room_for_others),
        cmocka_unit_test(a_name_that_was_silent_comes_after_others),
        cmocka_unit_test(a_group_has_so_many_names_that_wait),
        cmocka_unit_test(a_name_covered_by_a_pattern_does_not_reveal_its_network),
    };
    return cmocka_run_group_tests_name("guard resolve", tests, NULL, NULL);
}
