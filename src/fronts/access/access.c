#include "access/access.h"

#include "access/caller.h"
#include "access/issuer.h"
#include "access/jwt.h"
#include "access/jwt_keys.h"
#include "access/token_file.h"
#include "access/token_list.h"
#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <strings.h>

enum { SCOPE_BYTES_MAX = 96 };

/* A signing secret and the key that was last derived from it, which is valid for a day. */
struct signing_secret {
    char text[SIGNATURE_SECRET_BYTES_MAX], scope[SCOPE_BYTES_MAX];
    size_t len, scope_len; /* scope_len is 0 if no key was derived yet */
    int64_t until_ms;
    unsigned char key[SIGNATURE_BYTES];
};
struct signing_secrets {
    size_t count;
    struct signing_secret at[2];
};

/* A credential: the hash of a secret, the name in a certificate, or the name of an access key. */
struct credential {
    struct table_entry entry;
    enum access_kind kind;
    struct signing_secrets *signing; /* NULL unless it is an access key */
    struct access_caller *caller;    /* NULL if revoked */
    _Atomic int64_t shown_ms;        /* time of the last authentication with it; 0: not yet */
    unsigned char hash[TOKEN_HASH_BYTES];
    char name[TOKEN_NAME_BYTES_MAX];
};
TABLE_DECLARE(credentials, struct credential, entry)

/* The tokens as of one read. */
struct book {
    struct credentials secrets, certificates, keys;
    struct credential *all;
    size_t count, token_count;
};

struct access {
    char *tokens_file, *keys_file; /* NULL: no file */
    struct issuer *issuer;         /* NULL: no issuer */
    atomic_bool is_on;
    pthread_rwlock_t lock;        /* protects the book */
    pthread_mutex_t signing_lock; /* protects the derived keys; taken while holding the other one */
    struct book *book;
    struct token_file_mark mark, keys_mark;
    bool was_lost; /* true if at the last check the file was missing, or accessible to others */
    _Atomic uint64_t generation, admitted, reload_failures;
    _Atomic uint64_t refusals[ACCESS_REFUSALS];
};

/* ---- the book ---- */

static void book_free(struct book *book)
{
    if (!book)
        return;
    for (size_t i = 0; i < book->count; i++) {
        struct credential *credential = &book->all[i];
        access_caller_release(credential->caller);
        if (credential->signing)
            explicit_bzero(credential->signing, sizeof *credential->signing);
        free(credential->signing);
    }
    credentials_fini(&book->secrets);
    credentials_fini(&book->certificates);
    credentials_fini(&book->keys);
    free(book->all);
    free(book);
}

static const struct credential *book_find(const struct book *book, enum access_kind kind,
                                          struct slice key)
{
    return credentials_find(kind == ACCESS_TOKEN         ? &book->secrets
                            : kind == ACCESS_CERTIFICATE ? &book->certificates
                                                         : &book->keys,
                            key);
}

static struct signing_secrets *signing_new(const struct token *token)
{
    struct signing_secrets *made = calloc(1, sizeof *made);
    for (size_t i = 0; made && i < token->secret_count; i++) {
        struct signing_secret *secret = &made->at[made->count++];
        secret->len = token->secrets[i].text.len;
        memcpy(secret->text, token->secrets[i].text.at, secret->len);
        secret->until_ms = token->secrets[i].until_ms;
    }
    return made;
}

/* Returns true if the newest secret of `old` is still in the list. If not, clients that
 * authenticated with it are no longer valid. */
static bool signing_goes_on(const struct signing_secrets *old, const struct signing_secrets *now)
{
    for (size_t i = 0; i < now->count; i++)
        if (slice_equals(slice_make(old->at[0].text, old->at[0].len),
                         slice_make(now->at[i].text, now->at[i].len)))
            return true;
    return false;
}

static bool signing_equals(const struct signing_secrets *a, const struct signing_secrets *b)
{
    bool are_equal = a->count == b->count;
    for (size_t i = 0; are_equal && i < a->count; i++)
        are_equal = a->at[i].until_ms == b->at[i].until_ms &&
                    slice_equals(slice_make(a->at[i].text, a->at[i].len),
                                 slice_make(b->at[i].text, b->at[i].len));
    return are_equal;
}

/* Returns the caller of a token that is valid until `until_ms`; reuses the caller of the old book
 * if nothing has changed. */
