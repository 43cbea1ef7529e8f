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

