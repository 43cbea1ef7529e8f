/* setting_url: is this a destination at all? What the kinds want of theirs they check themselves.
 * Pure. */
#ifndef TARRY_TARGETS_SETTING_URL_H
#define TARRY_TARGETS_SETTING_URL_H

#include "base/slice.h"

/* "null:", or SCHEME://AUTHORITY[/PATH][?QUERY], templates in path and query alone, no user, no
 * fragment, no way up. False: `error` (TARGET_ERROR_BYTES) says what would be right. */
bool target_setting_url_check(struct slice url, char *error);

#endif
