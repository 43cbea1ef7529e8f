-- The history of a job's attempts, beside its try: those that ended without an ack, as job/job.h encodes a history, so that it needs no
-- conversion. It has its own key, and holds the sequence, because older servers do not know it and leave it behind.
local history_begun, history_add, history_forget, history_shown = (function()

local HEAD, HEAD_BYTES = '>I6I6I6B', 19 -- sequence of the job; delivery that is under way, when it began; attempts
local ATTEMPTS_MAX, ERROR_BYTES_MAX = 8, 100

-- Reads the kept history; that of an earlier job with the same id counts as empty.
local function read(t, j)
    local kept = may_have(t, HISTORIC) and call('HGET', t.history, j.id)
    if not kept or #kept < HEAD_BYTES or unpack_from('>I6', kept) ~= j.sequence then
        return {delivery = 0, started = 0, lengths = '', attempts = ''}
    end
    local _, delivery, started, attempts, at = unpack_from(HEAD, kept)
    return {delivery = delivery, started = started, lengths = sub(kept, at, at + attempts - 1), attempts = sub(kept, at + attempts)}
end

local function write(t, j, h)
    raise(t, HISTORIC)
    call('HSET', t.history, j.id, pack(HEAD, j.sequence, h.delivery, h.started, #h.lengths) .. h.lengths .. h.attempts)
end

-- Returns the start of a lease that was never extended.
local function started_of(j)
    return max(0, j.lease_until - 1 - j.lease)
end

-- Notes the start of a lease before its end is moved: afterwards the start could not be derived.
local function history_begun(t, j)
    local h = read(t, j)
    if h.delivery == j.delivery then return end
    h.delivery, h.started = j.delivery, started_of(j)
    write(t, j, h)
end

local function varint(number)
    local text = ''
    while number >= 128 do
        text, number = text .. char(number % 128 + 128), floor(number / 128)
    end
    return text .. char(number)
end

-- Cuts at most three bytes more, so that no character is cut in two.
local function cut(error)
    if #error <= ERROR_BYTES_MAX then return error end
    local length = ERROR_BYTES_MAX
    while length > ERROR_BYTES_MAX - 3 and floor(byte(error, length + 1) / 64) == 2 do length = length - 1 end
    return sub(error, 1, length)
end

-- The attempt of a leased job ended. It is shown on the wall clock as that is now. The oldest makes room.
local function history_add(t, j, outcome, ended, error)
    local h = read(t, j)
    local started = min(h.delivery == j.delivery and h.started or started_of(j), ended)
    error = cut(error)
    local attempt = varint(j.attempt) .. varint(max(0, started - adjust)) .. varint(ended - started) .. char(outcome) .. varint(#error) .. error
    if #h.lengths >= ATTEMPTS_MAX then
        h.attempts, h.lengths = sub(h.attempts, byte(h.lengths) + 1), sub(h.lengths, 2)
    end
    h.delivery, h.started, h.lengths, h.attempts = 0, 0, h.lengths .. char(#attempt), h.attempts .. attempt
    write(t, j, h)
end

local function history_forget(t, ids)
    if may_have(t, HISTORIC) then call_many('HDEL', t.history, ids) end
end

-- Returns when the last attempt began, and the attempts.
function keeping.history_of(t, j)
    if not may_have(t, HISTORIC) then return started_of(j), '' end
    local h = read(t, j)
    return h.delivery == j.delivery and j.delivery > 0 and h.started or started_of(j), h.attempts
end

-- Returns a job's try as answers show it: with the history, if there is one (README.md, "Calls").
local function history_shown(record, try, kept)
    if not kept or #kept < HEAD_BYTES then return try end
    local _, _, sequence = unpack_from('>BI2I6', record)
    local of, _, _, attempts, at = unpack_from(HEAD, kept)
    if of ~= sequence or attempts == 0 then return try end
    return char(byte(try) % 128 + 128) .. sub(try, 2, 37) .. pack('>I2', #try - 37) .. sub(try, 38) .. sub(kept, at + attempts)
end

return history_begun, history_add, history_forget, history_shown

end)()