static struct access_caller *book_caller(const struct token *token, int64_t until_ms,
                                         const struct credential *old)
{
    const struct access_caller like = {.kind = token->kind,
                                       .scopes = token->scopes,
                                       .name = token->name,
                                       .topics = token->topics,
                                       .limits = token->limits,
                                       .ends_ms = token->expires_ms < until_ms ? token->expires_ms
                                                                               : until_ms};
    if (old && old->caller && caller_equals(old->caller, &like))
        return access_caller_hold(old->caller);
    return caller_new(&like);
}

/* Adds a credential. `secret` belongs to a token, otherwise NULL. Returns false when out of
 * memory. */
static bool book_add(struct book *book, const struct token *token,
                     const struct token_secret *secret, const struct book *old)
{
    struct credential *made = &book->all[book->count++];
    struct credentials *into = secret                      ? &book->secrets
                               : token->kind == ACCESS_KEY ? &book->keys
                                                           : &book->certificates;
    made->kind = token->kind;
    memcpy(made->name, token->name.at, token->name.len);
    made->entry.key = slice_make(made->name, token->name.len);
    if (secret) {
        memcpy(made->hash, secret->hash, sizeof made->hash);
        made->entry.key = slice_make(made->hash, sizeof made->hash);
    }
    credentials_add(into, made);
    if (token->revoked_ms != INT64_MAX)
        return true;
    if (token->kind == ACCESS_KEY && !(made->signing = signing_new(token)))
        return false;
    const struct credential *before = book_find(old, made->kind, made->entry.key);
    if (before)
        made->shown_ms = before->shown_ms;
    if (before && before->signing && made->signing &&
        !signing_goes_on(before->signing, made->signing))
        before = NULL;
    made->caller = book_caller(token, secret ? secret->until_ms : INT64_MAX, before);
    return made->caller;
}

static struct book *book_new(const struct token_list *list, const struct book *old)
{
    struct book *book = calloc(1, sizeof *book);
    if (book)
        book->all = calloc(2 * list->count + 1, sizeof *book->all);
    bool ok = book && book->all;
    for (size_t i = 0; ok && i < list->count; i++) {
        const struct token *token = &list->tokens[i];
        if (token->kind != ACCESS_TOKEN)
            ok = book_add(book, token, NULL, old);
        for (size_t k = 0; ok && token->kind == ACCESS_TOKEN && k < token->secret_count; k++)
            ok = book_add(book, token, &token->secrets[k], old);
        book->token_count += token->revoked_ms == INT64_MAX;
    }
    if (ok)
        return book;
    book_free(book);
    return NULL;
}

/* Ends the callers that are not in the new book. */
static void book_end_callers(const struct book *old, const struct book *now)
{
    for (size_t i = 0; i < old->count; i++) {
        const struct credential *credential = &old->all[i];
        const struct credential *found = book_find(now, credential->kind, credential->entry.key);
        if (credential->caller && (!found || found->caller != credential->caller))
            caller_end(credential->caller);
    }
}

/* Counts the differences between two books, by credentials. */
static void book_compare(const struct book *old, const struct book *now,
                         struct access_change *change)
{
    uint32_t kept = 0;
    for (size_t i = 0; i < now->count; i++) {
        const struct credential *credential = &now->all[i];
        const struct credential *before = book_find(old, credential->kind, credential->entry.key);
        bool has_other_secrets = before && before->signing && credential->signing &&
                                 !signing_equals(before->signing, credential->signing);
        change->added += !before;
        change->altered += before && (before->caller != credential->caller || has_other_secrets);
        kept += before != NULL;
    }
    change->removed = (uint32_t)old->count - kept;
    change->total = (uint32_t)now->token_count;
    change->is_changed = change->added || change->altered || change->removed;
}

/* Replaces the tokens. */
static int access_replace(struct access *access, struct slice text, const char *place,
                          struct access_change *change, char *error)
{
    struct token_list list;
    int result = token_list_read(text, place, &list, error);
    if (result != 0)
        return result;
    struct book *old = access->book, *now = book_new(&list, old);
    token_list_fini(&list);
    if (!now)
        return error_result(-ENOMEM, error, ACCESS_ERROR_BYTES, "out of memory");
    struct access_change found = {0};
    book_compare(old, now, &found);
    pthread_rwlock_wrlock(&access->lock);
    access->book = now;
    pthread_rwlock_unlock(&access->lock);
    book_end_callers(old, now);
    if (found.is_changed)
        atomic_fetch_add(&access->generation, 1);
    *change = found;
    book_free(old);
    return 0;
}

