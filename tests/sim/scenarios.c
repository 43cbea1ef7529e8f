/* Scenarios of runs. Small files and small limits, so that a few hundred commands are a long
 * life. */
#include "sim.h"

#define USUAL                                                                                      \
    {                                                                                              \
        [DO_PUSH] = 40, [DO_TAKE] = 22, [DO_ACK] = 14, [DO_NACK] = 6, [DO_EXTEND] = 3,             \
        [DO_RETURN] = 3, [DO_CANCEL] = 5, [DO_RESCHEDULE] = 5, [DO_RUN] = 3, [DO_GET] = 4,         \
        [DO_REDRIVE_ONE] = 2, [DO_TOPIC] = 2                                                       \
    }

#define SMALL                                                                                      \
    {                                                                                              \
        .checkpoint_files_min = 1, .checkpoint_files_max = 2, .horizon_ms = 300,                   \
        .topic_quota = 12, .slack_bytes = 400000, .victim_bytes_max = 32768,                       \
        .keys_entries_max = 200, .keys_fan = 2, .merge_entries = 4,                                \
        .scan_changes = WORLD_SMALL_STEP, .timers = WORLD_SMALL_STEP                               \
    }

const struct scenario sim_scenarios[] = {
    /* A life from the first start on: everything, with time passing. */
    {.name = "life",
     .commands = 700,
     .file_bytes = 16384,
     .limits = SMALL,
     .weights = USUAL,
     .delay_most_ms = 4000,
     .far_percent = 10,
     .time_percent = 12,
     .step_most_ms = 1500},
    /* Hardly anything is taken: what is pushed goes to runs and stays there. */
    {.name = "backlog",
     .commands = 500,
     .file_bytes = 16384,
     .limits = SMALL,
     .weights = {[DO_PUSH] = 70,
                 [DO_TAKE] = 2,
                 [DO_ACK] = 2,
                 [DO_CANCEL] = 12,
                 [DO_RESCHEDULE] = 8,
                 [DO_GET] = 6,
                 [DO_RUN] = 3,
                 [DO_REDRIVE_ONE] = 2,
                 [DO_TOPIC] = 2},
     .delay_most_ms = 600000,
     .far_percent = 40,
     .time_percent = 6,
     .step_most_ms = 20000},
    /* A few jobs years away among many short ones. */
    {.name = "short",
     .commands = 700,
     .file_bytes = 16384,
     .limits = SMALL,
     .weights = {[DO_PUSH] = 40, [DO_TAKE] = 40, [DO_ACK] = 40, [DO_NACK] = 5, [DO_TOPIC] = 1},
     .delay_most_ms = 200,
     .far_percent = 4,
     .time_percent = 15,
     .step_most_ms = 200},
    /* Retry loops: nothing ever ends. */
    {.name = "retries",
     .commands = 500,
     .file_bytes = 16384,
     .limits = SMALL,
     .weights = {[DO_PUSH] = 20,
                 [DO_TAKE] = 40,
                 [DO_NACK] = 20,
                 [DO_RETURN] = 20,
                 [DO_EXTEND] = 8,
                 [DO_REDRIVE_ONE] = 10,
                 [DO_TOPIC] = 3},
     .delay_most_ms = 500,
     .far_percent = 2,
     .time_percent = 15,
     .step_most_ms = 800},
    /* Whole topics come and go. */
    {.name = "topics",
     .commands = 400,
     .file_bytes = 32768,
     .limits = SMALL,
     .weights = {[DO_PUSH] = 50,
                 [DO_TAKE] = 10,
                 [DO_ACK] = 6,
                 [DO_NACK] = 6,
                 [DO_TOPIC] = 25,
                 [DO_CANCEL] = 3},
     .delay_most_ms = 3000,
     .far_percent = 20,
     .time_percent = 10,
     .step_most_ms = 1000},
    /* The disk is full, and has space again as jobs go. */
    {.name = "full",
     .commands = 600,
     .file_bytes = 16384,
     .limits = SMALL,
     .weights = {[DO_PUSH] = 60,
                 [DO_TAKE] = 25,
                 [DO_ACK] = 25,
                 [DO_NACK] = 4,
                 [DO_CANCEL] = 12,
                 [DO_TOPIC] = 2},
     .delay_most_ms = 2000,
     .far_percent = 20,
     .time_percent = 12,
     .step_most_ms = 1500,
     .disk_bytes_max = 150000},
    /* Stopped in order and started again. */
    {.name = "closes",
     .commands = 300,
     .file_bytes = 16384,
     .limits = SMALL,
     .weights = USUAL,
     .delay_most_ms = 3000,
     .far_percent = 15,
     .time_percent = 12,
     .step_most_ms = 1500,
     .closes = true},
};
const size_t sim_scenario_count = sizeof sim_scenarios / sizeof *sim_scenarios;

const struct scenario *sim_scenario(const char *name)
{
    for (size_t i = 0; i < sim_scenario_count; i++)
        if (strcmp(sim_scenarios[i].name, name) == 0)
            return &sim_scenarios[i];
    return NULL;
}
