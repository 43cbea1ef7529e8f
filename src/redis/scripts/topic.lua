#!lua flags=allow-oom
-- One topic: looks at it, sets it, pauses and resumes it.
local ticket, verb, name, topics_max, makes, settings, extension = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local PUT, PAUSE, RESUME = 2, 4, 5
begin(KEYS, ticket, name)

local kept = answered_before(ticket)
if kept then return repeated(kept) end
wants_aware(ticket)

local t, is_new = topic_find(name), false
if not t and sealed < SEALED and (verb == PUT or makes == '1') then
    t, is_new = topic_make(name, topics_max)
    if not t then return changed(ticket, pack('>B', TOO_MANY_TOPICS)) end
end
if not t then return shown(pack('>B', NOT_FOUND)) end

if verb == PUT then
    topic_limits.settings_put(t, settings)
    if extension ~= '' then
        call('SET', t.extension, extension)
        raise(t, EXTENDED)
    elseif has(t, EXTENDED) then
        call('DEL', t.extension)
        lower(t, EXTENDED)
    end
    settings_tell(server_of(ticket), name)
elseif verb == PAUSE then
    raise(t, PAUSED)
elseif verb == RESUME then
    lower(t, PAUSED)
    if t.ready_before > 0 then tell('r--------' .. name) end
end
return changed(ticket, pack('>B', is_new and verb == PUT and CREATED or OK), {topic_packed(t)})
