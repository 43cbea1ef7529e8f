-- A bounded step of a check: what it was asked, what it found, and the answer. Part of check*.lua alone.
--
-- What a step finds is wrong at that instant, whatever servers do meanwhile: nothing is concluded from what two steps saw. Sets
-- lose what does not belong there, jobs are hung where they belong, counts follow; a record is never dropped. A step may be
-- repeated, and none needs the next one.
local step, find, topic_here, must_be_below, scan, entry_after, step_end, SETTINGS_BYTES = (function()

-- `most`: about how many entries are looked at.
local step = {repairs = ARGV[1] == 'repair', part = ARGV[2], name = ARGV[3], cursor = ARGV[4], most = tonumber(ARGV[5]),
              looked = 0, bytes = 0, -- entries, and of records
              names = {},            -- topics met
              touched = false}       -- the earliest event of a topic may be another now
local findings = {}
local SETTINGS_BYTES = 40

-- Whether it is to be mended now. `repair` as a participle: what is, or is to be, done. `how`: 0 to mend, 1 mended, 2 for people
-- to decide, 3 a mere note.
local function find(topic, id, what, repair, how)
    how = how or step.repairs and 1 or 0
    local at = #findings
    findings[at + 1], findings[at + 2], findings[at + 3], findings[at + 4], findings[at + 5] = pack('>B', how), topic, id, what, repair
    return how == 1
end

-- The step's topic, and whether its hash is there: one that lost it is looked at all the same.
local function topic_here()
    local t = topic_find(step.name)
    if t then
        if #t.packed ~= SETTINGS_BYTES then t.packed = '' end
        t.ready = t.ready or 0
        return t, true
    end
    t = topic_keys(step.name)
    t.paused, t.packed, t.ready, t.special = false, '', 0, true
    return t, false
end

-- A counter of the core must not be behind a number that was given out. The clock is beyond any that was counted up from 0.
local function must_be_below(field, number, what)
    local kept = tonumber(call('HGET', CORE, field) or nil) or 0
    if number <= kept then return end
    local raised = text_of(math.max(number, now))
    if find('', '', format("%s %d is above the shard's counter '%s', %d", what, number, field, kept), 'counter raised to ' .. raised) then
        call('HSET', CORE, field, raised)
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

-- The answer. `following`: the cursor of the next step, '' where the part is done. Counts are made right as a whole (check_topic.lua),
-- so steps change none.
local function step_end(following)
    for _, t in pairs(known_topics) do t.change, t.ready = {}, t.ready or 0 end
    if step.touched then settle(NOBODY) end
    local answer = {following}
    for i = 1, #step.names do answer[#answer + 1] = step.names[i] end
    for i = 1, #findings do answer[#answer + 1] = findings[i] end
    return shown(pack('>I4I4I4', step.looked, step.bytes, #step.names), answer)
end

return step, find, topic_here, must_be_below, scan, entry_after, step_end, SETTINGS_BYTES

end)()

