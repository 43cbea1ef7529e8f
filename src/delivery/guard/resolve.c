#include "guard/resolve.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/table.h"
#include "guard/address.h"

#include <assert.h>
#include <ctype.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

static const struct addrinfo resolve_hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};

/* More addresses than are returned, because forbidden ones are filtered out later. */
enum { RESOLVE_FOUND_MAX = 32 };

/* The answer of the name server. It is checked when it is used, not when it is stored, because the
 * policy may change in between. */
struct resolve_found {
    int code; /* result of getaddrinfo */
    size_t count;
    struct guard_address addresses[RESOLVE_FOUND_MAX];
};

/* ---- error texts ---- */

/* Text that does not reveal whether a name exists. If only a pattern such as '*' covers a name, any
 * user with the right to push could probe the network behind it. The log contains the reason. */
static const char unreachable[] = "has no allowed address";

static void explain_host(struct resolved *out, const char *host, const char *why)
{
    (void)snprintf(out->error, sizeof out->error, "'%.100s' %s", host, why);
}

/* Describes a refusal. `is_notified` is true if the policy file names the host, or if it is an
 * address. */
static void explain_decision(struct resolved *out, const char *host, bool is_notified)
{
    switch (out->decision) {
    case GUARD_ALLOWED:
        break;
    case GUARD_OFF:
        explain_host(out, host, "is not allowed, start the server with --deliver FILE");
        break;
    case GUARD_HOST_NOT_NAMED:
        explain_host(out, host, "is not allowed, add it as allow-host to the policy file");
        break;
    case GUARD_NETWORK_FORBIDDEN:
        explain_host(out, host,
                     !is_notified
                         ? unreachable
                         : "is in a network that is not public, add it as allow-network to "
                           "the policy file to allow it");
        break;
    case GUARD_NOT_AN_ADDRESS:
        explain_host(out, host, "is neither a name nor an address, write one of them");
        break;
    }
}

static void explain_failure(struct resolved *out, const char *host, int code, bool is_notified)
{
    out->is_temporary = code != EAI_NONAME && code != EAI_NODATA && code != EAI_ADDRFAMILY;
    explain_host(out, host,
                 out->is_temporary ? "could not be looked up, the name server did not answer"
                 : !is_notified    ? unreachable
                                   : "has no address, check the spelling of the name");
}

/* ---- results ---- */

static bool is_there(const struct resolved *out, const struct guard_address *address, uint16_t port)
{
    struct sockaddr_storage other;
    guard_address_emit(address, port, &other);
    for (size_t i = 0; i < out->count; i++)
        if (memcmp(&out->addresses[i], &other, sizeof other) == 0)
            return true;
    return false;
}

static void add_allowed(struct guard *guard, const struct guard_address *address, uint16_t port,
                        struct resolved *out)
{
    struct sockaddr_storage socket;
    guard_address_emit(address, port, &socket);
    enum guard_decision decision = guard_check_address(guard, (struct sockaddr *)&socket);
    if (decision != GUARD_ALLOWED) {
        if (out->decision == GUARD_ALLOWED)
            out->decision = decision;
    } else if (out->count < RESOLVE_ADDRESSES_MAX && !is_there(out, address, port)) {
        out->addresses[out->count++] = socket;
    }
}

/* Selects the addresses that may be reached; if the result is empty, `out` contains the reason. */
static void resolve_evaluate(struct guard *guard, const char *host, uint16_t port,
                             const struct resolve_found *found, struct resolved *out)
{
    struct guard_address unused;
    bool is_notified = guard_names_host(guard, slice_of(host)) ||
                       guard_address_parse(slice_of(host), &unused) != GUARD_SPELLS_NAME;
    memset(out, 0, sizeof *out);
    out->decision = guard_check_host(guard, slice_of(host));
    if (out->decision == GUARD_ALLOWED) {
        for (size_t i = 0; i < found->count; i++)
            add_allowed(guard, &found->addresses[i], port, out);
        if (out->count > 0)
            out->decision = GUARD_ALLOWED;
        else if (out->decision == GUARD_ALLOWED)
            explain_failure(out, host, found->code ? found->code : EAI_NODATA, is_notified);
    }
    explain_decision(out, host, is_notified);
}

