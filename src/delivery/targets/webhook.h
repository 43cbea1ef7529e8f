/*
 * webhook: signs what is delivered by HTTP, as Standard Webhooks 1.0 wants it.
 *
 *   webhook-id          names the message: the same for all attempts of a job, so that a receiver
 *                       can tell a repetition; another one where an id is pushed anew
 *   webhook-timestamp   seconds since 1970, of this attempt
 *   webhook-signature   "v1,BASE64" for each key, a blank between: HMAC-SHA256 over
 *                       ID.TIMESTAMP.BODY
 *
 * The id is "msg_" and 32 hexadecimal digits, a digest of the store's name, topic, id and push
 * number: another store counts its pushes from the beginning again, for the same topics. It is not
 * topic and id themselves: they may hold a '.', which separates what is signed, and an id may be
 * used again once its job is gone; a receiver that drops repetitions would drop the new job.
 *
 * Thread: its owner's. Owner: webhook_new's caller. Keys are in OpenSSL's contexts alone, kept for
 * the next message, and made anew after the policy was read again.
 */
#ifndef TARRY_TARGETS_WEBHOOK_H
#define TARRY_TARGETS_WEBHOOK_H

#include "guard/guard.h"
#include "job/job.h"
#include "targets/setting.h"

enum {
    WEBHOOK_ID_BYTES = 4 + 32 + 1,
    /* "v1,", 44 of base64 and a blank or the end for each. */
    WEBHOOK_SIGNATURE_BYTES = GUARD_KEYS_MAX * (3 + 44 + 1)
};

enum webhook_result {
    WEBHOOK_SIGNED = 1,
    WEBHOOK_UNSIGNED, /* the setting wants none, or names none and there is no key "default" */
    WEBHOOK_NO_KEY,   /* the setting names a key that is not there: do not send */
    WEBHOOK_FAILED    /* out of memory */
};

struct webhook_headers { /* text that ends with a zero byte */
    char id[WEBHOOK_ID_BYTES];
    int64_t timestamp_s;
    char signature[WEBHOOK_SIGNATURE_BYTES]; /* empty unless signed */
};

struct webhook;
/* `store_name` (or NULL) is asked for each message. NULL: out of memory. `guard` outlives it. */
struct webhook *webhook_new(struct guard *guard, const char *(*store_name)(void *store),
                            void *store);
void webhook_free(struct webhook *webhook);

/* Headers for this attempt of `job`, whose body is sent as it is. `out` is whole, but for FAILED.
 */
enum webhook_result webhook_sign(struct webhook *webhook, const struct target_setting *setting,
                                 const struct job *job, int64_t now_s, struct webhook_headers *out);

/* What webhook_sign is made of: `id` and `body` signed by one key, "v1,BASE64". */
bool webhook_sign_with(const struct guard_key *key, struct slice id, int64_t timestamp_s,
                       struct slice body, char out[WEBHOOK_SIGNATURE_BYTES]);

#endif
