#!lua flags=allow-oom
-- What consumers say of their leases: ack, nack, extend, return, nack for good.
local ticket, ACK, NACK, EXTEND, RETURN, REFUSE = ARGV[1], 1, 2, 3, 4, 5

local kept = answered_before(ticket)
if kept then return repeated(kept) end
chance_seed(ARGV[2])

local deliveries, verbs, waits = {}, {}, {}
for i = 1, (#ARGV - 2) / 2 do
    local delivery
    delivery, verbs[i], waits[i] = unpack_from('>I6BI6', ARGV[2 * i + 1])
    deliveries[i] = text_of(delivery)
end
local places = ask_many('HMGET', LEASED, deliveries)
-- When each lease ends is asked only if some have ended that no server has seen to yet.
local ends = call('ZCOUNT', LEASES, '-inf', now) > 0 and ask_many('ZMSCORE', LEASES, deliveries)

local function has_ended(i)
    return ends and tonumber(ends[i] or 0) <= now
end

local answers, names, gone = {}, {}, {}
local acked = {} -- by topic: what is to be taken away

local function ack(t, place, id, delivery)
    local a = acked[t] or {jobs = {}, held = {}}
    acked[t] = a
    a.jobs[#a.jobs + 1] = id
    a.held[#a.held + 1] = sub(place, 1, 6) .. id
    a[#a + 1] = delivery
    return 0
end

local function extend(t, j, ms)
    if ms == NONE or ms == 0 then ms = j.lease end
    history_begun(t, j)
    j.lease_until = now + 1 + ms
    call('ZADD', LEASES, j.lease_until, text_of(j.delivery))
    soonest = math.min(soonest, j.lease_until)
    try_write(t, j)
    return pack('>BBI6I6', OK, LEASED_STATE, j.due, j.lease_until)
end

-- In its old place, or after a delay.
local function give_back(t, j, ms)
    j.attempt, j.state, j.lease_until = j.attempt - 1, DELAYED, 0
    if ms > 0 then j.due = now + 1 + ms end
    hang(t, j)
    try_write(t, j)
end

local ACKED, ENDED = pack('>BBI6I6', OK, FINISHED, 0, 0), pack('>BBI6I6', LEASE_ENDED, 0, 0, 0)

local function answer(i)
    local verb, place, delivery = verbs[i], places[i], deliveries[i]
    if not place or gone[delivery] or has_ended(i) then return ENDED, '' end
    local split = string.find(place, '\0', 7, true)
    local t, id = topic_find(sub(place, 7, split - 1)), sub(place, split + 1)
    local j = t and verb ~= ACK and job_find(t, id)
    if not t or not j and verb ~= ACK then return ENDED, '' end -- lost by Redis: the answers beside it are carried out
    if verb == EXTEND then return extend(t, j, waits[i]), sub(place, 7) end
    gone[delivery] = true
    if verb == ACK then
        ack(t, place, id, delivery)
        return ACKED, sub(place, 7)
    end
    unhang(t, j)
    if verb == RETURN then
        give_back(t, j, waits[i])
    else
        count(t, 'nacked', 1)
        fail(t, j, waits[i], ARGV[2 * i + 2], verb == REFUSE and REFUSED or FAILED)
    end
    return pack('>BBI6I6', OK, shown_state(j), j.due, 0), sub(place, 7)
end

for i = 1, #deliveries do
    answers[i], names[i] = answer(i)
end

for t, a in pairs(acked) do
    call_many('ZREM', LEASES, a)
    call_many('HDEL', LEASED, a)
    call_many('ZREM', t.held, a.held)
    call_many('HDEL', t.jobs, a.jobs)
    call_many('HDEL', t.tries, a.jobs)
    if t.historic then history_forget(t, a.jobs) end
    count(t, 'leased', -#a)
    count(t, 'acked', #a)
    local window = settings_of(t).dedup
    if window > 0 then
        local words = {}
        for i = 1, #a.jobs do
            words[2 * i - 1], words[2 * i] = now + 1 + window, a.jobs[i]
        end
        call_many('ZADD', t.finished, words)
        event_at(t, now + 1 + window)
    end
end
return changed(ticket, table.concat(answers), names)