/* Logs a host whose addresses may not be reached. */
static void resolve_log(struct guard *guard, const char *host, const struct resolve_found *found)
{
    struct resolved resolved;
    resolve_evaluate(guard, host, 0, found, &resolved);
    if (resolved.count == 0 && resolved.decision == GUARD_NETWORK_FORBIDDEN)
        log_event(LOG_INFO, "host not reached", LOG_TEXT("host", host),
                  LOG_TEXT("error", "all its addresses are in networks that are not public, add "
                                    "these as allow-network to the policy file to allow them"));
}

static void resolve_keep(const struct addrinfo *answers, int code, struct resolve_found *out)
{
    memset(out, 0, sizeof *out);
    out->code = code;
    for (; answers && out->count < RESOLVE_FOUND_MAX; answers = answers->ai_next)
        if (guard_address_of(answers->ai_addr, &out->addresses[out->count]))
            out->count++;
}

/* Resolves an address or a refused host without a lookup. Returns false if a name server has to be
 * asked. */
static bool resolve_at_once(struct guard *guard, const char *host, uint16_t port,
                            struct resolved *out)
{
    struct resolve_found found = {0};
    if (guard_check_host(guard, slice_of(host)) == GUARD_ALLOWED) {
        if (guard_address_parse(slice_of(host), &found.addresses[0]) != GUARD_SPELLS_ADDRESS)
            return false;
        found.count = 1;
    }
    resolve_evaluate(guard, host, port, &found, out);
    return true;
}

void resolve_now(struct guard *guard, const char *host, uint16_t port, struct resolved *out)
{
    struct addrinfo *answers = NULL;
    struct resolve_found found;
    if (resolve_at_once(guard, host, port, out))
        return;
    int code = getaddrinfo(host, NULL, &resolve_hints, &answers);
    resolve_keep(code == 0 ? answers : NULL, code, &found);
    if (code == 0)
        freeaddrinfo(answers);
    resolve_evaluate(guard, host, port, &found, out);
    resolve_log(guard, host, &found);
}

/* ---- on a reactor ---- */

/*
 * A resolver contains the questions of a reactor, and recent answers.
 *
 * An entry is a name: its known addresses, or a lookup in progress with the questions that wait for
 * it. There are at most ENTRIES_MAX; the one that was used least recently is replaced. A lookup in
 * progress outlives its entry only when the resolver is freed.
 *
 * The loop's pool handles few names at a time, and one whose name server does not answer takes
 * long. So that others are not delayed, addresses that are no longer fresh are returned while they
 * are looked up again, and names are scheduled here: the next one is from the waiting group with
 * the fewest lookups in progress, and no group may use all of them.
 */
enum {
    ENTRIES_MAX = 1024,
    NAME_BYTES = 256,
    LOOKUPS_MAX = 28, /* concurrent lookups: the pool has room for 32, some are for other uses */
    GROUP_LOOKUPS_MAX = 20,   /* of these, per group */
    GROUP_QUEUED_MAX = 256,   /* waiting names per group */
    FRESH_MS = 5000,          /* time without another lookup */
    FAILED_MS = 2000,         /* the same for names without an address, or without an answer */
    USABLE_MS = 5 * 60 * 1000 /* time that addresses may be used if they cannot be refreshed */
};

struct question { /* a question of a requester */
    struct list list;
    uint16_t port;
    char host[NAME_BYTES]; /* original spelling, for errors */
    void (*done)(void *owner, uint64_t tag, const struct resolved *resolved);
    void *owner;
    uint64_t tag;
    struct resolved resolved;
};

struct lookup {
    uv_getaddrinfo_t request;
    struct list list;    /* in the resolver's `lookups` */
    struct entry *entry; /* NULL if the result is no longer needed */
    uint64_t group;
    int64_t begun_ms; /* inner clock */
};

struct entry {
    struct list recent;         /* in the resolver's list, most recently used last */
    struct table_entry by_name; /* in the resolver's table */
    struct resolver *resolver;
    struct list waiting;         /* questions, while it is queued or looked up */
    struct list place;           /* in the resolver's `queue` */
    bool is_queued;              /* waits to be looked up */
    uint64_t group;              /* ... among the names of this group */
    bool was_silent;             /* the last lookup had no answer */
    struct lookup *lookup;       /* in progress; or NULL */
    int64_t fresh_ms, usable_ms; /* end of these times, on the inner clock */
    struct resolve_found found;
    char name[NAME_BYTES]; /* lower case */
};

