-- Topics: found, made, counted, shown.
local topic_keys, FIGURES, topic_find, topic_make, settings_of, topic_packed, count, event_at = (function()

-- ---- topics ----

local function topic_keys(name)
    return {
        name = name, key = T .. ':topic:' .. name, jobs = T .. ':job:' .. name, tries = T .. ':try:' .. name,
        fresh = T .. ':fresh:' .. name, index = T .. ':index:' .. name, leaf = T .. ':leaf:' .. name .. ':', ready_of = T .. ':ready:' .. name .. ':',
        priorities = T .. ':priorities:' .. name, expiry = T .. ':expiry:' .. name, held = T .. ':held:' .. name,
        dead = T .. ':dead:' .. name, finished = T .. ':finished:' .. name,
        soonest = NEVER, change = {}, has_priority = {},
        -- found out later; room for them is made here
        paused = false, packed = '', ready = 0, special = false, settings = false, policy = false, unpacked = false,
    }
end

-- nil where there is none. `special`: some of its jobs have a priority or a ttl of their own. `historic`: some may have a history; it is
-- said by the same field, so that nobody has to ask for one more.
local function topic_find(name)
    local t = known_topics[name]
    if t then return t end
    t = topic_keys(name)
    local f = call('HMGET', t.key, 'paused', 'settings', 'ready', 'special')
    if not f[1] then return nil end
    t.paused, t.packed, t.ready, t.special, t.historic = f[1] == '1', f[2] or '', tonumber(f[3] or 0), f[4] == '1', f[4]
    known_topics[name] = t
    return t
end

-- nil where that would be one too many.
local function topic_make(name, topics_max)
    local t = topic_find(name)
    if t then return t, false end
    if call('ZCARD', TOPICS) >= tonumber(topics_max) then return nil end
    t = topic_keys(name)
    t.paused, t.packed, t.ready, t.special = false, '', 0, false
    call('HSET', t.key, 'paused', '0')
    call('ZADD', TOPICS, '+inf', name)
    known_topics[name] = t
    return t, true
end

local SETTINGS = '>I6I6BI6I6I4BBI2BI6'

local function settings_of(t)
    if t.settings then return t.settings end
    local s = {lease = 0, ttl = 0, backoff = 0, first = 0, max = 0, attempts = 0, on_conflict = 0, priority = 100,
               dead_letter_expired = false, dedup = 0}
    if t.packed ~= '' then
        local has_priority, priority, dead_letter
        s.lease, s.ttl, s.backoff, s.first, s.max, s.attempts, s.on_conflict, has_priority, priority, dead_letter, s.dedup =
            unpack_from(SETTINGS, t.packed)
        if has_priority == 1 then s.priority = priority end
        s.dead_letter_expired = dead_letter == 1
    end
    t.settings = s
    return s
end

local FIGURES = {'delayed', 'retrying', 'ready', 'leased', 'dead', 'dead_bytes', 'pushed', 'acked', 'cancelled', 'expired', 'replaced',
                 'delivered', 'nacked', 'lease_ended', 'died', 'redriven'}
local DEAD_BYTES = 6

-- A topic as it is shown to people.
local function topic_packed(t)
    local figures, packed = call('HMGET', t.key, 'extension', unpack(FIGURES)), {pack('>B', t.paused and 1 or 0)}
    local extension = table.remove(figures, 1) or ''
    -- Servers of before do not count these.
    figures[DEAD_BYTES] = math.max(0, tonumber(figures[DEAD_BYTES] or 0))
    for i = 1, #FIGURES do packed[i + 1] = pack('>I6', tonumber(figures[i] or 0)) end
    local priority = call('ZRANGE', t.priorities, '0', '0')[1]
    local oldest = priority and call('ZRANGE', t.ready_of .. priority, '0', '0', 'WITHSCORES')[2]
    packed[#packed + 1] = pack('>I6', tonumber(oldest or 0))
    return table.concat(packed) .. pack('>B', #t.packed) .. t.packed .. extension
end

local function count(t, field, step)
    t.change[field] = (t.change[field] or 0) + step
end

local function event_at(t, ms)
    if ms < t.soonest then t.soonest = ms end
end

return topic_keys, FIGURES, topic_find, topic_make, settings_of, topic_packed, count, event_at

end)()

