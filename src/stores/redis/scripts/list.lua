#!lua flags=no-writes
-- A page of a topic's jobs in the order of due, then push order, after a cursor.
local name, state, limit, after_due, after_sequence, with_body =
    ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6] == '1'
local BYTES_MAX = 16777216
begin(KEYS, nil, name)

local t = topic_find(name)
if not t then return shown(pack('>BB', NOT_FOUND, 0)) end
local more, bytes, listed = {}, 0, 0

-- Returns kept jobs, newest first. The cursor: the end of the last job's time, and its number; nothing: from the newest.
local function list_kept()
    local is_more = false
    if not has(t, keeping.FLAG) then return is_more end
    kept.walk(t, after_due < 0 and NONE or after_due, after_due < 0 and NONE or after_sequence, function(id, value)
        if not keeping.is_shown(value) then return true end
        is_more = #more / 4 >= limit or bytes > BYTES_MAX
        if is_more then return false end
        if not with_body then value = keeping.without_body(value) end
        bytes = bytes + #value
        local at = #more
        more[at + 1], more[at + 2], more[at + 3], more[at + 4] = id, pack('>B', FINISHED), value, ''
        return true
    end)
    return is_more
end

if state == FINISHED then
    local is_more = list_kept()
    return shown(pack('>BB', OK, is_more and 1 or 0), more)
end

local function sequence_of(member)
    return (unpack_from('>I6', member))
end

-- The rank of the first member of a sorted set that comes after the cursor. Of those due at the same time there may be
-- very many: halving finds the place.
local function rank_after(key)
    local low, high = call('ZCOUNT', key, '-inf', '(' .. text_of(after_due)), call('ZCOUNT', key, '-inf', text_of(after_due))
    while low < high do
        local middle = floor((low + high) / 2)
        if sequence_of(call('ZRANGE', key, middle, middle)[1]) <= after_sequence then low = middle + 1 else high = middle end
    end
    return low
end

local found = {} -- {due, sequence, id, state}

-- Adds up to limit + 1 of a set's members; returns how many.
local function add_from(key, rank, room, state_is)
    local some = call('ZRANGE', key, rank, rank + room - 1, 'WITHSCORES')
    for i = 1, #some, 2 do
        local due = tonumber(some[i + 1])
        local is = state_is or due <= now and READY or DELAYED
        if state == 0 or state == is then
            found[#found + 1] = {due, sequence_of(some[i]), sub(some[i], 7), is}
        end
    end
    return #some / 2
end

-- Adds ready jobs after the cursor: {member, due, …}.
local function add_after(jobs)
    for i = 1, #jobs, 2 do
        local due, number = jobs[i + 1], sequence_of(jobs[i])
        if due > after_due or due == after_due and number > after_sequence then found[#found + 1] = {due, number, sub(jobs[i], 7), READY} end
    end
end

local function add_leaves()
    local first = after_due >= 0 and leaf_of(t, after_due)
    local rank = first and call('ZRANK', t.index, first) or 0
    -- Due jobs that were not moved yet come first.
    if state == DELAYED and after_due <= now then
        after_due, after_sequence = now, NONE
        first = leaf_of(t, now)
        rank = first and call('ZRANK', t.index, first) or 0
    end
    local left = limit + 1
    while left > 0 do
        local leaf = call('ZRANGE', t.index, rank, rank)[1]
        if not leaf then return end
        local key = t.leaf .. leaf
        left = left - add_from(key, leaf == first and rank_after(key) or 0, left)
        rank = rank + 1
    end
end

if state == 0 or state == LEASED_STATE then add_from(t.held, rank_after(t.held), limit + 1, LEASED_STATE) end
if state == 0 or state == DEAD then add_from(t.dead, rank_after(t.dead), limit + 1, DEAD) end
if state == 0 or state == READY then
    for _, priority in ipairs(call('ZRANGE', t.priorities, 0, -1)) do
        local key = t.ready_of .. priority
        local tried = t.flow and flow.tried_first(t, key) or {}
        add_after(tried)
        add_from(key, max(#tried / 2, rank_after(key)), limit + 1, READY)
    end
end
if state == 0 or state == READY or state == DELAYED then
    add_leaves()
    add_from(t.fresh, rank_after(t.fresh), limit + 1)
end

-- Adds jobs that are on their way to another shard: they may not have arrived there yet.
local function add_leaving()
    for _, id in ipairs(call('ZRANGE', T .. ':leaving', '0', '-1')) do
        local j = job_find(t, id)
        local is = j and shown_state(j)
        if j and (state == 0 or state == is) and (j.due > after_due or j.due == after_due and j.sequence > after_sequence) then
            found[#found + 1] = {j.due, j.sequence, id, is}
        end
    end
end
if page_under_way() == name then add_leaving() end

table.sort(found, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
end)

local function without_body(record)
    local flags, at = unpack_from('>B', record), 16
    if flags % 2 == 1 then at = topic_rules.policy_end(record) end
    if flags % 64 >= 32 then at = at + 6 end
    if flags >= flow.RECORD then at = at + 1 + byte(record, at) end
    if flags % 32 >= batches.RECORD then at = batches.skip(record, at) end
    if flags % 4 >= 2 then
        local length = unpack_from('>B', record, at)
        at = at + 1 + (length <= 128 and length or 0)
    end
    if flags % 8 >= 4 then at = at + 2 + unpack_from('>I2', record, at) end
    return sub(record, 1, at - 1)
end

for i = 1, min(limit, #found) do
    local f = found[i]
    local record, try = call('HGET', t.jobs, f[3]), call('HGET', t.tries, f[3]) or ''
    if record then
        if try ~= '' and has(t, HISTORIC) then try = history_shown(record, try, call('HGET', t.history, f[3])) end
        if byte(record) % 32 >= batches.RECORD then record = batches.shown(t, f[3], record) end
        if not with_body then record = without_body(record) end
        bytes = bytes + #record
        if bytes > BYTES_MAX and listed > 0 then break end
        local at = #more
        local held = t.flow and f[4] == READY and flow.held_packed(t, flow.group_in(record)) or ''
        more[at + 1], more[at + 2], more[at + 3], more[at + 4] = f[3], pack('>B', f[4]) .. held, record, try
    end
    listed = i
end
return shown(pack('>BB', OK, #found > listed and 1 or 0), more)