/* ---- life ---- */

static bool is_given(const char *text)
{
    return text && text[0];
}

/* Copies the options. Returns false when out of memory. */
static bool copy_options(struct access *access, const struct access_options *options)
{
    const struct access_jwt_options *jwt = &options->jwt;
    access->book = calloc(1, sizeof *access->book);
    access->tokens_file = is_given(options->tokens_file) ? strdup(options->tokens_file) : NULL;
    access->keys_file = is_given(jwt->keys_file) ? strdup(jwt->keys_file) : NULL;
    access->issuer = is_given(jwt->issuer) ? issuer_new(jwt) : NULL;
    return access->book && (access->tokens_file || !is_given(options->tokens_file)) &&
           (access->keys_file || !is_given(jwt->keys_file)) &&
           (access->issuer || !is_given(jwt->issuer));
}

int access_new(const struct access_options *options, struct access **out,
               char error[ACCESS_ERROR_BYTES])
{
    struct access_change change = {0};
    struct access *access = calloc(1, sizeof *access);
    if (!access)
        return error_result(-ENOMEM, error, ACCESS_ERROR_BYTES, "out of memory");
    pthread_rwlock_init(&access->lock, NULL);
    pthread_mutex_init(&access->signing_lock, NULL);
    access->generation = 1;
    int result = copy_options(access, options)
                     ? access_reload(access, true, &change, error)
                     : error_result(-ENOMEM, error, ACCESS_ERROR_BYTES, "out of memory");
    access->is_on = access->tokens_file || access->issuer || options->has_stored_tokens;
    if (result != 0)
        access_free(access);
    else
        *out = access;
    return result;
}

void access_free(struct access *access)
{
    if (!access)
        return;
    if (access->book)
        book_end_callers(access->book, &(struct book){0});
    book_free(access->book);
    issuer_free(access->issuer);
    free(access->tokens_file);
    free(access->keys_file);
    pthread_rwlock_destroy(&access->lock);
    pthread_mutex_destroy(&access->signing_lock);
    free(access);
}

bool access_is_on(const struct access *access)
{
    return atomic_load_explicit(&access->is_on, memory_order_relaxed);
}

uint64_t access_generation(const struct access *access)
{
    return atomic_load_explicit(&access->generation, memory_order_acquire);
}

/* ---- authentication ---- */

const char *access_refusal_name(enum access_refusal refusal)
{
    static const char *const names[ACCESS_REFUSALS] = {[ACCESS_OK] = "none",
                                                       [ACCESS_MISSING] = "missing",
                                                       [ACCESS_MALFORMED] = "malformed",
                                                       [ACCESS_UNKNOWN] = "unknown",
                                                       [ACCESS_REVOKED] = "revoked",
                                                       [ACCESS_EXPIRED] = "expired",
                                                       [ACCESS_FORGED] = "forged",
                                                       [ACCESS_UNKNOWN_KEY] = "unknown_key",
                                                       [ACCESS_CLAIMS] = "claims",
                                                       [ACCESS_SKEW] = "skew",
                                                       [ACCESS_UNAVAILABLE] = "unavailable"};
    return names[refusal];
}

const char *access_challenge(enum access_refusal refusal)
{
    return refusal == ACCESS_MISSING ? "Bearer realm=\"tarry\""
                                     : "Bearer realm=\"tarry\", error=\"invalid_token\"";
}

/* Returns a reference to the caller of a credential. */
static enum access_refusal admit_credential(struct credential *credential, int64_t now_ms,
                                            struct access_caller **caller)
{
    if (!credential)
        return ACCESS_UNKNOWN;
    if (!credential->caller)
        return ACCESS_REVOKED;
    if (credential->caller->ends_ms <= now_ms)
        return ACCESS_EXPIRED;
    atomic_store_explicit(&credential->shown_ms, now_ms, memory_order_relaxed);
    *caller = access_caller_hold(credential->caller);
    return ACCESS_OK;
}

