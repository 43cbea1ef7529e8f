#!lua flags=allow-oom
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
            local record, try = t and call('HGET', t.jobs, id), t and call('HGET', t.tries, id)
            if record and try then
                if t.historic then try = history_shown(record, try, call('HGET', history_key(t), id)) end
                more[#more + 1], more[#more + 2], more[#more + 3] = id, record, try
            end
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

local place_end = name .. '\0'
local topic_lease = policy_of(t, {flags = 0}).lease
local until_texts = {} -- by length of the lease: jobs of a topic mostly share one

-- When the lease ends, as number and text.
local function until_of(lease_length)
    local ms = now + 1 + lease_length
    local text = until_texts[lease_length]
    if not text then
        text = text_of(ms)
        until_texts[lease_length] = text
        soonest = math.min(soonest, ms)
    end
    return ms, text
end

-- How long it is leased, the try that says so, and the due. Without a table for each job: this is done for every one.
local function try_leased(record, try, delivery)
    local flags, priority, _, due = unpack_from('>BI2I6I6', record)
    local attempt, first_due, error, length = 0, due, nil, lease_ms
    if try then
        local at, _
        _, priority, attempt, due, first_due, _, _, _, at = unpack_from(TRY, try)
        error = sub(try, at)
    end
    if length == 0 then
        length = flags % 2 == 0 and topic_lease or policy_of(t, {flags = flags, record = record}).lease
    end
    local ms, text = until_of(length)
    local new = pack(TRY, LEASED_STATE, priority, attempt + 1, due, first_due, ms, delivery, length)
    return error and new .. error or new, text, due
end

-- Redis searches a small hash or sorted set from end to end, as long as it was never large. Those that change with every
-- job are made large for a moment when they are new. Nothing else is called so: no id is empty, no sequence that high.
local LONG = string.rep('\255', 100)

local function is_new(key)
    return call('EXISTS', key) == 0
end

local function hash_add(key, words)
    if not is_new(key) then return call_many('HSET', key, words) end
    call('HSET', key, '', LONG)
    call_many('HSET', key, words)
    call('HDEL', key, '')
end

local function sorted_add(key, words)
    if not is_new(key) then return call_many('ZADD', key, words) end
    call('ZADD', key, 0, LONG)
    call_many('ZADD', key, words)
    call('ZREM', key, LONG)
end

local expiring = max + 64 -- how many of those that are in the way may go in this call

-- True: some of `members` had expired and nobody had seen to them; they are gone.
local function drop_expired(members)
    if t.expires == nil then t.expires = call('EXISTS', t.expiry) == 1 end
    if not t.expires then return false end
    local ends, late = call('ZMSCORE', t.expiry, unpack(members)), {}
    for i = 1, #members do
        if ends[i] and tonumber(ends[i]) <= now then late[#late + 1] = members[i] end
    end
    expire_all(t, late)
    expiring = expiring - #late
    return #late > 0
end

-- The first of `members`, as many as the bytes allow. False: no more are wanted.
local function lease(members, priority)
    if drop_expired(members) then return expiring > 0 end
    local ids, wanted = {}, 0
    for i = 1, #members do ids[i] = sub(members[i], 7) end
    local records, tries = call('HMGET', t.jobs, unpack(ids)), call('HMGET', t.tries, unpack(ids))
    for i = 1, #ids do
        local size = records[i] and #records[i] or 0
        if taken + wanted > 0 and bytes + size > bytes_max then break end
        bytes, wanted = bytes + size, i
    end
    if wanted == 0 then return false end -- a range that ends at -1 would be all of them
    call('ZREMRANGEBYRANK', t.ready_of .. priority, '0', wanted - 1)
    count(t, 'ready', -wanted)

    local delivery = call('HINCRBY', CORE, 'sequence', wanted) - wanted
    first, last = math.min(first, delivery + 1), delivery + wanted
    local new_tries, leased, leases, held = {}, {}, {}, {}
    local at, shown_at = 0, #more
    local histories
    for i = 1, wanted do
        local id, record, member = ids[i], records[i], members[i]
        if record then
            if t.expires ~= false then expiry_remove(t, member) end
            local number = text_of(delivery + i)
            local try, until_text, due = try_leased(record, tries[i], delivery + i)
            new_tries[at + 1], new_tries[at + 2] = id, try
            leased[at + 1], leased[at + 2] = number, sub(member, 1, 6) .. place_end .. id
            leases[at + 1], leases[at + 2] = until_text, number
            held[at + 1], held[at + 2] = text_of(due), member
            if tries[i] and t.historic then
                histories = histories or call('HMGET', history_key(t), unpack(ids, 1, wanted))
                try = history_shown(record, try, histories[i])
            end
            more[shown_at + 1], more[shown_at + 2], more[shown_at + 3] = id, record, try
            at, shown_at, taken = at + 2, shown_at + 3, taken + 1
        end
    end
    hash_add(t.tries, new_tries)
    hash_add(LEASED, leased)
    sorted_add(LEASES, leases)
    sorted_add(t.held, held)
    count(t, 'leased', #leased / 2)
    count(t, 'delivered', #leased / 2)
    return wanted == #ids
end

-- How many to look at next: few at first, then as many as the bytes still allow.
local function step()
    local room = taken == 0 and 16 or floor((bytes_max - bytes) / (bytes / taken + 1)) + 1
    return math.min(max - taken, math.max(1, room), 200)
end

local before = first_score(LEASES)
if t.soonest <= now or first_score(TOPICS) <= now then
    advance_topic(t, max + 64)
    topic_refresh(t)
end
-- Not what is due later: it was moved while the clock was ahead. But servers may differ by a little over how far the clock is, and nobody
-- would be woken again for what another one has found due.
local LEEWAY_MS = 60
local now_text = text_of(now + LEEWAY_MS)

-- Whether all of it was taken.
local function take_from(priority)
    repeat
        local members = call('ZRANGE', t.ready_of .. priority, '-inf', now_text, 'BYSCORE', 'LIMIT', '0', text_of(step()))
        if #members == 0 then break end
        if not lease(members, priority) then max = taken end
    until taken >= max
    return ready_is_empty(t, priority)
end

-- There may be as many priorities as numbers: few at a time, which then are gone from the front.
local from = 0
repeat
    local priorities = call('ZRANGE', t.priorities, text_of(from), text_of(from + 15))
    for i = 1, #priorities do
        if not take_from(priorities[i]) then from = from + 1 end
        if taken >= max then break end
    end
until taken >= max or #priorities < 16
if soonest < before then
    local following = math.min(soonest, first_score(TOPICS))
    if following == soonest then tell('d' .. text_of(soonest)) end
end

local _, following = settle(NOBODY) -- what fell due and was not taken is news to the caller, too
if taken > 0 and ticket ~= '' then
    call('HSET', TICKETS, sub(ticket, 1, 9), sub(ticket, 10, 21) .. pack('>I6', now) .. cmsgpack.pack({first, last}))
end
table.insert(more, 1, head(following))
return more
