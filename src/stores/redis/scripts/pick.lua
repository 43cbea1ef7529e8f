#!lua flags=allow-oom
-- A take of one job by its id, or of the best of several topics by priority.
local ticket, id = ARGV[1], ARGV[3]
begin(KEYS, ticket, ARGV[4])
local most, bytes_max, lease_ms, way, is_bounded, priority_max = struct.unpack('>I4I4I6BBI2', ARGV[2])
local consumer = string.sub(ARGV[2], 19)

local AT_ONCE = 200 -- jobs of one call: so long Redis does nothing else
local jobs, out = 0, {} -- of the answer: topic, id, record and try per job

local function answer_of(status, following)
    local f = following or {priority = 0, due = 0, sequence = 0}
    return pack('>BBI2I6I6I4', status, following and 1 or 0, f.priority, f.due, f.sequence, jobs)
end

local function show(name, words)
    local at = #out
    out[at + 1], out[at + 2], out[at + 3], out[at + 4] = name, words[1], words[2], words[3]
    jobs = jobs + 1
end

-- Carried out before: of the leases those that still stand.
local kept = answered_before(ticket)
if kept then
    local status, first, last = unpack_from('>BI6I6', kept)
    for delivery = first, last do
        local place, words = call('HGET', LEASED, text_of(delivery)), {}
        if place and take_again(delivery, delivery, words) > 0 then show(flow.split(place), words) end
    end
    return shown(answer_of(status), out)
end

-- ---- one job ----

-- Leases the job. A job that was not ready yet becomes due now.
local function lease_job(t, j)
    if j.flags % 32 >= batches.RECORD then j = batches.taken(t, j) end
    local was_ready = shown_state(j) == READY
    unhang(t, j)
    if not was_ready then j.due, j.first = now, now end
    sequence, core_is_changed = sequence + 1, true
    j.state, j.delivery, j.attempt, j.consumer, j.requested = LEASED_STATE, sequence, j.attempt + 1, consumer, false
    j.lease = lease_ms > 0 and lease_ms or policy_of(t, j).lease
    j.lease_until = now + 1 + j.lease
    soonest = min(soonest, j.lease_until)
    local number = text_of(sequence)
    call('HSET', LEASED, number, sub(j.member, 1, 6) .. flow.place(t, flow.group_of(j)) .. id)
    call('ZADD', LEASES, text_of(j.lease_until), number)
    call('ZADD', t.held, text_of(j.due), j.member)
    try_write(t, j)
    count(t, 'leased', 1)
    if t.flow then flow.leased_by_id(t, flow.group_of(j)) end
    count(t, 'delivered', 1)
    if feed.listened then feed.publish(feed.DELIVERED, t.name, id, j.attempt, j.due, j.lease_until, way) end
    local try = try_of(j)
    if has(t, HISTORIC) then try = history_shown(j.record, try, call('HGET', t.history, id)) end
    show(t.name, {id, j.record, try})
    return OK
end

local function take_job(name)
    if is_leaving(name, id, page_under_way()) then return MOVING end
    local t = topic_find(name)
    local j = t and job_find(t, id)
    if not j then return NOT_FOUND end
    if j.state == LEASED_STATE then return IS_LEASED end
    return lease_job(t, j)
end

-- ---- the best of several topics ----

local firsts = {} -- the next job of each topic that has any

-- Returns the topic's first job, or nil.
local function first_of(t)
    if t.flow then
        local priority, due, number = flow.peek(t)
        return priority and {t = t, priority = priority, due = due, sequence = number}
    end
    local priority = t.f[AT.ready] > 0 and call('ZRANGE', t.priorities, '0', '0')[1]
    local first = priority and call('ZRANGE', t.ready_of .. priority, '0', '0', 'WITHSCORES')
    if not first or not first[1] then return nil end
    return {t = t, priority = tonumber(priority), due = tonumber(first[2]), sequence = (unpack_from('>I6', first[1]))}
end

local function comes_before(a, b)
    if a.priority ~= b.priority then return a.priority < b.priority end
    if a.due ~= b.due then return a.due < b.due end
    return a.sequence < b.sequence
end

-- Returns the place of the best job, or nil.
local function best()
    local at
    for i, first in pairs(firsts) do
        if not at or comes_before(first, firsts[at]) then at = i end
    end
    return at
end

local function look_at_topics()
    local seen = {}
    for i = 4, #ARGV do
        local t = topic_find(ARGV[i])
        if t and not has(t, PAUSED) and not seen[t.name] then
            seen[t.name] = true
            if t.f[NEXT] <= now then
                advance_topic(t, most + 64)
                topic_refresh(t)
            end
            firsts[#firsts + 1] = first_of(t)
        end
    end
end

local function take_best()
    local bytes, at = 0, best()
    most = min(most, AT_ONCE)
    while at and jobs < most and (jobs == 0 or bytes < bytes_max) and not (is_bounded == 1 and firsts[at].priority > priority_max) do
        local t, words = firsts[at].t, {}
        if take(t, 1, bytes_max, lease_ms, words, way, consumer) > 0 then
            bytes = bytes + #words[2]
            show(t.name, words)
            firsts[at] = first_of(t)
        else
            firsts[at] = nil
        end
        at = best()
    end
    return OK
end

local before, status = sequence, nil
if id ~= '' then
    status = take_job(ARGV[4])
else
    look_at_topics()
    status = take_best()
end
settle(NOBODY, ticket, sequence > before and pack('>BI6I6', status, before + 1, sequence) or nil)
local at = best()
return shown(answer_of(status, at and firsts[at]), out)
