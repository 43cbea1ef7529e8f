-- Letting what is due happen.
local advance_topic, expire_all, leases_due, topics_due = (function()

-- Expires ready jobs whose ttl has ended.
local function expire_all(t, members)
    for i = 1, #members do
        local j = job_find(t, sub(members[i], 7))
        call('ZREM', t.expiry, members[i])
        -- Not one that is elsewhere by now: a topic may have lost its ttl in between.
        if j and j.member == members[i] and ready_remove(t, j) then
            if feed.listened then feed.publish(feed.EXPIRED, t.name, j.id, j.attempt, j.due) end
            if settings_of(t).dead_letter_expired then
                j.state, j.error = DEAD, 'expired'
                count(t, 'died', 1)
                if keeping.waiting or j.flags % 32 >= batches.RECORD then keeping.note_end(t, j, 'died') end
                hang(t, j)
                try_write(t, j)
                if feed.listened then feed.publish(feed.DEAD, t.name, j.id, j.attempt, 0, 0, 0, 'expired') end
            else
                finish(t, j, 'expired')
            end
        end
    end
end

local function expire_some(t, most)
    if not has(t, EXPIRING) then return 0 end
    local members = call('ZRANGE', t.expiry, '-inf', now, 'BYSCORE', 'LIMIT', '0', most)
    expire_all(t, members)
    return #members
end

local function forget_some(t, most)
    if not has(t, REMEMBERING) then return 0 end
    local old = min(call('ZCOUNT', t.finished, '-inf', now), most)
    if old > 0 then call('ZREMRANGEBYRANK', t.finished, '0', old - 1) end
    return old
end

-- Moves a job without batch, group and ttl: into `ready`, by its priority.
local function move_one(t, ready, record, try, member, due)
    local _, priority, attempt = nil, nil, 0
    if try then _, priority, attempt = unpack_from(TRY, try) else _, priority = unpack_from('>BI2', record) end
    count(t, attempt > 0 and 'retrying' or 'delayed', -1)
    local words = ready[priority]
    if words then
        local at = #words
        words[at + 1], words[at + 2] = due, member
    else
        ready[priority] = {due, member}
    end
end

-- Every one must be looked at: it may have a priority or a ttl of its own, and those tried are counted apart.
local function move_looking(t, due)
    local ready = {} -- of jobs that need no more, by priority
    for from = 1, #due, 64 do
        local ids = {}
        for i = from, min(from + 63, #due), 2 do ids[#ids + 1] = sub(due[i], 7) end
        local records, tries = call('HMGET', t.jobs, unpack(ids)), call('HMGET', t.tries, unpack(ids))
        for i = 1, #ids do
            local record = records[i]
            local flags = record and byte(record)
            if flags and not t.flow and flags % 32 < batches.RECORD and holding.ttl_of(t, flags, record) == 0 then
                local at = from + 2 * i - 2
                move_one(t, ready, record, tries[i], due[at], due[at + 1])
            elseif record then
                local j = job_make(t, ids[i], record, tries[i])
                if flags % 32 < batches.RECORD or not batches.due(t, j) then
                    count(t, j.attempt > 0 and 'retrying' or 'delayed', -1)
                    if t.flow then flow.delayed(t, flow.group_of(j), -1) end
                    ready_add(t, j.priority, {t.flow and flow.score_of(t, j) or j.due, j.member}, flow.group_of(j))
                    expire_later(t, j)
                end
            end
        end
    end
    for priority, words in pairs(ready) do ready_add(t, priority, words) end
end

-- Moves all these jobs into the one ready set. Each is checked for a retry only if some jobs are retrying.
local function move_plain(t, due)
    local tried, words, ids = 0, {}, {}
    for i = 1, #due, 2 do words[i], words[i + 1] = due[i + 1], due[i] end
    if t.f[AT.retrying] ~= 0 then
        for i = 1, #due, 2 do ids[#ids + 1] = sub(due[i], 7) end
        for _, try in pairs(ask_many('HMGET', t.tries, ids)) do
            if try then
                local _, _, attempt = unpack_from(TRY, try)
                if attempt > 0 then tried = tried + 1 end
            end
        end
    end
    count(t, 'retrying', -tried)
    count(t, 'delayed', tried - #due / 2)
    ready_add(t, 100, words)
end

local function due_publish(t, due)
    for i = 1, #due, 2 do
        local id = sub(due[i], 7)
        local try = t.f[AT.retrying] ~= 0 and call('HGET', t.tries, id)
        feed.publish(feed.DUE, t.name, id, try and select(3, unpack_from(TRY, try)) or 0, tonumber(due[i + 1]))
    end
end

-- Moves up to `most` due jobs of the topic. Returns how many.
local function advance_topic(t, most)
    local due = delayed_take_due(t, most)
    if #due > 0 then
        if feed.listened then due_publish(t, due) end
        if has(t, SPECIAL) or settings_of(t).ttl > 0 then move_looking(t, due) else move_plain(t, due) end
    end
    local done = #due / 2
    if t.flow then done = done + flow.wake_some(t, most) end
    if done < most then done = done + expire_some(t, most - done) end
    if done < most then done = done + forget_some(t, most - done) end
    if done < most and has(t, keeping.FLAG) then done = done + keeping.expire_some(t, most - done) end
    return done
end

-- Ends up to `most` leases whose time has passed. Returns how many.
local function end_leases(most)
    local deliveries = call('ZRANGE', LEASES, '-inf', now, 'BYSCORE', 'LIMIT', '0', most)
    for i = 1, #deliveries do
        local place = call('HGET', LEASED, deliveries[i])
        local name, id = nil, nil
        if place then name, id = flow.split(place) end
        local t = name and topic_find(name)
        local j = t and job_find(t, id)
        if j and text_of(j.delivery) == deliveries[i] then
            unhang(t, j)
            if j.requested then
                holding.cancel(t, j)
            elseif j.next and feed.listened then
                feed.publish(feed.LEASE_ENDED, t.name, j.id, j.attempt)
            end
            if not j.requested and not holding.start_next(t, j, 'lease_ended') then
                count(t, 'lease_ended', 1)
                fail(t, j, NONE, 'lease ended', OUTCOME.LEASE_OVER)
            end
        else
            call('ZREM', LEASES, deliveries[i])
            call('HDEL', LEASED, deliveries[i])
        end
    end
    return #deliveries
end

-- Ends up to `most` pauses whose time has come. Topics with ready jobs are then announced as if these had just become ready.
local function end_pauses(most)
    local names = call('ZRANGE', T .. ':pauses', '-inf', now, 'BYSCORE', 'LIMIT', '0', most)
    for i = 1, #names do
        local t = topic_find(names[i])
        call('ZREM', T .. ':pauses', names[i])
        if t and topic_rules.pause_has_end(t) then
            topic_rules.resume(t)
            t.ready_before = 0
            if feed.listened then feed.publish(feed.RESUMED, t.name, '') end
        end
    end
    return #names
end

-- Leases and pauses, where some may be over.
local function leases_due(most)
    if (next_topic == '' and next_ms or rest_ms) > now then return 0 end
    local done = topic_rules.first_pause_end() <= now and end_pauses(most) or 0
    if done < most then done = done + end_leases(most - done) end
    if next_topic == '' then
        events_settle() -- what ended leases brought about is listed before it is looked for
        shard_look()
    end
    return done
end

-- Handles up to `most` due events of topics.
local function topics_due(most)
    local done = 0
    events_settle()
    while done < most and next_ms <= now and next_topic ~= '' do
        local t = topic_find(next_topic)
        if t then
            done = done + max(1, advance_topic(t, most - done))
            topic_refresh(t)
            events_settle()
        else
            call('ZADD', TOPICS, 'XX', text_of(NONE), next_topic) -- it was lost: other topics go on, and a check finds it
            done = done + 1
            shard_look()
        end
    end
    return done
end

return advance_topic, expire_all, leases_due, topics_due

end)()

