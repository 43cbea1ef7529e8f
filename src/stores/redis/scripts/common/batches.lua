-- Batches (README.md, "Batches"): jobs that wait for other jobs. The rules are those of queue/life.h.
-- The members of `batches` are filled in here, because parts before this one call them.
function batches.define()

local STATE, STATE_BYTES = '>BBBI6I4I4I4I4I4I4I6I6BI6', 52
local CLOSED, ENDED, STOPPED, SWEPT, PARTS = 1, 2, 4, 8, 16 -- bits of a state. SWEPT: the cancel of the members continues; PARTS: other shards may have members
local HOLD, STOP = 2, 3                          -- effects of a dead member
local UNFINISHED, ACKED, DEAD_MEMBER, CANCELLED_MEMBER, EXPIRED = 1, 2, 3, 4, 5
local OUTCOMES = {acked = ACKED, cancelled = CANCELLED_MEMBER, expired = EXPIRED, died = DEAD_MEMBER, purged = CANCELLED_MEMBER}
local MEMBERS_MAX, BATCHES_MAX, DEPTH_MAX = 1000000, 100000, 16
local CLOSED_STATUS, NO_BATCH, WAITS, TOO_MANY_BATCHES, TOO_MANY_MEMBERS = batches.CLOSED, batches.NO_BATCH, batches.WAITS, batches.TOO_MANY, batches.TOO_MANY_MEMBERS
local MEMBER_FORM, WAITS_FORM = 1, 2 -- bits of the first byte of an encoded batch (job/batch.h)
local SWEEP = 1000 -- members that a call cancels
local NOT_ASKED = 255 -- in a push: the queue has one shard, so the push did not join before

-- ---- the part of a record ----

local function varint(text, at)
    local value, scale, part = 0, 1, nil
    repeat
        part = byte(text, at)
        value, scale, at = value + part % 128 * scale, scale * 128, at + 1
    until part < 128
    return value, at
end

local function varint_text(value)
    local text = ''
    while value >= 128 do
        text, value = text .. char(value % 128 + 128), floor(value / 128)
    end
    return text .. char(value)
end

-- Splits an encoded batch: the form; of a member the topic, the text that names its batch, its number and depth; the rest, of a waiting job.
local function encoded_read(links, encoded)
    links.form = byte(encoded)
    links.waits = links.form % 4 >= WAITS_FORM
    local behind = 2
    if links.form % 2 == MEMBER_FORM then
        local length, at = varint(encoded, 2)
        links.topic = sub(encoded, at, at + length - 1)
        length, at = varint(encoded, at + length)
        links.names = sub(encoded, 2, at + length - 1)
        links.number, at = varint(encoded, at + length)
        links.depth, behind = byte(encoded, at), at + 1
    end
    links.own = sub(encoded, behind)
    return links
end

-- Returns where the part of a record begins, and where the record continues.
local function bounds_of(flags, record)
    local at = (flags % 2 == 1 and topic_rules.policy_end(record) or 16) + (flags % 64 >= 32 and 6 or 0)
    if flags >= flow.RECORD then at = at + 1 + byte(record, at) end
    return at, at + 2 + unpack_from('>I2', record, at)
end

-- Returns the batches of a record that has any.
local function links_of(flags, record)
    local at, behind = bounds_of(flags, record)
    local links, from = {}, nil
    links.id, links.state, from = unpack_from('>Bc0Bc0', record, at + 2)
    return encoded_read(links, sub(record, from, behind - 1))
end

