/*
 * script: the scripts (scripts/README.md), built into the program. Those that servers call are the
 * functions of one library, which Redis keeps and runs once; those of a check are scripts of their
 * own, called by hash. Any thread after redis_scripts_init.
 */
#ifndef TARRY_REDIS_SCRIPT_H
#define TARRY_REDIS_SCRIPT_H

#include "base/slice.h"

enum redis_script {
    REDIS_HELLO = 1,
    REDIS_ADJUST,
    REDIS_PUSH,
    REDIS_TURN,
    REDIS_CHANGE,
    REDIS_GET,
    REDIS_LIST,
    REDIS_TOPIC,
    REDIS_TOPICS,
    REDIS_PURGE,
    REDIS_REDRIVE,
    REDIS_LOOK,
    REDIS_HEAR,
    REDIS_FORECAST,
    REDIS_PACK,
    REDIS_RESHARD,
    REDIS_LEAVE,
    REDIS_ARRIVE,
    REDIS_DROP,
    REDIS_CONVERT,
    REDIS_FIND,
    REDIS_PICK,
    REDIS_SCRIPTS_SERVED = REDIS_PICK, /* up to here: what the library holds */
    REDIS_CHECK,                       /* of fsck alone, with those that follow */
    REDIS_CHECK_SETS,
    REDIS_CHECK_JOBS,
    REDIS_CHECK_TOPIC,
    REDIS_SCRIPTS = REDIS_CHECK_TOPIC
};

enum { REDIS_SHA_BYTES = 40, REDIS_FUNCTION_BYTES = 64 };

struct redis_script_text {
    const char *name;
    struct slice text; /* with the parts it stands on, as SCRIPT LOAD wants it */
    char sha[REDIS_SHA_BYTES + 1];
};

/* Once, before threads start; false: out of memory. More calls do nothing. */
bool redis_scripts_init(void);
/* Of a check. */
const struct redis_script_text *redis_script(enum redis_script script);

struct redis_library {
    char name[32];     /* by its text; a function is called NAME_script */
    struct slice text; /* as FUNCTION LOAD wants it */
};

const struct redis_library *redis_library(void);
/* As FCALL wants it; of a script that servers call. */
const char *redis_function(enum redis_script script);
const char *redis_script_name(enum redis_script script);

#endif
