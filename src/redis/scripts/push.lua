#!lua
-- parts: base topics leaves jobs ending
-- Jobs of one topic. Room for them is made sure of by Redis before the script begins (no allow-oom).
local ticket, name, topics_max = ARGV[1], ARGV[2], ARGV[3]

local kept = answered_before(ticket)
if kept then return repeated(kept) end

local t = topic_find(name)
local jobs, answers = (#ARGV - 3) / 3, {}
-- New jobs not yet hung: {due, member, …} of the delayed, with their earliest and latest due; and of the ready by priority.
local later, first, last, ready = {}, NEVER, 0, {}

local function hang_new()
    delayed_add(t, later, first, last)
    count(t, 'delayed', #later / 2)
    for priority, words in pairs(ready) do ready_add(t, priority, words) end
    later, first, last, ready = {}, NEVER, 0, {}
end

-- nil: further away than ten years.
local function due_of(when, ms)
    if when == WHEN_DELAY and ms > 0 then return now + 1 + ms end
    if when == WHEN_AT and ms > wall then
        if ms - wall > DELAY_MAX then return nil end
        return ms + adjust, true
    end
    return now
end

local function is_too_far(spec)
    local _, when, _, _, ms = unpack_from('>BBBI2I6', spec)
    return not due_of(when, ms)
end

-- A topic is not made for jobs that are refused.
for i = 1, t and 0 or jobs do
    if not is_too_far(ARGV[3 * i + 2]) then
        t = topic_make(name, topics_max)
        break
    end
end

local remembers = t and (settings_of(t).dedup > 0 or call('EXISTS', t.finished) == 1)

local function is_remembered(id)
    local until_ms = call('ZSCORE', t.finished, id)
    if not until_ms then return false end
    if tonumber(until_ms) > now then return true end
    call('ZREM', t.finished, id)
    return false
end

-- The id has a job. The answer that keeps the new one from being stored; nil: the old one is out of the way.
local function meet(id, on_conflict)
    hang_new()
    local j = job_find(t, id)
    if on_conflict == 2 then return pack('>BBI6', EXISTED, shown_state(j), j.due) end
    if on_conflict == 3 then return pack('>BBI6', CONFLICT, shown_state(j), j.due) end
    if j.state == LEASED_STATE then return pack('>BBI6', IS_LEASED, j.state, j.due) end
    unhang(t, j)
    if j.tried then call('HDEL', t.tries, id) end
    return nil
end

-- Hangs a stored job; those that need no look are hung together at the end. The member is the record's sequence and the id.
local function hang_later(id, flags, priority, due, record)
    if due > now then
        local at = #later
        later[at + 1], later[at + 2] = due, sub(record, 4, 9) .. id
        if due < first then first = due end
        if due > last then last = due end
        return DELAYED
    end
    if flags % 2 == 1 or settings_of(t).ttl > 0 then
        hang_new()
        hang(t, job_make(t, id, record))
    else
        local words = ready[priority] or {}
        words[#words + 1], words[#words + 2] = due, sub(record, 4, 9) .. id
        ready[priority] = words
    end
    return READY
end

-- A job that comes from elsewhere: it was tried before, or has given up.
local function hang_with_past(id, record, dead, attempt, error)
    local j = job_make(t, id, record)
    j.attempt, j.error = attempt, error
    if dead == 1 then j.state = DEAD end
    hang_new()
    try_write(t, j)
    hang(t, j)
    return shown_state(j)
end

-- Records of new jobs, to be stored together: {id, record, id, record, …}; and where to look for them meanwhile.
local stored, is_stored = {}, {}

local function store_new()
    call_many('HSET', t.jobs, stored)
    stored = {}
end

local NEW = {[DELAYED] = pack('>BB', CREATED, DELAYED), [READY] = pack('>BB', CREATED, READY)}
local pushed, default = 0, t and settings_of(t)

local function push(id, spec, tail, sequence, exists)
    local choice, when, flags, priority, ms = unpack_from('>BBBI2I6', spec)
    local due, is_wall = due_of(when, ms)
    if not due then return pack('>BBI6', BAD_OPTION, 0, 0) end
    if remembers and is_remembered(id) then return pack('>BBI6', EXISTED, FINISHED, 0) end

    local dead, attempt, length, at, error
    if flags >= 16 then
        dead, attempt, length, at = unpack_from('>BI4I2', tail)
        tail, error = sub(tail, at + length), sub(tail, at, at + length - 1)
    end
    if choice < 4 then priority = default.priority end
    flags = flags % 8 + (is_wall and 8 or 0)
    local record = pack('>BI2I6I6', flags, priority, sequence, due) .. tail
    local status = CREATED
    if exists or is_stored[id] then
        store_new()
        local answer = meet(id, choice % 4 > 0 and choice % 4 or default.on_conflict)
        if answer then return answer end
        call('HSET', t.jobs, id, record)
        status = REPLACED
    else
        local count_stored = #stored
        stored[count_stored + 1], stored[count_stored + 2], is_stored[id] = id, record, true
    end
    if not t.special and (priority ~= 100 or flags % 2 == 1) then
        t.special = true
        call('HSET', t.key, 'special', '1')
    end
    local state
    if dead then
        state = hang_with_past(id, record, dead, attempt, error)
    else
        state = hang_later(id, flags, priority, due, record)
    end
    if status == CREATED then
        pushed = pushed + 1
        if NEW[state] then return NEW[state] .. sub(record, 10, 15) end
    else
        count(t, 'replaced', 1)
    end
    return pack('>BBI6', status, state, due)
end

-- Which of the ids from..to have a job? Few at a time: those that have one come with their bodies.
local function existing(from, to)
    local ids = {}
    for i = from, to do ids[#ids + 1] = ARGV[3 * i + 1] end
    return call('HMGET', t.jobs, unpack(ids))
end

local sequence = call('HINCRBY', CORE, 'sequence', jobs) - jobs
for from = 1, t and jobs or 0, 32 do
    local to = math.min(from + 31, jobs)
    local known = existing(from, to)
    for i = from, to do
        answers[i] = push(ARGV[3 * i + 1], ARGV[3 * i + 2], ARGV[3 * i + 3], sequence + i, known[i - from + 1])
    end
    store_new() -- before the next are asked for
end
if t then
    hang_new()
    count(t, 'pushed', pushed)
else
    for i = 1, jobs do
        answers[i] = pack('>BBI6', is_too_far(ARGV[3 * i + 2]) and BAD_OPTION or TOO_MANY_TOPICS, 0, 0)
    end
end
return changed(ticket, table.concat(answers))
