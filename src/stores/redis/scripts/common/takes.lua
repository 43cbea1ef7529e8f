-- Leases of due jobs: by priority, due, push order.
local take, take_again = (function()

-- Jobs due later than this are not taken: they were moved while the clock was ahead. But the clocks of servers may differ by a little, and no
-- server would be woken again for a job that another one has found due.
local LEEWAY_MS = 60

-- Of the take that is being carried out.
local t, most, bytes_max, lease_ms
local shown, taken, bytes -- words of the answer: id, record, try per job; jobs; bytes of their records
local tries, leased, leases, held -- what is to be written, as words; nil: nothing
local expiring -- how many jobs with an ended ttl may be removed meanwhile
local until_length, until_end -- the length of the last lease, and its end as text: jobs of a topic mostly share them
local PLAIN = {flags = 0} -- stands for a job without a policy of its own
local place_end, topic_lease
local was_delayed, way -- for events: they were never ready; how the jobs go out
local state, holder -- of the tries: who takes them (README.md)
local places, dues -- of jobs of groups: the beginning of each one's place; nil: place_end. The dues as text, if they are known

-- Redis searches a small hash or sorted set from end to end, as long as it was never large. Sets that change with every
-- job are made large for a moment once some leases are out. The filler names cannot collide: no id is empty, no sequence that high.
local MANY_LEASED = 16
local LONG

-- Returns true if the next lease may need only a few commands.
local function may_be_one()
    return taken == 0 and (t.f[AT.leased] + 1 < MANY_LEASED or has(t, LARGE))
end

-- Returns the lease's duration, the try with it, and the due time. Without a table for each job, because every job comes here.
local function try_leased(record, try, delivery)
    local flags, priority, _, due = unpack_from('>BI2I6I6', record)
    local attempt, first_due, error, length = 0, due, nil, lease_ms
    if try then
        local at
        _, priority, attempt, due, first_due, _, _, _, at = unpack_from(TRY, try)
        error = sub(try, at)
    end
    if length == 0 then
        length = flags % 2 == 1 and (unpack_from('>I6', record, 16)) or 0
        if length == 0 then length = topic_lease end
    end
    local ms = now + 1 + length
    if length ~= until_length then
        until_length, until_end = length, text_of(ms)
        if ms < soonest then soonest = ms end
    end
    local new = pack(TRY, state, priority, attempt + 1, due, first_due, ms, delivery, length) .. holder
    return error and new .. error or new, until_end, due, attempt
end

local function lease_publish(id, attempt, due, until_text)
    if was_delayed then feed.publish(feed.DUE, t.name, id, attempt, due) end
    feed.publish(feed.DELIVERED, t.name, id, attempt + 1, due, tonumber(until_text), way)
end

-- The first of `members`, as many as the bytes allow. How many, and how many of them had failed before.
local function lease(members)
    local n, ids = #members, {}
    for i = 1, n do ids[i] = sub(members[i], 7) end
    local records = call('HMGET', t.jobs, unpack(ids))
    local old = has(t, TRIED) and call('HMGET', t.tries, unpack(ids)) or false
    local histories = old and has(t, HISTORIC) and call('HMGET', t.history, unpack(ids)) or false
    if not held then tries, leased, leases, held = {}, {}, {}, {} end
    local at, shown_at, retrying = #tries, #shown, 0
    for i = 1, n do
        local id, record, member = ids[i], records[i], members[i]
        local size = record and #record or 0
        if taken > 0 and bytes + size > bytes_max then return i - 1, retrying end
        if record then
            local try, until_text, due, attempt = try_leased(record, old and old[i], sequence + 1)
            local number = text_of(sequence + 1)
            sequence, bytes, taken, core_is_changed = sequence + 1, bytes + size, taken + 1, true
            if attempt > 0 then retrying = retrying + 1 end
            if feed.listened then lease_publish(id, attempt, due, until_text) end
            tries[at + 1], tries[at + 2] = id, try
            leased[at + 1], leased[at + 2] = number, sub(member, 1, 6) .. (places and places[i] or place_end) .. id
            leases[at + 1], leases[at + 2] = until_text, number
            held[at + 1], held[at + 2] = dues and dues[i] or text_of(due), member
            if histories and histories[i] then try = history_shown(record, try, histories[i]) end
            shown[shown_at + 1], shown[shown_at + 2], shown[shown_at + 3] = id, record, try
            at, shown_at = at + 2, shown_at + 3
        elseif places then
            places[i] = false
        end
    end
    return n, retrying
end

-- The first job of a take, where it is the only one that is looked at: which is what comes most, so without a list for each set.
local function lease_one(member, due_text)
    local id = sub(member, 7)
    local record = call('HGET', t.jobs, id)
    if not record then
        if places then places[1] = false end
        return 1, 0
    end
    local old = has(t, TRIED) and call('HGET', t.tries, id)
    local number = text_of(sequence + 1)
    local try, until_text, due, attempt = try_leased(record, old, sequence + 1)
    sequence, bytes, taken, core_is_changed = sequence + 1, #record, 1, true
    call('HSET', t.tries, id, try)
    call('HSET', LEASED, number, sub(member, 1, 6) .. (places and places[1] or place_end) .. id)
    call('ZADD', LEASES, until_text, number)
    call('ZADD', t.held, due_text or text_of(due), member)
    count(t, 'leased', 1)
    count(t, 'delivered', 1)
    if old and has(t, HISTORIC) then try = history_shown(record, try, call('HGET', t.history, id)) end
    if feed.listened then lease_publish(id, attempt, due, until_text) end
    local at = #shown
    shown[at + 1], shown[at + 2], shown[at + 3] = id, record, try
    return 1, attempt > 0 and 1 or 0
end

-- Removes expired jobs that no call has handled yet. Returns true if some of `members` were removed.
local function drop_expired(members)
    local ends, late = call('ZMSCORE', t.expiry, unpack(members)), {}
    for i = 1, #members do
        if ends[i] and tonumber(ends[i]) <= now then late[#late + 1] = members[i] end
    end
    expire_all(t, late)
    expiring = expiring - #late
    return #late > 0
end

-- Returns how many jobs to read next: few at first, then as many as the bytes still allow.
local function step(at_first)
    local room = taken == 0 and at_first or floor((bytes_max - bytes) / (bytes / taken + 1)) + 1
    return min(most - taken, max(1, room), 200)
end

-- Takes from the ready set of a priority.
local function take_ready(priority)
    local key, out, goes_on = t.ready_of .. priority, 0, true
    was_delayed = false
    local expires = has(t, EXPIRING)
    repeat
        local members = call('ZRANGE', key, '-inf', text_of(now + LEEWAY_MS), 'BYSCORE', 'LIMIT', text_of(out), text_of(step(16)))
        if #members == 0 then break end
        if expires and drop_expired(members) then
            goes_on = expiring > 0
        else
            local n
            if #members == 1 and may_be_one() then n = lease_one(members[1]) else n = lease(members) end
            for i = 1, expires and n or 0 do call('ZREM', t.expiry, members[i]) end
            out = out + n
            goes_on = n == #members
        end
    until not goes_on or taken >= most
    if not goes_on then most = taken end
    if out > 0 then -- a range that ends at -1 would be all of them
        call('ZREMRANGEBYRANK', key, '0', text_of(out - 1))
        count(t, 'ready', -out)
    end
    return ready_is_empty(t, priority)
end

-- Takes by priority. There may be as many priorities as numbers: few are read at a time, and are removed from the front.
local function take_by_priority()
    local from = 0
    repeat
        local priorities = call('ZRANGE', t.priorities, text_of(from), text_of(from + 15))
        for i = 1, #priorities do
            if not take_ready(priorities[i]) then from = from + 1 end
            if taken >= most then return end
        end
    until #priorities < 16
end

-- Takes directly from the delayed jobs of a set. Reads the first job together with the next one, whose due time is the next event. Returns
-- that time, or NONE without a further job.
local function take_delayed(key)
    local out, following = 0, nil
    was_delayed = true
    repeat
        local wanted, members = taken == 0 and 1 or step(16), {}
        local found = call('ZRANGE', key, text_of(out), text_of(out + wanted), 'WITHSCORES')
        following = NONE
        for i = 1, #found, 2 do
            local due = tonumber(found[i + 1])
            if due > now or #members == wanted then
                following = due
                break
            end
            members[#members + 1] = found[i]
        end
        local n, retrying = 0, 0
        if #members == 1 and may_be_one() then
            n, retrying = lease_one(members[1], found[2])
        elseif #members > 0 then
            n, retrying = lease(members)
        end
        if n < #members then following = tonumber(found[2 * n + 2]) end
        out = out + n
        count(t, 'retrying', -retrying)
        count(t, 'delayed', retrying - n)
    until following > now or n < #members or taken >= most
    if out > 0 then call('ZREMRANGEBYRANK', key, '0', text_of(out - 1)) end
    return following
end

-- Enlarges the sets before they are filled; and afterwards.
local function swell()
    LONG = LONG or string.rep('\255', 100)
    if t.flow then flow.swell(t, LONG, MANY_LEASED) end
    call('HSET', t.tries, '', LONG)
    call('HSET', LEASED, '', LONG)
    call('ZADD', LEASES, 0, LONG)
    call('ZADD', t.held, 0, LONG)
    raise(t, LARGE)
end

local function shrink()
    call('HDEL', t.tries, '')
    call('HDEL', LEASED, '')
    call('ZREM', LEASES, LONG)
    call('ZREM', t.held, LONG)
end

local function write_leases()
    local swells = t.f[AT.leased] + #held / 2 >= MANY_LEASED and not has(t, LARGE)
    if swells then swell() end
    call_many('HSET', t.tries, tries)
    call_many('HSET', LEASED, leased)
    call_many('ZADD', LEASES, leases)
    call_many('ZADD', t.held, held)
    if swells then shrink() end
    count(t, 'leased', #held / 2)
    count(t, 'delivered', #held / 2)
end

-- Returns true if due jobs may go from delayed to leased without being ready in between: none of them can have another priority or expire,
-- and no other job is ready before them.
local function may_be_direct()
    return t.f[AT.ready] == 0 and is_plain(t) and settings_of(t).ttl == 0
end

-- Its due jobs, without a detour. False where that cannot be: some are fresh and some packed, and they have an order.
local function take_direct()
    local packed, leaf = NONE, nil
    if has(t, PACKED) then packed, leaf = leaf_first(t) end
    if packed > now then
        topic_refresh(t, min(take_delayed(t.fresh), packed))
        return true
    end
    if first_score(t.fresh) <= now then return false end
    repeat
        local following = take_delayed(t.leaf .. leaf)
        if following == NONE then
            call('ZREM', t.index, leaf)
            packed, leaf = leaf_first(t)
        end
    until following < NONE or packed > now or taken >= most
    topic_refresh(t)
    return true
end

-- Takes what is due and ready, in the order of priority and due. Up to `due_most` jobs become ready.
local function take_free(due_most)
    if t.f[NEXT] <= now and not (most > 0 and may_be_direct() and take_direct()) then
        advance_topic(t, due_most + 64)
        topic_refresh(t)
    end
    if taken < most and t.f[AT.ready] > 0 then
        if is_plain(t) then take_ready('100') else take_by_priority() end
    end
end

-- ---- topics with groups (flow.lua) ----

local function comes_before(a, b)
    if a.load ~= b.load then return a.load < b.load end
    if a.pass ~= b.pass then return a.pass < b.pass end
    if a.due ~= b.due then return a.due < b.due end
    return a.number < b.number
end

-- Restores the order of the heap after a change of its first group.
local function heap_sift(heap)
    local at, size, g = 1, #heap, heap[1]
    while true do
        local child = 2 * at
        if child > size then break end
        if child < size and comes_before(heap[child + 1], heap[child]) then child = child + 1 end
        if not comes_before(heap[child], g) then break end
        heap[at], at = heap[child], child
    end
    heap[at] = g
end

local function heap_drop(heap)
    local last = table.remove(heap)
    if not heap[1] then return end
    heap[1] = last
    heap_sift(heap)
end

-- Finds the next job in the group's line of ready jobs, of which `wanted` are read if more must be read. Returns false if no job can be taken.
local function line_next(g, wanted)
    if g.at > #g.line then
        if g.is_all then return false end
        g.line, g.at = call('ZRANGE', g.key, text_of(g.rank), text_of(g.rank + wanted - 1), 'WITHSCORES'), 1
        g.rank, g.is_all = g.rank + #g.line / 2, #g.line / 2 < wanted
        if #g.line == 0 then return false end
    end
    g.due, g.number = tonumber(g.line[g.at + 1]), (unpack_from('>I6', g.line[g.at]))
    return g.due <= now + LEEWAY_MS
end

local function line_open(g, priority, wanted, served)
    g.key, g.place = t.ready_of .. flow.lane(priority, g.name), flow.place(t, g.name)
    g.line, g.at, g.rank, g.is_all, g.out = {}, 1, 0, false, 0
    served[#served + 1] = g
    return line_next(g, wanted)
end

-- Chooses up to `wanted` jobs from the groups in the heap. Returns their members, and what is needed to take a choice back.
local function choose(heap, priority, wanted, served)
    local members, undo, n, flow_of = {}, {groups = {}, pass = {}, full = {}, topic = {}, tried = {}}, 0, t.flow
    local groups, pass, full, topic, tried = undo.groups, undo.pass, undo.full, undo.topic, undo.tried
    while n < wanted and heap[1] do
        local g = heap[1]
        local goes_on = g.line or line_open(g, priority, #heap == 1 and wanted - n + 1 or 2, served)
        if goes_on then
            n = n + 1
            members[n], places[n], groups[n], pass[n], full[n], topic[n] = g.line[g.at], g.place, g, g.pass, g.full, flow_of.pass
            g.at, g.out, tried[n] = g.at + 2, g.out + 1, flow.untry(t, g)
            flow.serve(t, g)
            goes_on = flow.may_go_on(t, g) and line_next(g, #heap == 1 and wanted - n + 1 or 16)
        end
        if goes_on then heap_sift(heap) else heap_drop(heap) end
    end
    return members, undo
end

-- Takes the last choices back: the bytes did not allow them.
local function unchoose(undo, from)
    for i = #undo.groups, from, -1 do
        local g = undo.groups[i]
        g.pass, g.full, t.flow.pass = undo.pass[i], undo.full[i], undo.topic[i]
        g.in_flight, g.out, g.is_undone = g.in_flight - 1, g.out - 1, true
        if undo.tried[i] then g.tried = g.tried + 1 end
    end
end

-- Removes the leased jobs from the lines of the groups.
local function lines_cut(priority, served)
    local emptied, lanes, jobs = {}, {}, 0
    for i = 1, #served do
        local g = served[i]
        local is_known = not g.is_undone and (g.at <= #g.line or g.is_all)
        local is_last = is_known and g.at > #g.line
        if is_last then
            emptied[#emptied + 1], lanes[#lanes + 1] = g.key, flow.lane(priority, g.name)
        elseif g.out > 0 then
            call('ZREMRANGEBYRANK', g.key, '0', text_of(g.out - 1))
            if not is_known then ready_is_empty(t, flow.lane(priority, g.name)) end -- it may have been the last job that was read
        end
        local head = false
        if is_last then head = nil elseif is_known then head = flow.head(g.line[g.at], tonumber(g.line[g.at + 1])) end
        flow.taken(t, g, priority, g.out, head)
        jobs = jobs + g.out
        g.line, g.is_undone = nil, nil
    end
    if #emptied > 0 then
        call('DEL', unpack(emptied))
        call_many('ZREM', t.priorities, lanes)
    end
    count(t, 'ready', -jobs)
end

local function lease_members(members, expires)
    local n
    if #members == 1 and may_be_one() then n = lease_one(members[1]) else n = lease(members) end
    for i = 1, expires and n or 0 do call('ZREM', t.expiry, members[i]) end
    return n
end

-- Takes one job of each group of a round. Returns how many, and whether more may be taken.
local function take_round(priority, round, expires)
    local names, members, keys, lines, latest = round.names, {}, {}, {}, now + LEEWAY_MS
    places, dues = {}, {}
    for i = 1, #names do
        local name = names[i]
        local key = name == '' and t.ready_of .. priority or t.ready_of .. priority .. ':' .. name
        local line = call('ZRANGE', key, '0', '1', 'WITHSCORES')
        local member, due = line[1], line[2]
        if not member or due + 0 > latest then break end
        members[i], keys[i], lines[i], places[i], dues[i] = member, key, line, flow.place(t, name), due ~= '0' and due -- of a tried job of a strict topic, the score is not the due
    end
    local wanted = #members
    local n = wanted > 0 and lease_members(members, expires) or 0
    dues = nil
    if n == 0 then return 0, wanted == 0 end
    flow.round_end(t, priority, round, keys, lines, n, places)
    return n, n == wanted
end

-- Takes from the groups with ready jobs of a priority, in their order. Returns false if no more may be taken.
local function take_turns(priority)
    local expires, goes_on = has(t, EXPIRING), true
    was_delayed = false
    repeat
        local room, served, chosen = min(most - taken, 200), {}, 0
        local wanted = min(step(16), room)
        local turns = flow.turns_read(t, priority, wanted)
        if #turns == 0 then break end
        local round = flow.round(t, turns, wanted)
        if round then chosen, goes_on = take_round(priority, round, expires) end
        local heap = {}
        if chosen == 0 then
            if #turns == wanted and wanted < room then turns = flow.turns_read(t, priority, room) end
            heap = flow.turns_of(t, priority, turns)
        end
        while goes_on and heap[1] and room > 0 and taken < most do
            places = {}
            local members, undo = choose(heap, priority, min(step(16), room), served)
            if #members == 0 then break end
            chosen = chosen + #members
            local n = lease_members(members, expires)
            for i = 1, n do
                if not places[i] then undo.groups[i].in_flight = undo.groups[i].in_flight - 1 end -- its record was lost
            end
            if n < #members then unchoose(undo, n + 1) end
            room, goes_on = room - n, n == #members
        end
        places = nil
        lines_cut(priority, served)
        flow.settle(t)
    until not goes_on or taken >= most or chosen == 0 -- 0: for a call that waited for long, what is ready may be due later than `now`
    return goes_on
end

-- Removes jobs with an ended ttl. Returns false if there may be more of them: then no job is taken.
local function expire_before()
    if not has(t, EXPIRING) or first_score(t.expiry) > now then return true end
    expire_all(t, call('ZRANGE', t.expiry, '-inf', text_of(now), 'BYSCORE', 'LIMIT', '0', text_of(expiring)))
    return first_score(t.expiry) > now
end

local function take_groups()
    local priority = -1
    if not expire_before() then return end
    flow.settle(t)
    while taken < most do
        priority = call('ZRANGE', t.priorities, '(' .. priority, '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2]
        if not priority or not take_turns(tonumber(priority)) then return end
    end
end

-- Takes from a topic with limits or groups.
local function take_flow()
    local due_most = most
    flow.settle(t)
    most = min(most, flow.allowed(t))
    if t.f[1] < flow.GROUPED then return take_free(due_most) end
    if t.f[NEXT] <= now then
        advance_topic(t, due_most + 64)
        topic_refresh(t)
    end
    if most > 0 and t.f[AT.ready] > 0 then take_groups() end
end

-- Takes up to `max_jobs`, of `max_bytes` of records except for the first. `out` receives id, record and try of each job. `consumer`:
-- name of the consumer, or ''. Returns how many jobs.
local function take(topic, max_jobs, max_bytes, ms, out, by, consumer)
    t, most, bytes_max, lease_ms, way, places, dues = topic, max_jobs, max_bytes, ms, by, nil, nil
    state, holder = LEASED_STATE, ''
    if consumer ~= '' then state, holder = LEASED_STATE + holding.FLAG, pack(holding.FORM, 0, #consumer, consumer) end
    shown, taken, bytes, held, until_length = out, 0, 0, nil, nil
    expiring, place_end = most + 64, t.name .. '\0'
    topic_lease = ms > 0 and ms or policy_of(t, PLAIN).lease
    if t.f[AT.leased] <= 0 then lower(t, LARGE) end
    if t.flow then take_flow() else take_free(most) end
    if held and #held > 0 then write_leases() end
    if t.flow then
        flow.spend(t, taken)
        flow.settle(t)
    end
    if taken > 0 and t.f[AT.ready] == 0 and t.f[AT.delayed] == 0 and t.f[AT.retrying] == 0 then lower(t, TRIED) end
    return taken
end

-- Answers a repeated take: those leases of the deliveries `first` to `last` that are still valid.
local function take_again(first, last, out)
    local n = 0
    for delivery = first, last do
        local place = call('HGET', LEASED, text_of(delivery))
        if place then
            local name, id = flow.split(place)
            local topic = topic_find(name)
            local record, try = topic and call('HGET', topic.jobs, id), topic and call('HGET', topic.tries, id)
            if record and try then
                if has(topic, HISTORIC) then try = history_shown(record, try, call('HGET', topic.history, id)) end
                local at = #out
                out[at + 1], out[at + 2], out[at + 3] = id, record, try
                n = n + 1
            end
        end
    end
    return n
end

return take, take_again

end)()

