-- Kept jobs: finished jobs of topics that keep them (README.md, "Kept jobs"); and the end of jobs that a call waits for.
-- The members of `keeping` are filled in here, because parts before this one call them.
do

local HEAD, HEAD_BYTES = '>BBI6I6I6I4I4', 28 -- flags, outcome, number, end of its time, finished, attempt, duration
local META, CONSUMER, HISTORY, PROGRESS, RESULT, TYPE, BODY, BATCH = 1, 2, 4, 8, 16, 32, 64, 128 -- its texts, in this order; BATCH is behind RESULT
local OWN_TIME = 32 -- flag of a job's record: it has a keep_finished of its own, behind its policy
local JOBS_MAX, BYTES_MAX = 1000000, 2 ^ 30 -- if the topic has no limit of its own
local SLACK_MS = 1000 -- lookups hide a job once its time has passed; the job is removed so much later, together with others
local DROPS = 16 -- jobs that a call drops in addition to two for each that it keeps
local SENT_BYTES_MAX = 8192 -- a longer one is read by the server that waits, if it is kept
local AWAITED_MS = 60000 -- so long a job is awaited; servers renew this while a call waits

-- ---- what a job's record has beside its body ----

-- Returns where the content type, meta and the body of a record begin.
function keeping.places(flags, record)
    local at = (flags % 2 == 1 and topic_rules.policy_end(record) or 16) + (flags % 64 >= OWN_TIME and 6 or 0)
    if flags >= flow.RECORD then at = at + 1 + byte(record, at) end
    if flags % 32 >= batches.RECORD then at = batches.skip(record, at) end
    local type_at = at
    if flags % 4 >= 2 then
        local length = byte(record, at)
        at = at + 1 + (length <= 128 and length or 0)
    end
    return type_at, at, flags % 8 >= 4 and at + 2 + unpack_from('>I2', record, at) or at
end

-- Splits a record behind its numbers: the policy with the time of its own, the group and the batches, the content type, meta, and the body.
function keeping.parts(flags, record)
    local type_at, meta_at, body_at = keeping.places(flags, record)
    return sub(record, 16, type_at - 1), sub(record, type_at, meta_at - 1), sub(record, meta_at, body_at - 1), sub(record, body_at)
end

-- Returns how long the job is kept once it has finished; 0: it is not kept.
local function time_of(t, j)
    if j.flags % 64 >= OWN_TIME then return (unpack_from('>I6', j.record, j.flags % 2 == 1 and topic_rules.policy_end(j.record) or 16)) end
    return settings_of(t).keep
end

-- ---- limits and time ----

-- Returns the most jobs and bytes of this shard: its share of the topic's limits, rounded up.
local function limits_of(t)
    local s, shards = settings_of(t), topic_rules.shards_of(t)
    local most, bytes = s.keep_jobs > 0 and s.keep_jobs or JOBS_MAX, s.keep_bytes > 0 and s.keep_bytes or BYTES_MAX
    return floor((most + shards - 1) / shards), floor((bytes + shards - 1) / shards)
end

local function is_over(_, ends)
    return ends <= now and 'gone' or nil
end

local function any()
    return 'gone'
end

-- Removes up to `most` jobs that exceed the topic's limits, the oldest first. Returns the same as `kept.drop`.
local function drop_excess(t, k, most)
    local jobs_most, bytes_most = limits_of(t)
    if k.jobs <= jobs_most and k.bytes <= bytes_most then return 0, false end
    return kept.drop(t, k, most, function()
        return k.jobs > jobs_most and 'by_jobs' or k.bytes > bytes_most and 'by_bytes' or nil
    end)
end

-- Writes the jobs that this call keeps, and makes room for them.
local function flush(t, k)
    local added = kept.flush(t, k)
    if added == 0 then return end
    drop_excess(t, k, DROPS + 2 * added)
    keeping.check_limits(t)
end

-- ---- for other parts ----

-- Ensures that jobs beyond the topic's limits are dropped soon.
function keeping.check_limits(t)
    local k, jobs_most, bytes_most = kept.open(t), limits_of(t)
    if k.jobs > jobs_most or k.bytes > bytes_most then event_at(t, now) end
end

-- Writes what the call keeps. Called before the next event is looked for. `server` counts the dropped jobs.
function keeping.settle(server)
    local by_jobs, by_bytes = 0, 0
    for _, t in ipairs(keeping.changed) do
        local k = t.figures
        if not t.is_deleted then flush(t, k) end
        by_jobs, by_bytes, k.by_jobs, k.by_bytes = by_jobs + k.by_jobs, by_bytes + k.by_bytes, 0, 0
    end
    if by_jobs + by_bytes > 0 then notify('k' .. server .. pack('>I4I4', by_jobs, by_bytes)) end
end

