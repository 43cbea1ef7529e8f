#!lua
-- Jobs of one topic. Room for them is made sure of by Redis before the script begins (no allow-oom).

-- Of the call that is carried out.
local words, name, t -- its arguments, the topic
local takes_new, on_its_way, remembers, default, has_ttl, now_text
local room, rooms -- how many new jobs there may be; by group: how many it may have; nil: not known yet
local pushed -- new jobs
-- New jobs not yet in a set: {due, member, …} of the delayed, with their earliest and latest due time; and of the ready by priority. nil: none.
local later, first, last, ready
local stored, is_stored -- records of new jobs, to be stored together: {id, record, id, record, …}; and where to look for them meanwhile
local answers -- of all jobs, if some are not simply made

local function hang_new()
    if later then
        delayed_add(t, later, first, last)
        count(t, 'delayed', #later / 2)
        later, first, last = nil, NONE, 0
    end
    if ready then
        if t.flow then ready = flow.ready_added_all(t, ready) end
        for _, words in pairs(ready) do ready_add(t, words.priority, words, words.group) end
        ready = nil
    end
end

local function due_of_spec(spec)
    local _, when, _, _, ms = unpack_from('>BBBI2I6', spec)
    return topic_rules.due_of(when, ms)
end

local function is_remembered(id)
    local until_ms = call('ZSCORE', t.finished, id)
    if not until_ms then return false end
    if tonumber(until_ms) > now then return true end
    call('ZREM', t.finished, id)
    return false
end

-- The name under which the `once` of a push is remembered, which no id has; nil: it has none. Its time is in the spec before it.
local ONCE_AT = 18

local function once_of(spec)
    return #spec >= ONCE_AT and ' ' .. sub(spec, ONCE_AT) or nil
end

local function once_remember(spec, once)
    local until_ms = now + 1 + unpack_from('>I6', spec, 12)
    call('ZADD', t.finished, text_of(until_ms), once)
    raise(t, REMEMBERING)
    event_at(t, until_ms)
    remembers = true
end

local AFTER, BATCHED = 4, 8 -- of on_conflict; of the flags of a spec

-- The id has a job. Returns the answer that keeps the new one from being stored, and whether it became the successor; nil: the old one is out of the way, and
-- the third value is the record of the new one.
local function meet(id, on_conflict, record, due, links)
    hang_new()
    local j = job_find(t, id)
    if on_conflict == 2 or on_conflict == 3 then
        local status = (on_conflict == 3 or links and batches.is_other(j, links)) and CONFLICT or EXISTED
        return pack('>BBI6', status, shown_state(j), batches.own(t, j) and 0 or j.due)
    end
    if on_conflict ~= AFTER and j.state == LEASED_STATE then return pack('>BBI6', IS_LEASED, j.state, j.due) end
    if links or j.flags % 32 >= batches.RECORD then
        local status
        status, record = batches.replace(t, j, record, links)
        if status then return pack('>BBI6', status, shown_state(j), 0) end
    end
    if j.state == LEASED_STATE then
        return pack('>BBI6', topic_rules.set_next(t, j, record, due) and REPLACED or CREATED, LEASED_STATE, due), true
    end
    unhang(t, j)
    if j.tried then
        call('HDEL', t.tries, id)
        history_forget(t, {id})
    end
    return nil, false, record
end

-- Takes room for a new job in its group. Returns whether there was any.
local function group_takes(record)
    local group = flow.group_in(record)
    if not rooms[group] then
        hang_new()
        rooms[group] = flow.room_of(t, group) or NONE
    end
    rooms[group] = rooms[group] - 1
    return rooms[group] >= 0
end

-- Hangs a stored job; those that need no look are hung together at the end.
local function hang_later(id, flags, priority, sequence, due, record)
    if due > now then
        if t.flow then flow.delayed(t, flags >= flow.RECORD and flow.group_in(record) or '', 1) end
        if later then
            local at = #later
            later[at + 1], later[at + 2] = text_of(due), pack('>I6c0', sequence, id)
        else
            later = {text_of(due), pack('>I6c0', sequence, id)}
        end
        if due < first then first = due end
        if due > last then last = due end
        return DELAYED
    end
    if has_ttl or flags % 2 == 1 then
        hang_new()
        hang(t, job_make(t, id, record))
        return READY
    end
    ready, now_text = ready or {}, now_text or text_of(now)
    local group = flags >= flow.RECORD and flow.group_in(record) or nil
    local lane = group and flow.lane(priority, group) or priority
    local words = ready[lane]
    if not words then
        words = {priority = priority, group = group, due = now}
        ready[lane] = words
    end
    local at = #words
    words[at + 1], words[at + 2] = now_text, pack('>I6c0', sequence, id)
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

local function store_new()
    if stored then call_many('HSET', t.jobs, stored) end
    stored = nil
end

-- nil: the job was made as wanted, and its state follows from its due.
local function push(id, spec, tail, sequence, exists)
    local choice, when, flags, priority, ms = unpack_from('>BBBI2I6', spec)
    local due, is_wall = topic_rules.due_of(when, ms)
    if not due then return pack('>BBI6', BAD_OPTION, 0, 0) end
    if on_its_way and is_leaving(name, id, on_its_way) then return pack('>BBI6', MOVING, 0, 0) end
    local once = once_of(spec)
    if once then
        if on_its_way and is_leaving(name, once, on_its_way) then return pack('>BBI6', MOVING, 0, 0) end
        if remembers and is_remembered(once) then return pack('>BBI6', EXISTED, FINISHED, 0) end
    end
    if remembers and is_remembered(id) then return pack('>BBI6', EXISTED, FINISHED, 0) end
    local is_new, on_conflict = choice % 16 >= 8, choice % 32 >= 16 and AFTER or choice % 4
    if not is_new and has(t, keeping.FLAG) then kept.remove(t, id) end
    if not takes_new and not exists then return pack('>BBI6', ELSEWHERE, 0, 0) end
    local replaces = not is_new and (exists or is_stored and is_stored[id])
    local dead, attempt, length, at, error, links
    if flags % 32 >= 16 then
        dead, attempt, length, at = unpack_from('>BI4I2', tail)
        tail, error = sub(tail, at + length), sub(tail, at, at + length - 1)
    end
    if flags % 16 >= BATCHED then
        links, tail = batches.read(tail)
        local status = not replaces and batches.join(links)
        if status then return pack('>BBI6', status, status == BAD_OPTION and FINISHED or 0, 0) end
        if links.waits then due, is_wall = batches.first_due(links), false end
    end
    if choice % 8 < 4 then priority = default.priority end
    local has_own_time, has_group = flags % 64 >= 32, flags >= flow.RECORD
    flags = flags % 8 + (is_wall and 8 or 0) + (has_own_time and 32 or 0) + (has_group and flow.RECORD or 0)
    if has_group then flow.group_all(t) end
    local record = pack('>BI2I6I6', flags, priority, sequence, due) .. tail
    if not replaces then
        if room and room <= 0 then return pack('>BBI6', topic_rules.FULL, 0, 0) end
        if rooms and not group_takes(record) then return pack('>BBI6', topic_rules.GROUP_FULL, 0, 0) end
        if room then room = room - 1 end
    end
    if rooms and (replaces or dead) then rooms = {} end -- other jobs than new ones change the counts
    if replaces then
        store_new()
        local answer, is_next, kept = meet(id, on_conflict > 0 and on_conflict or default.on_conflict, record, due, links)
        if is_next and once then once_remember(spec, once) end
        if answer then return answer end
        record = kept
        if keeping.waiting then keeping.note_gone(t, {id}, keeping.purged) end
        call('HSET', t.jobs, id, record)
        count(t, 'replaced', 1)
    else
        if links then record = batches.add(record, links) end
        if stored then
            local at_end = #stored
            stored[at_end + 1], stored[at_end + 2] = id, record
        else
            stored = {id, record}
        end
        if not is_new then
            is_stored = is_stored or {}
            is_stored[id] = true
        end
        pushed = pushed + 1
    end
    if once then once_remember(spec, once) end
    if priority ~= 100 or flags % 2 == 1 then raise(t, SPECIAL) end
    if has_own_time or byte(record) % 32 >= batches.RECORD then raise(t, keeping.FLAG) end
    if feed.listened then feed.publish(replaces and feed.REPLACED or feed.PUSHED, name, id, attempt, due) end
    local state
    if dead then
        state = hang_with_past(id, record, dead, attempt, error)
    else
        state = hang_later(id, flags, priority, sequence, due, record)
        if not replaces and not links then return nil end
    end
    if links then
        if dead == 1 then store_new() end -- its death may stop the batch
        if links.waits then raise(t, SPECIAL) end
        batches.pushed(t, id, links, sequence, when, ms, dead == 1)
        if links.waits then due = 0 end
    end
    return pack('>BBI6', replaces and REPLACED or CREATED, state, due)
end

-- Returns which of the ids from..to have a job. Few at a time: existing jobs come with their bodies. An id that was generated for
-- its job cannot exist.
local function existing(from, to)
    local ids, at, all
    for i = from, to do
        if byte(words[3 * i + 2]) % 16 < 8 then
            if not ids then ids, at, all = {}, {}, {} end
            ids[#ids + 1], at[#at + 1] = words[3 * i + 1], i
        end
    end
    local found = ids and call('HMGET', t.jobs, unpack(ids))
    for i = 1, ids and #ids or 0 do all[at[i]] = found[i] end
    return all
end

local function answer(i, text)
    if not answers then
        answers = {}
        for made = 1, i - 1 do
            local due = due_of_spec(words[3 * made + 2])
            answers[made] = pack('>BBI6', CREATED, due > now and DELAYED or READY, due)
        end
    end
    if not text then
        local due = due_of_spec(words[3 * i + 2])
        text = pack('>BBI6', CREATED, due > now and DELAYED or READY, due)
    end
    answers[i] = text
end

local AWAITED = 32 -- bit of the choice: the caller waits for the job's end

-- Notes that the end of the job is awaited, if the push led to a job, or found one that has not ended.
local function await(i, text)
    local status, state = CREATED, READY
    if text then status, state = byte(text, 1, 2) elseif not answers then answer(i) end
    if status == CREATED or status == REPLACED or status == EXISTED and state ~= FINISHED then keeping.await(name, {words[3 * i + 1]}) end
end

-- call
local ticket, topics_max = ARGV[1], ARGV[3]
words, name = ARGV, ARGV[2]
begin(KEYS, ticket, name)

local kept = answered_before(ticket)
if kept then return repeated(kept) end
wants_aware(ticket)

local jobs = (#words - 3) / 3
t, takes_new, on_its_way = topic_find(name), sealed < SEALED, page_under_way()

-- A topic is not made for jobs that are refused.
for i = 1, (t or not takes_new) and 0 or jobs do
    if due_of_spec(words[3 * i + 2]) then
        t = topic_make(name, topics_max)
        break
    end
end

later, first, last, ready, now_text, stored, is_stored, answers, pushed = nil, NONE, 0, nil, nil, nil, nil, nil, 0
if t then
    remembers, default = has(t, REMEMBERING), settings_of(t)
    has_ttl, room, rooms = default.ttl > 0, topic_rules.room_of(t), t.flow and t.flow.counts and {} or nil
end

local before = sequence
if jobs > 0 then sequence, core_is_changed = sequence + jobs, true end
for from = 1, t and jobs or 0, 32 do
    local to = min(from + 31, jobs)
    local known = existing(from, to)
    for i = from, to do
        local text = push(words[3 * i + 1], words[3 * i + 2], words[3 * i + 3], before + i, known and known[i])
        if text or answers then answer(i, text) end
        if byte(words[3 * i + 2]) >= AWAITED then await(i, text) end
    end
    store_new() -- before the next are asked for
end
if t then
    hang_new()
    count(t, 'pushed', pushed)
else
    answers = {}
    for i = 1, jobs do
        local refusal = takes_new and TOO_MANY_TOPICS or ELSEWHERE
        answers[i] = pack('>BBI6', due_of_spec(words[3 * i + 2]) and refusal or BAD_OPTION, 0, 0)
    end
end

-- If no job of the topic can be delivered now, ready jobs are marked, so that they wake no take.
if t and t.flow then flow.settle(t) end
if t and t.flow and flow.open_of(t) <= 0 then
    if jobs > 0 and not answers then answer(jobs) end
    for i = 1, jobs do answers[i] = flow.mark(answers[i]) end
end
local rest = answers and table.concat(answers) .. parts.version_packed() or pack('>I6', now)
words, answers = nil, nil -- they may be large
return changed(ticket, rest)
