/* fsck_model: what a shard's records amount to, and whether they make sense. Private to fsck. */
#ifndef TARRY_STORE_FSCK_MODEL_H
#define TARRY_STORE_FSCK_MODEL_H

#include "job/record.h"
#include "store/fsck.h"

struct fsck_model;

/* `is_whole`: the log goes back to its first record; else what came before it is not known.
 * `complain` is told of what makes no sense. */
struct fsck_model *fsck_model_new(uint64_t hash_seed, bool is_whole,
                                  void (*complain)(void *ctx, struct record_place place,
                                                   const char *text),
                                  void *ctx);
void fsck_model_free(struct fsck_model *model);
/* False: out of memory. */
bool fsck_model_apply(struct fsck_model *model, const struct record *record,
                      struct record_place place);
/* What can be said at the end only; fills in the counts. */
void fsck_model_end(struct fsck_model *model, struct fsck_shard *out);

#endif