-- Adds the figures to the words of the command that ends the call.
function keeping.write(words)
    local changed = keeping.changed
    keeping.changed = nil
    for _, t in ipairs(changed) do
        local k = t.figures
        k.is_changed = false
        if not t.is_deleted then
            words[#words + 1] = t.kept
            words[#words + 1] = kept.packed(k)
        end
    end
end

-- Returns when the first job's time ends, or an earlier time; or now if some must be dropped. Lowers the flag if the topic keeps nothing.
function keeping.first_event(t)
    local k, f = kept.open(t), t.f
    if k.jobs <= 0 and #k.ids == 0 then
        local jobs = f[AT.delayed] + f[AT.retrying] + f[AT.ready] + f[AT.leased] + f[AT.dead]
        if jobs == 0 and settings_of(t).keep == 0 and has(t, keeping.FLAG) then f[1], t.is_changed = f[1] - keeping.FLAG, true end
        return NONE
    end
    local jobs_most, bytes_most = limits_of(t)
    if k.jobs > jobs_most or k.bytes > bytes_most then return now end
    local first = kept.first_end(t, k)
    return first < NONE and first + SLACK_MS or NONE
end

-- Removes up to `most` jobs whose time has ended or that exceed the limits. Returns how many, or `most` if they were long and the call has to end.
function keeping.expire_some(t, most)
    local k = kept.open(t)
    if k.jobs <= 0 then return 0 end
    local done, are_long = kept.drop(t, k, most, is_over)
    local others = 0
    if not are_long then others, are_long = drop_excess(t, k, most - done) end
    return are_long and most or done + others
end

-- Removes up to `most` jobs. Returns the same as `kept.drop`.
function keeping.purge(t, most)
    return kept.drop(t, kept.open(t), most, any)
end

-- ---- for a check ----

-- Returns whether the value has all that its flags promise.
function keeping.is_readable(value)
    if #value < HEAD_BYTES then return false end
    local flags, outcome = byte(value, 1, 2)
    local at = HEAD_BYTES + 1
    for _, text in ipairs({{META, 2}, {CONSUMER, 1}, {HISTORY, 2}, {PROGRESS, 2}, {RESULT, 4}, {BATCH, 2}}) do
        if flags % (2 * text[1]) >= text[1] then
            if #value < at + text[2] - 1 then return false end
            at = at + text[2] + unpack_from('>I' .. text[2], value, at)
        end
    end
    if flags % (2 * TYPE) >= TYPE then
        if #value < at then return false end
        local length = byte(value, at)
        at = at + 1 + (length <= 128 and length or 0)
    end
    return outcome >= keeping.acked and outcome <= keeping.expired and (at == #value + 1 or at <= #value and flags % BATCH >= BODY)
end

-- Returns the number of jobs whose time has not ended, packed.
function keeping.count_of(t)
    local k = kept.open(t)
    return pack('>I6', k.jobs > 0 and max(0, k.jobs - kept.over(t)) or 0)
end

-- ---- a kept job ----

-- Packs a job that has ended (README.md, "Kept jobs"). `number`, `ends`: its place.
local function value_of(t, j, outcome, number, ends, result)
    local keeps_body, flags, texts, type, body = settings_of(t).keep_body, 0, '', '', ''
    if keeps_body or j.flags % 8 >= 4 then
        local _
        _, type, texts, body = keeping.parts(j.flags, j.record)
        if texts ~= '' then flags = META end
    end
    local started, history = keeping.history_of(t, j)
    local duration = outcome == keeping.acked and max(0, now - started) or 0
    local batch = j.flags % 32 >= batches.RECORD and batches.encoded(j.flags, j.record) or ''
    if j.consumer ~= '' then flags, texts = flags + CONSUMER, texts .. char(#j.consumer) .. j.consumer end
    if history ~= '' then flags, texts = flags + HISTORY, texts .. pack('>I2', #history) .. history end
    if j.progress ~= '' then flags, texts = flags + PROGRESS, texts .. pack('>I2', #j.progress) .. j.progress end
    if result then flags, texts = flags + RESULT, texts .. pack('>I4', #result) .. result end
    if batch ~= '' then flags, texts = flags + BATCH, texts .. pack('>I2', #batch) .. batch end
    if keeps_body then flags, texts = flags + (type ~= '' and TYPE or 0) + BODY, texts .. type .. body end
    return pack(HEAD, flags, outcome, number, ends, now, j.attempt, min(duration, 2 ^ 32 - 1)) .. texts
end

-- Keeps a job, removed from everywhere, whose value is known.
local function keep(t, id, ends, value)
    kept.add(t, id, ends, value)
    event_at(t, ends + SLACK_MS)
end

-- Returns whether the value is a kept job whose time has not ended.
function keeping.is_shown(value)
    if not value or #value < HEAD_BYTES then return false end
    local _, _, _, ends = unpack_from(HEAD, value)
    return ends > now
end

-- Returns the kept job of this id; nil: it does not exist, or its time has ended.
function keeping.find(t, id)
    if not has(t, keeping.FLAG) then return nil end
    local value = kept.find(t, id)
    return keeping.is_shown(value) and value or nil
end

-- Returns a kept job without its body and the body's type.
function keeping.without_body(value)
    local flags = byte(value)
    if flags % BATCH < TYPE then return value end
    local at = HEAD_BYTES + 1
    local function skip(flag, form)
        if flags % (2 * flag) < flag then return end
        local length, following = unpack_from(form, value, at)
        at = following + length
    end
    skip(META, '>I2')
    skip(CONSUMER, '>B')
    skip(HISTORY, '>I2')
    skip(PROGRESS, '>I2')
    skip(RESULT, '>I4')
    skip(BATCH, '>I2')
    return char(flags % TYPE + (flags >= BATCH and BATCH or 0)) .. sub(value, 2, at - 1)
end

-- ---- a job's end ----

-- Notes that calls wait for the end of a job. `ids` of the topic.
function keeping.await(name, ids)
    local key, words = T .. ':awaited', {}
    for i = 1, #ids do words[2 * i - 1], words[2 * i] = text_of(now + AWAITED_MS), name .. '\0' .. ids[i] end
    call_many('ZADD', key, words)
    keeping.waiting = keeping.waiting or text_of(clock) -- a number that no server has seen
    call('SET', keeping.waiting_key, keeping.waiting, 'PX', text_of(2 * AWAITED_MS))
end

-- Removes notes that no server renewed.
function keeping.await_trim()
    call('ZREMRANGEBYSCORE', T .. ':awaited', '-inf', now)
end

-- Returns the number of the last message about an end; 0: nothing waits.
function keeping.await_number()
    return tonumber(keeping.waiting) or 0
end

-- Informs the servers whose calls wait for this job, if there are any: `>BI6BBc0Bc0` outcome, number of the message, whether the job follows, topic and
-- id; then the job, as if it were kept. `is_kept`: it need not follow if it is long.
local function send_end(t, id, outcome, value, is_kept)
    keeping.waiting = text_of(keeping.await_number() + 1)
    call('SET', keeping.waiting_key, keeping.waiting, 'KEEPTTL')
    local follows = value and not (is_kept and #value > SENT_BYTES_MAX)
    notify('w' .. pack('>BI6BBc0Bc0', outcome, tonumber(keeping.waiting), follows and 1 or 0, #t.name, t.name, #id, id) .. (follows and value or ''))
end

-- Returns true if a call waits for the job. The note is removed.
local function was_awaited(t, id)
    return keeping.waiting and call('ZREM', T .. ':awaited', t.name .. '\0' .. id) == 1
end

-- Keeps a job that has ended, as its topic is set, and informs those who wait. `total`: acked, cancelled, expired, died, purged. `stays`: it is not kept,
-- since a job of its id continues. Call it if keeping.waiting, or if the topic has keeping.FLAG.
function keeping.note_end(t, j, total, result, stays)
    local outcome, ms = keeping[total], 0
    if j.flags % 32 >= batches.RECORD and not stays then batches.ended(t, j, total) end
    local is_awaited = was_awaited(t, j.id)
    if not stays and has(t, keeping.FLAG) and outcome <= keeping.expired then ms = time_of(t, j) end
    local number, ends, value = 0, now, nil
    if ms > 0 then
        sequence, core_is_changed = sequence + 1, true
        number, ends = sequence, now + 1 + ms
    end
    if ms > 0 or is_awaited and (outcome <= keeping.expired or result) then value = value_of(t, j, outcome, number, ends, result) end
    if ms > 0 then keep(t, j.id, ends, value) end
    if is_awaited then send_end(t, j.id, outcome, value, ms > 0) end
end

-- Informs those who wait for these jobs, which are gone without an end of their own. Call it if keeping.waiting.
function keeping.note_gone(t, ids, outcome)
    for i = 1, #ids do
        if was_awaited(t, ids[i]) then send_end(t, ids[i], outcome) end
    end
end

-- A kept job arrives from another shard.
function keeping.arrive(t, id, value, shift)
    if #value < HEAD_BYTES or call('HEXISTS', t.jobs, id) == 1 or kept.find(t, id) then return end
    local flags, outcome, _, ends, finished, attempt, duration, at = unpack_from(HEAD, value)
    sequence, core_is_changed = sequence + 1, true
    raise(t, keeping.FLAG)
    ends = max(0, ends + shift)
    keep(t, id, ends, pack(HEAD, flags, outcome, sequence, ends, max(0, finished + shift), attempt, duration) .. sub(value, at))
end

end
