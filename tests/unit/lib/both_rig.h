/* both_rig: claims about a queue in memory and about one in a directory. The program ends with CLAIMS_MAIN(scratch_setup, scratch_teardown). */
#ifndef TARRY_TESTS_BOTH_RIG_H
#define TARRY_TESTS_BOTH_RIG_H

#include "lib_rig.h"
#include "unit/claim.h"
#include "unit/scratch.h"

static int rig_places;

/* Opens the queue in the directory of this number: ++rig_places for an empty one. */
static inline tarry *rig_open_in(int place, uint32_t shards)
{
    struct tarry_options options = TARRY_OPTIONS_INIT;
    char path[SCRATCH_PATH_BYTES], error[300] = "";
    tarry *queue;
    snprintf(path, sizeof path, "%s/%d", scratch_root, place);
    options.dir = path;
    options.wal_file_bytes = 4 << 20;
    options.shards = shards;
    if (tarry_open(&options, &queue, error, sizeof error))
        fail_msg("%s", error);
    return queue;
}

/* A claim about both: BOTH(name) { … queue … } */
#define BOTH(NAME)                                                                                 \
    static void NAME##_with(tarry *queue);                                                         \
    static void NAME##_of(tarry *queue)                                                            \
    {                                                                                              \
        NAME##_with(queue);                                                                        \
        assert_int_equal(tarry_close(queue), TARRY_OK);                                            \
    }                                                                                              \
    CLAIM(NAME##_in_memory)                                                                        \
    {                                                                                              \
        NAME##_of(rig_open(0));                                                                    \
    }                                                                                              \
    CLAIM(NAME##_in_a_directory)                                                                   \
    {                                                                                              \
        NAME##_of(rig_open_in(++rig_places, BOTH_SHARDS));                                         \
    }                                                                                              \
    static void NAME##_with(tarry *queue)

#endif
