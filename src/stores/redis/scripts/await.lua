#!lua flags=allow-oom
-- Notes that calls wait for the end of jobs, and looks them up: one that ended before is not missed. Per job topic and id.
local ticket = ARGV[1]
begin(KEYS, ticket)
local on_its_way, results, more = page_under_way(), {}, {}

local function find(name, id)
    if on_its_way and is_leaving(name, id, on_its_way) then return MOVING, 0 end
    local t = topic_find(name)
    local j = t and job_find(t, id)
    if j then
        if j.state ~= DEAD then keeping.await(name, {id}) end
        return OK, shown_state(j)
    end
    local value = t and keeping.find(t, id)
    if value then return OK, FINISHED, value end
    return NOT_FOUND, 0
end

keeping.await_trim()
for i = 2, #ARGV, 2 do
    local status, state, value = find(ARGV[i], ARGV[i + 1])
    results[#results + 1], more[#more + 1] = pack('>BB', status, state), value or ''
end
return shown(table.concat(results), more)