static enum access_refusal admit_token(struct access *access, struct slice token, int64_t now_ms,
                                       struct access_caller **caller)
{
    unsigned char hash[TOKEN_HASH_BYTES];
    token_hash(token, hash);
    pthread_rwlock_rdlock(&access->lock);
    enum access_refusal refusal = admit_credential(
        credentials_find(&access->book->secrets, slice_make(hash, sizeof hash)), now_ms, caller);
    pthread_rwlock_unlock(&access->lock);
    return refusal;
}

/* Authenticates a token of tarry, or of the issuer. */
static enum access_refusal admit_secret(struct access *access, struct slice text, int64_t now_ms,
                                        struct access_caller **caller)
{
    if (access->issuer && jwt_is_formed(text))
        return issuer_admit(access->issuer, text, now_ms, caller);
    return admit_token(access, text, now_ms, caller);
}

static enum access_refusal admit_certificate(struct access *access, struct slice name,
                                             int64_t now_ms, struct access_caller **caller)
{
    pthread_rwlock_rdlock(&access->lock);
    enum access_refusal refusal =
        admit_credential(credentials_find(&access->book->certificates, name), now_ms, caller);
    pthread_rwlock_unlock(&access->lock);
    return refusal;
}

/* Finds the text after "Bearer " or "Basic ", in upper or lower case. */
static bool has_scheme(struct slice header, const char *scheme, struct slice *rest)
{
    size_t len = strlen(scheme);
    if (header.len <= len || strncasecmp(header.at, scheme, len) != 0 || header.at[len] != ' ')
        return false;
    *rest = slice_make(header.at + len, header.len - len);
    while (rest->len && rest->at[0] == ' ')
        *rest = slice_make(rest->at + 1, rest->len - 1);
    return rest->len;
}

static enum access_refusal admit_header(struct access *access, const struct access_asked *asked,
                                        struct access_caller **caller)
{
    struct slice rest, header = asked->authorization;
    if (header.len > ACCESS_HEADER_BYTES_MAX)
        return ACCESS_MALFORMED;
    if (has_scheme(header, "Bearer", &rest))
        return admit_secret(access, rest, asked->now_ms, caller);
    if (!has_scheme(header, "Basic", &rest))
        return ACCESS_MALFORMED;
    struct buffer pair;
    enum access_refusal refusal = ACCESS_MALFORMED;
    buffer_init(&pair, ACCESS_HEADER_BYTES_MAX);
    if (text_base64_decode(rest, &pair)) {
        const char *colon = pair.len ? memchr(pair.at, ':', pair.len) : NULL;
        size_t user = colon ? (size_t)(colon - pair.at) + 1 : 0;
        if (colon)
            refusal =
                admit_secret(access, slice_make(colon + 1, pair.len - user), asked->now_ms, caller);
    }
    buffer_fini(&pair);
    return refusal;
}

/* Admits the owner of an unlisted certificate. Without a list, every certificate that the CA signed
 * has all rights. */
static enum access_refusal admit_unlisted(struct slice name, struct access_caller **caller)
{
    *caller = caller_new(&(struct access_caller){.kind = ACCESS_CERTIFICATE,
                                                 .scopes = ACCESS_SCOPES_ALL,
                                                 .name = name,
                                                 .topics = slice_of("*"),
                                                 .ends_ms = INT64_MAX,
                                                 .is_unlisted = true});
    return *caller ? ACCESS_OK : ACCESS_UNAVAILABLE;
}

static enum access_refusal admit(struct access *access, const struct access_asked *asked,
                                 struct access_caller **caller)
{
    bool is_on = access_is_on(access);
    if (!is_on && asked->certificate.len)
        return admit_unlisted(asked->certificate, caller);
    if (is_on && asked->authorization.at)
        return admit_header(access, asked, caller);
    if (is_on && asked->certificate.len) {
        enum access_refusal refusal =
            admit_certificate(access, asked->certificate, asked->now_ms, caller);
        if (refusal != ACCESS_UNKNOWN || asked->needs_caller)
            return refusal;
    }
    if (asked->needs_caller)
        return ACCESS_MISSING;
    *caller = access_anyone();
    return ACCESS_OK;
}

enum access_refusal access_admit(struct access *access, const struct access_asked *asked,
                                 struct access_caller **caller)
{
    enum access_refusal refusal = admit(access, asked, caller);
    atomic_fetch_add_explicit(refusal ? &access->refusals[refusal] : &access->admitted, 1,
                              memory_order_relaxed);
    return refusal;
}

