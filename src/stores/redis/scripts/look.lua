#!lua flags=no-writes
-- Which of these topics have ready jobs to hand out? And how often settings changed, and jobs died that somebody looks after.
begin(KEYS)
local ready = {}
for i = 1, #ARGV do
    local t = topic_find(ARGV[i])
    if t and not has(t, PAUSED) and t.ready_before > 0 then ready[#ready + 1] = ARGV[i] end
end
local more = core_more()
return shown(pack('>I6I6', more.changes, more.deaths) .. state_told(), ready)
