/*
 * signature: AWS Signature Version 4, by which SDKs of AWS prove that they have a secret without sending it:
 * an HMAC over method, path, query, some headers and the body, with a key made of the secret for one day,
 * region and service. Pure.
 *
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
 *
 * The path is signed as it was sent, encoded once more; nothing in it is normalised. Presigned URLs,
 * signatures of the body in pieces and Signature Version 4A are none.
 */
#ifndef TARRY_ACCESS_SIGNATURE_H
#define TARRY_ACCESS_SIGNATURE_H

#include "base/buffer.h"

enum {
    SIGNATURE_BYTES = 32, /* of a key, a digest and the signature itself */
    SIGNATURE_WINDOW_MS = 15 * 60 * 1000,
    SIGNATURE_HEADERS_MAX = 64, /* that are signed */
    SIGNATURE_PAIRS_MAX = 32,   /* of a query */
    SIGNATURE_TIME_BYTES = 16,  /* "20150830T123600Z" */
    SIGNATURE_SECRET_BYTES_MAX = 128
};

/* The header Authorization in its parts; slices of it. */
struct signature {
    struct slice key_id;
    struct slice scope; /* "20150830/us-east-1/sqs/aws4_request" */
    struct slice day, region, service;
    struct slice headers; /* "content-type;host;x-amz-date" */
    unsigned char bytes[SIGNATURE_BYTES];
};

/* Does it say that it is one, of any version? */
bool signature_is_claimed(struct slice header);
/* False: *why (a sentence) says what it lacks. */
bool signature_parse(struct slice header, struct signature *out, const char **why);

/* A request as it came. `next_header`: the one at `index`, which rises from 0; false: there are no more. */
struct signature_request {
    struct slice method, path, query, body;
    const void *headers;
    bool (*next_header)(const void *headers, size_t index, struct slice *name, struct slice *value);
};

/* When it was signed, by X-Amz-Date, which lies on the signature's day. False as above. */
bool signature_time(const struct signature *signature, const struct signature_request *request,
                    int64_t *ms, const char **why);
/* Is all signed that must be: the host and every header that begins with x-amz-? False as above. */
bool signature_covers(const struct signature *signature, const struct signature_request *request,
                      const char **why);

/* The canonical request, as the page above describes it, appended to `out`. False: it cannot be made (a
 * header that is signed is not there, too many parts), or no memory. */
bool signature_canonical(const struct signature *signature, const struct signature_request *request,
                         struct buffer *out);
/* The key of a secret for a day, region and service. False: it is too long, or the library failed. */
bool signature_key(struct slice secret, const struct signature *signature,
                   unsigned char out[SIGNATURE_BYTES]);
/* What the signature of the canonical request by that key is. False: no memory. */
bool signature_make(const unsigned char key[SIGNATURE_BYTES], const struct signature *signature,
                    struct slice time, struct slice canonical, unsigned char out[SIGNATURE_BYTES]);

/* Is the request signed with this key? Takes as long wherever the two differ. */
bool signature_holds(const struct signature *signature, const struct signature_request *request,
                     const unsigned char key[SIGNATURE_BYTES]);

#endif
