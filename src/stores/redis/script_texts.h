/* script_texts: the files under scripts/, embedded in the program by cmake/embed.cmake. */
#ifndef TARRY_REDIS_SCRIPT_TEXTS_H
#define TARRY_REDIS_SCRIPT_TEXTS_H

#include <stddef.h>

#define REDIS_LUA(name)                                                                            \
    extern const char redis_lua_##name##_text[];                                                   \
    extern const size_t redis_lua_##name##_bytes

REDIS_LUA(common_base);
REDIS_LUA(common_moving);
REDIS_LUA(common_topics);
REDIS_LUA(common_leaves);
REDIS_LUA(common_history);
REDIS_LUA(common_jobs);
REDIS_LUA(common_kept);
REDIS_LUA(common_keeping);
REDIS_LUA(common_events);
REDIS_LUA(common_flow);
REDIS_LUA(common_batches);
REDIS_LUA(common_parts);
REDIS_LUA(common_due);
REDIS_LUA(common_answers);
REDIS_LUA(common_takes);
REDIS_LUA(common_ending);
REDIS_LUA(common_findings);
REDIS_LUA(common_sound);
REDIS_LUA(hello);
REDIS_LUA(adjust);
REDIS_LUA(push);
REDIS_LUA(step);
REDIS_LUA(change);
REDIS_LUA(get);
REDIS_LUA(list);
REDIS_LUA(topic);
REDIS_LUA(topics);
REDIS_LUA(purge);
REDIS_LUA(redrive);
REDIS_LUA(look);
REDIS_LUA(listen);
REDIS_LUA(forecast);
REDIS_LUA(pack);
REDIS_LUA(reshard);
REDIS_LUA(leave);
REDIS_LUA(arrive);
REDIS_LUA(drop);
REDIS_LUA(find);
REDIS_LUA(pick);
REDIS_LUA(await);
REDIS_LUA(group);
REDIS_LUA(groups);
REDIS_LUA(batch);
REDIS_LUA(mail);
REDIS_LUA(check);
REDIS_LUA(check_sets);
REDIS_LUA(check_jobs);
REDIS_LUA(check_topic);

#undef REDIS_LUA

#endif
