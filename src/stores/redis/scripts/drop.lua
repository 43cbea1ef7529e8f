#!lua flags=allow-oom
-- Drops a page that left (leave.lua) and has arrived at all its shards: it is removed here. A page that is not (or no longer) on its way is
-- ignored.
local ticket, page = ARGV[1], ARGV[2]
begin(KEYS, ticket)
local MOVES, LEAVES = T .. ':moving', T .. ':leaving'
local JOBS, IDS, RECORDS, KEPT, GROUPS = 1, 2, 4, 5, 6
local found = call('HMGET', MOVES, 'page', 'kind', 'topic', 'leaf')
local kind, name = tonumber(found[2] or 0), found[3]
if found[1] ~= page or kind == 0 then return shown('') end

local ids, keys = call('ZRANGE', LEAVES, '0', '-1'), keys_of(name).__index
if kind == JOBS then
    call_many('HDEL', keys.jobs, ids)
    call_many('HDEL', keys.tries, ids)
    call_many('HDEL', keys.history, ids)
elseif kind == IDS then
    call_many('ZREM', keys.finished, ids)
elseif kind == KEPT then
    local t = topic_find(name)
    if t and found[4] then kept.left(t, found[4]) end
elseif kind == GROUPS then
    call_many('HDEL', keys.group_settings, ids)
elseif kind == RECORDS then
    call_many('HDEL', T .. ':broken:' .. name, ids)
end
call('DEL', LEAVES)
call('HDEL', MOVES, 'kind', 'topic', 'leaf')
settle(NOBODY, '', nil)
return shown('')
