#!lua flags=allow-oom
-- Moves up to `most` fresh jobs that are due far from now into leaves, where they take less memory. Done when there is time; a
-- job that falls due before that never was in one.
local most = tonumber(ARGV[1])
begin(KEYS)

local name = call('SRANDMEMBER', UNPACKED)
local t = name and topic_find(name)
local moved = 0
if t then
    local far = call('ZRANGE', t.fresh, '(' .. text_of(now + FAR_MS), '+inf', 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
    local items, members = {}, {}
    for i = 1, #far, 2 do
        members[#members + 1] = far[i]
        items[#items + 1] = {tonumber(far[i + 1]), far[i]}
    end
    leaves_add(t, items)
    call_many('ZREM', t.fresh, members)
    moved = #members
end
if name and moved < most then
    call('SREM', UNPACKED, name)
    if t then lower(t, UNPACKED_TOO) end
end
settle(NOBODY)
return shown(pack('>BI4', call('EXISTS', UNPACKED), moved))
