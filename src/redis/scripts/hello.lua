#!lua flags=allow-oom
-- A server has reached the shard's master: makes the shard where it is new, and says how it stands.
local run, shards, name, drawn = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- Where jobs are left of a shard whose core was lost, numbers begin above any given out: the clock is.
local is_new = call('HSETNX', CORE, 'version', '1')
if is_new == 1 then
    local number = text_of(call('EXISTS', TOPICS) * now)
    local first = {shards = shards, sequence = number, leaf = number, adjust = '0', run = run}
    for field, value in pairs(first) do call('HSETNX', CORE, field, value) end
end
if call('HGET', CORE, 'version') ~= '1' then
    return redis.error_reply('VERSION the jobs were stored by a newer tarry, use that one or another prefix')
end

-- Another process serves the shard, and may have lost its last writes: numbers given out by the one before must not come
-- again.
if call('HGET', CORE, 'run') ~= run then
    call('HSET', CORE, 'run', run)
    call('HINCRBY', CORE, 'sequence', 1000000)
end

-- The queue's name, in its first shard: drawn once, by whichever server came first.
if name ~= '' then
    call('HSETNX', CORE, 'name', name)
    name = call('HGET', CORE, 'name')
end

-- Servers come and go: what is older than a day belongs to none that has a call under way.
if call('HLEN', TICKETS) > 64 then
    local kept, old = call('HGETALL', TICKETS), {}
    for i = 1, #kept, 2 do
        if unpack_from('>I6', kept[i + 1], 13) < now - 86400000 then old[#old + 1] = kept[i] end
    end
    call_many('HDEL', TICKETS, old)
end

-- Under this key servers check leases. Whoever greets first has drawn it, for all of them.
call('HSETNX', CORE, 'lease_key', drawn)

return shown(pack('>BI4I6', is_new, tonumber(call('HGET', CORE, 'shards')), tonumber(call('HGET', CORE, 'sequence')))
    .. call('HGET', CORE, 'lease_key') .. name)
