/* Where the records of entries lie: in the log or in slots of runs; and what the counts of a topic
 * make of it. */
#include "engine/private.h"

#include <assert.h>

struct record_place entry_slot(const struct entry *entry)
{
    return record_place_is_run(entry->place) ? entry->place : (struct record_place){0};
}

bool entry_is_at(const struct entry *entry, struct record_place place)
{
    return entry->place.bytes && entry->place.file == place.file && entry->place.at == place.at;
}

void entry_settle(struct engine *engine, struct entry *entry, struct record_place place,
                  enum job_section section)
{
    struct topic *topic = entry_topic(engine, entry);
    assert(record_place_is_run(place) && !entry->place.bytes);
    entry->place = place;
    entry->section = (uint8_t)section;
    topic->loaded[section]++;
    if (section == SECTION_DEAD)
        topic->loaded_dead_bytes += place.bytes;
}

enum engine_slot engine_slot_release(struct engine *engine, struct topic *topic,
                                     struct record_place place)
{
    enum job_section section;
    if (!engine->sink.release_slot)
        return SLOT_WAS_DEAD;
    enum engine_slot slot = engine->sink.release_slot(engine->sink.ctx, place, &section);
    if (slot != SLOT_RELEASED)
        return slot;
    assert(topic->stored[section]);
    topic->stored[section]--;
    if (section == SECTION_DEAD)
        topic->stored_dead_bytes -= place.bytes;
    return slot;
}

void entry_release(struct engine *engine, struct entry *entry)
{
    struct record_place place = entry->place;
    if (!place.bytes)
        return;
    entry->place = (struct record_place){0};
    if (!record_place_is_run(place))
        return;
    struct topic *topic = entry_topic(engine, entry);
    topic->loaded[entry->section]--;
    if (entry->section == SECTION_DEAD)
        topic->loaded_dead_bytes -= place.bytes;
    engine_slot_release(engine, topic, place);
}