/* ---- signatures ---- */

bool access_has_keys(struct access *access)
{
    pthread_rwlock_rdlock(&access->lock);
    bool has_keys = access->book->keys.table.count > 0;
    pthread_rwlock_unlock(&access->lock);
    return has_keys;
}

/* Copies the key of a secret for the signature's day; derives it only when the day changes. */
static bool signing_key(struct access *access, struct signing_secret *secret,
                        const struct signature *signature, unsigned char out[SIGNATURE_BYTES])
{
    struct slice scope = signature->scope;
    pthread_mutex_lock(&access->signing_lock);
    bool is_there =
        secret->scope_len && slice_equals(slice_make(secret->scope, secret->scope_len), scope);
    if (!is_there)
        secret->scope_len = 0; /* stays 0 if the derivation fails */
    if (!is_there && signature_key(slice_make(secret->text, secret->len), signature, secret->key)) {
        is_there = true;
        secret->scope_len = scope.len <= sizeof secret->scope ? scope.len : 0;
        memcpy(secret->scope, scope.at, secret->scope_len);
    }
    memcpy(out, secret->key, SIGNATURE_BYTES);
    pthread_mutex_unlock(&access->signing_lock);
    return is_there;
}

struct signing_keys {
    size_t count;
    unsigned char at[2][SIGNATURE_BYTES];
};

/* Copies the keys of all currently valid secrets. Returns false if the access key does not exist or
 * was revoked. */
static bool signing_keys_of(struct access *access, const struct signature *signature,
                            int64_t now_ms, struct signing_keys *out)
{
    out->count = 0;
    pthread_rwlock_rdlock(&access->lock);
    struct credential *credential = credentials_find(&access->book->keys, signature->key_id);
    struct signing_secrets *secrets = credential ? credential->signing : NULL;
    for (size_t i = 0; secrets && i < secrets->count; i++)
        if (now_ms < secrets->at[i].until_ms &&
            signing_key(access, &secrets->at[i], signature, out->at[out->count]))
            out->count++;
    pthread_rwlock_unlock(&access->lock);
    return secrets != NULL;
}

/* Checks the signature of a request. The body may be long, so no lock is held while its digest is
 * computed. */
static enum access_refusal admit_signature(struct access *access, const struct signature *signature,
                                           const struct access_signed *asked,
                                           struct access_caller **caller, const char **why)
{
    struct signing_keys keys;
    bool is_known = signing_keys_of(access, signature, asked->now_ms, &keys);
    bool holds = !is_known || !asked->is_whole;
    for (size_t i = 0; !holds && i < keys.count; i++)
        holds = signature_holds(signature, asked->request, keys.at[i]);
    explicit_bzero(&keys, sizeof keys);
    if (!holds) {
        *why = "The request signature we calculated does not match the signature you provided. "
               "Check your AWS Secret Access Key and signing method.";
        return ACCESS_FORGED;
    }
    pthread_rwlock_rdlock(&access->lock);
    enum access_refusal refusal = admit_credential(
        credentials_find(&access->book->keys, signature->key_id), asked->now_ms, caller);
    pthread_rwlock_unlock(&access->lock);
    *why = "The security token included in the request is invalid.";
    return refusal;
}

static enum access_refusal admit_signed(struct access *access, const struct access_signed *asked,
                                        struct access_caller **caller, const char **why)
{
    struct signature signature;
    int64_t signed_ms;
    if (asked->authorization.len > ACCESS_HEADER_BYTES_MAX) {
        *why = "The Authorization header is too long.";
        return ACCESS_MALFORMED;
    }
    if (!signature_parse(asked->authorization, &signature, why) ||
        !signature_time(&signature, asked->request, &signed_ms, why) ||
        !signature_covers(&signature, asked->request, why))
        return ACCESS_MALFORMED;
    if (!slice_is(signature.region, asked->region) ||
        !slice_is(signature.service, asked->service)) {
        *why = slice_is(signature.region, asked->region)
                   ? "Credential should be scoped to correct service."
                   : "Credential should be scoped to a valid region.";
        return ACCESS_CLAIMS;
    }
    if (signed_ms < asked->now_ms - SIGNATURE_WINDOW_MS ||
        signed_ms > asked->now_ms + SIGNATURE_WINDOW_MS) {
        *why = signed_ms < asked->now_ms
                   ? "Signature expired: X-Amz-Date is more than 15 minutes ago."
                   : "Signature not yet current: X-Amz-Date is more than 15 minutes ahead.";
        return ACCESS_SKEW;
    }
    return admit_signature(access, &signature, asked, caller, why);
}

