/*
 * webhook: signs HTTP deliveries according to Standard Webhooks 1.0.
 *
 *   webhook-id          identifies the message (targets/message_id.h)
 *   webhook-timestamp   seconds since 1970, of this attempt
 *   webhook-signature   "v1,BASE64" for each key, separated by blanks: HMAC-SHA256 over
 *                       ID.TIMESTAMP.BODY
 *
 * The topic and the job ID are not used directly: they may contain a '.', which separates the
 * signed parts.
 *
 * Used on its owner's thread; the owner is the code that called webhook_new. Keys are stored only
 * in OpenSSL contexts, which are reused for further messages and recreated after the policy was
 * read again.
 */
#ifndef TARRY_TARGETS_WEBHOOK_H
#define TARRY_TARGETS_WEBHOOK_H

#include "guard/guard.h"
#include "job/job.h"
#include "targets/message_id.h"
#include "targets/setting.h"

enum {
    WEBHOOK_ID_BYTES = MESSAGE_ID_BYTES,
    /* "v1,", 44 bytes of base64, and a blank or the end for each. */
    WEBHOOK_SIGNATURE_BYTES = GUARD_KEYS_MAX * (3 + 44 + 1)
};

enum webhook_result {
    WEBHOOK_SIGNED = 1,
    WEBHOOK_UNSIGNED, /* signing is off, or no key is named and there is no key "default" */
    WEBHOOK_NO_KEY,   /* the named key does not exist: do not send */
    WEBHOOK_FAILED    /* out of memory */
};

struct webhook_headers { /* NUL-terminated texts */
    char id[WEBHOOK_ID_BYTES];
    int64_t timestamp_s;
    char signature[WEBHOOK_SIGNATURE_BYTES]; /* empty unless signed */
};

struct webhook;
/* Creates a signer. `store_name` (or NULL) is called for each message. `guard` outlives it. Returns
 * NULL when out of memory. */
struct webhook *webhook_new(struct guard *guard, const char *(*store_name)(void *store),
                            void *store);
void webhook_free(struct webhook *webhook);

/* Computes the headers for this attempt of `job`, whose body is sent unchanged. `out` is complete
 * unless the result is FAILED. */
enum webhook_result webhook_sign(struct webhook *webhook, const struct target_setting *setting,
                                 const struct job *job, int64_t now_s, struct webhook_headers *out);

/* Signs `id` and `body` with one key: "v1,BASE64". The primitive of webhook_sign. */
bool webhook_sign_with(const struct guard_key *key, struct slice id, int64_t timestamp_s,
                       struct slice body, char out[WEBHOOK_SIGNATURE_BYTES]);

#endif
