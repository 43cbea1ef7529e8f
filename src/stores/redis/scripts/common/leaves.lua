-- Where delayed and ready jobs hang.
local leaf_of, leaves_add, delayed_add, delayed_remove, delayed_take_due, leaf_first, delayed_first, is_plain, ready_add, ready_is_empty,
    ready_remove, may_have = (function()

local READY_AT = AT.ready

-- Returns true if the optional set of this flag may have entries.
local function may_have(t, flag)
    return t.is_exact or has(t, flag)
end

-- ---- leaves: small sorted sets in Redis' compact form, each with a span of due times ----

local function leaf_of(t, due)
    return call('ZREVRANGEBYSCORE', t.index, due, '-inf', 'LIMIT', '0', '1')[1]
end

local function leaf_new(t, lowest)
    leaf_number, core_is_changed = leaf_number + 1, true
    local leaf = text_of(leaf_number)
    call('ZADD', t.index, lowest, leaf)
    raise(t, PACKED)
    return leaf
end

-- Splits a full leaf that `due` belongs to. Returns false if it cannot be split: all its jobs have the same due time.
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

-- Returns the last of the items at.. that belongs to the leaf and has room; at - 1: the leaf was split, call again.
local function last_in_leaf(t, leaf, items, at)
    local size, due = call('ZCARD', t.leaf .. leaf), items[at][1]
    if size >= LEAF_MAX and leaf_split(t, leaf, size, due) then return at - 1 end
    local above = call('ZRANGE', t.index, '(' .. text_of(due), '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2]
    above = above and tonumber(above) or NONE
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
    if last > now + FAR_MS and not has(t, UNPACKED_TOO) then
        call('SADD', UNPACKED, t.name)
        raise(t, UNPACKED_TOO)
    end
end

-- False where it is not there.
local function delayed_remove(t, due, member)
    return call('ZREM', t.fresh, member) == 1 or may_have(t, PACKED) and leaf_remove(t, due, member)
end

-- Removes and returns up to `most` due jobs: {member, due, member, due, …}.
local function delayed_take_due(t, most)
    local all = call('ZRANGE', t.fresh, '-inf', now, 'BYSCORE', 'LIMIT', '0', most, 'WITHSCORES')
    if #all > 0 then call('ZREMRANGEBYRANK', t.fresh, '0', #all / 2 - 1) end
    while #all < 2 * most and may_have(t, PACKED) do
        local leaf = call('ZRANGE', t.index, '0', '0')[1]
        if not leaf then
            lower(t, PACKED)
            break
        end
        local key = t.leaf .. leaf
        local some = call('ZRANGE', key, '-inf', now, 'BYSCORE', 'LIMIT', '0', most - #all / 2, 'WITHSCORES')
        if #some > 0 then call('ZREMRANGEBYRANK', key, '0', #some / 2 - 1) end
        for i = 1, #some do all[#all + 1] = some[i] end
        if call('EXISTS', key) == 1 then break end
        call('ZREM', t.index, leaf)
    end
    return all
end

-- Returns the due time of the first packed job, and its leaf.
local function leaf_first(t)
    local leaf = call('ZRANGE', t.index, '0', '0')[1]
    if not leaf then lower(t, PACKED) end
    return leaf and tonumber(call('ZRANGE', t.leaf .. leaf, '0', '0', 'WITHSCORES')[2] or NONE) or NONE, leaf
end

-- Returns the due time of the first delayed job.
local function delayed_first(t)
    local fresh = tonumber(call('ZRANGE', t.fresh, '0', '0', 'WITHSCORES')[2] or NONE)
    if not may_have(t, PACKED) then return fresh end
    local packed = leaf_first(t)
    return min(fresh, packed)
end

-- ---- ready jobs ----

-- The jobs of a topic that is not special have priority 100, so its count replaces T:priorities.
local function is_plain(t)
    return not has(t, SPECIAL) and not t.is_exact
end

-- `words`: {due, member, due, member, …}. `group`: of all of them, or nil.
local function ready_add(t, priority, words, group)
    local lane = group and flow.lane(priority, group) or priority
    if not is_plain(t) or t.f[READY_AT] <= 0 then call('ZADD', t.priorities, priority, lane) end
    call_many('ZADD', t.ready_of .. lane, words)
    if t.flow then flow.ready_added(t, priority, group or '', words) end
    count(t, 'ready', #words / 2)
end

-- Returns true if no job of this priority (and group: flow.lane) is left; the priority is then removed. Call it after jobs were taken out and counted.
local function ready_is_empty(t, lane)
    local is_empty
    if is_plain(t) then is_empty = t.f[READY_AT] <= 0 else is_empty = call('EXISTS', t.ready_of .. lane) == 0 end
    if is_empty then call('ZREM', t.priorities, lane) end
    return is_empty
end

-- Removes a ready job and counts it. Returns false if it is not there.
local function ready_remove(t, j)
    local lane = j.flags >= flow.RECORD and flow.lane_of(j) or j.priority
    if call('ZREM', t.ready_of .. lane, j.member) == 0 then return false end
    count(t, 'ready', -1)
    if t.flow then
        flow.ready_removed(t, j.priority, flow.group_of(j), 1, j.sequence)
        flow.tried(t, j, -1)
    end
    ready_is_empty(t, lane)
    return true
end

return leaf_of, leaves_add, delayed_add, delayed_remove, delayed_take_due, leaf_first, delayed_first, is_plain, ready_add, ready_is_empty,
    ready_remove, may_have

end)()