local function part_of(links)
    local id, state, own = links.id or '', links.state or '', char(links.form)
    if links.form % 2 == MEMBER_FORM then own = own .. links.names .. varint_text(links.number) .. char(links.depth) end
    own = own .. links.own
    return pack('>I2Bc0Bc0', 2 + #id + #state + #own, #id, id, #state, state) .. own
end

-- Returns the position behind the part of a record whose group ends before `at`.
function batches.skip(record, at)
    return at + 2 + unpack_from('>I2', record, at)
end

-- Returns the encoded batches of a record (job_batch_encode), or ''.
function batches.encoded(flags, record)
    if flags % 32 < batches.RECORD then return '' end
    local at, behind = bounds_of(flags, record)
    local _, _, from = unpack_from('>Bc0Bc0', record, at + 2)
    return sub(record, from, behind - 1)
end

-- Returns whether the part at `at` (of a record or a try of fsck) has all that its lengths promise; then its end.
function batches.is_readable(record, at)
    local size = #record
    if size < at + 1 then return false end
    local behind = at + 2 + unpack_from('>I2', record, at)
    local id_bytes = byte(record, at + 2) or 0
    local state_bytes = byte(record, at + 3 + id_bytes) or 0
    local from = at + 4 + id_bytes + state_bytes
    return behind <= size + 1 and from < behind and (state_bytes == 0 or state_bytes == STATE_BYTES + 1), behind
end

-- ---- open batches: T:batches has one for each job that waits ----

local function key()
    return T .. ':batches'
end

local function members_key(b)
    if b.is_guest then return T .. ':guest:' .. b.field end
    return T .. ':members:' .. text_of(b.number)
end

local function state_of(b)
    local bits = (b.is_closed and CLOSED or 0) + (b.has_ended and ENDED or 0) + (b.is_stopped and STOPPED or 0) + (b.is_swept and SWEPT or 0) + (b.has_parts and PARTS or 0)
    return pack(STATE, bits, b.on_dead, b.depth, b.number, b[1], b[2], b[3], b[4], b[5], b.expected, b.wait_until, b.close_by, b.when, b.ms)
end

-- Returns the batch of a job that waits; nil: there is none. `id` as stored.
local function find(topic, id)
    local known, field = batches.known, topic .. '\0' .. id
    if not known then
        known = {}
        batches.known = known
    end
    local b = known[field]
    if b ~= nil then return b or nil end
    local text = call('HGET', key(), field)
    known[field] = false
    if not text or #text < STATE_BYTES then return nil end
    b = {topic = topic, id = id, field = field}
    local bits
    bits, b.on_dead, b.depth, b.number, b[1], b[2], b[3], b[4], b[5], b.expected, b.wait_until, b.close_by, b.when, b.ms = unpack_from(STATE, text)
    b.is_closed, b.has_ended, b.is_stopped, b.is_swept = bits % 2 >= CLOSED, bits % 4 >= ENDED, bits % 8 >= STOPPED, bits % 16 >= SWEPT
    b.has_parts = bits % 32 >= PARTS
    known[field] = b
    return b
end

-- Returns the batch of a member, or what this shard counts of it; nil: it is gone.
local function of_member(links)
    if not links.topic then return nil end
    local b = find(links.topic, links.id)
    if b and b.number == links.number then return b end
    b = parts.guest(links.topic, links.id)
    return b and b.number == links.number and b or nil
end

local function change(b)
    if b.is_changed or b.is_gone then return end
    b.is_changed, batches.changed = true, batches.changed or {}
    batches.changed[#batches.changed + 1] = b
end

local function drop(b)
    parts.renew(b)
    if b.has_parts then parts.ended(b) end
    b.is_gone, batches.known[b.field] = true, false
    call('HDEL', key(), b.field)
    call('UNLINK', members_key(b))
end

local function sum_of(b)
    return b[1] + b[2] + b[3] + b[4] + b[5]
end

local function close_if_full(b)
    if not b.is_guest and b.expected > 0 and sum_of(b) >= b.expected then b.is_closed = true end
end

-- Cancels some members that wait, and requests the cancel of leased ones. Returns whether there may be more.
local function sweep(b)
    local names = call('SPOP', members_key(b), SWEEP)
    for i = 1, #names do
        local nul = string.find(names[i], '\0', 1, true)
        local t, id = topic_find(sub(names[i], 1, nul - 1)), sub(names[i], nul + 1)
        local j = t and job_find(t, id)
        if j and j.flags % 32 >= batches.RECORD and j.state ~= DEAD and links_of(j.flags, j.record).number == b.number then
            if j.next then holding.drop_next(t, id) end
            j.next = nil
            if j.state == LEASED_STATE then
                j.requested = true
                try_write(t, j)
            else
                unhang(t, j)
                finish(t, j, 'cancelled')
                if feed.listened then feed.publish(feed.CANCELLED, t.name, id, j.attempt, j.due) end
            end
        end
    end
    return #names == SWEEP
end

-- Hangs a job that waits at this time, which has not come.
local function hang_at(t, j, ms)
    j.due, j.first, j.state = ms, ms, DELAYED
    hang(t, j)
    try_write(t, j)
end

local function deadline_of(b)
    return not b.is_closed and b.close_by < b.wait_until and b.close_by or b.wait_until
end

-- Cancels the members: by the first death, in steps; with the waiting job, all of them.
local function stop(b)
    parts.renew(b)
    b.is_stopped, b.is_closed = true, true
    b.is_swept = sweep(b)
    change(b)
    if b.has_parts then parts.order_stop(b) end
    if b.is_guest or not b.is_swept then return end
    local t = topic_find(b.topic)
    local j = t and job_find(t, b.id)
    if not j or j.state == DEAD then return end
    unhang(t, j)
    hang_at(t, j, now + 1)
end

-- Moves a member from one outcome to another; `before` nil: it is new.
local function count_member(b, before, after)
    if before then b[before] = b[before] - 1 end
    b[after] = b[after] + 1
    close_if_full(b)
    change(b)
    if b.on_dead == STOP and after == DEAD_MEMBER and not b.is_stopped then stop(b) end
end

local function is_over(b)
    if not b.is_closed or b[UNFINISHED] + (b.on_dead == HOLD and b[DEAD_MEMBER] or 0) > 0 then return false end
    parts.renew(b)
    return not (b.has_parts and parts.are_open(b))
end

-- Ends the wait: the job becomes due, and its record gets the state of its batch and the outcome in the meta. `at_once`: without the delay
-- that it has; `is_unhung`: it is in no set.
local function end_wait(b, at_once, is_unhung)
    local t = topic_find(b.topic)
    local j = t and job_find(t, b.id)
    if j and not is_unhung then unhang(t, j) end
    drop(b)
    if not j then return nil end
    local due, is_wall = now, false
    if not at_once then
        due, is_wall = topic_rules.due_of(b.when, b.ms)
        due = due or now
    end
    b.has_ended, b.is_swept = true, false
    local links, at = links_of(j.flags, j.record), bounds_of(j.flags, j.record)
    local _, type, meta, body = keeping.parts(j.flags, j.record)
    local _, priority = unpack_from('>BI2', j.record)
    local pair = 'tarry-batch\0' .. format('acked=%d dead=%d cancelled=%d expired=%d missing=%d', b[ACKED], b[DEAD_MEMBER], b[CANCELLED_MEMBER], b[EXPIRED], b[UNFINISHED]) .. '\0'
    links.state = state_of(b) .. char(#pair)
    local flags = j.flags - (j.flags % 16 >= 8 and 8 or 0) + (is_wall and 8 or 0) + (meta == '' and 4 or 0)
    meta = sub(meta, 3) .. pair
    j.record = pack('>BI2I6I6', flags, priority, j.sequence, due) .. sub(j.record, 16, at - 1) .. part_of(links) .. type .. pack('>I2', #meta) .. meta .. body
    j.flags, j.due, j.first, j.state = flags, due, due, DELAYED
    call('HSET', t.jobs, j.id, j.record)
    hang(t, j)
    try_write(t, j)
    if feed.listened and due <= now then feed.publish(feed.DUE, t.name, j.id, j.attempt, due) end
    return j
end

-- Ends the waits of batches that have nothing left to wait for, and writes the others that this call changed.
function batches.settle()
    while batches.changed do
        local changed = batches.changed
        batches.changed = nil
        for i = 1, #changed do
            local b = changed[i]
            b.is_changed = false
            local ends = not b.is_gone and not b.is_guest and is_over(b)
            if ends then
                local t = topic_find(b.topic)
                local j = t and job_find(t, b.id)
                ends = not (j and j.state == DEAD) -- until a redrive
            end
            if ends then
                end_wait(b)
            elseif b.is_guest and not b.is_gone then
                parts.guest_write(b)
            elseif not b.is_gone then
                call('HSET', key(), b.field, state_of(b))
            end
        end
    end
end

-- ---- pushes ----

-- Reads the batches of a push (README.md), which are before the rest of the tail.
function batches.read(tail)
    local length, from = unpack_from('>I2', tail), nil
    local links = {}
    links.parent, links.expected, links.wait_ms, links.close_ms, links.on_dead, links[1], links[2], links[3], links[4], links[5], links.joined, links.is_home, links.home,
        links.join, links.dead_member, links.id, from = unpack_from('>I6I4I6I6BI4I4I4I4I4BBI2I6BBc0', tail, 3)
    if links.joined == NOT_ASKED then links.joined = nil end
    return encoded_read(links, sub(tail, from, 2 + length)), sub(tail, 3 + length)
end

-- Returns whether the lease is of a member of the batch, and has not ended.
local function is_parent(b, delivery)
    return batches.number_by_lease(delivery, b.topic, b.id) == b.number
end

-- Returns why the batch that a push names is not open.
local function why_closed(links)
    local t = topic_find(links.topic)
    local j = t and job_find(t, links.id)
    return j and j.flags % 32 >= batches.RECORD and links_of(j.flags, j.record).waits and CLOSED_STATUS or NO_BATCH
end

-- Returns nil if the batch accepts a new member, or the status of the rejection. `has_parent`: the push shows the lease of a member.
function batches.may_join(b, has_parent)
    if b.is_stopped or b.is_closed and not has_parent then return CLOSED_STATUS end
    if sum_of(b) >= MEMBERS_MAX then return TOO_MANY_MEMBERS end
    return b.depth >= DEPTH_MAX and BAD_OPTION or nil
end

-- Checks a push of a new job: nil, or the status of its rejection.
function batches.join(links)
    if links.topic and links.joined then
        local status = parts.joined(links)
        if status then return status end
    elseif links.topic then
        local b = find(links.topic, links.id)
        if not b then return why_closed(links) end
        local status = batches.may_join(b, links.parent > 0 and is_parent(b, links.parent))
        if status then return status end
        links.batch, links.number, links.depth = b, b.number, b.depth + 1
    end
    return links.waits and call('HLEN', key()) >= BATCHES_MAX and TOO_MANY_BATCHES or nil
end

-- Returns the record with these batches.
function batches.add(record, links)
    local flags = byte(record)
    local at = (flags % 2 == 1 and topic_rules.policy_end(record) or 16) + (flags % 64 >= 32 and 6 or 0)
    if flags >= flow.RECORD then at = at + 1 + byte(record, at) end
    return char(flags + batches.RECORD) .. sub(record, 2, at - 1) .. part_of(links) .. sub(record, at)
end

-- Returns whether a push names a batch that the job is not a member of.
function batches.is_other(j, links)
    if not links.topic then return false end
    local old = j.flags % 32 >= batches.RECORD and links_of(j.flags, j.record) or {}
    local b = not links.joined and find(links.topic, links.id)
    local number = links.joined and links.number > 0 and links.number or b and b.number or old.number
    return old.names ~= links.names or number ~= old.number
end

-- Checks a push onto a job, and keeps the membership of that job. `links`: of the push, or nil. Returns nil and the record, or the status of
-- its rejection.
function batches.replace(t, j, record, links)
    local old = j.flags % 32 >= batches.RECORD and links_of(j.flags, j.record) or nil
    if old and old.waits and #old.state == 0 and find(t.name, j.id) then return WAITS end
    if links and links.topic and not (old and old.names == links.names) then return CONFLICT end
    if links and links.waits and call('HLEN', key()) >= BATCHES_MAX then return TOO_MANY_BATCHES end
    local b = old and of_member(old)
    local leaves = b and b.is_stopped and j.state == DEAD -- an ordinary job from now on
    if leaves then
        call('SREM', members_key(b), t.name .. '\0' .. j.id)
        if links and links.waits then record = batches.add(record, {form = WAITS_FORM, own = links.own}) end
    elseif old and old.topic then
        local form = MEMBER_FORM + (links and links.waits and links.form - links.form % 2 or 0)
        local kept = {form = form, names = old.names, number = old.number, depth = old.depth, id = old.id, own = links and links.waits and links.own or ''}
        record = batches.add(record, kept)
        if b and j.state == DEAD then
            count_member(b, DEAD_MEMBER, UNFINISHED)
            call('SADD', members_key(b), t.name .. '\0' .. j.id)
        end
        if links then links.depth = old.depth end
    elseif links then
        record = batches.add(record, links)
    end
    return nil, record
end

-- Returns when a job that waits is looked at first.
function batches.first_due(links)
    links.wait_until, links.close_by = now + 1 + links.wait_ms, now + 1 + links.close_ms
    return min(links.wait_until, links.close_by)
end

-- Counts a stored job: a new member, or a job that waits, whose due is `when` and `ms`.
function batches.pushed(t, id, links, number, when, ms, is_dead)
    if links.batch then
        call('SADD', members_key(links.batch), t.name .. '\0' .. id)
        count_member(links.batch, nil, is_dead and DEAD_MEMBER or UNFINISHED)
    end
    if not links.waits then return end
    local field = t.name .. '\0' .. id
    local b = {topic = t.name, id = id, field = field, number = number, on_dead = links.on_dead, depth = links.depth or 0, expected = links.expected,
               wait_until = links.wait_until, close_by = links.close_by, when = when, ms = ms}
    for i = UNFINISHED, EXPIRED do b[i] = links[i] end
    close_if_full(b)
    batches.known = batches.known or {}
    batches.known[field] = b
    call('HSET', key(), field, state_of(b))
    change(b)
end

-- ---- the life of members and of jobs that wait. Only for jobs with batches ----

-- The job has ended or died. `total` as of keeping.note_end.
function batches.ended(t, j, total)
    local links = links_of(j.flags, j.record)
    local own = links.waits and total ~= 'died' and find(t.name, j.id)
    if own then drop(own) end
    local b = of_member(links)
    if not b then return end
    if total ~= 'died' then call('SREM', members_key(b), t.name .. '\0' .. j.id) end
    count_member(b, total ~= 'died' and j.state == DEAD and DEAD_MEMBER or UNFINISHED, OUTCOMES[total])
end

-- These jobs, which are still stored, are removed by a purge.
function batches.purged(t, ids)
    if call('EXISTS', key(), T .. ':guests') == 0 then return end
    for from = 1, #ids, 32 do
        local to = min(from + 31, #ids)
        local records, tries = call('HMGET', t.jobs, unpack(ids, from, to)), call('HMGET', t.tries, unpack(ids, from, to))
        for i = from, to do
            local record = records[i - from + 1]
            if record and byte(record) % 32 >= batches.RECORD then batches.ended(t, job_make(t, ids[i], record, tries[i - from + 1]), 'purged') end
        end
    end
end

-- Makes a dead member of a stopped batch an ordinary job.
local function leave(t, j, links, b)
    local at, behind = bounds_of(j.flags, j.record)
    local part = ''
    if links.waits then
        links.form = WAITS_FORM
        part = part_of(links)
    else
        j.flags = j.flags - batches.RECORD
    end
    j.record = char(j.flags) .. sub(j.record, 2, at - 1) .. part .. sub(j.record, behind)
    call('HSET', t.jobs, j.id, j.record)
    call('SREM', members_key(b), t.name .. '\0' .. j.id)
end

local function member_lives(t, j, links)
    local b = of_member(links)
    if not b then return end
    if b.is_stopped then leave(t, j, links, b) else count_member(b, DEAD_MEMBER, UNFINISHED) end
end

-- A dead job is redriven: it is in no set, and its due is now.
function batches.redriven(t, j)
    local links = links_of(j.flags, j.record)
    local own = links.waits and find(t.name, j.id)
    member_lives(t, j, links)
    if not own then return end
    own.is_closed = true
    change(own)
    j.due = max(own.wait_until, now + 1)
    j.first = j.due
end

-- A job is taken by its id, which ends its wait. Returns the job.
function batches.taken(t, j)
    local links = links_of(j.flags, j.record)
    local own = links.waits and find(t.name, j.id)
    if j.state == DEAD then member_lives(t, j, links) end
    return own and end_wait(own, true) or j
end

-- Returns the batch of a job that waits; nil: it does not.
function batches.own(t, j)
    return j.flags % 32 >= batches.RECORD and links_of(j.flags, j.record).waits and find(t.name, j.id) or nil
end

-- Returns whether the job has, or had, a batch of its own.
function batches.has_own(j)
    return j.flags % 32 >= batches.RECORD and links_of(j.flags, j.record).waits
end

function batches.run(b)
    return end_wait(b, true)
end

function batches.close(b)
    if b.is_closed then return end
    b.is_closed = true
    change(b)
end

function batches.reschedule(b, when, ms)
    b.when, b.ms = when, ms
    change(b)
end

-- Cancels all members: their job is cancelled next.
function batches.cancel_members(b)
    b.is_stopped, b.is_closed = true, true
    while sweep(b) do end
end

-- A delayed job is due, and in no set. Returns false if it does not wait.
function batches.due(t, j)
    local b = batches.own(t, j)
    if not b then return false end
    count(t, j.attempt > 0 and 'retrying' or 'delayed', -1)
    if t.flow then
        flow.tried(t, j, -1)
        flow.delayed(t, flow.group_of(j), -1)
    end
    if b.is_swept then
        b.is_swept = sweep(b)
        change(b)
    end
    local deadline = b.is_swept and now + 1 or deadline_of(b)
    if deadline > now then
        hang_at(t, j, deadline)
    elseif deadline == b.wait_until then
        end_wait(b, false, true)
    else
        j.state, j.error = DEAD, 'batch was not closed'
        count(t, 'died', 1)
        keeping.note_end(t, j, 'died')
        hang(t, j)
        try_write(t, j)
        if feed.listened then feed.publish(feed.DEAD, t.name, j.id, j.attempt, 0, 0, 0, j.error) end
    end
    return true
end

-- ---- for parts.lua ----

batches.find, batches.change, batches.sweep, batches.stop, batches.why_closed, batches.close_if_full, batches.members_key = find, change, sweep, stop, why_closed, close_if_full, members_key

-- Returns whether the job is a member of the batch, or of that of the guest. `j` may be nil.
function batches.is_member(b, j)
    if not j or j.flags % 32 < batches.RECORD then return false end
    local links = links_of(j.flags, j.record)
    return links.topic == b.topic and links.id == b.id and links.number == b.number
end

-- Returns the batch, or guest, that the job is a member of, and its name there if it is not listed as such; nil: it has no batch, or is listed.
function batches.unlisted(t, j)
    local b = j.flags % 32 >= batches.RECORD and of_member(links_of(j.flags, j.record))
    local name = t.name .. '\0' .. j.id
    return b and not b.is_stopped and call('SISMEMBER', members_key(b), name) == 0 and b or nil, name
end

-- Returns the number of the batch that the holder of a lease is a member of, if it is that of this job that waits; else nil.
function batches.number_by_lease(delivery, topic, waiting_id)
    delivery = text_of(delivery)
    local place = call('HGET', LEASED, delivery)
    if not place or tonumber(call('ZSCORE', LEASES, delivery) or 0) <= now then return nil end
    local name, id = flow.split(place)
    local t = topic_find(name)
    local j = t and job_find(t, id)
    local links = j and j.flags % 32 >= batches.RECORD and links_of(j.flags, j.record)
    return links and links.topic == topic and links.id == waiting_id and links.number or nil
end

-- ---- what is shown ----

-- Returns the record of a job as it is shown: with the state of its batch while it waits.
function batches.shown(t, id, record)
    local flags = byte(record)
    local links = links_of(flags, record)
    local b = links.waits and #links.state == 0 and find(t.name, id)
    if not b then return record end
    local at, behind = bounds_of(flags, record)
    links.state = state_of(b) .. '\0'
    return sub(record, 1, at - 1) .. part_of(links) .. sub(record, behind)
end

end

batches.define()
