#!lua name=tarry_515ac02ac9
-- What all scripts stand on, first of seven parts that stand in front of them. README.md one folder up says what the keys hold.
-- The parts are run once, when the library is loaded, and Redis gives them nothing then: `begin` fetches what a call needs.

local call, pack, unpack_from, floor, sub, byte, char, format
local ARGV
local T, CORE, TOPICS, LEASES, LEASED, TICKETS, UNPACKED
local NONE, NEVER = 2 ^ 48 - 1, 1 / 0

local OK, CREATED, REPLACED, EXISTED, CANCELLED = 0, 1, 2, 3, 4
local NOT_FOUND, CONFLICT, IS_LEASED, IS_DEAD, LEASE_ENDED = 5, 6, 7, 8, 9
local BAD_OPTION, TOO_MANY_TOPICS = 12, 14
local DELAYED, READY, LEASED_STATE, DEAD, FINISHED = 1, 2, 3, 4, 5
local WHEN_NOW, WHEN_DELAY, WHEN_AT = 1, 2, 3

local DELAY_MAX = 3653 * 24 * 3600 * 1000
local LEAF_MAX = 100 -- below Redis' own limit of the compact form (zset-max-listpack-entries 128)
local FAR_MS = 60000  -- what is due later than this from now is worth packing
local MANY = 500     -- arguments of one command, so that Lua's stack is never short

-- ---- time ----

local wall, adjust
local clock, now -- as it is shown; and what happens goes by `now`, which a call's window may hold back

local soonest -- the earliest event this call brought about
local known_topics -- those this call has to do with, by name

-- Each call begins with it. `wants_core`: refused, before anything was changed, where the shard's core is not there (any more).
local function begin(keys, arguments, wants_core)
    call, pack, unpack_from = redis.call, struct.pack, struct.unpack
    floor, sub, byte, char, format = math.floor, string.sub, string.byte, string.char, string.format
    ARGV = arguments
    CORE = keys[1]
    T = sub(CORE, 1, -6) -- without ':core'
    TOPICS, LEASES, LEASED, TICKETS, UNPACKED = T .. ':topics', T .. ':leases', T .. ':leased', T .. ':tickets', T .. ':unpacked'

    -- Refused by a cluster exactly while the shard's slot is moving (README.md, "A slot that moves").
    call('EXISTS', T .. ':never:1', T .. ':never:2')

    local time = call('TIME')
    wall = time[1] * 1000 + floor(time[2] / 1000)
    local core = call('HMGET', CORE, 'version', 'adjust')
    if wants_core and not core[1] then error({err = 'GONE the core of this shard is not there, Redis lost its data'}) end
    adjust = tonumber(core[2] or 0) or 0
    clock = wall + adjust
    now, soonest, known_topics = clock, NEVER, {}
end

local function text_of(number)
    return format('%d', number)
end

-- To the other servers. They look by themselves where nothing comes, so nothing fails of it: an error here would leave a call half done.
local function tell(news)
    redis.pcall('SPUBLISH', T .. ':news', news)
end

-- ---- sending many arguments ----

-- `words` in groups of up to `MANY`, each with the same command and key.
local function call_many(command, key, words)
    local count = #words
    if count == 0 then return end
    if count <= MANY then return call(command, key, unpack(words)) end
    for from = 1, count, MANY do
        call(command, key, unpack(words, from, math.min(from + MANY - 1, count)))
    end
end

-- The same for a command that answers one thing per word.
local function ask_many(command, key, words)
    local count = #words
    if count == 0 then return {} end
    if count <= MANY then return call(command, key, unpack(words)) end
    local all = {}
    for from = 1, count, MANY do
        local some = call(command, key, unpack(words, from, math.min(from + MANY - 1, count)))
        for i = 1, #some do all[from + i - 1] = some[i] end
    end
    return all
end

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

