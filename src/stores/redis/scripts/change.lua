#!lua flags=allow-oom
-- Cancels, reschedules and runs jobs of one topic by id, and closes their batches.
local ticket, name, CANCEL, RESCHEDULE, RUN, CANCEL_DEAD, REQUEST, CANCEL_WAITING, CLOSE, UNCHANGED = ARGV[1], ARGV[2], 1, 2, 3, 4, 5, 6, 7, 4
local WITH_MEMBERS = 1 -- as `when` of a cancel
local IS_REQUESTED = 24 -- a status
begin(KEYS, ticket, name)

local kept = answered_before(ticket)
if kept then return repeated(kept) end
wants_aware(ticket)
local t, on_its_way = topic_find(name), page_under_way()

local function answer_of(status, j)
    return pack('>BBI6', status, shown_state(j), j.due)
end

local due_of = topic_rules.due_of

local function move(j, verb, when, ms, priority)
    local due = verb == RUN and now or due_of(when, ms)
    if not due then return pack('>BBI6', BAD_OPTION, shown_state(j), j.due) end
    unhang(t, j)
    if verb == RUN or when ~= UNCHANGED then j.due, j.first = due, due end
    if priority then
        j.priority = priority
        if priority ~= 100 then raise(t, SPECIAL) end
    end
    j.state = DELAYED
    hang(t, j)
    try_write(t, j)
    if feed.listened then feed.publish(verb == RUN and feed.RUN or feed.RESCHEDULED, name, j.id, j.attempt, j.due) end
    return answer_of(OK, j)
end

-- The next extend reports this to the holder, and the end of the lease cancels the job.
local function request(j)
    if not j.requested then
        j.requested = true
        try_write(t, j)
    end
    return answer_of(IS_REQUESTED, j)
end

-- Changes a job that waits for the members of its batch, other than by a cancel.
local function change_waiting(b, j, verb, when, ms, priority)
    if j.state == DEAD and verb ~= CLOSE then return answer_of(IS_DEAD, j) end
    if verb == RUN then return answer_of(OK, batches.run(b)) end
    if verb == CLOSE then
        batches.close(b)
    elseif when ~= UNCHANGED then
        if not due_of(when, ms) then return pack('>BBI6', BAD_OPTION, DELAYED, 0) end
        batches.reschedule(b, when, ms)
    end
    if priority then
        j.priority = priority
        try_write(t, j)
    end
    if feed.listened and verb == RESCHEDULE then feed.publish(feed.RESCHEDULED, name, j.id, j.attempt) end
    return pack('>BBI6', OK, j.state, 0)
end

local function change(id, verb, when, has_priority, priority, ms)
    if on_its_way and is_leaving(name, id, on_its_way) then return pack('>BBI6', MOVING, 0, 0) end
    local j = t and job_find(t, id)
    if not j then return pack('>BBI6', NOT_FOUND, 0, 0) end
    if verb == CANCEL_DEAD then -- `ms` is the delivery it died with
        if j.state ~= DEAD or j.delivery ~= ms then return answer_of(CONFLICT, j) end
        verb = CANCEL
    end
    if verb == CANCEL_WAITING then -- `ms` is its last delivery
        if j.state == DEAD or j.state == LEASED_STATE or j.delivery ~= ms then return answer_of(CONFLICT, j) end
        verb = CANCEL
    end
    local b = j.flags % 32 >= batches.RECORD and batches.own(t, j)
    if verb == CLOSE and not b then return pack('>BBI6', batches.has_own(j) and OK or NOT_FOUND, shown_state(j), 0) end
    if b and verb ~= CANCEL and verb ~= REQUEST then return change_waiting(b, j, verb, when, ms, has_priority == 1 and priority) end
    if b and when == WITH_MEMBERS then batches.cancel_members(b) end
    if j.next and (verb == REQUEST or verb == CANCEL) then
        holding.drop_next(t, id)
        j.next = nil
        try_write(t, j)
    end
    if verb == REQUEST and j.state == LEASED_STATE then return request(j) end
    if verb == REQUEST then verb = CANCEL end
    if j.state == LEASED_STATE then return answer_of(IS_LEASED, j) end
    if verb == CANCEL then
        local answer = answer_of(CANCELLED, j)
        unhang(t, j)
        finish(t, j, 'cancelled')
        if feed.listened then feed.publish(feed.CANCELLED, name, j.id, j.attempt, j.due) end
        return answer
    end
    if j.state == DEAD then return answer_of(IS_DEAD, j) end
    if verb == RUN and shown_state(j) == READY then return answer_of(OK, j) end
    return move(j, verb, when, ms, verb == RESCHEDULE and has_priority == 1 and priority)
end

local answers = {}
for i = 3, #ARGV, 2 do
    answers[#answers + 1] = change(ARGV[i], unpack_from('>BBBI2I6', ARGV[i + 1]))
end
if t and t.flow then flow.settle(t) end
if t and t.flow and flow.open_of(t) <= 0 then
    for i = 1, #answers do answers[i] = flow.mark(answers[i]) end
end
return changed(ticket, table.concat(answers))
