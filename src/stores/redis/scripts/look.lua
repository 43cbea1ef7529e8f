#!lua flags=no-writes
-- Returns which of these topics have ready jobs, how often settings changed, how many jobs died in topics that forward them, and
-- the number of the last message about the end of an awaited job.
begin(KEYS)
local ready = {}
for i = 1, #ARGV do
    local t = topic_find(ARGV[i])
    if t and not has(t, PAUSED) and t.ready_before > 0 then ready[#ready + 1] = ARGV[i] end
end
local more = core_more()
parts.look()
return shown(pack('>I6I6I6', more.changes, more.deaths, keeping.await_number()) .. move_state(), ready)
