#!lua flags=allow-oom
-- parts: base topics leaves jobs due ending
-- Leases up to `max` ready jobs of a topic: by priority, due, push order.
local ticket, name, max, bytes_max, lease_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

-- Asked again: those leases that still stand.
local function show_again(first, last)
    local more = {}
    for delivery = first, last do
        local place = call('HGET', LEASED, text_of(delivery))
        if place then
            local split = string.find(place, '\0', 7, true)
            local t, id = topic_find(sub(place, 7, split - 1)), sub(place, split + 1)
            more[#more + 1], more[#more + 2], more[#more + 3] = id, call('HGET', t.jobs, id), call('HGET', t.tries, id)
        end
    end
    return shown('', more)
end

local kept = answered_before(ticket)
if kept then return show_again(kept[1], kept[2]) end

local t = topic_find(name)
if not t or t.paused then return shown('') end

local more, bytes, taken = {}, 0, 0
local first, last = NONE, 0

-- The first of `members` (with scores), as many as the bytes allow. False: no more are wanted.
local function lease(members, priority)
    local ids, wanted = {}, {}
    for i = 1, #members, 2 do ids[#ids + 1] = sub(members[i], 7) end
    local records, tries = call('HMGET', t.jobs, unpack(ids)), call('HMGET', t.tries, unpack(ids))
    for i = 1, #ids do
        local size = records[i] and #records[i] or 0
        if taken + #wanted > 0 and bytes + size > bytes_max then break end
        bytes = bytes + size
        wanted[i] = records[i] and job_make(t, ids[i], records[i], tries[i]) or false
    end
    if #wanted == 0 then return false end -- a range that ends at -1 would be all of them
    call('ZREMRANGEBYRANK', t.ready_of .. priority, 0, #wanted - 1)
    count(t, 'ready', -#wanted)

    local delivery = call('HINCRBY', CORE, 'sequence', #wanted) - #wanted
    first, last = math.min(first, delivery + 1), delivery + #wanted
    local new_tries, leased, leases, held = {}, {}, {}, {}
    for i = 1, #wanted do
        local j = wanted[i]
        if j then
            expiry_remove(t, j.member)
            j.state, j.attempt, j.delivery = LEASED_STATE, j.attempt + 1, delivery + i
            j.lease = lease_ms > 0 and lease_ms or policy_of(t, j).lease
            j.lease_until = now + 1 + j.lease
            soonest = math.min(soonest, j.lease_until)
            local at, number, try = #leased, text_of(j.delivery), try_of(j)
            new_tries[at + 1], new_tries[at + 2] = j.id, try
            leased[at + 1], leased[at + 2] = number, pack('>I6', j.sequence) .. name .. '\0' .. j.id
            leases[at + 1], leases[at + 2] = j.lease_until, number
            held[at + 1], held[at + 2] = j.due, j.member
            more[#more + 1], more[#more + 2], more[#more + 3] = j.id, j.record, try
            taken = taken + 1
        end
    end
    call_many('HSET', t.tries, new_tries)
    call_many('HSET', LEASED, leased)
    call_many('ZADD', LEASES, leases)
    call_many('ZADD', t.held, held)
    count(t, 'leased', #leased / 2)
    count(t, 'delivered', #leased / 2)
    return #wanted == #ids
end

-- How many to look at next: few at first, then as many as the bytes still allow.
local function step()
    local room = taken == 0 and 8 or floor((bytes_max - bytes) / (bytes / taken + 1)) + 1
    return math.min(max - taken, math.max(1, room), 200)
end

local before = first_score(LEASES)
if t.soonest <= now or first_score(TOPICS) <= now then
    advance_topic(t, max + 64)
    topic_refresh(t)
end
local priorities = call('ZRANGE', t.priorities, 0, -1)
for i = 1, #priorities do
    local members
    repeat
        members = call('ZRANGE', t.ready_of .. priorities[i], 0, step() - 1, 'WITHSCORES')
        if #members == 0 then break end
        if not lease(members, priorities[i]) then max = taken end
    until taken >= max
    ready_is_empty(t, priorities[i])
    if taken >= max then break end
end
if soonest < before then
    local following = math.min(soonest, first_score(TOPICS))
    if following == soonest then call('SPUBLISH', T .. ':news', 'd' .. text_of(soonest)) end
end

local _, following = settle(NOBODY) -- what fell due and was not taken is news to the caller, too
if taken > 0 and ticket ~= '' then
    call('HSET', TICKETS, sub(ticket, 1, 9), sub(ticket, 10) .. pack('>I6', now) .. cmsgpack.pack({first, last}))
end
table.insert(more, 1, head(following))
return more
