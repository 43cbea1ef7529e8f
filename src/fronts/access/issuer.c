#include "access/issuer.h"

#include "access/caller.h"
#include "access/jwt.h"
#include "access/token.h"
#include "base/error.h"

#include <errno.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { REMEMBERED = 256 };

struct remembered {
    unsigned char hash[TOKEN_HASH_BYTES];
    struct access_caller *caller; /* NULL if the slot is empty */
};

struct issuer {
    char *texts[4]; /* storage for `rules` */
    struct jwt_rules rules;
    pthread_rwlock_t lock; /* protects the keys */
    struct jwt_keys keys;
    _Atomic uint64_t era; /* raised with each change of the keys */
    atomic_bool wants_keys;
    pthread_mutex_t memory_lock;
    struct remembered memory[REMEMBERED]; /* slots by hash */
};

struct issuer *issuer_new(const struct access_jwt_options *options)
{
    const char *const texts[] = {options->issuer, options->audience, options->scope_claim,
                                 options->topics_claim};
    struct issuer *issuer = calloc(1, sizeof *issuer);
    if (!issuer)
        return NULL;
    pthread_rwlock_init(&issuer->lock, NULL);
    pthread_mutex_init(&issuer->memory_lock, NULL);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!(issuer->texts[i] = strdup(texts[i]))) {
            issuer_free(issuer);
            return NULL;
        }
    issuer->rules = (struct jwt_rules){.issuer = issuer->texts[0],
                                       .audience = issuer->texts[1],
                                       .scope_claim = issuer->texts[2],
                                       .topics_claim = issuer->texts[3]};
    return issuer;
}

static void forget_all(struct issuer *issuer)
{
    pthread_mutex_lock(&issuer->memory_lock);
    for (size_t i = 0; i < REMEMBERED; i++) {
        access_caller_release(issuer->memory[i].caller);
        issuer->memory[i].caller = NULL;
    }
    pthread_mutex_unlock(&issuer->memory_lock);
}

void issuer_free(struct issuer *issuer)
{
    if (!issuer)
        return;
    forget_all(issuer);
    jwt_keys_fini(&issuer->keys);
    for (size_t i = 0; i < sizeof issuer->texts / sizeof issuer->texts[0]; i++)
        free(issuer->texts[i]);
    pthread_rwlock_destroy(&issuer->lock);
    pthread_mutex_destroy(&issuer->memory_lock);
    free(issuer);
}

/* ---- keys ---- */

int issuer_set_keys(struct issuer *issuer, struct slice text, const char *place, bool *is_changed,
                    char *error)
{
    struct jwt_keys *read = calloc(1, sizeof *read); /* large for a stack */
    if (!read)
        return error_result(-ENOMEM, error, ACCESS_ERROR_BYTES, "out of memory");
    int result = jwt_keys_read(text, place, read, error);
    ERR_clear_error();
    if (result == 0) {
        pthread_rwlock_wrlock(&issuer->lock);
        struct jwt_keys old = issuer->keys;
        *is_changed = !jwt_keys_equal(&old, read);
        issuer->keys = *read;
        if (*is_changed)
            atomic_fetch_add(&issuer->era, 1);
        pthread_rwlock_unlock(&issuer->lock);
        jwt_keys_fini(&old);
        if (*is_changed)
            forget_all(issuer);
    }
    free(read);
    return result;
}

size_t issuer_key_count(struct issuer *issuer)
{
    pthread_rwlock_rdlock(&issuer->lock);
    size_t count = issuer->keys.count;
    pthread_rwlock_unlock(&issuer->lock);
    return count;
}

bool issuer_wants_keys(struct issuer *issuer)
{
    return atomic_exchange(&issuer->wants_keys, false);
}

/* ---- recent callers ---- */

static struct remembered *place_of(struct issuer *issuer, const unsigned char *hash)
{
    return &issuer->memory[(hash[0] | hash[1] << 8) % REMEMBERED];
}

bool issuer_holds(const struct issuer *issuer, const struct access_caller *caller)
{
    return caller->era == atomic_load_explicit(&issuer->era, memory_order_acquire);
}

static struct access_caller *recall(struct issuer *issuer, const unsigned char *hash,
                                    int64_t now_ms)
{
    struct remembered *place = place_of(issuer, hash);
    struct access_caller *caller = NULL;
    pthread_mutex_lock(&issuer->memory_lock);
    if (place->caller && memcmp(place->hash, hash, TOKEN_HASH_BYTES) == 0 &&
        now_ms < place->caller->ends_ms && issuer_holds(issuer, place->caller))
        caller = access_caller_hold(place->caller);
    pthread_mutex_unlock(&issuer->memory_lock);
    return caller;
}

static void remember(struct issuer *issuer, const unsigned char *hash, struct access_caller *caller)
{
    struct remembered *place = place_of(issuer, hash);
    pthread_mutex_lock(&issuer->memory_lock);
    access_caller_release(place->caller);
    memcpy(place->hash, hash, TOKEN_HASH_BYTES);
    place->caller = access_caller_hold(caller);
    pthread_mutex_unlock(&issuer->memory_lock);
}

/* ---- authentication ---- */

static enum access_refusal read_caller(struct issuer *issuer, struct slice text, int64_t now_ms,
                                       struct access_caller **caller)
{
    struct buffer scratch;
    struct jwt_caller read;
    enum access_refusal refusal = ACCESS_UNAVAILABLE;
    buffer_init(&scratch, 3 * text.len + 64);
    pthread_rwlock_rdlock(&issuer->lock);
    uint64_t era = issuer->era;
    if (issuer->keys.count)
        refusal = jwt_read(text, &issuer->keys, &issuer->rules, now_ms, &scratch, &read);
    pthread_rwlock_unlock(&issuer->lock);
    ERR_clear_error(); /* TLS would mistake OpenSSL errors of a rejected token for its own */
    if (refusal == ACCESS_OK) {
        *caller = caller_new(&(struct access_caller){.kind = ACCESS_JWT,
                                                     .scopes = read.scopes,
                                                     .name = read.name,
                                                     .topics = read.topics,
                                                     .ends_ms = read.ends_ms,
                                                     .era = era});
        refusal = *caller ? ACCESS_OK : ACCESS_UNAVAILABLE;
    }
    buffer_fini(&scratch);
    return refusal;
}

enum access_refusal issuer_admit(struct issuer *issuer, struct slice text, int64_t now_ms,
                                 struct access_caller **caller)
{
    unsigned char hash[TOKEN_HASH_BYTES];
    token_hash(text, hash);
    if ((*caller = recall(issuer, hash, now_ms)))
        return ACCESS_OK;
    enum access_refusal refusal = read_caller(issuer, text, now_ms, caller);
    if (refusal == ACCESS_OK)
        remember(issuer, hash, *caller);
    else if (refusal == ACCESS_UNKNOWN_KEY)
        atomic_store(&issuer->wants_keys, true);
    return refusal;
}
