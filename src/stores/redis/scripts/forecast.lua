#!lua flags=no-writes
-- How many delayed jobs are due before each of some times: of one topic, or of a page of them. Jobs are never looked at one by one, but where
-- they are few: sorted sets count. Of packed jobs whole leaves are counted, each of them where they are not many.
local name, rank, bounds_packed = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local FEW, LEAVES_MAX, COMMANDS_MAX, PAGE = 48, 256, 800, 100
begin(KEYS, nil, name ~= '' and name or nil)

local bounds, commands, estimated, overdue = {}, 0, false, 0
for at = 1, #bounds_packed, 6 do bounds[#bounds + 1] = unpack_from('>I6', bounds_packed, at) + adjust end
local counts = {} -- jobs before the first bound, then between each and the next, then from the last one on
for i = 1, #bounds + 1 do counts[i] = 0 end
local LAST = #counts

local function ask(...)
    commands = commands + 1
    return call(...)
end

-- Returns the first bound from `at` on that `due` is before.
local function before(due, at)
    while bounds[at] and due >= bounds[at] do at = at + 1 end
    return at
end

-- Adds the jobs of one sorted set that is not empty; its first and last entry determine the bounds. Returns how many there are.
local function add_set(key, size)
    if size <= FEW then
        local some, at = ask('ZRANGE', key, '0', '-1', 'WITHSCORES'), 1
        for i = 2, #some, 2 do
            at = before(tonumber(some[i]), at)
            counts[at] = counts[at] + 1
        end
        return
    end
    local last = tonumber(ask('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2])
    local at, seen = before(tonumber(ask('ZRANGE', key, '0', '0', 'WITHSCORES')[2]), 1), 0
    while bounds[at] and last >= bounds[at] do
        local until_bound = ask('ZCOUNT', key, '-inf', '(' .. text_of(bounds[at]))
        counts[at], seen, at = counts[at] + until_bound - seen, until_bound, at + 1
    end
    counts[at] = counts[at] + size - seen
end

-- Adds each leaf by itself. Returns how many jobs there are in them.
local function add_leaves(leaf, leaves)
    local packed, at = 0, 1
    for i = 1, #leaves, 2 do
        local size, above = ask('ZCARD', leaf .. leaves[i]), tonumber(leaves[i + 3] or NONE)
        at = before(tonumber(leaves[i + 1]), at)
        if not bounds[at] or above <= bounds[at] then counts[at] = counts[at] + size else add_set(leaf .. leaves[i], size) end
        packed = packed + size
    end
    return packed
end

-- Estimates how full leaves are from a sample, each of which represents its part of the index. Returns the size of a part, and how many jobs
-- there are before each sampled leaf.
local function sample_leaves(index, leaf, size)
    local stretch, sums, sum = math.ceil(size / LEAVES_MAX), {}, 0
    for rank_of = floor(stretch / 2), size - 1, stretch do
        sums[#sums + 1] = sum
        sum = sum + ask('ZCARD', leaf .. ask('ZRANGE', index, rank_of, rank_of)[1])
    end
    sums[#sums + 1] = sum
    return stretch, sums
end

-- Estimates by the number of leaves before each bound, and how full leaves near it are.
local function estimate_leaves(index, leaf, size, packed)
    local stretch, sums = sample_leaves(index, leaf, size)
    local all, seen = sums[#sums], 0
    local last = tonumber(ask('ZRANGE', leaf .. ask('ZRANGE', index, '-1', '-1')[1], '-1', '-1', 'WITHSCORES')[2] or 0)
    estimated = true
    for at = 1, #bounds do
        local leaves = ask('ZCOUNT', index, '-inf', '(' .. text_of(bounds[at])) - 0.5 -- the last one is cut, somewhere
        local place = min(leaves / stretch, #sums - 1)
        local whole = min(floor(max(0, place)), #sums - 2)
        local before_it = leaves < 0 and 0 or sums[whole + 1] + (place - whole) * (sums[whole + 2] - sums[whole + 1])
        local until_bound = last < bounds[at] and packed or max(seen, min(packed, floor(packed * before_it / all + 0.5)))
        counts[at], seen = counts[at] + until_bound - seen, until_bound
        if seen == packed then break end
    end
    counts[LAST] = counts[LAST] + packed - seen
end

local function add_topic(topic, f)
    local total = f[AT.delayed] + f[AT.retrying]
    overdue = overdue + max(0, f[AT.ready])
    if total <= 0 then return end
    local fresh = T .. ':fresh:' .. topic
    local size = ask('ZCARD', fresh)
    if size > 0 then add_set(fresh, size) end
    local rest = total - size
    if rest > 0 then
        local index, leaf = T .. ':index:' .. topic, T .. ':leaf:' .. topic .. ':'
        local leaves = ask('ZCARD', index)
        local near = ask('ZCOUNT', index, '-inf', '(' .. text_of(bounds[#bounds])) -- the others begin after the last bound
        if near > LEAVES_MAX then
            estimate_leaves(index, leaf, leaves, rest)
            rest = 0
        elseif near > 0 then
            rest = rest - add_leaves(leaf, ask('ZRANGE', index, '0', text_of(near - 1), 'WITHSCORES'))
        end
        if near < leaves then counts[LAST], rest = counts[LAST] + max(0, rest), 0 end
    end
    -- Some are on their way to another shard, or a count is wrong: `tarry fsck` mends that. The sum is that of the counts.
    if rest ~= 0 then
        counts[LAST], estimated = max(0, counts[LAST] + rest), true
    end
end

-- Topics from the rank on. Returns where to go on; 0: there are no more.
local function add_page()
    local names, keys = call('ZRANGE', TOPICS, rank, rank + PAGE - 1), {}
    for i = 1, #names do keys[i] = T .. ':topic:' .. names[i] end
    local texts = #keys > 0 and call('MGET', unpack(keys)) or {}
    for i = 1, #names do
        if texts[i] and #texts[i] >= TOPIC_BYTES then add_topic(names[i], topic_figures(texts[i])) end
        if commands > COMMANDS_MAX then return rank + i end
    end
    return #names == PAGE and rank + PAGE or 0
end

local more = 0
if name ~= '' then
    local t = topic_find(name)
    if not t then return shown(pack('>BB', NOT_FOUND, 0)) end
    add_topic(name, t.f)
else
    more = add_page()
end
local packed = {}
for i = 1, LAST do packed[i] = pack('>I6', counts[i]) end
return shown(pack('>BBI6I6', OK, estimated and 1 or 0, more, overdue) .. table.concat(packed))
