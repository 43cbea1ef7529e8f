-- Where delayed and ready jobs hang: leaves, each a small sorted set that holds a span of due times; ready jobs by priority.
local leaf_of, delayed_add, delayed_remove, delayed_take_due, delayed_first, ready_add, ready_is_empty,
    ready_remove = (function()

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

return leaf_of, delayed_add, delayed_remove, delayed_take_due, delayed_first, ready_add, ready_is_empty, ready_remove

end)()

