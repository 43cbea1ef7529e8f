#include "http/meta.h"

#include "job/job.h"

bool http_meta_add(struct buffer *meta, struct slice name, struct slice value,
                   struct http_fault *fault)
{
    static const size_t own = sizeof JOB_META_OWN - 1;
    const char *quoted = http_quotable(name, 64);
    if (name.len >= own && memcmp(name.at, JOB_META_OWN, own) == 0)
        return http_fault_set(fault, PROBLEM_BAD_META, 0,
                              "reserved meta name '%s': names that begin with '" JOB_META_OWN
                              "' belong to tarry; give a job's callback in the option 'callback'",
                              quoted);
    switch (job_meta_add(meta, name, value)) {
    case JOB_META_OK:
        return true;
    case JOB_META_BAD_NAME:
        return http_fault_set(fault, PROBLEM_BAD_META, 0,
                              "meta name '%s' is not valid; use 1 to 64 of a-z 0-9 -", quoted);
    case JOB_META_BAD_VALUE:
        return http_fault_set(fault, PROBLEM_BAD_META, 1024,
                              "the value of meta '%s' must be UTF-8 without control characters "
                              "(U+0000 to U+001F, U+007F to U+009F), at most 1024 bytes",
                              quoted);
    case JOB_META_TWICE:
        return http_fault_set(fault, PROBLEM_OPTION_TWICE, 0, "meta '%s' is given more than once",
                              quoted);
    case JOB_META_TOO_MUCH:
        break;
    }
    return http_fault_set(fault, PROBLEM_BAD_META, JOB_META_BYTES_MAX,
                          "meta may hold at most %d pairs and %d bytes", JOB_META_PAIRS_MAX,
                          JOB_META_BYTES_MAX);
}

bool http_meta_split(struct slice text, struct slice *name, struct slice *value)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    const char *colon = text.len ? memchr(text.at, ':', text.len) : NULL;
    if (!colon || colon == text.at)
        return false;
    *name = slice_make(text.at, (size_t)(colon - text.at));
    *value = slice_make(colon + 1, text.len - name->len - 1);
    for (size_t i = 0; i < name->len; i++)
        if (!memchr(letters, name->at[i], sizeof letters - 1))
            return false;
    return true;
}
