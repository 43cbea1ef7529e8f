-- A bounded step of a check: its arguments, its findings, and the answer. Only part of check*.lua.
--
-- A finding holds at the moment of its step, regardless of concurrent servers: no conclusion is drawn from two steps. Sets
-- lose entries that do not belong there, jobs are put where they belong, counts follow; a record is never dropped. A step may be
-- repeated, and no step needs the next one.
local step, find, topic_here, must_be_below, check_next, scan, entry_after, step_end = (function()

-- `most`: about how many entries are looked at.
local step = {repairs = ARGV[1] == 'repair', part = ARGV[2], name = ARGV[3], cursor = ARGV[4], most = tonumber(ARGV[5]),
              looked = 0, bytes = 0, -- entries, and of records
              names = {},            -- topics met
              NUMBERS_END = 2 ^ 47,  -- no counter of a core comes this far
              touched = false}       -- something was mended
local findings = {}

-- Records a finding and returns true if it is to be repaired now. `repair`, a participle, names the repair, done or to be done. `how`: 0 to
-- repair, 1 repaired, 2 for people to decide, 3 a mere note.
local function find(topic, id, what, repair, how)
    how = how or step.repairs and 1 or 0
    local at = #findings
    findings[at + 1], findings[at + 2], findings[at + 3], findings[at + 4], findings[at + 5] = pack('>B', how), topic, id, what, repair
    if how == 1 then step.touched = true end
    return how == 1
end

-- The step's topic, and whether its counts and settings are there: one that lost them is looked at all the same.
local function topic_here()
    local kept = call('GET', keys_of(step.name).__index.key)
    local exists = kept and #kept >= TOPIC_BYTES
    local t = topic_open(step.name, exists and kept or TOPIC_NEW)
    if not topic_rules.settings_are_whole(t.packed) then t.packed = '' end
    t.is_exact, t.is_lost = true, not exists
    return t, exists
end

-- Returns whether the topic has neither counts nor jobs: it does not exist, or it was deleted.
function step.is_gone(t)
    return call('EXISTS', t.key, t.jobs, t.tries, t.fresh, t.index, t.priorities, t.expiry, t.held, t.dead, t.finished, t.next, t.order) == 0
end

-- A counter of the core must not be behind a number that was given out. The clock is beyond any that was. A number from NUMBERS_END on
-- was damaged: a counter that follows it would soon end, and no counter ever reaches it.
local function must_be_below(field, number, what)
    local kept = field == 'leaf' and leaf_number or sequence
    if number <= kept or number >= step.NUMBERS_END then return end
    local raised = max(number, number_beyond(0))
    if not find('', '', format("%s %d is above the shard's counter '%s', %d", what, number, field, kept), 'counter raised to ' .. text_of(raised)) then return end
    if field == 'leaf' then leaf_number = raised else sequence = raised end
    core_is_changed = true
end

-- The shard's next event is kept in the core: not later than one of this topic ('': of a lease).
local function check_next(ms, name)
    local kept = (next_topic == '' or next_topic == name and name ~= '') and next_ms or rest_ms
    if kept <= ms then return end
    if find(name, '', format("the shard's next event is noted at %d, but there is one at %d", kept, ms), 'corrected') then
        shard_look()
        notify('d' .. text_of(next_ms) .. ' ' .. next_topic)
    end
end

-- Reads a page of a key from a cursor ('': the first); also returns the next cursor ('': the end).
local function scan(key, command, from)
    local page = call(command, key, from == '' and '0' or from, 'COUNT', step.most)
    return page[2], page[1] == '0' and '' or page[1]
end

-- The entry of a sorted set that follows this one, also where this one is gone meanwhile: name and score.
local function entry_after(key, entry, score)
    local rank = entry and call('ZRANK', key, entry)
    rank = rank and rank + 1 or score and call('ZCOUNT', key, '-inf', '(' .. score) or 0
    local found = call('ZRANGE', key, rank, rank, 'WITHSCORES')
    step.looked = step.looked + 1
    return found[1], found[2]
end

-- Restores a topic's stored figures: the check counts them as a whole (check_topic.lua), so other steps do not change them.
local function figures_restore(t)
    local kept = call('GET', t.key)
    if t.is_lost or not kept then
        t.is_changed = false
        return
    end
    local was = topic_figures(kept)
    for i = 1, #FIGURES do t.f[i + FIRST_FIGURE - 1] = was[i + FIRST_FIGURE - 1] end
end

-- The answer. `following`: the cursor of the next step, '' at the end of the part. Only repaired values are written.
local function step_end(following)
    for i = 1, step.touched and #met_topics or 0 do
        if not met_topics[i].is_counted then figures_restore(met_topics[i]) end
    end
    if step.touched then settle(NOBODY) end
    local answer = {following}
    for i = 1, #step.names do answer[#answer + 1] = step.names[i] end
    for i = 1, #findings do answer[#answer + 1] = findings[i] end
    return shown(pack('>I4I4I4', step.looked, step.bytes, #step.names), answer)
end

return step, find, topic_here, must_be_below, check_next, scan, entry_after, step_end

end)()

