-- The next event of a topic, and of the shard. Both are kept as a lower bound each, which is corrected when a due event was moved.
local first_score, topic_refresh, topic_list, shard_look, events_settle, settings_notify, deaths_notify, NOBODY, server_of = (function()

local function first_score(key)
    local first = call('ZRANGE', key, '0', '0', 'WITHSCORES')
    return first[2] and tonumber(first[2]) or NONE
end

local function first_of_optional(t, flag, key)
    if not may_have(t, flag) then return NONE end
    local first = first_score(key)
    if first == NONE then lower(t, flag) end
    return first
end

-- Looks up a topic's earliest event after its due jobs were moved. `delayed`: the due time of the first delayed job, if that is
-- known.
local function topic_refresh(t, delayed)
    local ms = min(delayed or delayed_first(t), first_of_optional(t, EXPIRING, t.expiry), first_of_optional(t, REMEMBERING, t.finished))
    if has(t, keeping.FLAG) then ms = min(ms, keeping.first_event(t)) end
    if t.flow then ms = min(ms, flow.first_event(t)) end
    t.f[NEXT], t.is_changed = ms, true
end

local function topic_list(t)
    call('ZADD', TOPICS, text_of(t.f[NEXT]), t.name)
    t.f[LISTED], t.is_changed = t.f[NEXT], true
end

-- Looks up the shard's next event in the sets themselves. T:topics may hold a topic with an outdated event: it is corrected when it comes first.
local function shard_look()
    local lease, topics, first = min(first_score(LEASES), topic_rules.first_pause_end()), nil, nil
    repeat
        topics = call('ZRANGE', TOPICS, '0', '1', 'WITHSCORES')
        first = tonumber(topics[2] or NONE)
        local t = first <= now and topic_find(topics[1])
        local is_over = t and t.f[NEXT] > first
        if is_over then topic_list(t) end
    until not is_over
    if first < NONE and first <= lease then
        next_ms, next_topic, rest_ms = first, topics[1], min(lease, tonumber(topics[4] or NONE))
    else
        next_ms, next_topic, rest_ms = lease, '', first
    end
    core_is_changed = true
end

-- rest_ms is a lower bound of all events except that of next_topic. While that event comes first, the others need no check.
local function event_note(t)
    local ms, must_look = t.f[NEXT], false
    if t.name == next_topic then
        must_look = ms > rest_ms
        if not must_look and ms ~= next_ms then next_ms, core_is_changed = ms, true end
    elseif ms < next_ms then
        rest_ms, next_ms, next_topic, core_is_changed = min(rest_ms, next_ms), ms, t.name, true
    elseif ms < rest_ms then
        rest_ms, core_is_changed = ms, true
    end
    if ms < t.f[LISTED] or ms > t.f[LISTED] and (must_look or t.name ~= next_topic) then topic_list(t) end
    return must_look
end

-- Notes the effects of this call in the core. May be done more than once.
local function events_settle()
    local must_look = false
    if soonest < next_ms then
        rest_ms, next_ms, next_topic, core_is_changed = min(rest_ms, next_ms), soonest, '', true
    elseif soonest < rest_ms then
        rest_ms, core_is_changed = soonest, true
    end
    for i = 1, #met_topics do
        local t = met_topics[i]
        if t.is_changed and not t.is_deleted and event_note(t) then must_look = true end
    end
    if must_look then shard_look() end
end

-- ---- notifications to other servers ----

local NOBODY = '--------'

local function server_of(ticket)
    return ticket ~= '' and sub(ticket, 1, 8) or NOBODY
end

-- Notifies that the topic's settings changed or the topic was deleted. Numbered, so that each server can detect a lost notification; `server`
-- already knows.
local function settings_notify(server, name)
    local more = core_more()
    more.changes = more.changes + 1
    core_more_set(more)
    notify('s' .. server .. text_of(more.changes) .. ' ' .. name)
end

-- Notifies the servers that forward dead jobs: jobs of the topic died in this call, or arrived here dead.
local function deaths_notify(t)
    if not may_have(t, EXTENDED) then return end
    local more = core_more()
    more.deaths = more.deaths + 1
    core_more_set(more)
    notify('x' .. text_of(more.deaths) .. ' ' .. t.name)
end

return first_score, topic_refresh, topic_list, shard_look, events_settle, settings_notify, deaths_notify, NOBODY, server_of

end)()

