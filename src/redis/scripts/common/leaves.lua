-- Where delayed and ready jobs hang.
local leaf_of, leaves_add, delayed_add, delayed_remove, delayed_take_due, delayed_first, ready_add, ready_is_empty,
    ready_remove = (function()

-- ---- leaves: small sorted sets in Redis' compact form, each with a span of due times ----

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
    if middle == tonumber(call('ZRANGE', key, '0', '0', 'WITHSCORES')[2]) then
        middle = tonumber(call('ZRANGE', key, '(' .. text_of(middle), '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2])
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

-- Of the items at..: the last one that belongs to the leaf and finds room; at - 1: the leaf was split, look again.
local function last_in_leaf(t, leaf, items, at)
    local size, due = call('ZCARD', t.leaf .. leaf), items[at][1]
    if size >= LEAF_MAX and leaf_split(t, leaf, size, due) then return at - 1 end
    local above = call('ZRANGE', t.index, '(' .. text_of(due), '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2]
    above = above and tonumber(above) or NEVER
    local last = at
    while last < #items and last - at < MANY / 2 - 1 do
        local following = items[last + 1][1]
        if following ~= due and (following >= above or size + last - at + 1 >= LEAF_MAX) then break end
        last = last + 1
    end
    return last
end

-- `items`: {due, member} each, sorted by due. Neighbours go into their leaf together.
local function leaves_add(t, items)
    local at = 1
    while at <= #items do
        local leaf = leaf_of(t, items[at][1]) or leaf_new(t, 0)
        local last, words = last_in_leaf(t, leaf, items, at), {}
        for i = at, last do
            words[#words + 1], words[#words + 2] = items[i][1], items[i][2]
        end
        if last >= at then call('ZADD', t.leaf .. leaf, unpack(words)) end
        at = last + 1
    end
end

local function leaf_remove(t, due, member)
    local leaf = leaf_of(t, due)
    if not leaf then return false end
    local key = t.leaf .. leaf
    if call('ZREM', key, member) == 0 then return false end
    if call('EXISTS', key) == 0 then call('ZREM', t.index, leaf) end
    return true
end

-- ---- delayed jobs: fresh ones as they came; those far away are packed into leaves when there is time (pack.lua) ----

-- `words`: {due, member, due, member, …}; the earliest and the latest due of them.
local function delayed_add(t, words, first, last)
    if #words == 0 then return end
    call_many('ZADD', t.fresh, words)
    event_at(t, first)
    if last > now + FAR_MS and not t.unpacked then
        call('SADD', UNPACKED, t.name)
        t.unpacked = true
    end
end

-- False where it is not there.
local function delayed_remove(t, due, member)
    return call('ZREM', t.fresh, member) == 1 or leaf_remove(t, due, member)
end

-- Up to `max` that are due, taken out: {member, due, member, due, …}.
local function delayed_take_due(t, max)
    local all = call('ZRANGE', t.fresh, '-inf', now, 'BYSCORE', 'LIMIT', '0', max, 'WITHSCORES')
    if #all > 0 then call('ZREMRANGEBYRANK', t.fresh, '0', #all / 2 - 1) end
    while #all < 2 * max do
        local leaf = call('ZRANGE', t.index, '0', '0')[1]
        if not leaf then break end
        local key = t.leaf .. leaf
        local some = call('ZRANGE', key, '-inf', now, 'BYSCORE', 'LIMIT', '0', max - #all / 2, 'WITHSCORES')
        if #some > 0 then call('ZREMRANGEBYRANK', key, '0', #some / 2 - 1) end
        for i = 1, #some do all[#all + 1] = some[i] end
        if call('EXISTS', key) == 1 then break end
        call('ZREM', t.index, leaf)
    end
    return all
end

local function delayed_first(t)
    local fresh = call('ZRANGE', t.fresh, '0', '0', 'WITHSCORES')[2]
    local leaf = call('ZRANGE', t.index, '0', '0')[1]
    local packed = leaf and call('ZRANGE', t.leaf .. leaf, '0', '0', 'WITHSCORES')[2]
    return math.min(fresh and tonumber(fresh) or NEVER, packed and tonumber(packed) or NEVER)
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
    if call('EXISTS', t.ready_of .. priority) == 1 then return false end
    call('ZREM', t.priorities, priority)
    t.has_priority[priority] = nil
    return true
end

local function ready_remove(t, priority, member)
    if call('ZREM', t.ready_of .. priority, member) == 0 then return false end
    ready_is_empty(t, priority)
    return true
end

return leaf_of, leaves_add, delayed_add, delayed_remove, delayed_take_due, delayed_first, ready_add, ready_is_empty,
    ready_remove

end)()