-- Where delayed and ready jobs hang.
local leaf_of, leaves_add, delayed_add, delayed_remove, delayed_take_due, delayed_first, ready_add, ready_is_empty,
    ready_remove = (function()

-- ---- leaves: small sorted sets in Redis' compact form, each with a span of due times ----

local function leaf_of(t, due)
    return call('ZREVRANGEBYSCORE', t.index, due, '-inf', 'LIMIT', '0', '1')[1]
end

local function leaf_new(t, lowest)
    local leaf = tostring(call('HINCRBY', CORE, 'leaf', 1))
    call('ZADD', t.index, lowest, leaf)
    return leaf
end

-- A full leaf that `due` belongs to. False where it cannot be split: all of it is due at once.
local function leaf_split(t, leaf, size, due)
    local key = t.leaf .. leaf
    if due > tonumber(call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]) then
        leaf_new(t, due) -- those that come in order fill leaves to the brim
        return true
    end
    local middle = tonumber(call('ZRANGE', key, floor(size / 2), floor(size / 2), 'WITHSCORES')[2])
    if middle == tonumber(call('ZRANGE', key, '0', '0', 'WITHSCORES')[2]) then
        middle = tonumber(call('ZRANGE', key, '(' .. text_of(middle), '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2])
        if not middle then return false end
    end
    local moved, words = call('ZRANGE', key, middle, '+inf', 'BYSCORE', 'WITHSCORES'), {}
    for i = 1, #moved, 2 do
        words[i], words[i + 1] = moved[i + 1], moved[i]
    end
    call('ZREMRANGEBYSCORE', key, middle, '+inf')
    call_many('ZADD', t.leaf .. leaf_new(t, middle), words)
    return true
end

-- Of the items at..: the last one that belongs to the leaf and finds room; at - 1: the leaf was split, look again.
local function last_in_leaf(t, leaf, items, at)
    local size, due = call('ZCARD', t.leaf .. leaf), items[at][1]
    if size >= LEAF_MAX and leaf_split(t, leaf, size, due) then return at - 1 end
    local above = call('ZRANGE', t.index, '(' .. text_of(due), '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2]
    above = above and tonumber(above) or NEVER
    local last = at
    while last < #items and last - at < MANY / 2 - 1 do
        local following = items[last + 1][1]
        if following ~= due and (following >= above or size + last - at + 1 >= LEAF_MAX) then break end
        last = last + 1
    end
    return last
end

-- `items`: {due, member} each, sorted by due. Neighbours go into their leaf together.
local function leaves_add(t, items)
    local at = 1
    while at <= #items do
        local leaf = leaf_of(t, items[at][1]) or leaf_new(t, 0)
        local last, words = last_in_leaf(t, leaf, items, at), {}
        for i = at, last do
            words[#words + 1], words[#words + 2] = items[i][1], items[i][2]
        end
        if last >= at then call('ZADD', t.leaf .. leaf, unpack(words)) end
        at = last + 1
    end
end

local function leaf_remove(t, due, member)
    local leaf = leaf_of(t, due)
    if not leaf then return false end
    local key = t.leaf .. leaf
    if call('ZREM', key, member) == 0 then return false end
    if call('EXISTS', key) == 0 then call('ZREM', t.index, leaf) end
    return true
end

-- ---- delayed jobs: fresh ones as they came; those far away are packed into leaves when there is time (pack.lua) ----

-- `words`: {due, member, due, member, …}; the earliest and the latest due of them.
local function delayed_add(t, words, first, last)
    if #words == 0 then return end
    call_many('ZADD', t.fresh, words)
    event_at(t, first)
    if last > now + FAR_MS and not t.unpacked then
        call('SADD', UNPACKED, t.name)
        t.unpacked = true
    end
end

-- False where it is not there.
local function delayed_remove(t, due, member)
    return call('ZREM', t.fresh, member) == 1 or leaf_remove(t, due, member)
end

-- Up to `max` that are due, taken out: {member, due, member, due, …}.
local function delayed_take_due(t, max)
    local all = call('ZRANGE', t.fresh, '-inf', now, 'BYSCORE', 'LIMIT', '0', max, 'WITHSCORES')
    if #all > 0 then call('ZREMRANGEBYRANK', t.fresh, '0', #all / 2 - 1) end
    while #all < 2 * max do
        local leaf = call('ZRANGE', t.index, '0', '0')[1]
        if not leaf then break end
        local key = t.leaf .. leaf
        local some = call('ZRANGE', key, '-inf', now, 'BYSCORE', 'LIMIT', '0', max - #all / 2, 'WITHSCORES')
        if #some > 0 then call('ZREMRANGEBYRANK', key, '0', #some / 2 - 1) end
        for i = 1, #some do all[#all + 1] = some[i] end
        if call('EXISTS', key) == 1 then break end
        call('ZREM', t.index, leaf)
    end
    return all
end

local function delayed_first(t)
    local fresh = call('ZRANGE', t.fresh, '0', '0', 'WITHSCORES')[2]
    local leaf = call('ZRANGE', t.index, '0', '0')[1]
    local packed = leaf and call('ZRANGE', t.leaf .. leaf, '0', '0', 'WITHSCORES')[2]
    return math.min(fresh and tonumber(fresh) or NEVER, packed and tonumber(packed) or NEVER)
end

-- ---- ready jobs ----

-- `words`: {due, member, due, member, …}.
local function ready_add(t, priority, words)
    if not t.has_priority[priority] then
        call('ZADD', t.priorities, priority, priority)
        t.has_priority[priority] = true
    end
    call_many('ZADD', t.ready_of .. priority, words)
    count(t, 'ready', #words / 2)
end

local function ready_is_empty(t, priority)
    if call('EXISTS', t.ready_of .. priority) == 1 then return false end
    call('ZREM', t.priorities, priority)
    t.has_priority[priority] = nil
    return true
end

local function ready_remove(t, priority, member)
    if call('ZREM', t.ready_of .. priority, member) == 0 then return false end
    ready_is_empty(t, priority)
    return true
end

return leaf_of, leaves_add, delayed_add, delayed_remove, delayed_take_due, delayed_first, ready_add, ready_is_empty,
    ready_remove

end)()

-- What became of a job's attempts, beside its try: those that ended without an ack, as job/job.h encodes a history, so that nobody has to
-- turn it into something else. The key is another than the try's because servers of before know nothing of it, and the sequence stands in
-- it because they leave it behind.
local history_key, history_begun, history_add, history_forget, history_shown = (function()

local HEAD, HEAD_BYTES = '>I6I6I6B', 19 -- sequence of the job; delivery that is under way, when it began; attempts
local ATTEMPTS_MAX, ERROR_BYTES_MAX = 8, 100

local function history_key(t)
    return T .. ':history:' .. t.name
end

-- What is kept; of another job that had the id before: nothing.
local function read(t, j)
    local kept = t.historic and call('HGET', history_key(t), j.id)
    if not kept or #kept < HEAD_BYTES or unpack_from('>I6', kept) ~= j.sequence then
        return {delivery = 0, started = 0, lengths = '', attempts = ''}
    end
    local _, delivery, started, attempts, at = unpack_from(HEAD, kept)
    return {delivery = delivery, started = started, lengths = sub(kept, at, at + attempts - 1), attempts = sub(kept, at + attempts)}
end

local function write(t, j, h)
    if not t.historic then
        t.historic = true
        if not t.special then call('HSET', t.key, 'special', '2') end
    end
    call('HSET', history_key(t), j.id, pack(HEAD, j.sequence, h.delivery, h.started, #h.lengths) .. h.lengths .. h.attempts)
end

-- When a lease began that nobody has extended.
local function started_of(j)
    return math.max(0, j.lease_until - 1 - j.lease)
end

-- Before the end of a lease is moved: then nothing else tells when it began.
local function history_begun(t, j)
    local h = read(t, j)
    if h.delivery == j.delivery then return end
    h.delivery, h.started = j.delivery, started_of(j)
    write(t, j, h)
end

local function varint(number)
    local text = ''
    while number >= 128 do
        text, number = text .. char(number % 128 + 128), floor(number / 128)
    end
    return text .. char(number)
end

-- A character cut in two would be none: up to three bytes less.
local function cut(error)
    if #error <= ERROR_BYTES_MAX then return error end
    local length = ERROR_BYTES_MAX
    while length > ERROR_BYTES_MAX - 3 and floor(byte(error, length + 1) / 64) == 2 do length = length - 1 end
    return sub(error, 1, length)
end

-- The attempt of a leased job ended. It is shown on the wall clock as that is now. The oldest makes room.
local function history_add(t, j, outcome, ended, error)
    local h = read(t, j)
    local started = math.min(h.delivery == j.delivery and h.started or started_of(j), ended)
    error = cut(error)
    local attempt = varint(j.attempt) .. varint(math.max(0, started - adjust)) .. varint(ended - started) .. char(outcome) .. varint(#error) .. error
    if #h.lengths >= ATTEMPTS_MAX then
        h.attempts, h.lengths = sub(h.attempts, byte(h.lengths) + 1), sub(h.lengths, 2)
    end
    h.delivery, h.started, h.lengths, h.attempts = 0, 0, h.lengths .. char(#attempt), h.attempts .. attempt
    write(t, j, h)
end

local function history_forget(t, ids)
    if t.historic then call_many('HDEL', history_key(t), ids) end
end

-- A job's try as answers show it: with the history, where there is one (README.md, "Calls").
local function history_shown(record, try, kept)
    if not kept or #kept < HEAD_BYTES then return try end
    local _, _, sequence = unpack_from('>BI2I6', record)
    local of, _, _, attempts, at = unpack_from(HEAD, kept)
    if of ~= sequence or attempts == 0 then return try end
    return char(byte(try) % 128 + 128) .. sub(try, 2, 37) .. pack('>I2', #try - 37) .. sub(try, 38) .. sub(kept, at + attempts)
end

return history_key, history_begun, history_add, history_forget, history_shown

end)()

-- A job: read, hung where it belongs, failed, finished.
local TRY, job_make, job_find, try_of, try_write, policy_of, shown_state, expiry_remove, unhang, expire_later, hang, finish,
    chance_seed, fail, FAILED, LEASE_OVER, REFUSED = (function()

-- ---- jobs ----

local TRY = '>BI2I4I6I6I6I6I6'

-- From a record and, where there is one, a try.
local function job_make(t, id, record, try)
    local flags, priority, sequence, due = unpack_from('>BI2I6I6', record)
    local j = {id = id, record = record, flags = flags, sequence = sequence, member = pack('>I6', sequence) .. id,
               priority = priority, due = due, first = due, state = DELAYED, attempt = 0, lease_until = 0, delivery = 0,
               lease = 0, error = '', tried = try and true or false}
    if try then
        local at
        j.state, j.priority, j.attempt, j.due, j.first, j.lease_until, j.delivery, j.lease, at = unpack_from(TRY, try)
        j.error = sub(try, at)
    end
    return j
end

local function job_find(t, id)
    local record = call('HGET', t.jobs, id)
    return record and job_make(t, id, record, call('HGET', t.tries, id))
end

local function try_of(j)
    return pack(TRY, j.state, j.priority, j.attempt, j.due, j.first, j.lease_until, j.delivery, j.lease) .. j.error
end

local function try_write(t, j)
    call('HSET', t.tries, j.id, try_of(j))
    j.tried = true
end

-- Own, else the topic's, else the default (job/policy.h).
local function policy_of(t, j)
    local own = j.flags % 2 == 1
    if not own and t.policy then return t.policy end
    local s = settings_of(t)
    local p = {lease = s.lease, ttl = s.ttl, backoff = s.backoff, first = s.first, max = s.max, attempts = s.attempts}
    if own then
        local lease, ttl, backoff, first, max, attempts = unpack_from('>I6I6BI6I6I4', j.record, 16)
        if lease > 0 then p.lease = lease end
        if ttl > 0 then p.ttl = ttl end
        if backoff > 0 then p.backoff, p.first, p.max = backoff, first, max end
        if attempts > 0 then p.attempts = attempts end
    end
    if p.lease == 0 then p.lease = 60000 end
    if p.backoff == 0 then p.backoff, p.first, p.max = 2, 1000, 600000 end
    if p.attempts == 0 then p.attempts = 16 end
    if not own then t.policy = p end
    return p
end

-- What people see: a job whose due has passed is ready, also before it was moved.
local function shown_state(j)
    return j.state == DELAYED and j.due <= now and READY or j.state
end

local function ttl_of(t, j)
    return (j.flags % 2 == 1 or t.packed ~= '') and policy_of(t, j).ttl or 0
end

-- Whatever its ttl is now: it may have become ready under another setting of the topic.
local function expiry_remove(t, member)
    if t.expires == nil then t.expires = call('EXISTS', t.expiry) == 1 end
    if t.expires then call('ZREM', t.expiry, member) end
end

-- What a dead job takes, about.
local function bytes_of(j)
    return #j.record + #j.id
end

-- Takes a job out of where its state keeps it.
local function unhang(t, j)
    if j.state == LEASED_STATE then
        call('ZREM', t.held, j.member)
        call('ZREM', LEASES, text_of(j.delivery))
        call('HDEL', LEASED, text_of(j.delivery))
        count(t, 'leased', -1)
    elseif j.state == DEAD then
        call('ZREM', t.dead, j.member)
        count(t, 'dead', -1)
        count(t, 'dead_bytes', -bytes_of(j))
    elseif j.due <= now and ready_remove(t, j.priority, j.member) then
        count(t, 'ready', -1)
        expiry_remove(t, j.member)
    elseif delayed_remove(t, j.due, j.member) then
        count(t, j.attempt > 0 and 'retrying' or 'delayed', -1)
    elseif j.due > now and ready_remove(t, j.priority, j.member) then -- it was due before the clock went back
        count(t, 'ready', -1)
        expiry_remove(t, j.member)
    end
end

local function expire_later(t, j)
    local ttl = ttl_of(t, j)
    if ttl == 0 then return end
    call('ZADD', t.expiry, j.first + ttl, j.member)
    t.expires = true
    event_at(t, j.first + ttl)
end

-- Hangs a job that is neither leased nor finished where its state and due want it.
local function hang(t, j)
    if j.state == DEAD then
        call('ZADD', t.dead, j.due, j.member)
        count(t, 'dead', 1)
        count(t, 'dead_bytes', bytes_of(j))
        t.has_dead = true
    elseif j.due <= now then
        ready_add(t, j.priority, {j.due, j.member})
        expire_later(t, j)
    else
        delayed_add(t, {j.due, j.member}, j.due, j.due)
        count(t, j.attempt > 0 and 'retrying' or 'delayed', 1)
    end
end

-- The job is gone (and was unhung). `total`: acked, cancelled, expired. Only a purge forgets it at once.
local function finish(t, j, total, is_purge)
    call('HDEL', t.jobs, j.id)
    if j.tried then
        call('HDEL', t.tries, j.id)
        history_forget(t, {j.id})
    end
    count(t, total, 1)
    local window = settings_of(t).dedup
    if window > 0 and not is_purge then
        call('ZADD', t.finished, now + 1 + window, j.id)
        event_at(t, now + 1 + window)
    end
end

-- ---- failing ----

local chances = {state = 1}

-- From what the server drew (`chance` below 2^48), a new number below 1 each time.
local function chance_seed(text)
    chances.state = (tonumber(text) or 1) % 2147483647
end

local function chance_next()
    chances.state = (chances.state * 48271 + 1) % 2147483647
    return chances.state / 2147483647
end

-- As policy_backoff_ms in job/policy.c.
local function backoff_ms(p, attempt)
    local wait = p.first
    if p.backoff == 2 then
        wait = attempt > 60 and p.max or math.min(p.first * 2 ^ (attempt - 1), p.max)
    end
    wait = math.min(wait, DELAY_MAX)
    local spread = floor(wait * 20 / 100)
    return wait - spread + floor(chance_next() * (2 * spread + 1))
end

local FAILED, LEASE_OVER, REFUSED = 1, 2, 3 -- enum job_outcome

-- The attempt ended without an ack and the job is unhung: it waits for the next one, or is dead. delay NONE: by backoff.
local function fail(t, j, delay, error, outcome)
    local p = policy_of(t, j)
    history_add(t, j, outcome, outcome == LEASE_OVER and math.min(now, j.lease_until) or now, error)
    j.error, j.state, j.lease_until = error, DELAYED, 0
    if outcome == REFUSED or j.attempt >= p.attempts then
        j.state = DEAD
        count(t, 'died', 1)
    else
        if delay == NONE then delay = backoff_ms(p, j.attempt) end
        j.due = now + (delay > 0 and delay + 1 or 0)
    end
    hang(t, j)
    try_write(t, j)
end

return TRY, job_make, job_find, try_of, try_write, policy_of, shown_state, expiry_remove, unhang, expire_later, hang,
    finish, chance_seed, fail, FAILED, LEASE_OVER, REFUSED

end)()

-- Letting what is due happen.
local advance_topic, expire_all = (function()

-- ---- letting what is due happen ----

-- Ready jobs whose ttl is over.
local function expire_all(t, members)
    for i = 1, #members do
        local j = job_find(t, sub(members[i], 7))
        call('ZREM', t.expiry, members[i])
        -- Not one that is elsewhere by now: a topic may have lost its ttl in between.
        if j and j.member == members[i] and ready_remove(t, j.priority, j.member) then
            count(t, 'ready', -1)
            if settings_of(t).dead_letter_expired then
                j.state, j.error = DEAD, 'expired'
                count(t, 'died', 1)
                hang(t, j)
                try_write(t, j)
            else
                finish(t, j, 'expired')
            end
        end
    end
end

local function expire_some(t, max)
    local members = call('ZRANGE', t.expiry, '-inf', now, 'BYSCORE', 'LIMIT', '0', max)
    expire_all(t, members)
    return #members
end

-- Every one must be looked at: it may have a priority or a ttl of its own, and those tried are counted apart.
local function move_looking(t, due)
    for from = 1, #due, 64 do
        local ids = {}
        for i = from, math.min(from + 63, #due), 2 do ids[#ids + 1] = sub(due[i], 7) end
        local records, tries = call('HMGET', t.jobs, unpack(ids)), call('HMGET', t.tries, unpack(ids))
        for i = 1, #ids do
            if records[i] then
                local j = job_make(t, ids[i], records[i], tries[i])
                count(t, j.attempt > 0 and 'retrying' or 'delayed', -1)
                ready_add(t, j.priority, {j.due, j.member})
                expire_later(t, j)
            end
        end
    end
end

-- Up to `max` jobs of the topic. Returns how many.
local function advance_topic(t, max)
    local due = delayed_take_due(t, max)
    if #due > 0 then
        local looks = t.special or t.packed ~= '' and (settings_of(t).ttl > 0)
        local tried = 0
        if not looks then
            local ids = {}
            for i = 1, #due, 2 do ids[#ids + 1] = sub(due[i], 7) end
            local tries = ask_many('HMGET', t.tries, ids)
            for i = 1, #ids do
                if tries[i] and unpack_from(TRY, tries[i]) then
                    local _, _, attempt = unpack_from(TRY, tries[i])
                    if attempt > 0 then tried = tried + 1 end
                end
            end
            local words = {}
            for i = 1, #due, 2 do words[i], words[i + 1] = due[i + 1], due[i] end
            count(t, 'retrying', -tried)
            count(t, 'delayed', tried - #ids)
            ready_add(t, 100, words)
        else
            move_looking(t, due)
        end
    end
    local done = #due / 2
    if done < max then done = done + expire_some(t, max - done) end
    if done < max then
        local old = call('ZCOUNT', t.finished, '-inf', now)
        if old > max - done then old = max - done end
        if old > 0 then call('ZREMRANGEBYRANK', t.finished, '0', old - 1) end
        done = done + old
    end
    return done
end

return advance_topic, expire_all

end)()

-- The end of a call: counts and events written down, others told, the answer; and tickets.
local first_score, topic_refresh, settings_tell, settle, head, shown, NOBODY, server_of, clock_within, answered_before, changed, repeated = (function()

-- ---- the end of a call ----

local function first_score(key)
    local first = call('ZRANGE', key, '0', '0', 'WITHSCORES')
    return first[2] and tonumber(first[2]) or NEVER
end

local function next_event()
    return math.min(first_score(TOPICS), first_score(LEASES))
end

-- After a topic's due jobs were moved its earliest event is looked up anew.
local function topic_refresh(t)
    local ms = math.min(delayed_first(t), first_score(t.expiry), first_score(t.finished))
    call('ZADD', TOPICS, ms == NEVER and '+inf' or ms, t.name)
    t.soonest = NEVER
end

local NOBODY = '--------'

local function server_of(ticket)
    return ticket ~= '' and sub(ticket, 1, 8) or NOBODY
end

-- The topic's settings are others now, or it is gone. Numbered, so that each server knows whether it heard of all; `server` knows.
local function settings_tell(server, name)
    tell('s' .. server .. text_of(call('HINCRBY', CORE, 'changes', 1)) .. ' ' .. name)
end

-- Jobs of the topic died in this call, or came here dead: those who look after such hear of it.
local function deaths_tell(t)
    if call('HEXISTS', t.key, 'extension') == 1 then tell('x' .. text_of(call('HINCRBY', CORE, 'deaths', 1)) .. ' ' .. t.name) end
end

-- Writes counts and events down and tells the other servers. Returns the topics that had nothing ready and have now, and
-- the shard's earliest event.
local function settle(server)
    local woken, before = {}, nil
    for name, t in pairs(known_topics) do
        local emptied = false
        for field, step in pairs(t.change) do
            local is = step ~= 0 and not t.deleted and call('HINCRBY', t.key, field, text_of(step))
            if is == 0 and field == 'dead' then emptied = true end
        end
        -- Whatever servers of before did not count is gone.
        if emptied then call('HDEL', t.key, 'dead_bytes') end
        local ready = t.ready + (t.change.ready or 0)
        if t.ready == 0 and ready > 0 and not t.paused then
            woken[#woken + 1] = name
            tell('r' .. server .. name)
        end
        if t.has_dead then deaths_tell(t) end
        t.ready, t.change, t.has_dead = ready, {}, false
        if t.soonest < NEVER and not t.deleted then
            before = before or next_event()
            call('ZADD', TOPICS, 'LT', text_of(t.soonest), name)
            soonest = math.min(soonest, t.soonest)
        end
    end
    local following = before and math.min(before, soonest) or math.min(next_event(), soonest)
    if before and following < before then tell('d' .. text_of(following)) end
    return woken, following
end

local function head(following, rest)
    return pack('>I6I6i6', clock, following == NEVER and NONE or following, adjust) .. (rest or '')
end

-- The answer of a call that only looked.
local function shown(rest, more)
    local answer = more or {}
    table.insert(answer, 1, head(next_event(), rest))
    return answer
end

-- ---- tickets: no call is carried out twice ----

-- What the caller knows of the time from its own elapsed time. A clock that jumped, or a call that waited for long: it is
-- carried out as of the latest moment that is sure to have been. A clock that went back: nothing is.
local function clock_within(window)
    if window == '' then return end
    local earliest, latest = unpack_from('>I6I6', window)
    if clock < earliest then error({err = 'CLOCK it went back'}) end
    if clock > latest then
        now = latest
        wall = now - adjust
    end
end

-- What this very call was answered when it was carried out before: rest and more; nil: it was not.
local function answered_before(ticket)
    if ticket == '' then return nil end
    clock_within(sub(ticket, 22))
    local kept = call('HGET', TICKETS, sub(ticket, 1, 9))
    if not kept then return nil end
    local last, number = sub(kept, 1, 12), sub(ticket, 10, 21)
    if last > number then error({err = 'STALE a later call of this slot was carried out'}) end
    if last < number then return nil end
    return cmsgpack.unpack(sub(kept, 19))
end

local function ticket_keep(ticket, what)
    if ticket == '' then return end
    call('HSET', TICKETS, sub(ticket, 1, 9), sub(ticket, 10, 21) .. pack('>I6', now) .. cmsgpack.pack(what))
end

-- The answer of a call that changed something. `server`: who knows already what became ready, where it is not the caller.
local function changed(ticket, rest, more, server)
    local _, following = settle(server or server_of(ticket))
    ticket_keep(ticket, {rest or '', more or {}})
    local answer = more or {}
    table.insert(answer, 1, head(following, rest))
    return answer
end

local function repeated(kept)
    return shown(kept[1], kept[2])
end

return first_score, topic_refresh, settings_tell, settle, head, shown, NOBODY, server_of, clock_within, answered_before, changed, repeated

end)()

redis.register_function{function_name='tarry_515ac02ac9_hello', flags={'allow-oom'}, callback=function(keys, arguments)
begin(keys, arguments, false)
-- A server has reached the shard's master: makes the shard where it is new, and says how it stands.
local run, shards, name, drawn = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- Where jobs are left of a shard whose core was lost, numbers begin above any given out: the clock is.
local is_new = call('HSETNX', CORE, 'version', '1')
if is_new == 1 then
    local number = text_of(call('EXISTS', TOPICS) * now)
    local first = {shards = shards, sequence = number, leaf = number, adjust = '0', run = run}
    for field, value in pairs(first) do call('HSETNX', CORE, field, value) end
end
if call('HGET', CORE, 'version') ~= '1' then
    return redis.error_reply('VERSION the jobs were stored by a newer tarry, use that one or another prefix')
end

-- Another process serves the shard, and may have lost its last writes: numbers given out by the one before must not come
-- again.
if call('HGET', CORE, 'run') ~= run then
    call('HSET', CORE, 'run', run)
    call('HINCRBY', CORE, 'sequence', 1000000)
end

-- The queue's name, in its first shard: drawn once, by whichever server came first.
if name ~= '' then
    call('HSETNX', CORE, 'name', name)
    name = call('HGET', CORE, 'name')
end

-- Servers come and go: what is older than a day belongs to none that has a call under way.
if call('HLEN', TICKETS) > 64 then
    local kept, old = call('HGETALL', TICKETS), {}
    for i = 1, #kept, 2 do
        if unpack_from('>I6', kept[i + 1], 13) < now - 86400000 then old[#old + 1] = kept[i] end
    end
    call_many('HDEL', TICKETS, old)
end

-- Under this key servers check leases. Whoever greets first has drawn it, for all of them.
call('HSETNX', CORE, 'lease_key', drawn)

return shown(pack('>BI4I6', is_new, tonumber(call('HGET', CORE, 'shards')), tonumber(call('HGET', CORE, 'sequence')))
    .. call('HGET', CORE, 'lease_key') .. name)

end}
redis.register_function{function_name='tarry_515ac02ac9_adjust', flags={'allow-oom'}, callback=function(keys, arguments)
begin(keys, arguments, true)
-- The shard's clock jumped: one of the servers sets it right; the others find it done.
local ticket, expected, new = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local kept = answered_before(ticket)
if kept then return repeated(kept) end
if adjust == expected then
    call('HSET', CORE, 'adjust', text_of(new))
    now, adjust = wall + new, new
end
return changed(ticket)

end}
redis.register_function{function_name='tarry_515ac02ac9_push', callback=function(keys, arguments)
begin(keys, arguments, true)
-- Jobs of one topic. Room for them is made sure of by Redis before the script begins (no allow-oom).
local ticket, name, topics_max = ARGV[1], ARGV[2], ARGV[3]

local kept = answered_before(ticket)
if kept then return repeated(kept) end

local t = topic_find(name)
local jobs = (#ARGV - 3) / 3
-- New jobs not yet hung: {due, member, …} of the delayed, with their earliest and latest due; and of the ready by priority.
local later, first, last, ready = {}, NEVER, 0, {}
local now_text = text_of(now)

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

local function due_of_spec(spec)
    local _, when, _, _, ms = unpack_from('>BBBI2I6', spec)
    return due_of(when, ms)
end

-- A topic is not made for jobs that are refused.
for i = 1, t and 0 or jobs do
    if due_of_spec(ARGV[3 * i + 2]) then
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
    if j.tried then
        call('HDEL', t.tries, id)
        history_forget(t, {id})
    end
    return nil
end

local pushed, default = 0, t and settings_of(t)
local has_ttl = t and default.ttl > 0

-- Hangs a stored job; those that need no look are hung together at the end.
local function hang_later(id, flags, priority, sequence, due, record)
    if due > now then
        local at = #later
        later[at + 1], later[at + 2] = text_of(due), pack('>I6c0', sequence, id)
        if due < first then first = due end
        if due > last then last = due end
        return DELAYED
    end
    if has_ttl or flags % 2 == 1 then
        hang_new()
        hang(t, job_make(t, id, record))
        return READY
    end
    local words = ready[priority]
    if not words then
        words = {}
        ready[priority] = words
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

-- Records of new jobs, to be stored together: {id, record, id, record, …}; and where to look for them meanwhile.
local stored, is_stored = {}, {}

local function store_new()
    call_many('HSET', t.jobs, stored)
    stored = {}
end

-- nil: the job was made as wanted, and its state follows from its due.
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
    local is_new = choice >= 8
    if choice % 8 < 4 then priority = default.priority end
    flags = flags % 8 + (is_wall and 8 or 0)
    local record = pack('>BI2I6I6', flags, priority, sequence, due) .. tail
    local replaces = not is_new and (exists or is_stored[id])
    if replaces then
        store_new()
        local answer = meet(id, choice % 4 > 0 and choice % 4 or default.on_conflict)
        if answer then return answer end
        call('HSET', t.jobs, id, record)
        count(t, 'replaced', 1)
    else
        local at_end = #stored
        stored[at_end + 1], stored[at_end + 2] = id, record
        if not is_new then is_stored[id] = true end
        pushed = pushed + 1
    end
    if not t.special and (priority ~= 100 or flags % 2 == 1) then
        t.special = true
        call('HSET', t.key, 'special', '1')
    end
    local state
    if dead then
        state = hang_with_past(id, record, dead, attempt, error)
    else
        state = hang_later(id, flags, priority, sequence, due, record)
        if not replaces then return nil end
    end
    return pack('>BBI6', replaces and REPLACED or CREATED, state, due)
end

-- Which of the ids from..to have a job? Few at a time: those that have one come with their bodies. An id that was made for
-- its job has none.
local function existing(from, to)
    local ids, at, all = {}, {}, {}
    for i = from, to do
        if byte(ARGV[3 * i + 2]) < 8 then ids[#ids + 1], at[#at + 1] = ARGV[3 * i + 1], i end
    end
    local found = ids[1] and call('HMGET', t.jobs, unpack(ids)) or {}
    for i = 1, #ids do all[at[i]] = found[i] end
    return all
end

-- All jobs' answers, where some are not simply made.
local answers

local function answer(i, text)
    if not answers then
        answers = {}
        for made = 1, i - 1 do
            local due = due_of_spec(ARGV[3 * made + 2])
            answers[made] = pack('>BBI6', CREATED, due > now and DELAYED or READY, due)
        end
    end
    if not text then
        local due = due_of_spec(ARGV[3 * i + 2])
        text = pack('>BBI6', CREATED, due > now and DELAYED or READY, due)
    end
    answers[i] = text
end

local sequence = call('HINCRBY', CORE, 'sequence', jobs) - jobs
for from = 1, t and jobs or 0, 32 do
    local to = math.min(from + 31, jobs)
    local known = existing(from, to)
    for i = from, to do
        local text = push(ARGV[3 * i + 1], ARGV[3 * i + 2], ARGV[3 * i + 3], sequence + i, known[i])
        if text or answers then answer(i, text) end
    end
    store_new() -- before the next are asked for
end
if t then
    hang_new()
    count(t, 'pushed', pushed)
else
    answers = {}
    for i = 1, jobs do
        answers[i] = pack('>BBI6', due_of_spec(ARGV[3 * i + 2]) and TOO_MANY_TOPICS or BAD_OPTION, 0, 0)
    end
end
return changed(ticket, answers and table.concat(answers) or pack('>I6', now))

end}
redis.register_function{function_name='tarry_515ac02ac9_take', flags={'allow-oom'}, callback=function(keys, arguments)
begin(keys, arguments, true)
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

end}
redis.register_function{function_name='tarry_515ac02ac9_answer', flags={'allow-oom'}, callback=function(keys, arguments)
begin(keys, arguments, true)
-- What consumers say of their leases: ack, nack, extend, return, nack for good.
local ticket, ACK, NACK, EXTEND, RETURN, REFUSE = ARGV[1], 1, 2, 3, 4, 5

local kept = answered_before(ticket)
if kept then return repeated(kept) end
chance_seed(ARGV[2])

local deliveries, verbs, waits = {}, {}, {}
for i = 1, (#ARGV - 2) / 2 do
    local delivery
    delivery, verbs[i], waits[i] = unpack_from('>I6BI6', ARGV[2 * i + 1])
    deliveries[i] = text_of(delivery)
end
local places = ask_many('HMGET', LEASED, deliveries)
-- When each lease ends is asked only if some have ended that no server has seen to yet.
local ends = call('ZCOUNT', LEASES, '-inf', now) > 0 and ask_many('ZMSCORE', LEASES, deliveries)

local function has_ended(i)
    return ends and tonumber(ends[i] or 0) <= now
end

local answers, names, gone = {}, {}, {}
local acked = {} -- by topic: what is to be taken away

local function ack(t, place, id, delivery)
    local a = acked[t] or {jobs = {}, held = {}}
    acked[t] = a
    a.jobs[#a.jobs + 1] = id
    a.held[#a.held + 1] = sub(place, 1, 6) .. id
    a[#a + 1] = delivery
    return 0
end

local function extend(t, j, ms)
    if ms == NONE or ms == 0 then ms = j.lease end
    history_begun(t, j)
    j.lease_until = now + 1 + ms
    call('ZADD', LEASES, j.lease_until, text_of(j.delivery))
    soonest = math.min(soonest, j.lease_until)
    try_write(t, j)
    return pack('>BBI6I6', OK, LEASED_STATE, j.due, j.lease_until)
end

-- In its old place, or after a delay.
local function give_back(t, j, ms)
    j.attempt, j.state, j.lease_until = j.attempt - 1, DELAYED, 0
    if ms > 0 then j.due = now + 1 + ms end
    hang(t, j)
    try_write(t, j)
end

local ACKED, ENDED = pack('>BBI6I6', OK, FINISHED, 0, 0), pack('>BBI6I6', LEASE_ENDED, 0, 0, 0)

local function answer(i)
    local verb, place, delivery = verbs[i], places[i], deliveries[i]
    if not place or gone[delivery] or has_ended(i) then return ENDED, '' end
    local split = string.find(place, '\0', 7, true)
    local t, id = topic_find(sub(place, 7, split - 1)), sub(place, split + 1)
    local j = t and verb ~= ACK and job_find(t, id)
    if not t or not j and verb ~= ACK then return ENDED, '' end -- lost by Redis: the answers beside it are carried out
    if verb == EXTEND then return extend(t, j, waits[i]), sub(place, 7) end
    gone[delivery] = true
    if verb == ACK then
        ack(t, place, id, delivery)
        return ACKED, sub(place, 7)
    end
    unhang(t, j)
    if verb == RETURN then
        give_back(t, j, waits[i])
    else
        count(t, 'nacked', 1)
        fail(t, j, waits[i], ARGV[2 * i + 2], verb == REFUSE and REFUSED or FAILED)
    end
    return pack('>BBI6I6', OK, shown_state(j), j.due, 0), sub(place, 7)
end

for i = 1, #deliveries do
    answers[i], names[i] = answer(i)
end

for t, a in pairs(acked) do
    call_many('ZREM', LEASES, a)
    call_many('HDEL', LEASED, a)
    call_many('ZREM', t.held, a.held)
    call_many('HDEL', t.jobs, a.jobs)
    call_many('HDEL', t.tries, a.jobs)
    if t.historic then history_forget(t, a.jobs) end
    count(t, 'leased', -#a)
    count(t, 'acked', #a)
    local window = settings_of(t).dedup
    if window > 0 then
        local words = {}
        for i = 1, #a.jobs do
            words[2 * i - 1], words[2 * i] = now + 1 + window, a.jobs[i]
        end
        call_many('ZADD', t.finished, words)
        event_at(t, now + 1 + window)
    end
end
return changed(ticket, table.concat(answers), names)

end}
redis.register_function{function_name='tarry_515ac02ac9_change', flags={'allow-oom'}, callback=function(keys, arguments)
begin(keys, arguments, true)
-- Cancels, reschedules and runs jobs of one topic by id.
local ticket, name, CANCEL, RESCHEDULE, RUN, CANCEL_DEAD, UNCHANGED = ARGV[1], ARGV[2], 1, 2, 3, 4, 4

local kept = answered_before(ticket)
if kept then return repeated(kept) end
local t = topic_find(name)

local function said(status, j)
    return pack('>BBI6', status, shown_state(j), j.due)
end

-- nil: further away than ten years.
local function due_of(when, ms)
    if when == WHEN_DELAY and ms > 0 then return now + 1 + ms end
    if when == WHEN_AT and ms > wall then
        if ms - wall > DELAY_MAX then return nil end
        return ms + adjust
    end
    return now
end

local function move(j, verb, when, ms, priority)
    local due = verb == RUN and now or due_of(when, ms)
    if not due then return pack('>BBI6', BAD_OPTION, shown_state(j), j.due) end
    unhang(t, j)
    if verb == RUN or when ~= UNCHANGED then j.due, j.first = due, due end
    if priority then
        j.priority = priority
        if priority ~= 100 and not t.special then
            t.special = true
            call('HSET', t.key, 'special', '1')
        end
    end
    j.state = DELAYED
    hang(t, j)
    try_write(t, j)
    return said(OK, j)
end

local function change(id, verb, when, has_priority, priority, ms)
    local j = t and job_find(t, id)
    if not j then return pack('>BBI6', NOT_FOUND, 0, 0) end
    if verb == CANCEL_DEAD then -- `ms` is the delivery it died with
        if j.state ~= DEAD or j.delivery ~= ms then return said(CONFLICT, j) end
        verb = CANCEL
    end
    if j.state == LEASED_STATE then return said(IS_LEASED, j) end
    if verb == CANCEL then
        local answer = said(CANCELLED, j)
        unhang(t, j)
        finish(t, j, 'cancelled')
        return answer
    end
    if j.state == DEAD then return said(IS_DEAD, j) end
    if verb == RUN and shown_state(j) == READY then return said(OK, j) end
    return move(j, verb, when, ms, verb == RESCHEDULE and has_priority == 1 and priority)
end

local answers = {}
for i = 3, #ARGV, 2 do
    answers[#answers + 1] = change(ARGV[i], unpack_from('>BBBI2I6', ARGV[i + 1]))
end
return changed(ticket, table.concat(answers))

end}
redis.register_function{function_name='tarry_515ac02ac9_advance', flags={'allow-oom'}, callback=function(keys, arguments)
begin(keys, arguments, true)
-- Lets what is due happen, at most `max` of it: leases end, delayed jobs become ready, ready ones expire, finished ids are
-- forgotten. Any server may call it at any time; but where several do, one is enough: the mover, who came last of those
-- that came in time. It is told to others, who then come less often.
local server, max, done = ARGV[2], tonumber(ARGV[4]), 0
chance_seed(ARGV[3])
clock_within(ARGV[1])

local MOVER_MS = 50 -- so long after its last call others count on it
local mover = call('HGET', CORE, 'mover') or ''
local has_other = #mover == 14 and sub(mover, 1, 8) ~= server and math.abs(now - unpack_from('>I6', mover, 9)) < MOVER_MS
if not has_other then call('HSET', CORE, 'mover', server .. pack('>I6', now)) end

local function end_leases(deliveries)
    for i = 1, #deliveries do
        local place = call('HGET', LEASED, deliveries[i])
        local split = place and string.find(place, '\0', 7, true)
        local t = place and topic_find(sub(place, 7, split - 1))
        local j = t and job_find(t, sub(place, split + 1))
        if j and text_of(j.delivery) == deliveries[i] then
            count(t, 'lease_ended', 1)
            unhang(t, j)
            fail(t, j, NONE, 'lease ended', LEASE_OVER)
        else
            call('ZREM', LEASES, deliveries[i])
            call('HDEL', LEASED, deliveries[i])
        end
    end
    return #deliveries
end

done = end_leases(call('ZRANGE', LEASES, '-inf', now, 'BYSCORE', 'LIMIT', '0', max))
while done < max do
    local name = call('ZRANGE', TOPICS, '-inf', now, 'BYSCORE', 'LIMIT', '0', '1')[1]
    if not name then break end
    local t = topic_find(name)
    if t then
        done = done + advance_topic(t, max - done)
        topic_refresh(t)
    else
        call('ZADD', TOPICS, '+inf', name) -- its hash was lost: other topics go on, and a check finds it
        done = done + 1
    end
end

local woken, following = settle(server)
table.insert(woken, 1, head(following, pack('>BB', following <= now and 1 or 0, has_other and 1 or 0)))
return woken

end}
redis.register_function{function_name='tarry_515ac02ac9_get', flags={'no-writes'}, callback=function(keys, arguments)
begin(keys, arguments, true)
-- One job.
local t = topic_find(ARGV[1])
local j = t and job_find(t, ARGV[2])
if not j then return shown(pack('>BB', NOT_FOUND, 0)) end
local kept = j.tried and t.historic and call('HGET', history_key(t), j.id)
return shown(pack('>BB', OK, shown_state(j)), {j.record, j.tried and history_shown(j.record, try_of(j), kept) or ''})

end}
redis.register_function{function_name='tarry_515ac02ac9_list', flags={'no-writes'}, callback=function(keys, arguments)
begin(keys, arguments, true)
-- A page of a topic's jobs in the order of due, then push order, after a cursor.
local name, state, limit, after_due, after_sequence, with_body =
    ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6] == '1'
local BYTES_MAX = 16777216

local t = topic_find(name)
if not t then return shown(pack('>BB', NOT_FOUND, 0)) end

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

local function add_leaves()
    local first = after_due >= 0 and leaf_of(t, after_due)
    local rank = first and call('ZRANK', t.index, first) or 0
    -- Those that are due but not moved yet stand in front.
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
        add_from(key, rank_after(key), limit + 1, READY)
    end
end
if state == 0 or state == READY or state == DELAYED then
    add_leaves()
    add_from(t.fresh, rank_after(t.fresh), limit + 1)
end

table.sort(found, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
end)

local function without_body(record)
    local flags, at = unpack_from('>B', record), 16
    if flags % 2 == 1 then at = at + 29 end
    if flags % 4 >= 2 then
        local length = unpack_from('>B', record, at)
        at = at + 1 + (length <= 128 and length or 0)
    end
    if flags % 8 >= 4 then at = at + 2 + unpack_from('>I2', record, at) end
    return sub(record, 1, at - 1)
end

local more, bytes, listed = {}, 0, 0
for i = 1, math.min(limit, #found) do
    local f = found[i]
    local record, try = call('HGET', t.jobs, f[3]), call('HGET', t.tries, f[3]) or ''
    if record then
        if try ~= '' and t.historic then try = history_shown(record, try, call('HGET', history_key(t), f[3])) end
        if not with_body then record = without_body(record) end
        bytes = bytes + #record
        if bytes > BYTES_MAX and listed > 0 then break end
        local at = #more
        more[at + 1], more[at + 2], more[at + 3], more[at + 4] = f[3], pack('>B', f[4]), record, try
    end
    listed = i
end
return shown(pack('>BB', OK, #found > listed and 1 or 0), more)

end}
redis.register_function{function_name='tarry_515ac02ac9_topic', flags={'allow-oom'}, callback=function(keys, arguments)
begin(keys, arguments, true)
-- One topic: looks at it, sets it, pauses and resumes it.
local ticket, verb, name, topics_max, makes, settings, extension = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local PUT, PAUSE, RESUME = 2, 4, 5

local kept = answered_before(ticket)
if kept then return repeated(kept) end

local t, is_new = topic_find(name), false
if not t and (verb == PUT or makes == '1') then
    t, is_new = topic_make(name, topics_max)
    if not t then return changed(ticket, pack('>B', TOO_MANY_TOPICS)) end
end
if not t then return shown(pack('>B', NOT_FOUND)) end

if verb == PUT then
    t.packed, t.settings, t.policy = settings, nil, nil
    call('HSET', t.key, 'settings', settings)
    if extension ~= '' then call('HSET', t.key, 'extension', extension) else call('HDEL', t.key, 'extension') end
    settings_tell(server_of(ticket), name)
elseif verb == PAUSE or verb == RESUME then
    t.paused = verb == PAUSE
    call('HSET', t.key, 'paused', t.paused and '1' or '0')
    if not t.paused and t.ready > 0 then tell('r--------' .. name) end
end
return changed(ticket, pack('>B', is_new and verb == PUT and CREATED or OK), {topic_packed(t)})

end}
redis.register_function{function_name='tarry_515ac02ac9_topics', flags={'no-writes'}, callback=function(keys, arguments)
begin(keys, arguments, true)
-- A page of the shard's topics, by name.
local after, limit = ARGV[1], tonumber(ARGV[2])

local names = {}
for _, name in ipairs(call('ZRANGE', TOPICS, 0, -1)) do
    if name > after then names[#names + 1] = name end
end
table.sort(names)

local more = {}
for i = 1, math.min(limit, #names) do
    local t = topic_find(names[i])
    if t then more[#more + 1], more[#more + 2] = names[i], topic_packed(t) end
end
return shown(pack('>B', #names > limit and 1 or 0), more)

end}
redis.register_function{function_name='tarry_515ac02ac9_purge', flags={'allow-oom'}, callback=function(keys, arguments)
begin(keys, arguments, true)
-- Drops a topic's jobs in one state or all but the leased; or, step by step, the whole topic. Spares jobs pushed after it
-- began.
local ticket, is_delete, name = ARGV[1], ARGV[2] == 'delete', ARGV[3]
local state, until_sequence, max = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

local kept = answered_before(ticket)
if kept then return repeated(kept) end
local t = topic_find(name)
if not t then return shown(pack('>BBI6I6', NOT_FOUND, 0, 0, 0)) end
if until_sequence == 0 then until_sequence = tonumber(call('HGET', CORE, 'sequence')) end
if is_delete then until_sequence = NONE end

local affected = 0

-- Members of a sorted set that may go, up to what is left of `max`; taken out of it.
local function take_out(key)
    local out, rank = {}, 0
    while affected + #out < max do
        local some = call('ZRANGE', key, rank, rank + MANY - 1)
        for i = 1, #some do
            if affected + #out < max and unpack_from('>I6', some[i]) <= until_sequence then out[#out + 1] = some[i] end
        end
        if #some < MANY then break end
        rank = rank + MANY
    end
    call_many('ZREM', key, out)
    affected = affected + #out
    return out
end

local function ids_of(members)
    local ids = {}
    for i = 1, #members do ids[i] = sub(members[i], 7) end
    return ids
end

local function forget(members)
    local ids = ids_of(members)
    call_many('HDEL', t.jobs, ids)
    call_many('HDEL', t.tries, ids)
    history_forget(t, ids)
    count(t, 'cancelled', #ids)
end

local function purge_waiting(key)
    local members, retrying = take_out(key), 0
    for _, try in ipairs(ask_many('HMGET', t.tries, ids_of(members))) do
        if try then
            local _, _, attempt = unpack_from(TRY, try)
            if attempt > 0 then retrying = retrying + 1 end
        end
    end
    count(t, 'retrying', -retrying)
    count(t, 'delayed', retrying - #members)
    forget(members)
end

local function purge_delayed()
    local rank = 0
    purge_waiting(t.fresh)
    while affected < max do
        local leaf = call('ZRANGE', t.index, rank, rank)[1]
        if not leaf then return end
        purge_waiting(t.leaf .. leaf)
        if call('EXISTS', t.leaf .. leaf) == 0 then call('ZREM', t.index, leaf) else rank = rank + 1 end
    end
end

local function purge_ready()
    for _, priority in ipairs(call('ZRANGE', t.priorities, 0, -1)) do
        if affected >= max then return end
        local members = take_out(t.ready_of .. priority)
        call_many('ZREM', t.expiry, members)
        count(t, 'ready', -#members)
        forget(members)
        ready_is_empty(t, priority)
    end
end

local function purge_dead()
    local members, bytes = take_out(t.dead), 0
    for _, id in ipairs(ids_of(members)) do bytes = bytes + call('HSTRLEN', t.jobs, id) + #id end
    count(t, 'dead', -#members)
    count(t, 'dead_bytes', -bytes)
    forget(members)
end

local function purge_leased()
    local members, deliveries = take_out(t.held), {}
    for i, try in ipairs(ask_many('HMGET', t.tries, ids_of(members))) do
        local _, _, _, _, _, _, delivery = unpack_from(TRY, try)
        deliveries[i] = text_of(delivery)
    end
    call_many('ZREM', LEASES, deliveries)
    call_many('HDEL', LEASED, deliveries)
    count(t, 'leased', -#members)
    forget(members)
end

-- What is due counts as ready, also before it was moved: where more is due than one call may move, the rest is for the next.
local is_due = false
if not is_delete and state ~= DEAD then
    advance_topic(t, max)
    topic_refresh(t)
    is_due = state ~= 0 and delayed_first(t) <= now
end
if is_delete or state == 0 or state == DELAYED and not is_due then purge_delayed() end
if is_delete or state == 0 or state == READY then purge_ready() end
if is_delete or state == 0 or state == DEAD then purge_dead() end
if is_delete then purge_leased() end

local more = (affected >= max or is_due) and 1 or 0
if is_delete and more == 0 then
    call('ZREMRANGEBYRANK', t.finished, 0, 9999)
    if call('EXISTS', t.finished) == 1 then
        more = 1
    else
        call('DEL', t.key, t.expiry, history_key(t))
        call('ZREM', TOPICS, name)
        call('SREM', UNPACKED, name)
        t.deleted = true
        settings_tell(server_of(ticket), name)
    end
end
return changed(ticket, pack('>BBI6I6', OK, more, affected, until_sequence), nil, NOBODY)

end}
redis.register_function{function_name='tarry_515ac02ac9_redrive', flags={'allow-oom'}, callback=function(keys, arguments)
begin(keys, arguments, true)
-- Dead jobs go round again from the first attempt: one by its id, or up to `max`.
local ticket, name, id, max, left = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

local kept = answered_before(ticket)
if kept then return repeated(kept) end
local t = topic_find(name)
if not t then return shown(pack('>BBI6I6', NOT_FOUND, 0, 0, 0)) end

local function redrive(j)
    unhang(t, j)
    j.state, j.attempt, j.due, j.first = DELAYED, 0, now, now
    count(t, 'redriven', 1)
    hang(t, j)
    try_write(t, j)
end

if id ~= '' then
    local j = job_find(t, id)
    if not j or j.state ~= DEAD then return shown(pack('>BBI6I6', NOT_FOUND, 0, 0, 0)) end
    redrive(j)
    return changed(ticket, pack('>BBI6I6', OK, 0, 1, 0))
end

-- Those that die while the redrive goes on wait for the next one: else it might never end.
if left < 0 then left = call('ZCARD', t.dead) end
local some = math.min(max, left)
local members = some > 0 and call('ZRANGE', t.dead, 0, some - 1) or {} -- a range that ends at -1 would be all of them
for i = 1, #members do
    local j = job_find(t, sub(members[i], 7))
    if j then redrive(j) else call('ZREM', t.dead, members[i]) end
end
left = left - #members
return changed(ticket, pack('>BBI6I6', OK, left > 0 and #members > 0 and 1 or 0, #members, left))

end}
redis.register_function{function_name='tarry_515ac02ac9_look', flags={'no-writes'}, callback=function(keys, arguments)
begin(keys, arguments, true)
-- Which of these topics have ready jobs to hand out? And how often settings changed, and jobs died that somebody looks after.
local ready = {}
for i = 1, #ARGV do
    local t = topic_find(ARGV[i])
    if t and not t.paused and t.ready > 0 then ready[#ready + 1] = ARGV[i] end
end
local counters = call('HMGET', CORE, 'changes', 'deaths')
return shown(pack('>I6I6', tonumber(counters[1] or nil) or 0, tonumber(counters[2] or nil) or 0), ready)

end}
redis.register_function{function_name='tarry_515ac02ac9_pack', flags={'allow-oom'}, callback=function(keys, arguments)
begin(keys, arguments, true)
-- Moves up to `max` fresh jobs that are due far from now into leaves, where they take less memory. Done when there is time; a
-- job that falls due before that never was in one.
local max = tonumber(ARGV[1])

local name = call('SRANDMEMBER', UNPACKED)
local t = name and topic_find(name)
local moved = 0
if t then
    local far = call('ZRANGE', t.fresh, '(' .. text_of(now + FAR_MS), '+inf', 'BYSCORE', 'LIMIT', 0, max, 'WITHSCORES')
    local items, members = {}, {}
    for i = 1, #far, 2 do
        members[#members + 1] = far[i]
        items[#items + 1] = {tonumber(far[i + 1]), far[i]}
    end
    leaves_add(t, items)
    call_many('ZREM', t.fresh, members)
    moved = #members
end
if name and moved < max then call('SREM', UNPACKED, name) end
return shown(pack('>BI4', call('EXISTS', UNPACKED), moved))

end}
