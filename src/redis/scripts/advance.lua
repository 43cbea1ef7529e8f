#!lua flags=allow-oom
-- Lets what is due happen, at most `max` of it: leases end, delayed jobs become ready, ready ones expire, finished ids are
-- forgotten. Any server may call it at any time; but where several do, one is enough: the mover, who came last of those
-- that came in time. It is told to others, who then come less often.
local server, max, done = ARGV[2], tonumber(ARGV[4]), 0
chance_seed(ARGV[3])
clock_within(ARGV[1])

local MOVER_MS = 50 -- so long after its last call others count on it
local mover = call('HGET', CORE, 'mover') or ''
local has_other = #mover == 14 and sub(mover, 1, 8) ~= server and math.abs(now - unpack_from('>I6', mover, 9)) < MOVER_MS
if not has_other then call('HSET', CORE, 'mover', server .. pack('>I6', now)) end

local function end_leases(deliveries)
    for i = 1, #deliveries do
        local place = call('HGET', LEASED, deliveries[i])
        local split = place and string.find(place, '\0', 7, true)
        local t = place and topic_find(sub(place, 7, split - 1))
        local j = t and job_find(t, sub(place, split + 1))
        if j and text_of(j.delivery) == deliveries[i] then
            count(t, 'lease_ended', 1)
            unhang(t, j)
            fail(t, j, NONE, 'lease ended', LEASE_OVER)
        else
            call('ZREM', LEASES, deliveries[i])
            call('HDEL', LEASED, deliveries[i])
        end
    end
    return #deliveries
end

done = end_leases(call('ZRANGE', LEASES, '-inf', now, 'BYSCORE', 'LIMIT', '0', max))
while done < max do
    local name = call('ZRANGE', TOPICS, '-inf', now, 'BYSCORE', 'LIMIT', '0', '1')[1]
    if not name then break end
    local t = topic_find(name)
    if t then
        done = done + advance_topic(t, max - done)
        topic_refresh(t)
    else
        call('ZADD', TOPICS, '+inf', name) -- its hash was lost: other topics go on, and a check finds it
        done = done + 1
    end
end

local woken, following = settle(server)
table.insert(woken, 1, head(following, pack('>BB', following <= now and 1 or 0, has_other and 1 or 0)))
return woken
