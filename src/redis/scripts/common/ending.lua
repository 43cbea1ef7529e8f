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

