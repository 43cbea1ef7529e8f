/* Stubs for a build without JWTs: there is no issuer, and no text counts as a JWT. */
#include "access/jwt.h"
#include "access/issuer.h"
#include "base/feature.h"

#include <errno.h>

bool jwt_is_formed(struct slice text)
{
    (void)text;
    return false;
}

struct issuer *issuer_new(const struct access_jwt_options *options)
{
    (void)options;
    return NULL;
}

void issuer_free(struct issuer *issuer)
{
    (void)issuer;
}

int issuer_set_keys(struct issuer *issuer, struct slice text, const char *place, bool *is_changed,
                    char *error)
{
    (void)issuer;
    (void)text;
    (void)place;
    (void)is_changed;
    (void)feature_missing("jwt", error, ACCESS_ERROR_BYTES);
    return -EOPNOTSUPP;
}

size_t issuer_key_count(struct issuer *issuer)
{
    (void)issuer;
    return 0;
}

enum access_refusal issuer_admit(struct issuer *issuer, struct slice text, int64_t now_ms,
                                 struct access_caller **caller)
{
    (void)issuer;
    (void)text;
    (void)now_ms;
    (void)caller;
    return ACCESS_UNKNOWN;
}

bool issuer_holds(const struct issuer *issuer, const struct access_caller *caller)
{
    (void)issuer;
    (void)caller;
    return false;
}

bool issuer_wants_keys(struct issuer *issuer)
{
    (void)issuer;
    return false;
}