TABLE_DECLARE(entries, struct entry, by_name)

struct resolver {
    struct reactor *reactor;
    struct guard *guard;
    struct iteration_end_call notifying;
    struct list answered; /* questions */
    struct list recent;
    struct list queue;   /* entries, the longest waiting first */
    struct list lookups; /* in progress */
    bool *is_gone;       /* set while answers are delivered, because `done` may free the resolver */
    struct entries entries;
};

/* ---- answers ---- */

/* Delivers the current answers; questions asked in `done` are answered later. */
static void notify_answers(struct iteration_end_call *call)
{
    struct resolver *resolver = list_entry(call, struct resolver, notifying);
    size_t count = 0;
    bool is_gone = false;
    for (struct list *at = resolver->answered.next; at != &resolver->answered; at = at->next)
        count++;
    resolver->is_gone = &is_gone;
    while (count-- > 0) {
        struct question *question = list_entry(resolver->answered.next, struct question, list);
        list_remove(&question->list);
        question->done(question->owner, question->tag, &question->resolved);
        free(question);
        if (is_gone)
            return;
    }
    resolver->is_gone = NULL;
    if (!list_is_empty(&resolver->answered))
        reactor_once_at_iteration_end(resolver->reactor, &resolver->notifying);
}

static void answer_question(struct resolver *resolver, struct question *question)
{
    list_add_last(&resolver->answered, &question->list);
    reactor_once_at_iteration_end(resolver->reactor, &resolver->notifying);
}

static void answer_from(struct entry *entry, struct question *question)
{
    resolve_evaluate(entry->resolver->guard, question->host, question->port, &entry->found,
                     &question->resolved);
    answer_question(entry->resolver, question);
}

static void answer_all(struct entry *entry)
{
    while (!list_is_empty(&entry->waiting)) {
        struct question *question = list_entry(entry->waiting.next, struct question, list);
        list_remove(&question->list);
        answer_from(entry, question);
    }
}

/* ---- entries ---- */

static void drop_questions(struct list *questions)
{
    while (!list_is_empty(questions)) {
        struct question *question = list_entry(questions->next, struct question, list);
        list_remove(&question->list);
        free(question);
    }
}

static void drop_entry(struct entry *entry)
{
    struct resolver *resolver = entry->resolver;
    entries_remove(&resolver->entries, entry);
    list_remove(&entry->recent);
    list_remove(&entry->place);
    drop_questions(&entry->waiting);
    if (entry->lookup) { /* it outlives the resolver */
        entry->lookup->entry = NULL;
        list_remove(&entry->lookup->list);
    }
    free(entry);
}

static bool is_under_way(const struct entry *entry)
{
    return entry->lookup || entry->is_queued;
}

/* Drops the least recently used entry if necessary. Returns false if all are in progress. */
static bool make_room(struct resolver *resolver)
{
    if (resolver->entries.table.count < ENTRIES_MAX)
        return true;
    for (struct list *at = resolver->recent.next; at != &resolver->recent; at = at->next) {
        struct entry *entry = list_entry(at, struct entry, recent);
        if (is_under_way(entry))
            continue;
        drop_entry(entry);
        return true;
    }
    return false;
}

static struct entry *add_entry(struct resolver *resolver, const char *name)
{
    struct entry *entry = make_room(resolver) ? calloc(1, sizeof *entry) : NULL;
    if (!entry)
        return NULL;
    entry->resolver = resolver;
    list_init(&entry->recent);
    list_init(&entry->waiting);
    list_init(&entry->place);
    memcpy(entry->name, name, strlen(name));
    entry->fresh_ms = entry->usable_ms = INT64_MIN;
    entry->by_name.key = slice_of(entry->name);
    entries_add(&resolver->entries, entry);
    return entry;
}

/* ---- lookups ---- */

static bool is_usable(const struct entry *entry, int64_t now_ms)
{
    return entry->found.count > 0 && now_ms < entry->usable_ms;
}

