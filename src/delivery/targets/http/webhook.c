#include "targets/http/webhook.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIGEST_BYTES = 32 };

/* The keys of one name. */
struct signer {
    struct signer *next;
    size_t count;
    EVP_MAC_CTX *macs[GUARD_KEYS_MAX]; /* one per key */
    char name[GUARD_NAME_BYTES_MAX + 1];
};

struct webhook {
    struct guard *guard;
    uint64_t generation; /* the guard's generation when the signers were made */
    struct signer *signers;
    struct message_id ids;
};

/* ---- one key ---- */

/* Creates an HMAC-SHA256 with this key, as a template for copies. Returns NULL when out of
 * memory. */
static EVP_MAC_CTX *new_mac(const struct guard_key *key)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *mac = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
    EVP_MAC_free(hmac);
    if (mac && EVP_MAC_init(mac, key->key, key->bytes, params) == 1)
        return mac;
    EVP_MAC_CTX_free(mac);
    return NULL;
}

static bool mac_add(EVP_MAC_CTX *mac, const void *bytes, size_t len)
{
    return len == 0 || EVP_MAC_update(mac, bytes, len) == 1;
}

/* Writes "v1,BASE64", NUL-terminated; returns its length, or 0 when out of memory. */
static size_t mac_sign(EVP_MAC_CTX *mac, struct slice id, int64_t timestamp_s, struct slice body,
                       char *out)
{
    unsigned char digest[DIGEST_BYTES];
    size_t digest_bytes = 0;
    char between[32];
    int len = snprintf(between, sizeof between, ".%" PRId64 ".", timestamp_s);
    if (EVP_MAC_init(mac, NULL, 0, NULL) != 1 || !mac_add(mac, id.at, id.len) ||
        !mac_add(mac, between, (size_t)len) || !mac_add(mac, body.at, body.len) ||
        EVP_MAC_final(mac, digest, &digest_bytes, sizeof digest) != 1)
        return 0;
    assert(digest_bytes == sizeof digest);
    memcpy(out, "v1,", 3);
    return 3 + (size_t)EVP_EncodeBlock((unsigned char *)out + 3, digest, DIGEST_BYTES);
}

bool webhook_sign_with(const struct guard_key *key, struct slice id, int64_t timestamp_s,
                       struct slice body, char out[WEBHOOK_SIGNATURE_BYTES])
{
    EVP_MAC_CTX *mac = new_mac(key);
    bool is_signed = mac && mac_sign(mac, id, timestamp_s, body, out) > 0;
    EVP_MAC_CTX_free(mac);
    return is_signed;
}

/* ---- the keys of a name ---- */

static void free_signer(struct signer *signer)
{
    for (size_t i = 0; i < signer->count; i++)
        EVP_MAC_CTX_free(signer->macs[i]);
    free(signer);
}

static void drop_signers(struct webhook *webhook)
{
    while (webhook->signers) {
        struct signer *next = webhook->signers->next;
        free_signer(webhook->signers);
        webhook->signers = next;
    }
}

/* Creates a signer with all keys of a name. Each of them signs, so that a key can be rotated
 * without a gap. */
static struct signer *new_signer(struct slice name, const struct guard_key *keys, size_t count)
{
    struct signer *signer = calloc(1, sizeof *signer);
    if (!signer)
        return NULL;
    assert(name.len < sizeof signer->name);
    memcpy(signer->name, name.at, name.len);
    for (; signer->count < count; signer->count++)
        if (!(signer->macs[signer->count] = new_mac(&keys[signer->count]))) {
            free_signer(signer);
            return NULL;
        }
    return signer;
}

/* Finds a signer; *out is NULL if there is no such key. Returns false when out of memory. */
static bool find_signer(struct webhook *webhook, struct slice name, struct signer **out)
{
    struct guard_key keys[GUARD_KEYS_MAX];
    uint64_t generation = guard_generation(webhook->guard);
    if (webhook->generation != generation)
        drop_signers(webhook);
    webhook->generation = generation;
    for (*out = webhook->signers; *out; *out = (*out)->next)
        if (slice_is(name, (*out)->name))
            return true;
    size_t count = guard_find_keys(webhook->guard, name, keys);
    if (count == 0)
        return true;
    *out = new_signer(name, keys, count);
    explicit_bzero(keys, sizeof keys);
    if (!*out)
        return false;
    (*out)->next = webhook->signers;
    webhook->signers = *out;
    return true;
}

/* ---- a message ---- */

/* Writes the signatures of all keys of a name, separated by blanks. */
static bool sign_by_all(const struct signer *signer, const struct job *job,
                        struct webhook_headers *out)
{
    size_t len = 0;
    for (size_t i = 0; i < signer->count; i++) {
        if (i > 0)
            out->signature[len++] = ' ';
        size_t more = mac_sign(signer->macs[i], slice_of(out->id), out->timestamp_s, job->body,
                               out->signature + len);
        if (more == 0)
            return false;
        len += more;
    }
    assert(len < sizeof out->signature);
    return true;
}

enum webhook_result webhook_sign(struct webhook *webhook, const struct target_setting *setting,
                                 const struct job *job, int64_t now_s, struct webhook_headers *out)
{
    bool is_named = setting->sign && setting->sign[0];
    struct slice name = slice_of(is_named ? setting->sign : "default");
    struct signer *signer;
    out->timestamp_s = now_s;
    out->signature[0] = 0;
    if (!message_id_write(&webhook->ids, job, out->id))
        return WEBHOOK_FAILED;
    if (setting->never_signs)
        return WEBHOOK_UNSIGNED;
    if (!find_signer(webhook, name, &signer))
        return WEBHOOK_FAILED;
    if (!signer)
        return is_named ? WEBHOOK_NO_KEY : WEBHOOK_UNSIGNED;
    return sign_by_all(signer, job, out) ? WEBHOOK_SIGNED : WEBHOOK_FAILED;
}

/* ---- life ---- */

struct webhook *webhook_new(struct guard *guard, const char *(*store_name)(void *store),
                            void *store)
{
    struct webhook *webhook = calloc(1, sizeof *webhook);
    if (!webhook)
        return NULL;
    webhook->guard = guard;
    if (message_id_init(&webhook->ids, store_name, store))
        return webhook;
    webhook_free(webhook);
    return NULL;
}

void webhook_free(struct webhook *webhook)
{
    if (!webhook)
        return;
    drop_signers(webhook);
    message_id_fini(&webhook->ids);
    free(webhook);
}
