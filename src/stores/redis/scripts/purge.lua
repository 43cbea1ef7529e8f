#!lua flags=allow-oom
-- Drops a topic's jobs in one state or all but the leased; or, step by step, the whole topic. Spares jobs pushed after it
-- began.
local ticket, is_delete, name = ARGV[1], ARGV[2] == 'delete', ARGV[3]
local state, until_sequence, most = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
begin(KEYS, ticket, name)

local kept = answered_before(ticket)
if kept then return repeated(kept) end
wants_aware(ticket)
local t = topic_find(name)
local is_on_its_way = page_under_way() == name -- what is on its way is met where it comes to
if not t and is_on_its_way then return shown(pack('>BBI6I6', OK, 1, 0, until_sequence)) end
if not t then return shown(pack('>BBI6I6', NOT_FOUND, 0, 0, 0)) end
if until_sequence == 0 then until_sequence = sequence end
if is_delete then until_sequence = NONE end

local affected = 0

-- Members of a sorted set that may go, up to what is left of `most`; taken out of it.
local function take_out(key)
    local out, rank = {}, 0
    while affected + #out < most do
        local some = call('ZRANGE', key, rank, rank + MANY - 1)
        for i = 1, #some do
            if affected + #out < most and unpack_from('>I6', some[i]) <= until_sequence then out[#out + 1] = some[i] end
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
    if has(t, keeping.FLAG) then batches.purged(t, ids) end
    call_many('HDEL', t.jobs, ids)
    call_many('HDEL', t.tries, ids)
    history_forget(t, ids)
    if has(t, topic_rules.SUCCEEDING) then call_many('HDEL', t.next, ids) end
    if keeping.waiting then keeping.note_gone(t, ids, keeping.purged) end
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
    if t.flow then flow.purged(t, members, true) end
    count(t, 'retrying', -retrying)
    count(t, 'delayed', retrying - #members)
    forget(members)
end

local function purge_delayed()
    local rank = 0
    purge_waiting(t.fresh)
    while affected < most do
        local leaf = call('ZRANGE', t.index, rank, rank)[1]
        if not leaf then return end
        purge_waiting(t.leaf .. leaf)
        if call('EXISTS', t.leaf .. leaf) == 0 then call('ZREM', t.index, leaf) else rank = rank + 1 end
    end
end

local function purge_ready()
    for _, priority in ipairs(call('ZRANGE', t.priorities, 0, -1)) do
        if affected >= most then return end
        local members = take_out(t.ready_of .. priority)
        if t.flow then
            local number, group = flow.lane_read(priority)
            flow.ready_removed(t, number, group, #members)
            flow.purged(t, members)
        end
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
    if t.flow then
        for _, place in ipairs(ask_many('HMGET', LEASED, deliveries)) do
            if place then flow.released(t, select(3, flow.split(place))) end
        end
    end
    call_many('ZREM', LEASES, deliveries)
    call_many('HDEL', LEASED, deliveries)
    count(t, 'leased', -#members)
    forget(members)
end

-- A due job counts as ready, also before it was moved: if more jobs are due than one call may move, the rest is left to the next call.
local is_due = false
if not is_delete and state ~= DEAD and state ~= FINISHED then
    advance_topic(t, most)
    topic_refresh(t)
    is_due = state ~= 0 and delayed_first(t) <= now
end
if is_delete or state == 0 or state == DELAYED and not is_due then purge_delayed() end
if is_delete or state == 0 or state == READY then purge_ready() end
if is_delete or state == 0 or state == DEAD then purge_dead() end
if is_delete then purge_leased() end
local kept_gone, are_long = 0, false
if (is_delete or state == FINISHED) and has(t, keeping.FLAG) then kept_gone, are_long = keeping.purge(t, most - affected) end
if state == FINISHED then affected = kept_gone end

local more = (affected >= most or kept_gone > 0 and affected + kept_gone >= most or are_long or is_due or is_on_its_way) and 1 or 0
if is_delete and more == 0 then
    call('ZREMRANGEBYRANK', t.finished, 0, 9999)
    if call('EXISTS', t.finished) == 1 then
        more = 1
    else
        if t.flow then flow.settle(t) end
        call('DEL', t.key, t.extension, t.expiry, t.history, t.next, t.kept, t.order, t.groups, t.group_settings, t.wakes, t.waits)
        call('ZREM', TOPICS, name)
        call('SREM', UNPACKED, name)
        topic_rules.resume(t)
        t.is_deleted = true
        if next_topic == name then shard_look() end
        settings_notify(server_of(ticket), name)
    end
end
if feed.listened and (affected > 0 or t.is_deleted) then feed.publish(t.is_deleted and feed.DELETED or feed.PURGED, name, '', 0, 0, 0, affected) end
return changed(ticket, pack('>BBI6I6', OK, more, affected, until_sequence), nil, NOBODY)
