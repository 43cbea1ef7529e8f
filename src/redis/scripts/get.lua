#!lua flags=no-writes
-- One job.
local t = topic_find(ARGV[1])
local j = t and job_find(t, ARGV[2])
if not j then return shown(pack('>BB', NOT_FOUND, 0)) end
return shown(pack('>BB', OK, shown_state(j)), {j.record, call('HGET', t.tries, ARGV[2]) or ''})
