#!lua flags=allow-oom
-- What came in a turn of a server: what consumers say of their leases, then what is due, then takes.
local ticket = ARGV[1]
local chance, most, answers, takes = struct.unpack('>I6I2I2I2', ARGV[2])
local first_take = 3 + 2 * answers
begin(KEYS, ticket, takes > 0 and ARGV[first_take] or nil)

local MOVER_MS = 50 -- so long after it came with takes others count on it to let due things happen
local MOVER_STALE_MS = 25 -- sooner it is not worth a write
local server = server_of(ticket)
local since = math.abs(now - unpack_from('>I6', mover, 9))
local is_mover = sub(mover, 1, 8) == server
local has_other = not is_mover and since < MOVER_MS and sub(mover, 1, 8) ~= NOBODY
local was_due = next_ms <= now

local out = {false} -- the answer: the head comes last
local bits, said, jobs = nil, '', {}

local function finish(woken)
    bits = (next_ms <= now and 1 or 0) + (has_other and 2 or 0)
    for i = 1, takes do jobs[i] = pack('>I4', jobs[i]) end
    out[1] = head(char(bits) .. said .. table.concat(jobs))
    for i = 1, #woken do out[#out + 1] = woken[i] end
    return out
end

-- Carried out before: the same answers, and of the leases those that still stand.
local kept = answered_before(ticket)
if kept then
    said = kept[1]
    for i = 1, answers do out[i + 1] = kept[2][i] end
    for i = 1, takes do jobs[i] = take_again(kept[3][2 * i - 1], kept[3][2 * i], out) end
    return finish({})
end

local names, numbers, taken = {}, {}, 0 -- numbers: the first and last delivery of each take
if answers > 0 then
    local list
    chance_seed(chance)
    list, names = answers_carry_out(ARGV, 3, answers)
    said = answers == 1 and list[1] or table.concat(list)
    for i = 1, answers do out[i + 1] = names[i] end
elseif most > 0 then
    chance_seed(chance)
end
local left = most > 0 and most - leases_due(most) or 0
for i = 1, takes do
    local name, wanted = ARGV[first_take + 2 * i - 2], ARGV[first_take + 2 * i - 1]
    local t, before = topic_find(name), sequence
    jobs[i] = 0
    if t and not has(t, PAUSED) then
        local jobs_max, bytes_max, lease_ms = unpack_from('>I4I4I6', wanted)
        jobs[i] = take(t, jobs_max, bytes_max, lease_ms, out)
    end
    numbers[2 * i - 1], numbers[2 * i] = before + 1, sequence
    taken = taken + jobs[i]
end
if left > 0 then topics_due(left) end

-- The mover: the server whose takes come for what is due. Another one has its place who got there first, or once it did not come for a
-- while.
if takes > 0 and is_mover and since >= MOVER_STALE_MS or takes > 0 and not is_mover and (not has_other or taken > 0 and was_due) then
    mover, core_is_changed, has_other = server .. pack('>I6', now), true, false
end
local changed_something = answers > 0 or taken > 0
return finish(settle(server, ticket, changed_something and cmsgpack.pack({said, names, numbers}) or nil))
