#!lua flags=allow-oom
-- Dead jobs go round again from the first attempt: one by its id, or up to `most`.
local ticket, name, id, most, left = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
begin(KEYS, ticket, name)

local kept = answered_before(ticket)
if kept then return repeated(kept) end
wants_aware(ticket)
local on_its_way, is_one = page_under_way(), id ~= ''
if on_its_way == name and (not is_one or is_leaving(name, id, name)) then return shown(pack('>BBI6I6', OK, 1, 0, left < 0 and NONE or left)) end
local t = topic_find(name)
if not t then return shown(pack('>BBI6I6', NOT_FOUND, 0, 0, 0)) end

local function redrive(j)
    unhang(t, j)
    j.state, j.attempt, j.due, j.first = DELAYED, 0, now, now
    count(t, 'redriven', 1)
    if j.flags % 32 >= batches.RECORD then batches.redriven(t, j) end
    hang(t, j)
    try_write(t, j)
end

if id ~= '' then
    local j = job_find(t, id)
    if not j or j.state ~= DEAD then return shown(pack('>BBI6I6', NOT_FOUND, 0, 0, 0)) end
    redrive(j)
    if feed.listened then feed.publish(feed.REDRIVEN, name, id, 0, j.due) end
    return changed(ticket, pack('>BBI6I6', OK, 0, 1, 0))
end

-- Jobs that die during the redrive wait for the next one: otherwise it might never end.
if left < 0 then left = call('ZCARD', t.dead) end
local some = min(most, left)
local members = some > 0 and call('ZRANGE', t.dead, 0, some - 1) or {} -- a range that ends at -1 would be all of them
for i = 1, #members do
    local j = job_find(t, sub(members[i], 7))
    if j then redrive(j) else call('ZREM', t.dead, members[i]) end
end
left = left - #members
if feed.listened and #members > 0 then feed.publish(feed.REDRIVEN, name, '', 0, 0, 0, #members) end
return changed(ticket, pack('>BBI6I6', OK, left > 0 and #members > 0 and 1 or 0, #members, left))
