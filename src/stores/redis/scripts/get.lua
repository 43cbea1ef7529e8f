#!lua flags=no-writes
-- One job; if the third argument is 1, also a kept one: its record is then as kept, and it has no try.
begin(KEYS, nil, ARGV[1])
if is_leaving(ARGV[1], ARGV[2], page_under_way()) then return shown(pack('>BB', MOVING, 0)) end
local t = topic_find(ARGV[1])
local j = t and job_find(t, ARGV[2])
if not j then
    local value = t and ARGV[3] == '1' and keeping.find(t, ARGV[2])
    if value then return shown(pack('>BB', OK, FINISHED), {value, ''}) end
    return shown(pack('>BB', NOT_FOUND, 0))
end
local history = j.tried and has(t, HISTORIC) and call('HGET', t.history, j.id)
local held = t.flow and shown_state(j) == READY and flow.held_packed(t, flow.group_of(j)) or ''
local record = j.flags % 32 >= batches.RECORD and batches.shown(t, j.id, j.record) or j.record
return shown(pack('>BB', OK, shown_state(j)) .. held, {record, j.tried and history_shown(j.record, try_of(j), history) or ''})
