-- Jobs as a check reads them, without trust in any value, and how they are put back where they belong. Only part of check*.lua.
local is_readable, is_readable_try, place_of, job_read, jobs_get, holder_of, own_ttl, rehang, check_members, unravel = (function()

local STATES = {'delayed', 'ready', 'leased', 'dead'}

-- Returns true if the record has all that its flags promise.
local function is_readable(record)
    local size = #record
    if size < 15 then return false end
    local flags, at = unpack_from('>B', record), 15
    if flags > 127 then return false end
    if flags % 2 == 1 then
        if size < 44 then return false end
        at = topic_rules.policy_end(record) - 1
        if at > 44 and (at == 45 or at > 45 + 4 * 16) then return false end -- a list of no waits, or of too many
    end
    if flags % 64 >= 32 then at = at + 6 end
    if flags >= flow.RECORD then
        local length = byte(record, at + 1) or 0
        if length == 0 or length > 64 then return false end
        at = at + 1 + length
    end
    if flags % 32 >= batches.RECORD then
        local is_whole, behind = batches.is_readable(record, at + 1)
        if not is_whole then return false end
        at = behind - 1
    end
    if flags % 4 >= 2 then
        if size < at + 1 then return false end
        local length = unpack_from('>B', record, at + 1)
        at = at + 1 + (length <= 128 and length or 0) -- above, it is a type's number
    end
    if flags % 8 >= 4 then
        if size < at + 2 then return false end
        at = at + 2 + unpack_from('>I2', record, at + 1)
    end
    return at <= size
end

local function is_readable_try(try)
    if #try < 37 then return false end
    local state = unpack_from('>B', try)
    if state == LEASED_STATE + holding.FLAG then -- its holder is named, or it has a successor
        if #try < 39 then return false end
        local flags, at = byte(try, 38), 39 + byte(try, 39)
        if flags % 4 >= holding.NEXT then at = at + 6 end
        return flags < 8 and #try >= at and (flags < 4 or #try >= at + 2 and #try >= at + 2 + unpack_from('>I2', try, at + 1))
    end
    return state >= DELAYED and state <= DEAD
end

local function place_of(t, j)
    return pack('>I6', j.sequence) .. flow.place(t, flow.group_of(j)) .. j.id
end

-- Makes a job from record and try if they are readable; else nil.
local function job_read(t, id, record, try)
    if not record or not is_readable(record) then return nil end
    if try and not is_readable_try(try) then try = nil end
    return job_make(t, id, record, try)
end

-- Returns the jobs of these ids; false for each that does not exist. Few records at a time: their bodies come with them.
local function jobs_get(t, ids)
    local jobs, tries = {}, ask_many('HMGET', t.tries, ids)
    for from = 1, #ids, 16 do
        local to = min(from + 15, #ids)
        local records = call('HMGET', t.jobs, unpack(ids, from, to))
        for i = from, to do
            local record = records[i - from + 1]
            step.bytes = step.bytes + (record and #record or 0)
            jobs[i] = job_read(t, ids[i], record, tries[i]) or false
        end
    end
    step.looked = step.looked + #ids
    return jobs
end

-- The job that a delivery number belongs to, by its place; nil where it does not agree.
local function holder_of(delivery, place)
    if not place or #place <= 7 or not string.find(place, '\0', 7, true) then return nil end
    local name, id = flow.split(place)
    local t = topic_find(name)
    local j = t and job_read(t, id, call('HGET', t.jobs, id), call('HGET', t.tries, id))
    if j and j.state == LEASED_STATE and text_of(j.delivery) == delivery and place_of(t, j) == place then return j end
    return nil
end

-- Returns the job's own ttl, or 0 without one.
local function own_ttl(j)
    if j.flags % 2 == 0 then return 0 end
    local _, ttl = unpack_from('>I6I6', j.record, 16)
    return ttl
end

-- Removes a job from every set that a job of this priority and due time could be in; then puts it into that of its state.
local function rehang(t, j)
    call('ZREM', t.held, j.member)
    call('ZREM', t.dead, j.member)
    call('ZREM', t.expiry, j.member)
    if not ready_remove(t, j) and t.flow and j.state == DELAYED then flow.tried(t, j, -1) end
    if delayed_remove(t, j.due, j.member) then
        delayed_remove(t, j.due, j.member) -- fresh and in a leaf
        if t.flow then flow.delayed(t, flow.group_of(j), -1) end
    end
    local delivery = text_of(j.delivery)
    if j.state == LEASED_STATE then
        local other = call('HGET', LEASED, delivery)
        if not other or other == place_of(t, j) or not holder_of(delivery, other) then
            call('ZADD', t.held, j.due, j.member)
            call('ZADD', LEASES, j.lease_until, delivery)
            call('HSET', LEASED, delivery, place_of(t, j))
            soonest = min(soonest, j.lease_until)
            return
        end
        j.state, j.lease_until = DELAYED, 0 -- its number is another's: it goes round again
        try_write(t, j)
    end
    hang(t, j)
end

-- Does each member belong to a job that agrees? `members` with scores, of the sorted set `key`; `fits(j, score)`: nil, or what is wrong.
local function check_members(t, key, where, members, fits)
    local ids = {}
    for i = 1, #members, 2 do ids[#ids + 1] = sub(members[i], 7) end
    local jobs = jobs_get(t, ids)
    for i = 1, #ids do
        local member, score, j = members[2 * i - 1], tonumber(members[2 * i]), jobs[i]
        if not j or j.member ~= member then
            if find(t.name, ids[i], where .. ' has an entry without a job', 'dropped') then call('ZREM', key, member) end
        else
            local wrong = fits(j, score)
            if wrong and find(t.name, j.id, format('is %s, but in the set %s%s', STATES[j.state], where, wrong), 'moved where it belongs') then
                call('ZREM', key, member)
                rehang(t, j)
            end
        end
    end
end

-- Takes a leaf that no index leads to apart, up to `most` jobs. Whether there is more of it.
local function unravel(t, leaf)
    local key = t.leaf .. leaf
    local members, ids = call('ZRANGE', key, 0, step.most - 1), {}
    for i = 1, #members do ids[i] = sub(members[i], 7) end
    local jobs = jobs_get(t, ids)
    call_many('ZREM', key, members)
    for i = 1, #ids do
        local j = jobs[i]
        if j and j.member == members[i] then rehang(t, j) end
    end
    return call('EXISTS', key) == 1
end

return is_readable, is_readable_try, place_of, job_read, jobs_get, holder_of, own_ttl, rehang, check_members, unravel

end)()

