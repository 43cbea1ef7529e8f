#!lua flags=no-writes
-- Whether there are such jobs: topic and id each.
begin(KEYS)
local on_its_way, results = page_under_way(), {}

local function find(name, id)
    if on_its_way and is_leaving(name, id, on_its_way) then return pack('>BBI6', MOVING, 0, 0) end
    local j = call('HEXISTS', keys_of(name).__index.jobs, id) == 1 and topic_find(name) and job_find(topic_find(name), id)
    if not j then return pack('>BBI6', NOT_FOUND, 0, 0) end
    return pack('>BBI6', OK, shown_state(j), j.due)
end

for i = 1, #ARGV, 2 do results[#results + 1] = find(ARGV[i], ARGV[i + 1]) end
return shown(table.concat(results))
