#include "access/quota.h"

#include "base/hash.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    WAYS = 8, /* accounts per set; a key is stored in one of them */
    LOCKS = 64,
    ACCOUNTS = 131072,
    TOPICS = 10000,
    LOOKED_MAX = 1024 /* active callers with a job limit */
};

struct topic_rate {
    _Atomic uint64_t key;  /* 0: free, which also ends a search */
    _Atomic uint64_t rate; /* count << 2 | unit; 0: no rate */
    struct quota_bucket pushes;
};

struct looked {
    struct quota_account *account;
    struct access_caller *caller;
    uint64_t pushed, jobs;
};

struct quota {
    struct quota_options options;
    struct quota_account *accounts;
    /* Sets that never had an account are not read: their memory stays untouched. */
    bool *is_set_used;
    uint64_t set_mask;
    pthread_mutex_t locks[LOCKS];
    struct topic_rate *topics;
    uint64_t topic_mask;
    _Atomic uint32_t topic_count;
    /* limit of the process if its memory is used up; otherwise 0 */
    _Atomic uint64_t spent_bytes_max;
    _Atomic uint32_t looked_wanted; /* accounts whose caller has a job limit */
    struct looked looked[LOOKED_MAX];
    size_t looked_count;
    _Atomic uint64_t refused[QUOTA_LIMITS];
};

const char *quota_limit_name(enum quota_limit limit)
{
    static const char *const names[QUOTA_LIMITS] = {
        [QUOTA_NONE] = "none",
        [QUOTA_RATE] = "rate",
        [QUOTA_REQUESTS] = "requests",
        [QUOTA_TOPIC_RATE] = "push_rate",
        [QUOTA_JOBS] = "max-jobs",
        [QUOTA_CONNECTIONS] = "connections",
        [QUOTA_WAITING] = "waiting",
        [QUOTA_ADDRESS_RATE] = "address-rate",
        [QUOTA_ADDRESS_CONNECTIONS] = "address-connections",
        [QUOTA_ADDRESS_WAITING] = "address-waiting",
        [QUOTA_MEMORY] = "max-memory",
        [QUOTA_TOPIC_JOBS] = "max_jobs",
        [QUOTA_REQUEST_MEMORY] = "max-request-memory",
        [QUOTA_ALL_CONNECTIONS] = "max-connections",
        [QUOTA_ALL_WAITING] = "max-waiting",
        [QUOTA_TOPICS] = "max-topics",
        [QUOTA_BODY] = "max-body",
        [QUOTA_ITEMS] = "items",
        [QUOTA_REQUEST_LINE] = "request-line",
        [QUOTA_HEADER] = "header",
        [QUOTA_SWEEPS] = "sweeps",
        [QUOTA_STREAMS] = "streams",
        [QUOTA_BACKUPS] = "backups",
    };
    return names[limit];
}

/* ---- a bucket ---- */

