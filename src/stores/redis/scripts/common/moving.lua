-- A shard whose jobs go over to the next generation (README.md, "Another number of shards").
local ANNOUNCED, SEALED, LEAVING, CLOSED, ELSEWHERE, MOVING, page_under_way, is_leaving, wants_aware, move_state = (function()

-- Steps of a move, in the core's `sealed`: 0 not begun; the next generation is announced; no new job comes; jobs leave; the shard is empty.
local ANNOUNCED, SEALED, LEAVING, CLOSED = 1, 2, 3, 4
local ELSEWHERE, MOVING = 21, 22 -- statuses

-- Returns the topic and kind of the page that is on its way; else nil.
local function page_under_way()
    if sealed ~= LEAVING then return nil end
    local found = call('HMGET', T .. ':moving', 'topic', 'kind')
    return found[1] or nil, tonumber(found[2] or 0)
end

-- Returns true if the topic's job is on its way, so that this shard cannot know its state. `on_its_way`: the page's topic.
local function is_leaving(name, id, on_its_way)
    return on_its_way == name and call('ZSCORE', T .. ':leaving', id) and true or false
end

-- Rejects a server that does not know of the next generation, once no new job comes: it would take the rest for the whole. Nothing was
-- changed.
local function wants_aware(ticket)
    if sealed < SEALED or ticket == '' then return end
    if not call('ZSCORE', T .. ':aware', sub(ticket, 1, 8)) then
        error({err = 'SEALED the number of shards is being changed, and this server does not know it yet'})
    end
end

-- Returns the step of the move and the generation it leads to.
local function move_state()
    return pack('>BI6', sealed, sequence) .. (sealed > 0 and call('HGET', T .. ':moving', 'target') or '')
end

return ANNOUNCED, SEALED, LEAVING, CLOSED, ELSEWHERE, MOVING, page_under_way, is_leaving, wants_aware, move_state

end)()

