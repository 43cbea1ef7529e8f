-- A shard whose jobs go over to the next generation (README.md, "Another number of shards").
local ANNOUNCED, SEALED, LEAVING, CLOSED, ELSEWHERE, MOVING, page_under_way, is_leaving, wants_aware, state_told = (function()

-- How far it is, in the core's `sealed`: nothing of it (0); the next generation is told; no new job comes; jobs leave; none is left.
local ANNOUNCED, SEALED, LEAVING, CLOSED = 1, 2, 3, 4
local ELSEWHERE, MOVING = 21, 22 -- statuses

-- The topic and kind of the page that is on its way; nil: none is.
local function page_under_way()
    if sealed ~= LEAVING then return nil end
    local found = call('HMGET', T .. ':moving', 'topic', 'kind')
    return found[1] or nil, tonumber(found[2] or 0)
end

-- Whether the topic's job is on its way, so nobody here knows what becomes of it. `on_its_way`: the page's topic.
local function is_leaving(name, id, on_its_way)
    return on_its_way == name and call('ZSCORE', T .. ':leaving', id) and true or false
end

-- Once no new job comes, a server that does not know of the next generation would take what is there for the whole: it is refused,
-- and nothing was changed.
local function wants_aware(ticket)
    if sealed < SEALED or ticket == '' then return end
    if not call('ZSCORE', T .. ':aware', sub(ticket, 1, 8)) then
        error({err = 'SEALED the number of shards is being changed, and this server has not heard of it yet'})
    end
end

-- How far it is, and the generation it goes to.
local function state_told()
    return pack('>BI6', sealed, sequence) .. (sealed > 0 and call('HGET', T .. ':moving', 'target') or '')
end

return ANNOUNCED, SEALED, LEAVING, CLOSED, ELSEWHERE, MOVING, page_under_way, is_leaving, wants_aware, state_told

end)()