bool quota_bucket_take(struct quota_bucket *bucket, struct access_rate rate, int64_t now_ns,
                       int64_t *wait_ns)
{
    const int64_t count = (int64_t)rate.count, unit_ns = rate.per_ms * 1000000;
    const int64_t each_ns = (unit_ns + count - 1) / count, whole_ns = each_ns * count;
    int64_t full_ns = atomic_load_explicit(&bucket->full_ns, memory_order_relaxed), then_ns;
    do {
        then_ns = (full_ns > now_ns ? full_ns : now_ns) + each_ns;
        if (then_ns - now_ns > whole_ns) {
            *wait_ns = then_ns - now_ns - whole_ns;
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&bucket->full_ns, &full_ns, then_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* ---- all ---- */

static uint64_t power_of_two(uint64_t least)
{
    uint64_t size = 1;
    while (size < least)
        size *= 2;
    return size;
}

struct quota *quota_new(const struct quota_options *options)
{
    struct quota *quota = calloc(1, sizeof *quota);
    if (!quota)
        return NULL;
    uint64_t sets = power_of_two((options->accounts ? options->accounts : ACCOUNTS) / WAYS);
    uint64_t topics = power_of_two(2 * (uint64_t)(options->topics ? options->topics : TOPICS));
    quota->options = *options;
    quota->set_mask = sets - 1;
    quota->topic_mask = topics - 1;
    for (size_t i = 0; i < LOCKS; i++)
        pthread_mutex_init(&quota->locks[i], NULL);
    quota->accounts = calloc(sets * WAYS, sizeof *quota->accounts);
    quota->is_set_used = calloc(sets, sizeof *quota->is_set_used);
    quota->topics = calloc(topics, sizeof *quota->topics);
    if (quota->accounts && quota->is_set_used && quota->topics)
        return quota;
    quota_free(quota);
    return NULL;
}

void quota_free(struct quota *quota)
{
    if (!quota)
        return;
    for (uint64_t set = 0; quota->accounts && quota->is_set_used && set <= quota->set_mask; set++)
        for (uint64_t way = 0; quota->is_set_used[set] && way < WAYS; way++)
            access_caller_release(quota->accounts[set * WAYS + way].caller);
    for (size_t i = 0; i < LOCKS; i++)
        pthread_mutex_destroy(&quota->locks[i]);
    free(quota->accounts);
    free(quota->is_set_used);
    free(quota->topics);
    free(quota);
}

const struct quota_options *quota_options(const struct quota *quota)
{
    return &quota->options;
}

/* ---- accounts ---- */

static int64_t owes_until_ns(const struct quota_account *account)
{
    int64_t pushes = atomic_load_explicit(&account->pushes.full_ns, memory_order_relaxed);
    int64_t requests = atomic_load_explicit(&account->requests.full_ns, memory_order_relaxed);
    return pushes > requests ? pushes : requests;
}

static pthread_mutex_t *lock_of(struct quota *quota, uint64_t set)
{
    return &quota->locks[set % LOCKS];
}

/* Finds the account of a key, or the slot for it: a free slot, else the slot without holders that
 * has used up the least, else (if all are held) the one with the fewest holders. */
static struct quota_account *place_of(struct quota_account *ways, uint64_t key)
{
    struct quota_account *place = NULL;
    for (size_t i = 0; i < WAYS; i++) {
        struct quota_account *way = &ways[i];
        if (way->key == key)
            return way;
        if (!place || way->holders < place->holders ||
            (!way->holders &&
             (!way->key || (place->key && owes_until_ns(way) < owes_until_ns(place)))))
            place = way;
    }
    return place;
}

static struct quota_account *account_hold(struct quota *quota, uint64_t key)
{
    uint64_t set = (key >> 8) & quota->set_mask;
    pthread_mutex_t *lock = lock_of(quota, set);
    key |= !key;
    pthread_mutex_lock(lock);
    struct quota_account *account = place_of(&quota->accounts[set * WAYS], key);
    quota->is_set_used[set] = true;
    if (account->key != key && !account->holders) {
        access_caller_release(account->caller);
        memset(account, 0, sizeof *account);
        account->key = key;
    }
    account->holders++;
    pthread_mutex_unlock(lock);
    return account;
}

struct quota_account *quota_account_of_address(struct quota *quota, const unsigned char address[16])
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    char text[1 + 16] = "a";
    size_t bytes = memcmp(address, mapped, sizeof mapped) == 0 ? 16 : 8;
    memcpy(text + 1, address, bytes);
    return account_hold(
        quota, hash_pair(slice_make(text, 1 + bytes), (struct slice){0}, quota->options.seed).low);
}

struct quota_account *quota_account_of_caller(struct quota *quota,
                                              const struct access_caller *caller)
{
    const char kind[2] = {'c', (char)caller->kind};
    struct quota_account *account =
        account_hold(quota, hash_pair(slice_make(kind, 2), caller->name, quota->options.seed).low);
    uint64_t set = (uint64_t)(account - quota->accounts) / WAYS;
    pthread_mutex_t *lock = lock_of(quota, set);
    pthread_mutex_lock(lock);
    if (account->caller != caller) {
        if (account->caller && account->caller->limits.jobs_max)
            atomic_fetch_sub(&quota->looked_wanted, 1);
        access_caller_release(account->caller);
        account->caller = access_caller_hold(caller);
        if (caller->limits.jobs_max)
            atomic_fetch_add(&quota->looked_wanted, 1);
    }
    pthread_mutex_unlock(lock);
    return account;
}

void quota_account_keep(struct quota *quota, struct quota_account *account)
{
    pthread_mutex_t *lock = lock_of(quota, (uint64_t)(account - quota->accounts) / WAYS);
    pthread_mutex_lock(lock);
    account->holders++;
    pthread_mutex_unlock(lock);
}

void quota_account_release(struct quota *quota, struct quota_account *account)
{
    if (!account)
        return;
    pthread_mutex_t *lock = lock_of(quota, (uint64_t)(account - quota->accounts) / WAYS);
    pthread_mutex_lock(lock);
    if (--account->holders == 0 && account->caller) {
        if (account->caller->limits.jobs_max)
            atomic_fetch_sub(&quota->looked_wanted, 1);
        access_caller_release(account->caller);
        account->caller = NULL;
    }
    pthread_mutex_unlock(lock);
}

bool quota_count_up(_Atomic uint32_t *count, uint64_t most)
{
    uint32_t was = atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
    if (!most || was < most)
        return true;
    quota_count_down(count);
    return false;
}

/* ---- pending jobs ---- */

bool quota_has_jobs_left(const struct quota_account *account, uint64_t most)
{
    uint64_t as_of = atomic_load_explicit(&account->jobs_as_of, memory_order_relaxed);
    uint64_t pushed = atomic_load_explicit(&account->pushed, memory_order_relaxed);
    uint64_t jobs = atomic_load_explicit(&account->jobs, memory_order_relaxed);
    return jobs + (pushed - as_of) < most;
}

bool quota_wants_look(struct quota *quota)
{
    return atomic_load_explicit(&quota->looked_wanted, memory_order_relaxed) != 0;
}

void quota_look_begin(struct quota *quota)
{
    uint64_t sets = quota->set_mask + 1;
    quota->looked_count = 0;
    for (uint64_t set = 0; set < sets; set++) {
        pthread_mutex_t *lock = lock_of(quota, set);
        pthread_mutex_lock(lock);
        for (size_t i = 0; quota->is_set_used[set] && i < WAYS && quota->looked_count < LOOKED_MAX;
             i++) {
            struct quota_account *account = &quota->accounts[set * WAYS + i];
            if (!account->caller || !account->caller->limits.jobs_max)
                continue;
            account->holders++;
            quota->looked[quota->looked_count++] =
                (struct looked){.account = account,
                                .caller = access_caller_hold(account->caller),
                                .pushed = atomic_load(&account->pushed)};
        }
        pthread_mutex_unlock(lock);
    }
}

void quota_look_topic(struct quota *quota, struct slice topic, uint64_t jobs)
{
    for (size_t i = 0; i < quota->looked_count; i++)
        if (access_topics_match(quota->looked[i].caller->topics, topic))
            quota->looked[i].jobs += jobs;
}

void quota_look_end(struct quota *quota, bool is_good)
{
    for (size_t i = 0; i < quota->looked_count; i++) {
        struct looked *looked = &quota->looked[i];
        if (is_good) {
            atomic_store(&looked->account->jobs_as_of, looked->pushed);
            atomic_store(&looked->account->jobs, looked->jobs);
        }
        access_caller_release(looked->caller);
        quota_account_release(quota, looked->account);
    }
    quota->looked_count = 0;
}

/* ---- memory of the process ---- */

void quota_note_memory(struct quota *quota, bool is_spent, uint64_t bytes_max)
{
    atomic_store_explicit(&quota->spent_bytes_max, is_spent ? bytes_max : 0, memory_order_relaxed);
}

bool quota_memory_is_spent(const struct quota *quota, uint64_t *bytes_max)
{
    *bytes_max = atomic_load_explicit(&quota->spent_bytes_max, memory_order_relaxed);
    return *bytes_max != 0;
}

/* ---- rates of topics ---- */

static uint64_t topic_key(const struct quota *quota, struct slice topic)
{
    uint64_t key = hash_pair(topic, (struct slice){0}, quota->options.seed).low;
    return key ? key : 1;
}

void quota_topic_set(struct quota *quota, struct slice topic, struct frequency rate)
{
    uint64_t key = topic_key(quota, topic), packed = 0;
    struct topic_rate *place = NULL, *found = NULL;
    if (rate.count)
        packed = (uint64_t)rate.count << 2 | rate.unit;
    for (uint64_t i = 0; i <= quota->topic_mask && !found; i++) {
        struct topic_rate *at = &quota->topics[(key + i) & quota->topic_mask];
        uint64_t here = atomic_load_explicit(&at->key, memory_order_relaxed);
        if (!place && (!here || !atomic_load_explicit(&at->rate, memory_order_relaxed)))
            place = at;
        if (here == key)
            found = at;
        if (!here)
            break;
    }
    if (!found && !packed)
        return;
    if (!found && place) {
        found = place;
        atomic_store(&found->pushes.full_ns, 0);
        atomic_store(&found->key, key);
    }
    if (!found)
        return;
    uint64_t was = atomic_exchange(&found->rate, packed);
    if (was && !packed)
        atomic_fetch_sub(&quota->topic_count, 1);
    if (!was && packed)
        atomic_fetch_add(&quota->topic_count, 1);
}

bool quota_has_topics(const struct quota *quota)
{
    return atomic_load_explicit(&quota->topic_count, memory_order_relaxed) != 0;
}

bool quota_topic_take(struct quota *quota, struct slice topic, int64_t now_ns, int64_t *wait_ns)
{
    uint64_t key = topic_key(quota, topic);
    for (uint64_t i = 0; i <= quota->topic_mask; i++) {
        struct topic_rate *at = &quota->topics[(key + i) & quota->topic_mask];
        uint64_t here = atomic_load_explicit(&at->key, memory_order_relaxed);
        if (!here)
            return true;
        if (here != key)
            continue;
        uint64_t packed = atomic_load_explicit(&at->rate, memory_order_relaxed);
        struct access_rate rate = {
            .count = packed >> 2,
            .per_ms = packed ? frequency_unit_ms((enum frequency_unit)(packed & 3)) : 0};
        return !packed || quota_bucket_take(&at->pushes, rate, now_ns, wait_ns);
    }
    return true;
}

bool quota_limits_pushes(const struct quota *quota)
{
    return atomic_load_explicit(&quota->spent_bytes_max, memory_order_relaxed) != 0 ||
           atomic_load_explicit(&quota->topic_count, memory_order_relaxed) != 0;
}

/* ---- what was refused ---- */

void quota_refused(struct quota *quota, enum quota_limit limit)
{
    atomic_fetch_add_explicit(&quota->refused[limit], 1, memory_order_relaxed);
}

uint64_t quota_refusals(const struct quota *quota, enum quota_limit limit)
{
    return atomic_load_explicit(&quota->refused[limit], memory_order_relaxed);
}

void quota_emit_metrics(struct quota *quota, struct metric_page *page)
{
    metric_begin(page, &quota_metrics[0]);
    for (int i = QUOTA_NONE + 1; i < QUOTA_LIMITS; i++)
        metric_sample(page, METRIC_LABELS(slice_of(quota_limit_name((enum quota_limit)i))),
                      quota_refusals(quota, (enum quota_limit)i));
}

const struct metric quota_metrics[] = {
    {.name = "tarry_limits_met_total",
     .type = PROMETHEUS_COUNTER,
     .labels = {"limit"},
     .help = "Requests, jobs, takes and connections that a limit refused.",
     .meaning = "A caller reaches a limit; the label has its name, and *Limits* in "
                "[operations](operations/configure.md#limits) its purpose. Raise it, or contact "
                "its owner."},
    METRIC_END};