/* Stores the answers. Without an answer of the name server, known addresses are kept. */
static void learn_answers(struct entry *entry, const struct addrinfo *answers, int code)
{
    int64_t now_ms = clock_inner_ms();
    if (code != EAI_AGAIN || !is_usable(entry, now_ms)) {
        resolve_keep(answers, code, &entry->found);
        entry->usable_ms = now_ms + USABLE_MS;
        resolve_log(entry->resolver->guard, entry->name, &entry->found);
    }
    entry->was_silent = code == EAI_AGAIN;
    entry->fresh_ms = now_ms + (code == 0 && entry->found.count > 0 ? FRESH_MS : FAILED_MS);
    answer_all(entry);
}

/* Converts the loop's error codes. */
static int own_code(int status)
{
    return status == 0                                          ? 0
           : status == UV_EAI_NONAME || status == UV_EAI_NODATA ? EAI_NONAME
                                                                : EAI_AGAIN;
}

static void begin_lookups(struct resolver *resolver);

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *answers)
{
    struct lookup *lookup = request->data;
    struct entry *entry = lookup->entry;
    if (entry) {
        list_remove(&lookup->list);
        entry->lookup = NULL;
        learn_answers(entry, answers, own_code(status));
        begin_lookups(entry->resolver);
    }
    free(lookup);
    uv_freeaddrinfo(answers);
}

/* Starts a lookup in the loop's pool; a failure is treated like a missing answer. */
static void look_up(struct entry *entry)
{
    struct resolver *resolver = entry->resolver;
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (lookup) {
        lookup->entry = entry;
        lookup->group = entry->group;
        lookup->begun_ms = clock_inner_ms();
        lookup->request.data = lookup;
        list_init(&lookup->list);
        if (uv_getaddrinfo(reactor_loop(resolver->reactor), &lookup->request, on_found, entry->name,
                           NULL, &resolve_hints) == 0) {
            entry->lookup = lookup;
            list_add_last(&resolver->lookups, &lookup->list);
            return;
        }
        free(lookup);
    }
    learn_answers(entry, NULL, EAI_AGAIN);
}

static size_t count_lookups(const struct resolver *resolver, const uint64_t *group)
{
    size_t count = 0;
    for (const struct list *at = resolver->lookups.next; at != &resolver->lookups; at = at->next)
        count += !group || list_entry(at, struct lookup, list)->group == *group;
    return count;
}

/* Returns the next name to look up: the longest waiting one of the group with the fewest lookups in
 * progress. Names without an answer last time come after the others. Returns NULL if no name may be
 * looked up. */
static struct entry *next_to_look_up(const struct resolver *resolver)
{
    struct entry *next = NULL;
    size_t fewest = GROUP_LOOKUPS_MAX;
    for (struct list *at = resolver->queue.next; at != &resolver->queue; at = at->next) {
        struct entry *entry = list_entry(at, struct entry, place);
        size_t count = count_lookups(resolver, &entry->group);
        bool is_sooner = next && count == fewest && next->was_silent && !entry->was_silent;
        if (count < fewest || is_sooner) {
            fewest = count;
            next = entry;
        }
    }
    return next;
}

static void begin_lookups(struct resolver *resolver)
{
    struct entry *entry;
    while (count_lookups(resolver, NULL) < LOOKUPS_MAX && (entry = next_to_look_up(resolver))) {
        list_remove(&entry->place);
        entry->is_queued = false;
        look_up(entry);
    }
}

/* Queues a name. Returns false if too many of its group are waiting. */
static bool queue_up(struct entry *entry, uint64_t group)
{
    struct resolver *resolver = entry->resolver;
    size_t count = 0;
    for (struct list *at = resolver->queue.next; at != &resolver->queue; at = at->next)
        count += list_entry(at, struct entry, place)->group == group;
    if (count >= GROUP_QUEUED_MAX)
        return false;
    entry->group = group;
    entry->is_queued = true;
    list_add_last(&resolver->queue, &entry->place);
    begin_lookups(resolver);
    return true;
}

/* ---- questions ---- */

/* Moves a waiting name to the given group if that is scheduled earlier. */
static void join_group(struct entry *entry, uint64_t group)
{
    struct resolver *resolver = entry->resolver;
    if (!entry->is_queued ||
        count_lookups(resolver, &group) >= count_lookups(resolver, &entry->group))
        return;
    entry->group = group;
    begin_lookups(resolver);
}

static void make_lower(const char *host, char name[NAME_BYTES])
{
    size_t len = 0;
    for (; host[len]; len++)
        name[len] = (char)tolower((unsigned char)host[len]);
    name[len] = 0;
}

