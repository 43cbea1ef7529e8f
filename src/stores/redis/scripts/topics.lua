#!lua flags=no-writes
-- A page of the shard's topics, by name.
local after, limit = ARGV[1], tonumber(ARGV[2])
begin(KEYS)

local names = {}
for _, name in ipairs(call('ZRANGE', TOPICS, 0, -1)) do
    if name > after then names[#names + 1] = name end
end
table.sort(names)

local more = {}
for i = 1, min(limit, #names) do
    local t = topic_find(names[i])
    if t then more[#more + 1], more[#more + 2] = names[i], topic_packed(t) end
end
return shown(pack('>B', #names > limit and 1 or 0), more)
