#!lua flags=allow-oom
-- The settings of a group: reads, sets and removes them. Settings are as stored (flow.lua). Or holds the group, or without a name the topic, for `settings` milliseconds.
local ticket, verb, name, group, topics_max, settings = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local GET, PUT, HOLD, SETTINGS_MAX, TOO_MANY_GROUPS, NOT_EMPTY = 1, 2, 4, 10000, tonumber(ARGV[7]), tonumber(ARGV[8])
begin(KEYS, ticket, name)

local kept = answered_before(ticket)
if kept then return repeated(kept) end
if verb ~= GET then wants_aware(ticket) end

local t = topic_find(name)
if not t and (verb == PUT or verb == HOLD) and sealed < SEALED then
    t = topic_make(name, topics_max)
    if not t then return changed(ticket, pack('>B', TOO_MANY_TOPICS)) end
end
if not t then return shown(pack('>B', NOT_FOUND)) end

local NO_GROUP = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
if verb == GET then
    if not t.flow then return shown(pack('>B', OK), {NO_GROUP}) end
    return shown(pack('>B', OK), {flow.shown(t, flow.group(t, group))})
end
if verb == HOLD then
    flow.hold(t, group, tonumber(settings))
    return changed(ticket, pack('>B', OK), {NO_GROUP})
end
if verb == PUT and call('HLEN', t.group_settings) >= SETTINGS_MAX and call('HEXISTS', t.group_settings, group) == 0 then
    return changed(ticket, pack('>B', TOO_MANY_GROUPS))
end
if verb == PUT and flow.own_max_jobs(settings) > 0 and not flow.may_count(t) then return changed(ticket, pack('>B', NOT_EMPTY)) end
if verb == PUT or t.flow and t.f[1] >= flow.GROUPED then flow.own_put(t, group, verb == PUT and settings or '') end
return changed(ticket, pack('>B', OK), {t.flow and flow.shown(t, flow.group(t, group)) or NO_GROUP})
