-- A job: read, hung where it belongs, failed, finished.
local TRY, holding, job_make, job_find, try_of, try_write, policy_of, shown_state, expiry_remove, unhang, expire_later, hang, finish,
    chance_seed, fail, OUTCOME = (function()

-- ---- jobs ----

local TRY = '>BI2I4I6I6I6I6I6'
-- The holder of a leased job is stored between its try's numbers and the error, if the state has FLAG added: flags and the name.
-- NEXT in the flags: the due of its successor follows, whose record is in t.next. PROGRESS: a counted text follows.
local holding, REQUESTED, PROGRESS = {FLAG = 16, FORM = '>BBc0', NEXT = 2, REPLACED = REPLACED}, 1, 4

-- Reads a try into a job.
local function try_read(j, try)
    local at
    j.state, j.priority, j.attempt, j.due, j.first, j.lease_until, j.delivery, j.lease, at = unpack_from(TRY, try)
    if j.state >= holding.FLAG then
        local flags
        flags, j.consumer, at = unpack_from(holding.FORM, try, at)
        j.state, j.requested = j.state - holding.FLAG, flags % 2 == REQUESTED
        if flags % PROGRESS >= holding.NEXT then j.next, at = unpack_from('>I6', try, at) end
        if flags >= PROGRESS then j.progress, at = unpack_from('>I2c0', try, at) end
    end
    j.error = sub(try, at)
end

-- Makes a job from a record and, if there is one, a try.
local function job_make(t, id, record, try)
    local flags, priority, sequence, due = unpack_from('>BI2I6I6', record)
    local j = {id = id, record = record, flags = flags, sequence = sequence, member = pack('>I6', sequence) .. id,
               priority = priority, due = due, first = due, state = DELAYED, attempt = 0, lease_until = 0, delivery = 0,
               lease = 0, consumer = '', requested = false, progress = '', error = '', tried = try and true or false}
    if try then try_read(j, try) end
    return j
end

-- Makes what keeping.note_end reads of an acked job: of many in turn, so the last one is changed.
local ended = {}
function keeping.ended(id, record, try)
    local _
    ended.flags, _, ended.sequence = unpack_from('>BI2I6', record)
    ended.id, ended.record, ended.consumer, ended.progress, ended.state = id, record, '', '', DELAYED
    ended.attempt, ended.lease_until, ended.delivery, ended.lease = 0, 0, 0, 0
    if try then try_read(ended, try) end
    return ended
end

local function job_find(t, id)
    local record = call('HGET', t.jobs, id)
    return record and job_make(t, id, record, call('HGET', t.tries, id))
end

local function try_of(j)
    local state, holder = j.state, ''
    if state == LEASED_STATE and (j.consumer ~= '' or j.requested or j.next or j.progress ~= '') then
        local flags = (j.requested and REQUESTED or 0) + (j.next and holding.NEXT or 0) + (j.progress ~= '' and PROGRESS or 0)
        state, holder = state + holding.FLAG, pack(holding.FORM, flags, #j.consumer, j.consumer) .. (j.next and pack('>I6', j.next) or '')
            .. (j.progress ~= '' and pack('>I2c0', #j.progress, j.progress) or '')
    end
    return pack(TRY, state, j.priority, j.attempt, j.due, j.first, j.lease_until, j.delivery, j.lease) .. holder .. j.error
end

local function try_write(t, j)
    call('HSET', t.tries, j.id, try_of(j))
    if j.state == DELAYED then raise(t, TRIED) end
    j.tried = true
end

-- Own, else the topic's, else the default (job/policy.h).
local function policy_of(t, j)
    local s, own = settings_of(t), j.flags % 2 == 1
    return not own and s.policy or policy_of_settings(s, own and j.record)
end

-- Returns the state for users: a job whose due time has passed is ready, also before it was moved.
local function shown_state(j)
    return j.state == DELAYED and j.due <= now and READY or j.state
end

-- Without the rest of its policy, because every job that becomes ready comes here.
function holding.ttl_of(t, flags, record)
    local own = flags % 2 == 1 and (unpack_from('>I6', record, 22)) or 0
    return own > 0 and own or settings_of(t).ttl
end

-- Whatever its ttl is now: it may have become ready under another setting of the topic.
local function expiry_remove(t, member)
    if may_have(t, EXPIRING) then call('ZREM', t.expiry, member) end
end

-- Returns the approximate bytes of a dead job.
local function bytes_of(j)
    return #j.record + #j.id
end

-- Takes a job out of where its state keeps it.
local function unhang(t, j)
    if j.state == LEASED_STATE then
        call('ZREM', t.held, j.member)
        call('ZREM', LEASES, text_of(j.delivery))
        call('HDEL', LEASED, text_of(j.delivery))
        count(t, 'leased', -1)
        if t.flow then flow.released(t, flow.group_of(j)) end
    elseif j.state == DEAD then
        call('ZREM', t.dead, j.member)
        count(t, 'dead', -1)
        count(t, 'dead_bytes', -bytes_of(j))
    elseif j.due <= now and ready_remove(t, j) then
        expiry_remove(t, j.member)
    elseif delayed_remove(t, j.due, j.member) then
        count(t, j.attempt > 0 and 'retrying' or 'delayed', -1)
        if t.flow then
            flow.tried(t, j, -1)
            flow.delayed(t, flow.group_of(j), -1)
        end
    elseif j.due > now and ready_remove(t, j) then -- it was due before the clock went back
        expiry_remove(t, j.member)
    end
end

local function expire_later(t, j)
    local ttl = holding.ttl_of(t, j.flags, j.record)
    if ttl == 0 then return end
    call('ZADD', t.expiry, j.first + ttl, j.member)
    raise(t, EXPIRING)
    event_at(t, j.first + ttl)
end

-- Puts a job that is neither leased nor finished into the set of its state and due time.
local function hang(t, j)
    if j.state == DEAD then
        call('ZADD', t.dead, j.due, j.member)
        count(t, 'dead', 1)
        count(t, 'dead_bytes', bytes_of(j))
        t.has_dead = true
        return
    end
    if t.flow then flow.tried(t, j, 1) end
    if j.due <= now then
        ready_add(t, j.priority, {t.flow and flow.score_of(t, j) or j.due, j.member}, j.flags >= flow.RECORD and flow.group_of(j) or nil)
        expire_later(t, j)
    else
        delayed_add(t, {j.due, j.member}, j.due, j.due)
        if t.flow then flow.delayed(t, flow.group_of(j), 1) end
        count(t, j.attempt > 0 and 'retrying' or 'delayed', 1)
    end
end

-- Removes a finished job, which is in no set. `total`: acked, cancelled, expired. Only a purge forgets its id immediately. `result`: of an ack, or nil.
local function finish(t, j, total, is_purge, result)
    if keeping.waiting or has(t, keeping.FLAG) then keeping.note_end(t, j, is_purge and 'purged' or total, result) end
    call('HDEL', t.jobs, j.id)
    if j.tried then
        call('HDEL', t.tries, j.id)
        history_forget(t, {j.id})
    end
    count(t, total, 1)
    local window = settings_of(t).dedup
    if window > 0 and not is_purge then
        call('ZADD', t.finished, now + 1 + window, j.id)
        raise(t, REMEMBERING)
        event_at(t, now + 1 + window)
    end
end

-- Cancels a job whose lease has ended and for which a cancel was requested. The job is in no set.
function holding.cancel(t, j)
    if feed.listened then feed.publish(feed.CANCELLED, t.name, j.id, j.attempt, j.due) end
    if not holding.start_next(t, j, 'cancelled') then finish(t, j, 'cancelled') end
end

-- ---- successors: pushes onto a leased job, which become the job when its lease ends ----

function holding.drop_next(t, id)
    call('HDEL', t.next, id)
    if call('EXISTS', t.next) == 0 then lower(t, topic_rules.SUCCEEDING) end
end

-- Stores the record of a successor. Returns true if there was one before.
function topic_rules.set_next(t, j, record, due)
    local had = j.next
    call('HSET', t.next, j.id, record)
    raise(t, topic_rules.SUCCEEDING)
    j.next = due
    try_write(t, j)
    return had and true or false
end

-- Starts the successor of a job whose lease ended and which is in no set. `total`: acked, cancelled, nacked, lease_ended; nil: returned. Returns it;
-- nil: the job has no successor.
function holding.start_next(t, j, total, result)
    local record = j.next and call('HGET', t.next, j.id)
    if not record then return nil end
    local is_end = total == 'acked' or total == 'cancelled'
    if is_end and keeping.waiting then keeping.note_end(t, j, total, result, true) end
    holding.drop_next(t, j.id)
    call('HDEL', t.tries, j.id)
    history_forget(t, {j.id})
    call('HSET', t.jobs, j.id, record)
    if total then count(t, total, 1) end
    count(t, is_end and 'pushed' or 'replaced', 1)
    local new = job_make(t, j.id, record)
    if new.priority ~= 100 or new.flags % 2 == 1 then raise(t, SPECIAL) end
    if feed.listened then feed.publish(is_end and feed.PUSHED or feed.REPLACED, t.name, j.id, 0, new.due) end
    hang(t, new)
    return new
end

-- Returns true if the job may have a successor.
function holding.may_have_next(t, id)
    return has(t, topic_rules.SUCCEEDING) and call('HEXISTS', t.next, id) == 1
end

-- Acks a job whose successor was lost.
function holding.ack_without_next(t, j, result)
    holding.drop_next(t, j.id)
    finish(t, j, 'acked', false, result)
end

-- ---- failing ----

local chances = {state = 1}

-- Seeds a sequence of numbers below 1 with the server's random number (`chance` below 2^48).
local function chance_seed(number)
    chances.state = number % 2147483647
end

local function chance_next()
    chances.state = (chances.state * 48271 + 1) % 2147483647
    return chances.state / 2147483647
end

local FOR_EVER = 2 ^ 32 - 1 -- as most attempts

-- Computes the backoff as policy_backoff_ms in job/policy.c does.
local function backoff_ms(p, attempt)
    if p.backoff == 3 then return 0 end
    local wait = p.first
    if p.backoff == 4 then
        wait = p.steps[min(attempt, #p.steps)]
    elseif p.backoff == 2 then
        wait = attempt > 60 and p.max or min(p.first * 2 ^ (attempt - 1), p.max)
    end
    wait = min(wait, DELAY_MAX)
    local spread = floor(wait * 20 / 100)
    return wait - spread + floor(chance_next() * (2 * spread + 1))
end

local OUTCOME = {FAILED = 1, LEASE_OVER = 2, REFUSED = 3} -- enum job_outcome

-- The attempt ended without an ack and the job is unhung: it waits for the next one, or is dead. delay NONE: by backoff.
local function fail(t, j, delay, error, outcome, result)
    local p = policy_of(t, j)
    history_add(t, j, outcome, outcome == OUTCOME.LEASE_OVER and min(now, j.lease_until) or now, error)
    j.error, j.state, j.lease_until = error, DELAYED, 0
    if outcome == OUTCOME.REFUSED or j.attempt >= p.attempts and p.attempts < FOR_EVER then
        j.state = DEAD
        count(t, 'died', 1)
        if keeping.waiting or j.flags % 32 >= batches.RECORD then keeping.note_end(t, j, 'died', result) end
    else
        if delay == NONE then delay = backoff_ms(p, j.attempt) end
        j.due = now + (delay > 0 and delay + 1 or 0)
    end
    hang(t, j)
    try_write(t, j)
    if not feed.listened then return end
    local due = j.state ~= DEAD and j.due or 0
    if outcome == OUTCOME.LEASE_OVER then
        feed.publish(feed.LEASE_ENDED, t.name, j.id, j.attempt, due)
    else
        feed.publish(feed.NACKED, t.name, j.id, j.attempt, due, 0, 0, error)
    end
    if j.state == DEAD then feed.publish(feed.DEAD, t.name, j.id, j.attempt, 0, 0, 0, error) end
end

return TRY, holding, job_make, job_find, try_of, try_write, policy_of, shown_state, expiry_remove, unhang, expire_later, hang,
    finish, chance_seed, fail, OUTCOME

end)()

