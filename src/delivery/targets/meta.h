/* meta: the meta of a job as its message carries it, and a text of a peer as it is shown. */
#ifndef TARRY_TARGETS_META_H
#define TARRY_TARGETS_META_H

#include "job/job.h"

#include <string.h>

/* Returns the next meta of a job that is sent with its message; skips tarry's own metas, which are
 * not for peers. */
static inline bool target_meta_next(struct slice meta, size_t *at, struct slice *name,
                                    struct slice *value)
{
    static const size_t own = sizeof JOB_META_OWN - 1;
    while (job_meta_next(meta, at, name, value))
        if (name->len < own || memcmp(name->at, JOB_META_OWN, own) != 0)
            return true;
    return false;
}

/* Copies a text of a peer for users: cut at the end of its line or to `bytes` with the NUL, with
 * '?' for bytes that are not printable. */
static inline void target_remark_write(struct slice remark, char *out, size_t bytes)
{
    size_t len = 0;
    for (; len < remark.len && len + 1 < bytes && remark.at[len] != '\n' && remark.at[len] != '\r';
         len++)
        out[len] = remark.at[len] >= ' ' && remark.at[len] <= '~' ? remark.at[len] : '?';
    out[len] = 0;
}

#endif
