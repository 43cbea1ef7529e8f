#include "base/feature.h"

#include "base/error.h"
#include "base/feature_rows.h"

#include <assert.h>
#include <string.h>

static const struct feature features[] = {
#define ROW(NAME, TITLE, OPTION, IS_BUILT) {NAME, TITLE, OPTION, IS_BUILT},
    FEATURE_ROWS(ROW)
#undef ROW
};

enum { FEATURES = sizeof features / sizeof features[0] };

const struct feature *feature_all(size_t *count)
{
    *count = FEATURES;
    return features;
}

bool feature_missing(const char *name, char *error, size_t error_bytes)
{
    size_t at = 0;
    while (at < FEATURES && strcmp(features[at].name, name) != 0)
        at++;
    assert(at < FEATURES);
    return error_text(error, error_bytes, "this build has no %s, use one built with %s",
                      features[at].title, features[at].option);
}
