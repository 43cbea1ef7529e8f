#!lua flags=no-writes
-- A page of a topic's groups: in an order, from a place on. By the number of jobs the place is a number and a name, else a name.
local name, order, limit, has_cursor, number, after = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1', tonumber(ARGV[5]), ARGV[6]
local BY_READY, BY_LEASED, HELD = 1, 2, 3
begin(KEYS, nil, name)

local t = topic_find(name)
if not t then return shown(pack('>BB', NOT_FOUND, 0)) end

local function number_of(g)
    return order == BY_READY and g.ready or order == BY_LEASED and g.in_flight or 0
end

local function comes_before(a, b)
    local first, second = number_of(a), number_of(b)
    if first ~= second then return first > second end
    return a.name < b.name
end

local function is_after(g)
    local its = number_of(g)
    return not has_cursor or its < number or its == number and g.name > after
end

local found = {}
for _, g in ipairs(flow.all(t)) do
    local is_active = g.ready > 0 or g.in_flight > 0 or g.own or g.hold > now
    if is_active and is_after(g) and (order ~= HELD or g.ready > 0 and flow.held_of(t, g.name) > 0) then found[#found + 1] = g end
end
table.sort(found, comes_before)
local more = {}
for i = 1, min(limit, #found) do more[2 * i - 1], more[2 * i] = found[i].name, flow.shown(t, found[i]) end
return shown(pack('>BB', OK, #found > limit and 1 or 0), more)