/* Answers a question without a lookup, because too many are in progress; like a missing answer, but
 * marked. */
static void answer_unasked(struct resolver *resolver, struct question *question)
{
    struct resolve_found found = {.code = EAI_AGAIN};
    resolve_evaluate(resolver->guard, question->host, question->port, &found, &question->resolved);
    if (question->resolved.is_temporary) {
        question->resolved.is_unasked = true;
        (void)snprintf(question->resolved.error, sizeof question->resolved.error,
                       "'%.100s' waits for its lookup, behind too many other names",
                       question->host);
    }
    answer_question(resolver, question);
}

/* Answers from known addresses if they are fresh or usable, and starts a lookup if they are not
 * fresh. */
static void find_or_look_up(struct resolver *resolver, struct question *question, uint64_t group)
{
    char name[NAME_BYTES];
    make_lower(question->host, name);
    struct entry *entry = entries_find(&resolver->entries, slice_of(name));
    if (!entry)
        entry = add_entry(resolver, name);
    if (!entry) {
        answer_unasked(resolver, question);
        return;
    }
    list_remove(&entry->recent);
    list_add_last(&resolver->recent, &entry->recent);
    int64_t now_ms = clock_inner_ms();
    bool is_fresh = !is_under_way(entry) && now_ms < entry->fresh_ms;
    bool is_known = is_fresh || is_usable(entry, now_ms);
    if (is_known)
        answer_from(entry, question);
    else
        list_add_last(&entry->waiting, &question->list);
    if (is_under_way(entry))
        join_group(entry, group);
    if (is_fresh || is_under_way(entry) || queue_up(entry, group) || is_known)
        return;
    list_remove(&question->list);
    answer_unasked(resolver, question);
}

static struct entry *find_entry(struct resolver *resolver, const char *host)
{
    char name[NAME_BYTES];
    if (strlen(host) >= sizeof name)
        return NULL;
    make_lower(host, name);
    return entries_find(&resolver->entries, slice_of(name));
}

void resolver_join(struct resolver *resolver, const char *host, uint64_t group)
{
    struct entry *entry = find_entry(resolver, host);
    if (entry)
        join_group(entry, group);
}

int64_t resolver_asked_ms(struct resolver *resolver, const char *host)
{
    struct entry *entry = find_entry(resolver, host);
    return entry && entry->lookup ? clock_inner_ms() - entry->lookup->begun_ms : 0;
}

void resolver_ask(struct resolver *resolver, const char *host, uint16_t port, uint64_t group,
                  void (*done)(void *owner, uint64_t tag, const struct resolved *resolved),
                  void *owner, uint64_t tag)
{
    struct question *question = calloc(1, sizeof *question);
    assert(question);
    question->port = port;
    question->done = done;
    question->owner = owner;
    question->tag = tag;
    if (resolve_at_once(resolver->guard, host, port, &question->resolved)) {
        answer_question(resolver, question);
        return;
    }
    /* It is a name and therefore short; otherwise it would have been rejected. */
    assert(strlen(host) < sizeof question->host);
    memcpy(question->host, host, strlen(host));
    find_or_look_up(resolver, question, group);
}

/* ---- life ---- */

struct resolver *resolver_new(struct reactor *reactor, struct guard *guard)
{
    struct resolver *resolver = calloc(1, sizeof *resolver);
    if (!resolver)
        return NULL;
    resolver->reactor = reactor;
    resolver->guard = guard;
    resolver->notifying.run = notify_answers;
    list_init(&resolver->notifying.list);
    list_init(&resolver->answered);
    list_init(&resolver->recent);
    list_init(&resolver->queue);
    list_init(&resolver->lookups);
    return resolver;
}

void resolver_free(struct resolver *resolver)
{
    if (!resolver)
        return;
    if (resolver->is_gone)
        *resolver->is_gone = true;
    reactor_cancel_at_iteration_end(&resolver->notifying);
    drop_questions(&resolver->answered);
    while (!list_is_empty(&resolver->recent)) {
        struct entry *entry = list_entry(resolver->recent.next, struct entry, recent);
        if (entry->lookup)
            (void)uv_cancel((uv_req_t *)&entry->lookup->request);
        drop_entry(entry);
    }
    entries_fini(&resolver->entries);
    free(resolver);
}