enum access_refusal access_admit_signed(struct access *access, const struct access_signed *asked,
                                        struct access_caller **caller, const char **why)
{
    enum access_refusal refusal = admit_signed(access, asked, caller, why);
    atomic_fetch_add_explicit(refusal ? &access->refusals[refusal] : &access->admitted, 1,
                              memory_order_relaxed);
    return refusal;
}

/* ---- is a caller still valid ---- */

bool access_holds(struct access *access, const struct access_caller *caller, int64_t now_ms)
{
    if (caller->kind == ACCESS_ANYONE || caller->is_unlisted)
        return !access_is_on(access);
    if (caller->kind == ACCESS_JWT && !issuer_holds(access->issuer, caller))
        return false;
    return !caller_has_ended(caller) && now_ms < caller->ends_ms;
}

static int64_t credential_used_ms(const struct credential *credential)
{
    int64_t shown_ms = atomic_load_explicit(&credential->shown_ms, memory_order_relaxed);
    int64_t used_ms = caller_used_ms(credential->caller);
    return used_ms > shown_ms ? used_ms : shown_ms;
}

/* Lists the credentials. The secrets of a token are adjacent, the newest first. */
size_t access_list(struct access *access,
                   void (*each)(void *ctx, const struct access_caller *caller, int64_t used_ms),
                   void *ctx)
{
    size_t count = 0;
    int64_t used_ms = 0;
    const struct access_caller *first = NULL; /* of the secrets of one token */
    pthread_rwlock_rdlock(&access->lock);
    const struct book *book = access->book;
    for (size_t i = 0; i < book->count; i++) {
        const struct credential *credential = &book->all[i];
        const struct access_caller *caller = credential->caller;
        if (!caller)
            continue;
        if (!first || first->kind != caller->kind || !slice_equals(first->name, caller->name)) {
            if (first)
                each(ctx, first, used_ms);
            first = caller;
            used_ms = 0;
            count++;
        }
        int64_t at_ms = credential_used_ms(credential);
        if (at_ms > used_ms)
            used_ms = at_ms;
    }
    if (first)
        each(ctx, first, used_ms);
    pthread_rwlock_unlock(&access->lock);
    return count;
}

/* ---- changes ---- */

static bool is_lost(int result)
{
    return result == -ENOENT || result == -ENOTDIR || result == -EPERM || result == -EACCES;
}

/* Reads the file of tokens. If it is missing or accessible to others, it counts as empty only at
 * the second check, because an editor may be about to replace it. */
static int reload_tokens(struct access *access, bool is_forced, struct access_change *change,
                         char *error)
{
    char ignored[ACCESS_ERROR_BYTES];
    struct buffer text;
    buffer_init(&text, TOKEN_LIST_BYTES_MAX + 1);
    int result = token_file_read(access->tokens_file, &text, &access->mark, error);
    if (result == 0) {
        access->was_lost = false;
        result = access_replace(access, buffer_slice(&text), access->tokens_file, change, error);
        if (text.at)
            explicit_bzero(text.at, text.cap);
    } else if (is_lost(result)) {
        if (access->was_lost || is_forced)
            access_replace(access, slice_of(""), access->tokens_file, change, ignored);
        access->was_lost = true;
    }
    buffer_fini(&text);
    return result;
}

/* Reads the public keys. Other users may read the file, but not change it. */
static int reload_keys(struct access *access, struct access_change *change, char *error)
{
    struct buffer text;
    buffer_init(&text, JWT_KEYS_BYTES_MAX + 1);
    int result = token_file_read_public(access->keys_file, &text, &access->keys_mark, error);
    if (result == 0)
        result = access_set_jwt_keys(access, buffer_slice(&text), access->keys_file, change, error);
    buffer_fini(&text);
    return result;
}

