#!lua flags=allow-oom
-- One topic: reads it, sets it, pauses and resumes it.
local ticket, verb, name, topics_max, makes, settings, extension = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local pause_ms, pause_until = tonumber(ARGV[8] or 0), tonumber(ARGV[9] or 0)
local PUT, PAUSE, RESUME, NOT_EMPTY = 2, 4, 5, tonumber(ARGV[10])
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
    if not topic_rules.may_be_set(t, settings) then return changed(ticket, pack('>B', NOT_EMPTY)) end
    topic_rules.settings_put(t, settings)
    if extension ~= '' then
        call('SET', t.extension, extension)
        raise(t, EXTENDED)
    elseif has(t, EXTENDED) then
        call('DEL', t.extension)
        lower(t, EXTENDED)
    end
    settings_notify(server_of(ticket), name)
elseif verb == PAUSE then
    topic_rules.pause(t, pause_until > 0 and pause_until + adjust or pause_ms > 0 and now + pause_ms + 1 or nil)
elseif verb == RESUME then
    local held = t.flow and t.flow.hold > now
    topic_rules.resume(t)
    if held then t.flow.hold, t.is_changed = 0, true end
    if t.ready_before > 0 or held then notify('r--------' .. name) end
end
if feed.listened then
    local kind = verb == PUT and feed.SETTINGS or verb == PAUSE and feed.PAUSED or verb == RESUME and feed.RESUMED
    if kind then feed.publish(kind, name, '') end
end
return changed(ticket, pack('>B', is_new and verb == PUT and CREATED or OK), {topic_packed(t)})
