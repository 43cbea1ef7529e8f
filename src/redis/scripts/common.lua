-- What all scripts stand on. README.md beside this file says what the keys hold.

local call, pack, unpack_from = redis.call, struct.pack, struct.unpack
local floor, sub, format = math.floor, string.sub, string.format
local T = sub(KEYS[1], 1, -6) -- without ':core'
local CORE, TOPICS, LEASES, LEASED, TICKETS = KEYS[1], T .. ':topics', T .. ':leases', T .. ':leased', T .. ':tickets'
local NONE, NEVER = 2 ^ 48 - 1, 1 / 0

-- Refused by a cluster exactly while the shard's slot is moving (README.md, "A slot that moves").
call('EXISTS', T .. ':never:1', T .. ':never:2')

local OK, CREATED, REPLACED, EXISTED, CANCELLED = 0, 1, 2, 3, 4
local NOT_FOUND, CONFLICT, IS_LEASED, IS_DEAD, LEASE_ENDED = 5, 6, 7, 8, 9
local BAD_OPTION, TOO_MANY_TOPICS = 12, 14
local DELAYED, READY, LEASED_STATE, DEAD, FINISHED = 1, 2, 3, 4, 5
local WHEN_NOW, WHEN_DELAY, WHEN_AT = 1, 2, 3

local DELAY_MAX = 3653 * 24 * 3600 * 1000
local LEAF_MAX = 48 -- well below Redis' own limit of the compact form (zset-max-listpack-entries 128)
local MANY = 500     -- arguments of one command, so that Lua's stack is never short

-- ---- time ----

local time = call('TIME')
local wall = time[1] * 1000 + floor(time[2] / 1000)
local adjust = tonumber(call('HGET', CORE, 'adjust') or 0)
local now = wall + adjust

local soonest = NEVER -- the earliest event this call brought about

local function text_of(number)
    return format('%d', number)
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

-- ---- topics ----

local known_topics = {}

local function topic_keys(name)
    return {
        name = name, key = T .. ':topic:' .. name, jobs = T .. ':job:' .. name, tries = T .. ':try:' .. name,
        index = T .. ':index:' .. name, leaf = T .. ':leaf:' .. name .. ':', ready_of = T .. ':ready:' .. name .. ':',
        priorities = T .. ':priorities:' .. name, expiry = T .. ':expiry:' .. name, held = T .. ':held:' .. name,
        dead = T .. ':dead:' .. name, finished = T .. ':finished:' .. name,
        soonest = NEVER, change = {}, has_priority = {},
    }
end

-- nil where there is none. `special`: some of its jobs have a priority or a ttl of their own.
local function topic_find(name)
    local t = known_topics[name]
    if t then return t end
    t = topic_keys(name)
    local f = call('HMGET', t.key, 'paused', 'settings', 'ready', 'special')
    if not f[1] then return nil end
    t.paused, t.packed, t.ready, t.special = f[1] == '1', f[2] or '', tonumber(f[3] or 0), f[4] == '1'
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

local FIGURES = {'delayed', 'retrying', 'ready', 'leased', 'dead', 'pushed', 'acked', 'cancelled', 'expired', 'replaced',
                 'delivered', 'nacked', 'lease_ended', 'died', 'redriven'}

-- A topic as it is shown to people.
local function topic_packed(t)
    local figures, packed = call('HMGET', t.key, unpack(FIGURES)), {pack('>B', t.paused and 1 or 0)}
    for i = 1, #FIGURES do packed[i + 1] = pack('>I6', tonumber(figures[i] or 0)) end
    local priority = call('ZRANGE', t.priorities, 0, 0)[1]
    local oldest = priority and call('ZRANGE', t.ready_of .. priority, 0, 0, 'WITHSCORES')[2]
    packed[#packed + 1] = pack('>I6', tonumber(oldest or 0))
    return table.concat(packed) .. t.packed
end

local function count(t, field, step)
    t.change[field] = (t.change[field] or 0) + step
end

local function event_at(t, ms)
    if ms < t.soonest then t.soonest = ms end
end

-- ---- delayed jobs: leaves, each a small sorted set that holds a span of due times ----

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
    if middle == tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) then
        middle = tonumber(call('ZRANGE', key, '(' .. text_of(middle), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2])
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

