-- A bounded step of a check: what it was asked, what it found, and the answer. Part of check*.lua alone.
--
-- What a step finds is wrong at that instant, whatever servers do meanwhile: nothing is concluded from what two steps saw. Sets
-- lose what does not belong there, jobs are hung where they belong, counts follow; a record is never dropped. A step may be
-- repeated, and none needs the next one.
local step, find, topic_here, must_be_below, check_next, scan, entry_after, step_end = (function()

-- `most`: about how many entries are looked at.
local step = {repairs = ARGV[1] == 'repair', part = ARGV[2], name = ARGV[3], cursor = ARGV[4], most = tonumber(ARGV[5]),
              looked = 0, bytes = 0, -- entries, and of records
              names = {},            -- topics met
              touched = false}       -- something was mended
local findings = {}

-- Whether it is to be mended now. `repair` as a participle: what is, or is to be, done. `how`: 0 to mend, 1 mended, 2 for people
-- to decide, 3 a mere note.
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

-- A counter of the core must not be behind a number that was given out. The clock is beyond any that was.
local function must_be_below(field, number, what)
    local kept = field == 'leaf' and leaf_number or sequence
    if number <= kept then return end
    local raised = max(number, number_beyond(0))
    if not find('', '', format("%s %d is above the shard's counter '%s', %d", what, number, field, kept), 'counter raised to ' .. text_of(raised)) then return end
    if field == 'leaf' then leaf_number = raised else sequence = raised end
    core_is_changed = true
end

-- The shard's next event is kept in the core: not later than one of this topic ('': of a lease).
local function check_next(ms, name)
    local kept = (next_topic == '' or next_topic == name and name ~= '') and next_ms or rest_ms
    if kept <= ms then return end
    if find(name, '', format('the shard looks for what is next at %d, and there is something at %d', kept, ms), 'put right') then
        shard_look()
        tell('d' .. text_of(next_ms) .. ' ' .. next_topic)
    end
end

-- A page of a key from a cursor ('' : the first), and the next cursor ('': none).
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

-- A topic's figures as they were kept: the check counts them as a whole (check_topic.lua), so other steps change none.
local function figures_restore(t)
    local kept = call('GET', t.key)
    if t.is_lost or not kept then
        t.is_changed = false
        return
    end
    local was = topic_figures(kept)
    for i = 1, #FIGURES do t.f[i + FIRST_FIGURE - 1] = was[i + FIRST_FIGURE - 1] end
end

-- The answer. `following`: the cursor of the next step, '' where the part is done. Only what was mended is written.
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

