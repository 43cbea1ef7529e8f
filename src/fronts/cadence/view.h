/* view: a schedule and its fires as JSON. Pure. */
#ifndef TARRY_CADENCE_VIEW_H
#define TARRY_CADENCE_VIEW_H

#include "cadence/stored.h"

/* Appends a schedule: its specification, its next fire, its last fires and its totals. */
void view_write(struct buffer *out, struct slice name, const struct stored *stored, int64_t now_ms);

/* Appends `"fires":[…],"complete":…`: at most `count` fires after a time. */
void view_write_fires(struct buffer *out, const struct schedule *schedule, int64_t after_ms,
                      uint32_t count);

#endif
