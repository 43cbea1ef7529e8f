#!lua flags=no-writes
-- Which of these topics have ready jobs to hand out? And how often settings changed, and jobs died that somebody looks after.
local ready = {}
for i = 1, #ARGV do
    local t = topic_find(ARGV[i])
    if t and not t.paused and t.ready > 0 then ready[#ready + 1] = ARGV[i] end
end
local counters = call('HMGET', CORE, 'changes', 'deaths')
return shown(pack('>I6I6', tonumber(counters[1] or nil) or 0, tonumber(counters[2] or nil) or 0), ready)