-- One job. `looks`: whether the leaf may have to be split.
local function delayed_add_one(t, due, member, looks)
    local score = text_of(due)
    local leaf = leaf_of(t, score) or leaf_new(t, 0)
    local key = t.leaf .. leaf
    call('ZADD', key, score, member)
    if looks then
        local size = call('ZCARD', key)
        if size > LEAF_MAX then leaf_split(t, leaf, size, due) end
    end
end

-- Of the jobs at..: the last one that goes into the same leaf as the first and finds room there; at - 1: look again.
local function last_together(t, leaf, items, at)
    local size, due, last = call('ZCARD', t.leaf .. leaf), items[at][1], at
    if size < LEAF_MAX then
        last = math.min(at + LEAF_MAX - size - 1, #items)
        if leaf_of(t, items[last][1]) == leaf then return last end
        last = at
    elseif leaf_split(t, leaf, size, due) then
        return at - 1
    end
    while last < #items and last - at < MANY / 2 - 1 and items[last + 1][1] == due do last = last + 1 end
    return last
end

-- Neighbours: as many at once as there is room for in their leaf.
local function delayed_add_together(t, dues, members)
    local items, at = {}, 1
    for i = 1, #dues do items[i] = {dues[i], members[i]} end
    table.sort(items, function(a, b) return a[1] < b[1] end)
    while at <= #items do
        local leaf = leaf_of(t, items[at][1]) or leaf_new(t, 0)
        local last, words = last_together(t, leaf, items, at), {}
        for i = at, last do
            words[#words + 1], words[#words + 2] = items[i][1], items[i][2]
        end
        if last >= at then call('ZADD', t.leaf .. leaf, unpack(words)) end
        at = last + 1
    end
end

local function delayed_add(t, dues, members)
    local total = #dues
    if total == 0 then return end
    local first, last = dues[1], dues[1]
    for i = 2, total do
        local due = dues[i]
        if due < first then first = due elseif due > last then last = due end
    end
    event_at(t, first)
    if total > 1 and (first == last or leaf_of(t, first) == leaf_of(t, last)) then
        delayed_add_together(t, dues, members)
    else
        -- Of many that go to different leaves, one in four looks, by lot: LEAF_MAX leaves room for those in between.
        local lot = time[2] % 2147483646 + 1
        for i = 1, total do
            lot = lot * 16807 % 2147483647
            delayed_add_one(t, dues[i], members[i], total < 16 or lot % 4 == 0)
        end
    end
end

-- False where it is not there.
local function delayed_remove(t, due, member)
    local leaf = leaf_of(t, due)
    if not leaf then return false end
    local key = t.leaf .. leaf
    if call('ZREM', key, member) == 0 then return false end
    if call('EXISTS', key) == 0 then call('ZREM', t.index, leaf) end
    return true
end

-- Up to `max` that are due, taken out: {member, due, member, due, …}.
local function delayed_take_due(t, max)
    local all = {}
    while #all < 2 * max do
        local leaf = call('ZRANGE', t.index, 0, 0)[1]
        if not leaf then break end
        local key = t.leaf .. leaf
        local some = call('ZRANGE', key, '-inf', now, 'BYSCORE', 'LIMIT', 0, max - #all / 2, 'WITHSCORES')
        if #some > 0 then call('ZREMRANGEBYRANK', key, 0, #some / 2 - 1) end
        for i = 1, #some do all[#all + 1] = some[i] end
        if call('EXISTS', key) == 1 then break end
        call('ZREM', t.index, leaf)
    end
    return all
end

local function delayed_first(t)
    local leaf = call('ZRANGE', t.index, 0, 0)[1]
    local first = leaf and call('ZRANGE', t.leaf .. leaf, 0, 0, 'WITHSCORES')
    return first and first[2] and tonumber(first[2]) or NEVER
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
    if call('EXISTS', t.ready_of .. priority) == 1 then return end
    call('ZREM', t.priorities, priority)
    t.has_priority[priority] = nil
end

local function ready_remove(t, priority, member)
    if call('ZREM', t.ready_of .. priority, member) == 0 then return false end
    ready_is_empty(t, priority)
    return true
end

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
    local s = settings_of(t)
    local p = {lease = s.lease, ttl = s.ttl, backoff = s.backoff, first = s.first, max = s.max, attempts = s.attempts}
    if j.flags % 2 == 1 then
        local lease, ttl, backoff, first, max, attempts = unpack_from('>I6I6BI6I6I4', j.record, 16)
        if lease > 0 then p.lease = lease end
        if ttl > 0 then p.ttl = ttl end
        if backoff > 0 then p.backoff, p.first, p.max = backoff, first, max end
        if attempts > 0 then p.attempts = attempts end
    end
    if p.lease == 0 then p.lease = 60000 end
    if p.backoff == 0 then p.backoff, p.first, p.max = 2, 1000, 600000 end
    if p.attempts == 0 then p.attempts = 16 end
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
    elseif j.due <= now and ready_remove(t, j.priority, j.member) then
        count(t, 'ready', -1)
        expiry_remove(t, j.member)
    elseif delayed_remove(t, j.due, j.member) then
        count(t, j.attempt > 0 and 'retrying' or 'delayed', -1)
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
    elseif j.due <= now then
        ready_add(t, j.priority, {j.due, j.member})
        expire_later(t, j)
    else
        delayed_add(t, {j.due}, {j.member})
        count(t, j.attempt > 0 and 'retrying' or 'delayed', 1)
    end
end

-- The job is gone (and was unhung). `total`: acked, cancelled, expired. Only a purge forgets it at once.
local function finish(t, j, total, is_purge)
    call('HDEL', t.jobs, j.id)
    if j.tried then call('HDEL', t.tries, j.id) end
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

-- The attempt failed and the job is unhung: it waits for the next one, or is dead. delay NONE: by backoff.
local function fail(t, j, delay, error)
    local p = policy_of(t, j)
    j.error, j.state, j.lease_until = error, DELAYED, 0
    if j.attempt >= p.attempts then
        j.state = DEAD
        count(t, 'died', 1)
    else
        if delay == NONE then delay = backoff_ms(p, j.attempt) end
        j.due = now + (delay > 0 and delay + 1 or 0)
    end
    hang(t, j)
    try_write(t, j)
end

-- ---- letting what is due happen ----

local function expire_some(t, max)
    local members = call('ZRANGE', t.expiry, '-inf', now, 'BYSCORE', 'LIMIT', 0, max)
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
        if old > 0 then call('ZREMRANGEBYRANK', t.finished, 0, old - 1) end
        done = done + old
    end
    return done
end

-- ---- the end of a call ----

local function first_score(key)
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
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

-- Writes counts and events down and tells the other servers. Returns the topics that had nothing ready and have now, and
-- the shard's earliest event.
local function settle(server)
    local woken, before = {}, nil
    for name, t in pairs(known_topics) do
        for field, step in pairs(t.change) do
            if step ~= 0 and not t.deleted then call('HINCRBY', t.key, field, step) end
        end
        local ready = t.ready + (t.change.ready or 0)
        if t.ready == 0 and ready > 0 and not t.paused then
            woken[#woken + 1] = name
            call('SPUBLISH', T .. ':news', 'r' .. server .. name)
        end
        t.ready, t.change = ready, {}
        if t.soonest < NEVER and not t.deleted then
            before = before or next_event()
            call('ZADD', TOPICS, 'LT', t.soonest, name)
            soonest = math.min(soonest, t.soonest)
        end
    end
    local following = before and math.min(before, soonest) or math.min(next_event(), soonest)
    if before and following < before then call('SPUBLISH', T .. ':news', 'd' .. text_of(following)) end
    return woken, following
end

local function head(following, rest)
    return pack('>I6I6i6', now, following == NEVER and NONE or following, adjust) .. (rest or '')
end

-- The answer of a call that only looked.
local function shown(rest, more)
    local answer = more or {}
    table.insert(answer, 1, head(next_event(), rest))
    return answer
end

-- ---- tickets: no call is carried out twice ----

local NOBODY = '--------'

local function server_of(ticket)
    return ticket ~= '' and sub(ticket, 1, 8) or NOBODY
end

-- What this very call was answered when it was carried out before: rest and more; nil: it was not.
local function answered_before(ticket)
    if ticket == '' then return nil end
    local kept = call('HGET', TICKETS, sub(ticket, 1, 9))
    if not kept then return nil end
    local last, number = sub(kept, 1, 12), sub(ticket, 10)
    if last > number then error({err = 'STALE a later call of this slot was carried out'}) end
    if last < number then return nil end
    return cmsgpack.unpack(sub(kept, 19))
end

local function ticket_keep(ticket, what)
    if ticket == '' then return end
    call('HSET', TICKETS, sub(ticket, 1, 9), sub(ticket, 10) .. pack('>I6', now) .. cmsgpack.pack(what))
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

