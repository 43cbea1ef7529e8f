#!lua flags=allow-oom
-- One topic: looks at it, sets it, pauses and resumes it.
local ticket, verb, name, topics_max, makes, settings, extension = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local PUT, PAUSE, RESUME = 2, 4, 5

local kept = answered_before(ticket)
if kept then return repeated(kept) end

local t, is_new = topic_find(name), false
if not t and (verb == PUT or makes == '1') then
    t, is_new = topic_make(name, topics_max)
    if not t then return changed(ticket, pack('>B', TOO_MANY_TOPICS)) end
end
if not t then return shown(pack('>B', NOT_FOUND)) end

if verb == PUT then
    t.packed, t.settings, t.policy = settings, nil, nil
    call('HSET', t.key, 'settings', settings)
    if extension ~= '' then call('HSET', t.key, 'extension', extension) else call('HDEL', t.key, 'extension') end
    settings_tell(server_of(ticket), name)
elseif verb == PAUSE or verb == RESUME then
    t.paused = verb == PAUSE
    call('HSET', t.key, 'paused', t.paused and '1' or '0')
    if not t.paused and t.ready > 0 then tell('r--------' .. name) end
end
return changed(ticket, pack('>B', is_new and verb == PUT and CREATED or OK), {topic_packed(t)})
