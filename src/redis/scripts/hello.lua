#!lua flags=allow-oom
-- A server has reached the shard's master: makes the shard where it is new, and says how it stands.
local run, shards = ARGV[1], ARGV[2]

if call('HSETNX', CORE, 'version', '1') == 1 then
    call('HSET', CORE, 'shards', shards, 'sequence', 0, 'leaf', 0, 'adjust', 0, 'run', run)
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

-- Servers come and go: what is older than a day belongs to none that has a call under way.
if call('HLEN', TICKETS) > 64 then
    local kept, old = call('HGETALL', TICKETS), {}
    for i = 1, #kept, 2 do
        if unpack_from('>I6', kept[i + 1], 13) < now - 86400000 then old[#old + 1] = kept[i] end
    end
    call_many('HDEL', TICKETS, old)
end

return shown(pack('>I4I6', tonumber(call('HGET', CORE, 'shards')), tonumber(call('HGET', CORE, 'sequence'))))
