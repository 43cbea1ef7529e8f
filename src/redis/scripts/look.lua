#!lua flags=no-writes
-- Which of these topics have ready jobs to hand out?
local ready = {}
for i = 1, #ARGV do
    local t = topic_find(ARGV[i])
    if t and not t.paused and t.ready > 0 then ready[#ready + 1] = ARGV[i] end
end
return shown('', ready)
