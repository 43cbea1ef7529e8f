#!lua flags=allow-oom
-- The requests of a server's batch: answers of consumers for their leases, then due jobs, then takes.
local ticket = ARGV[1]
local chance, most, answers, takes = (unpack_from or struct.unpack)('>I6I2I2I2', ARGV[2])
local first_take = 3 + 2 * answers
begin(KEYS, ticket, takes > 0 and ARGV[first_take] or nil)

local MOVER_MS = 50 -- so long after it came with takes others count on it to let due things happen
local MOVER_STALE_MS = 25 -- sooner it is not worth a write
local server = server_of(ticket)
local is_mover, since, has_other = sub(mover, 1, 8) == server, 0, false
if takes > 0 or not is_mover then
    since = math.abs(now - unpack_from('>I6', mover, 9))
    has_other = not is_mover and since < MOVER_MS and sub(mover, 1, 8) ~= NOBODY
end
local was_due = next_ms <= now

local out = {false} -- the answer: the head comes last
local results, names, counts, numbers = '', nil, '', '' -- per answer; per take whether more is ready, how many jobs, and their first and last delivery

-- Carried out before: the same answers, and of the leases those that still stand.
local kept = answered_before(ticket)
if kept then
    local at, first, last
    names, at = words_read(kept)
    for i = 1, answers do out[i + 1] = names[i] end
    for _ = 1, takes do
        first, last, at = unpack_from('>I6I6', kept, at)
        counts = counts .. pack('>BI4', 1, take_again(first, last, out))
    end
    out[1] = head(char((next_ms <= now and 1 or 0) + (has_other and 2 or 0)) .. sub(kept, at) .. counts)
    return out
end

local before = sequence
chance_seed(chance)
if answers > 0 then
    results, names = answers_carry_out(ARGV, 3, answers)
    for i = 1, answers do out[i + 1] = names[i] end
    if batches.changed then batches.settle() end
end
local left = most > 0 and most - leases_due(most) or 0
for i = first_take, first_take + 2 * takes - 2, 2 do
    local t, first, jobs, leaves_some = topic_find(ARGV[i]), sequence + 1, 0, 0
    if t and not has(t, PAUSED) then
        local jobs_max, bytes_max, lease_ms = unpack_from('>I4I4I6', ARGV[i + 1])
        jobs = take(t, jobs_max, bytes_max, lease_ms, out, byte(ARGV[i + 1], 15), sub(ARGV[i + 1], 16))
        if (t.flow and flow.open_of(t) or t.f[AT.ready]) > 0 or t.f[NEXT] <= now then leaves_some = 1 end
    end
    counts, numbers = counts .. pack('>BI4', leaves_some, jobs), numbers .. pack('>I6I6', first, sequence)
end
if left > 0 then topics_due(left) end

-- The mover: the server whose takes come for what is due. Another one has its place who got there first, or once it did not come for a
-- while.
if takes > 0 and is_mover and since >= MOVER_STALE_MS or takes > 0 and not is_mover and (not has_other or sequence > before and was_due) then
    mover, core_is_changed, has_other = pack('>c8I6', server, now), true, false
end
local woken = settle(server, ticket, (answers > 0 or sequence > before) and words_kept(names) .. numbers .. results or nil)
out[1] = head() .. char((next_ms <= now and 1 or 0) + (has_other and 2 or 0)) .. results .. counts
for i = 1, woken and #woken or 0 do out[#out + 1] = woken[i] end
return out
