-- Answers of consumers for their leases: ack, nack, extend, return, permanent nack.
local answers_carry_out = (function()

local ACK, NACK, EXTEND, RETURN, REFUSE, AGAIN, REFUSE_WITH_RESULT = 1, 2, 3, 4, 5, 6, 7
local ANSWER = '>BBI6I6' -- status, state (extend: and 128 where it is asked to be cancelled), due, end of the lease
local ENDED, ACKED

local gone -- deliveries that an answer of this call has ended
local acked -- topics with acks in this call: each has lists of the deliveries, jobs and members that are to be taken away

-- The attempt that ends: of whom nothing else wants to know. Its try is there still.
local function ack_publish(t, id)
    local try, attempt = call('HGET', t.tries, id), 0
    if try then attempt = select(3, unpack_from(TRY, try)) end
    feed.publish(feed.ACKED, t.name, id, attempt)
end

-- Keeps an acked job, as its topic is set, and informs those that wait for it.
local function ack_note_end(t, id, result)
    local j = job_find(t, id)
    if j then keeping.note_end(t, j, 'acked', result) end
end

local function ack(t, place, id, delivery, result, group)
    local a = t.acked
    if feed.listened then ack_publish(t, id) end
    if not a then
        a = {deliveries = {}, jobs = {}, held = {}, results = {}}
        t.acked, acked[#acked + 1] = a, t
        if t.flow then a.groups = {} end
    end
    local at = #a.jobs + 1
    a.deliveries[at], a.jobs[at], a.held[at], a.results[at] = delivery, id, sub(place, 1, 6) .. id, result
    if a.groups then a.groups[at] = group end
end

-- `n` acked jobs of the topic were taken away: counted, and their ids remembered.
local function acks_note(t, ids, n)
    history_forget(t, ids)
    count(t, 'leased', -n)
    count(t, 'acked', n)
    local window = settings_of(t).dedup
    if window == 0 then return end
    local words = {}
    for i = 1, n do
        words[2 * i - 1], words[2 * i] = now + 1 + window, ids[i]
    end
    call_many('ZADD', t.finished, words)
    raise(t, REMEMBERING)
    event_at(t, now + 1 + window)
end

-- The same for acks of a batch. Few records at a time: their bodies come with them.
local function acks_note_ends(t, a)
    for from = 1, #a.jobs, 32 do
        local to = min(from + 31, #a.jobs)
        local records, tries = call('HMGET', t.jobs, unpack(a.jobs, from, to)), call('HMGET', t.tries, unpack(a.jobs, from, to))
        for i = from, to do
            local record = records[i - from + 1]
            if record then keeping.note_end(t, keeping.ended(a.jobs[i], record, tries[i - from + 1]), 'acked', a.results[i]) end
        end
    end
end

local function take_away(t)
    local a = t.acked
    t.acked = nil
    if keeping.waiting or has(t, keeping.FLAG) then acks_note_ends(t, a) end
    call_many('ZREM', LEASES, a.deliveries)
    call_many('HDEL', LEASED, a.deliveries)
    call_many('ZREM', t.held, a.held)
    call_many('HDEL', t.jobs, a.jobs)
    call_many('HDEL', t.tries, a.jobs)
    if a.groups then flow.released_all(t, a.groups) end
    acks_note(t, a.jobs, #a.jobs)
end

local function extend(t, j, ms, progress)
    if progress ~= '' then j.progress = progress end
    if ms == NONE or ms == 0 then ms = j.lease end
    history_begun(t, j)
    j.lease_until = now + 1 + ms
    call('ZADD', LEASES, j.lease_until, text_of(j.delivery))
    soonest = min(soonest, j.lease_until)
    try_write(t, j)
    if feed.listened then
        feed.publish(progress ~= '' and feed.PROGRESS or feed.EXTENDED, t.name, j.id, j.attempt, 0, j.lease_until, 0, progress)
    end
    return pack(ANSWER, OK, LEASED_STATE + (j.requested and 128 or 0), j.due, j.lease_until)
end

-- Returns a job to its old place, or makes it due after a delay.
local function give_back(t, j, ms)
    j.attempt, j.state, j.lease_until = j.attempt - 1, DELAYED, 0
    if ms > 0 then j.due = now + 1 + ms end
    hang(t, j)
    try_write(t, j)
    if feed.listened then feed.publish(feed.RETURNED, t.name, j.id, j.attempt + 1, j.due) end
end

-- `word` continues with whether there is a new priority, and it; flags of `text` (1: a body, 2: a content type before it).
local AGAIN_FORM, AGAIN_AT, BODY, TYPE = '>BBI2B', 14, 1, 2
local AGAINS_BYTES_MAX = 1048576 -- of new records that are not written yet

-- Returns the new record of a job that is pushed again, and its priority.
local function record_again(old, flags, old_priority, due, is_wall, word, text)
    local _, has_priority, priority, given = unpack_from(AGAIN_FORM, word, AGAIN_AT)
    if has_priority == 0 then priority = old_priority end
    flags = flags - (flags % 16 >= 8 and 8 or 0)
    local type_at, meta_at, body_at = keeping.places(flags, old)
    local head = nil -- all before the body
    if given >= TYPE then
        local length = byte(text)
        local type = sub(text, 1, 1 + (length <= 128 and length or 0))
        text, head = sub(text, #type + 1), sub(old, 16, type_at - 1) .. type .. sub(old, meta_at, body_at - 1)
        if flags % 4 < 2 then flags = flags + 2 end
    end
    sequence, core_is_changed = sequence + 1, true
    return pack('>BI2I6I6', flags + (is_wall and 8 or 0), priority, sequence, due) .. (head or sub(old, 16, body_at - 1)) .. (given % TYPE == BODY and text or sub(old, body_at)), priority
end

-- Pushes the job again: a new record in place of the old one. Its lease has ended, and its attempts are forgotten.
local function again(t, j, due, is_wall, word, text)
    local record, priority = record_again(j.record, j.flags, j.priority, due, is_wall, word, text)
    if feed.listened then feed.publish(feed.ACKED, t.name, j.id, j.attempt) end
    call('HDEL', t.tries, j.id)
    history_forget(t, {j.id})
    call('HSET', t.jobs, j.id, record)
    count(t, 'acked', 1)
    count(t, 'pushed', 1)
    if priority ~= 100 then raise(t, SPECIAL) end
    if feed.listened then feed.publish(feed.PUSHED, t.name, j.id, 0, due) end
    local new = job_make(t, j.id, record)
    hang(t, new)
    return pack(ANSWER, CREATED, shown_state(new), due, 0)
end

local function agains_write(t)
    local a = t.agains
    if not a then return end
    t.agains = nil
    call_many('ZREM', LEASES, a.deliveries)
    call_many('HDEL', LEASED, a.deliveries)
    call_many('ZREM', t.held, a.held)
    call_many('HDEL', t.tries, a.ids)
    history_forget(t, a.ids)
    call_many('HSET', t.jobs, a.records)
    delayed_add(t, a.delayed, a.first, a.last)
    count(t, 'leased', -#a.ids)
    count(t, 'acked', #a.ids)
    count(t, 'pushed', #a.ids)
    count(t, 'delayed', #a.ids)
end

-- Pushes a job again whose record and try are known. Its changes are written with those of others (agains_write). Returns nil if the job needs more than
-- that, or is due at once: then it is answered like any other.
local function again_together(t, id, delivery, place, ms, word, text, record, try)
    if t.flow or not record or not try then return nil end
    local state, priority, attempt, _, _, _, number = unpack_from(TRY, try)
    local flags = byte(record)
    if state ~= LEASED_STATE or text_of(number) ~= delivery or flags % 32 >= batches.RECORD then return nil end
    local due, is_wall = topic_rules.due_of(byte(word, AGAIN_AT), ms)
    if not due or due <= now then return nil end
    gone[delivery] = true
    local new, new_priority = record_again(record, flags, priority, due, is_wall, word, text)
    local a = t.agains
    if not a then
        a = {deliveries = {}, held = {}, ids = {}, records = {}, delayed = {}, first = NONE, last = 0, bytes = 0}
        t.agains = a
    end
    local at = #a.ids
    a.deliveries[at + 1], a.held[at + 1], a.ids[at + 1] = delivery, sub(place, 1, 6) .. id, id
    a.records[2 * at + 1], a.records[2 * at + 2] = id, new
    a.delayed[2 * at + 1], a.delayed[2 * at + 2] = text_of(due), pack('>I6', sequence) .. id
    a.first, a.last, a.bytes = min(a.first, due), max(a.last, due), a.bytes + #new
    if new_priority ~= 100 then raise(t, SPECIAL) end
    if feed.listened then
        feed.publish(feed.ACKED, t.name, id, attempt)
        feed.publish(feed.PUSHED, t.name, id, 0, due)
    end
    if a.bytes > AGAINS_BYTES_MAX then agains_write(t) end
    return pack(ANSWER, CREATED, DELAYED, due, 0)
end

-- Reads records and tries of the jobs that the answers from..to push again, of the topic of the first of them. Few at a time: their bodies come with them.
local function agains_read(verbs, places, from, to, records, tries)
    local name, ids, at = flow.split(places[from]), {}, {}
    for i = from, to do
        if verbs[i] == AGAIN and places[i] then
            local topic, id = flow.split(places[i])
            if topic == name then ids[#ids + 1], at[#at + 1] = id, i end
        end
    end
    local t = topic_find(name)
    if not t or t.flow then return end
    local found, tried = call('HMGET', t.jobs, unpack(ids)), call('HMGET', t.tries, unpack(ids))
    for i = 1, #at do records[at[i]], tries[at[i]] = found[i], tried[i] end
end

-- Returns the new priority of a nack; nil: the job keeps its own.
local function priority_of(word)
    return #word > 13 and unpack_from('>I2', word, 14) or nil
end

local TOTALS = {[NACK] = 'nacked', [REFUSE] = 'nacked', [ACK] = 'acked', [AGAIN] = 'acked'} -- totals; a return counts nothing

-- Returns the result of an ack, with its content type before it as in a record; nil: it has none.
local function result_of(verb, word, text)
    return verb == ACK and #word > 13 and text or nil
end

-- Returns the verb of a final nack with a result, its error and its result.
local function refusal_read(text)
    local length = unpack_from('>I2', text)
    return REFUSE, sub(text, 3, 2 + length), sub(text, 3 + length)
end

-- Ends the lease of an unhung job with a successor; nil: there is no successor.
local function end_with_next(t, j, verb, error, result)
    if not j.next then return nil end
    local was_nacked = verb == NACK or verb == REFUSE
    if feed.listened then
        local kind = was_nacked and feed.NACKED or verb == RETURN and feed.RETURNED or feed.ACKED
        feed.publish(kind, t.name, j.id, j.attempt, 0, 0, 0, was_nacked and error or nil)
    end
    local new = holding.start_next(t, j, TOTALS[verb], result)
    return new and pack(ANSWER, verb == AGAIN and holding.REPLACED or OK, shown_state(new), new.due, 0)
end

local function answer_to(t, id, group, verb, delivery, place, ms, error, word)
    local result = result_of(verb, word, error)
    if verb == REFUSE_WITH_RESULT then verb, error, result = refusal_read(error) end
    if verb == ACK and not holding.may_have_next(t, id) then
        gone[delivery] = true
        ack(t, place, id, delivery, result, group)
        return ACKED
    end
    agains_write(t) -- one of them may have had this id, if Redis lost something
    local j = job_find(t, id)
    if not j then return ENDED, true end
    if verb == EXTEND then return extend(t, j, ms, error) end
    local due, is_wall
    if verb == AGAIN then
        due, is_wall = topic_rules.due_of(byte(word, AGAIN_AT), ms)
        if not due then return pack(ANSWER, BAD_OPTION, 0, 0, 0) end
    end
    gone[delivery] = true
    unhang(t, j)
    if j.requested and verb ~= ACK then
        holding.cancel(t, j)
        return pack(ANSWER, CANCELLED, 0, 0, 0)
    end
    local ended = end_with_next(t, j, verb, error, result)
    if ended then return ended end
    if verb == ACK then -- the successor was lost
        holding.ack_without_next(t, j, result)
        return ACKED
    end
    if verb == AGAIN then return again(t, j, due, is_wall, word, error) end
    if verb == RETURN then
        give_back(t, j, ms)
    else
        local priority = priority_of(word)
        count(t, 'nacked', 1)
        if priority then
            j.priority = priority
            if priority ~= 100 then raise(t, SPECIAL) end
        end
        fail(t, j, ms, error, verb == REFUSE and OUTCOME.REFUSED or OUTCOME.FAILED, result)
    end
    return pack(ANSWER, OK, shown_state(j), j.due, 0)
end

-- Returns the verb, and the milliseconds of a hold; 0: no hold. They are at the end of `word`, which is returned without them.
local HELD = 64
local function hold_of(verb, word)
    if verb < HELD then return verb, 0, word end
    return verb - HELD, unpack_from('>I6', word, #word - 5), sub(word, 1, -7)
end

-- Returns the answer, and topic NUL id of its job ('': the lease is of no job). If a hold began, byte 1, the group and NUL are in front. `record`, `try`: of
-- a job that is pushed again, if they were read before.
local function answer(verb, delivery, place, ms, error, word, record, try)
    local name, id, group = flow.split(place)
    local t, hold_ms = topic_find(name), nil
    if not t then return ENDED, '' end -- lost by Redis: the answers beside it are carried out
    local pushed = record and again_together(t, id, delivery, place, ms, word, error, record, try)
    if pushed then return pushed, sub(place, 7) end
    verb, hold_ms, word = hold_of(verb, word)
    local result, is_lost = answer_to(t, id, group, verb, delivery, place, ms, error, word)
    if is_lost then return ENDED, '' end
    if hold_ms > 0 then flow.hold(t, group, hold_ms) end
    if t.flow then result = flow.mark(result) end -- the topics that became ready are in the answer of the step
    local named = name .. '\0' .. id
    return result, hold_ms > 0 and '\1' .. group .. '\0' .. named or named
end

-- Returns true if a lease may have ended that no server has handled yet: only then the script looks for it.
local function may_be_over()
    return (next_topic == '' and next_ms or rest_ms) <= now
end

-- A single ack, which is what comes most.
local function ack_one(place, delivery, word, result)
    local name, id, group = flow.split(place)
    local t = topic_find(name)
    if not t then return ENDED, '' end
    if holding.may_have_next(t, id) then
        gone = {}
        return answer(ACK, delivery, place, 0, result, word)
    end
    if feed.listened then ack_publish(t, id) end
    if keeping.waiting or has(t, keeping.FLAG) then ack_note_end(t, id, result_of(ACK, word, result)) end
    call('ZREM', LEASES, delivery)
    call('HDEL', LEASED, delivery)
    call('ZREM', t.held, sub(place, 1, 6) .. id)
    call('HDEL', t.jobs, id)
    call('HDEL', t.tries, id)
    if t.flow then flow.released_all(t, {group}) end
    if t.packed == '' and not has(t, HISTORIC) then
        count(t, 'leased', -1)
        count(t, 'acked', 1)
    else
        acks_note(t, {id}, 1)
    end
    return ACKED, name .. '\0' .. id
end

local function answer_one(delivery, verb, ms, error, word)
    delivery = text_of(delivery)
    local place = call('HGET', LEASED, delivery)
    if not place or may_be_over() and tonumber(call('ZSCORE', LEASES, delivery) or 0) <= now then return ENDED, '' end
    if verb == ACK then return ack_one(place, delivery, word, error) end
    gone, acked = {}, {}
    local result, name = answer(verb, delivery, place, ms, error, word)
    for i = 1, #acked do take_away(acked[i]) end
    return result, name
end

-- `n` answers, two words each from words[first] on. Returns what became of them, packed, and a list of topic NUL id each, or empty.
local function answers_carry_out(words, first, n)
    if not ACKED then ACKED, ENDED = pack(ANSWER, OK, FINISHED, 0, 0), pack(ANSWER, LEASE_ENDED, 0, 0, 0) end
    if n == 1 then
        local delivery, verb, ms = unpack_from('>I6BI6', words[first])
        local results, name = answer_one(delivery, verb, ms, words[first + 1], words[first])
        return results, {name}
    end
    local deliveries, verbs, waits = {}, {}, {}
    local results, names = {}, {}
    for i = 1, n do
        local delivery
        delivery, verbs[i], waits[i] = unpack_from('>I6BI6', words[first + 2 * i - 2])
        deliveries[i] = text_of(delivery)
    end
    gone, acked = {}, {}
    local places = ask_many('HMGET', LEASED, deliveries)
    local ends = may_be_over() and ask_many('ZMSCORE', LEASES, deliveries)
    local records, tries, known = {}, {}, 0 -- of jobs that are pushed again
    for i = 1, n do
        local place, delivery = places[i], deliveries[i]
        if not place or gone[delivery] or ends and tonumber(ends[i] or 0) <= now then
            results[i], names[i] = ENDED, ''
        else
            if verbs[i] == AGAIN and i > known then
                known = min(i + 31, n)
                agains_read(verbs, places, i, known, records, tries)
            end
            results[i], names[i] = answer(verbs[i], delivery, place, waits[i], words[first + 2 * i - 1], words[first + 2 * i - 2], records[i], tries[i])
            records[i], tries[i] = nil, nil
        end
    end
    for i = 1, #met_topics do agains_write(met_topics[i]) end
    for i = 1, #acked do take_away(acked[i]) end
    return table.concat(results), names
end

return answers_carry_out

end)()