int access_reload(struct access *access, bool is_forced, struct access_change *change,
                  char error[ACCESS_ERROR_BYTES])
{
    int result = 0, result_of_keys = 0;
    *change = (struct access_change){.total = (uint32_t)access->book->token_count};
    if (access->tokens_file && (is_forced || access->was_lost ||
                                token_file_has_changed(access->tokens_file, &access->mark)))
        result = reload_tokens(access, is_forced, change, error);
    if (access->keys_file &&
        (is_forced || token_file_has_changed(access->keys_file, &access->keys_mark)))
        result_of_keys = reload_keys(access, change, error);
    result = result ? result : result_of_keys;
    if (result != 0)
        atomic_fetch_add(&access->reload_failures, 1);
    return result;
}

int access_set_jwt_keys(struct access *access, struct slice text, const char *place,
                        struct access_change *change, char error[ACCESS_ERROR_BYTES])
{
    bool is_changed = false;
    int result = issuer_set_keys(access->issuer, text, place, &is_changed, error);
    if (is_changed) {
        change->is_changed = change->has_new_keys = true;
        atomic_fetch_add(&access->generation, 1);
    }
    return result;
}

bool access_wants_jwt_keys(struct access *access)
{
    return access->issuer && issuer_wants_keys(access->issuer);
}

int access_set_tokens(struct access *access, struct slice text, struct access_change *change,
                      char error[ACCESS_ERROR_BYTES])
{
    *change = (struct access_change){0};
    int result = access_replace(access, text, "the store's tokens", change, error);
    if (result != 0)
        atomic_fetch_add(&access->reload_failures, 1);
    else if (change->total)
        access->is_on = true;
    return result;
}

/* ---- metrics ---- */

enum { TOKENS, JWT_KEYS, CHANGES, RELOAD_FAILURES, REFUSALS };

void access_emit_metrics(struct access *access, struct metric_page *page)
{
    pthread_rwlock_rdlock(&access->lock);
    size_t tokens = access->book->token_count;
    pthread_rwlock_unlock(&access->lock);
    metric_write(page, &access_metrics[TOKENS], tokens);
    metric_write(page, &access_metrics[JWT_KEYS],
                 access->issuer ? issuer_key_count(access->issuer) : 0);
    metric_write(page, &access_metrics[CHANGES], access_generation(access));
    metric_write(page, &access_metrics[RELOAD_FAILURES], access->reload_failures);
    metric_begin(page, &access_metrics[REFUSALS]);
    for (int refusal = ACCESS_OK + 1; refusal < ACCESS_REFUSALS; refusal++)
        metric_sample(page,
                      METRIC_LABELS(slice_of(access_refusal_name((enum access_refusal)refusal))),
                      access->refusals[refusal]);
}

const struct metric access_metrics[] = {
    [TOKENS] = {.name = "tarry_access_tokens",
                .type = PROMETHEUS_GAUGE,
                .help = "Valid tokens and certificates.",
                .meaning = "Falls when tokens end or are revoked. 0 with `--tokens`: no client can "
                           "call; look for `tokens not read` in the log."},
    [JWT_KEYS] = {.name = "tarry_access_jwt_keys",
                  .type = PROMETHEUS_GAUGE,
                  .help = "Usable keys of the issuer of JWTs.",
                  .meaning = "0 with `--jwt-issuer`: no JWT is accepted. Check whether the issuer "
                             "can be reached; the log has the reason."},
    [CHANGES] = {.name = "tarry_access_changes_total",
                 .type = PROMETHEUS_COUNTER,
                 .help = "Changes of the list of callers.",
                 .meaning = "Rises with each new token, revocation and change of keys. If the "
                            "change is not yours, read the audit."},
    [RELOAD_FAILURES] = {.name = "tarry_access_reload_failures_total",
                         .type = PROMETHEUS_COUNTER,
                         .help = "Failed attempts to read tokens or keys again.",
                         .meaning =
                             "Alert on it: the old ones stay in force, so a revoked token still "
                             "works. The log names the file or URL and the fault."},
    [REFUSALS] = {.name = "tarry_access_refusals_total",
                  .type = PROMETHEUS_COUNTER,
                  .labels = {"reason"},
                  .help = "Requests without a valid caller, by reason.",
                  .meaning = "Rises by `expired` or `revoked`: a client has an old token; by "
                             "`unknown` or `forged` on a network that others can reach: a possible "
                             "attack. See [security.md](security.md)."},
    METRIC_END};
