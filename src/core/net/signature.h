/*
 * signature: AWS Signature Version 4, with which AWS SDKs prove that they have a secret without
 * sending it. The signature is an HMAC over method, path, query, some headers and the body. Its key
 * is derived from the secret for one day, region and service. Pure.
 *
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
 *
 * The path is signed as it was sent, encoded once more, without normalization. Presigned URLs,
 * chunked signatures of the body and Signature Version 4A are not supported.
 */
#ifndef TARRY_NET_SIGNATURE_H
#define TARRY_NET_SIGNATURE_H

#include "base/buffer.h"

enum {
    SIGNATURE_BYTES = 32, /* of a key, of a digest and of the signature itself */
    SIGNATURE_WINDOW_MS = 15 * 60 * 1000,
    SIGNATURE_HEADERS_MAX = 64, /* signed headers */
    SIGNATURE_PAIRS_MAX = 32,   /* parameters of a query */
    SIGNATURE_TIME_BYTES = 16,  /* "20150830T123600Z" */
    SIGNATURE_SECRET_BYTES_MAX = 128
};

/* The parts of the Authorization header; slices of it. */
struct signature {
    struct slice key_id;
    struct slice scope; /* "20150830/us-east-1/sqs/aws4_request" */
    struct slice day, region, service;
    struct slice headers; /* "content-type;host;x-amz-date" */
    unsigned char bytes[SIGNATURE_BYTES];
};

/* Returns true if the header claims to be an AWS signature, of any version. */
bool signature_is_claimed(struct slice header);
/* Parses the header. If it returns false, *why is a sentence that names the missing part. */
bool signature_parse(struct slice header, struct signature *out, const char **why);

/* A request as received. `next_header` returns the header at `index`, which rises from 0, or false
 * at the end. */
struct signature_request {
    struct slice method, path, query, body;
    const void *headers;
    bool (*next_header)(const void *headers, size_t index, struct slice *name, struct slice *value);
};

/* Reads the time of the signature from X-Amz-Date, which has to be on the signature's day. Returns
 * false with *why as above. */
bool signature_time(const struct signature *signature, const struct signature_request *request,
                    int64_t *ms, const char **why);
/* Checks that all required headers are signed: the host and every header that begins with x-amz-.
 * Returns false with *why as above. */
bool signature_covers(const struct signature *signature, const struct signature_request *request,
                      const char **why);

/* Appends the canonical request, as described on the page above, to `out`. Returns false when out
 * of memory, or if it cannot be built (a signed header is missing, or there are too many parts). */
bool signature_canonical(const struct signature *signature, const struct signature_request *request,
                         struct buffer *out);
/* Derives the key of a secret for a day, region and service. Returns false if the secret is too
 * long or the library failed. */
bool signature_key(struct slice secret, const struct signature *signature,
                   unsigned char out[SIGNATURE_BYTES]);
/* Computes the signature of the canonical request with that key. Returns false when out of
 * memory. */
bool signature_make(const unsigned char key[SIGNATURE_BYTES], const struct signature *signature,
                    struct slice time, struct slice canonical, unsigned char out[SIGNATURE_BYTES]);

/* Returns true if the request was signed with this key. The comparison takes constant time. */
bool signature_holds(const struct signature *signature, const struct signature_request *request,
                     const unsigned char key[SIGNATURE_BYTES]);

#endif
