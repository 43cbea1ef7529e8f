#include "rig.h"

#define ROW(NAME, ...) &rig_##NAME,
const struct target_rig *const rigs[] = {&rig_null, TARGET_KIND_ROWS(ROW) NULL};
