-- The end of a call: writes its changes, notifies other servers, builds the answer; and tickets.
local settle, head, shown, answered_before, words_kept, words_read, changed, repeated, write, carry_out = (function()

-- Announces the topics that had no ready job before and have one now, and returns them; else nil. `server`: the server that already
-- knows.
local function wake(server)
    local woken
    for i = 1, #met_topics do
        local t = met_topics[i]
        local ready = t.flow and flow.open_of(t) or t.f[AT.ready]
        if t.ready_before <= 0 and ready > 0 and not has(t, PAUSED) then
            woken = woken or {}
            woken[#woken + 1] = t.name
            notify('r' .. server .. t.name)
        end
        t.ready_before = ready
        if t.has_dead then
            deaths_notify(t)
            t.has_dead = false
        end
    end
    return woken
end

-- Core, topics and ticket, as far as they were changed, in one command.
local function write(ticket, answer)
    local words, at, core = {}, 0, core_kept
    for i = 1, #met_topics do
        local t = met_topics[i]
        if not t.is_deleted then
            local cache = t.cache
            if t.is_changed then
                t.text, t.is_changed = topic_text(t), false
                words[at + 1], words[at + 2], at = t.key, t.text, at + 2
            end
            cache.text, cache.figures = t.text, t.f
        end
    end
    if keeping.changed then
        keeping.write(words)
        at = #words
    end
    if core_is_changed then
        core = core_text()
        words[at + 1], words[at + 2], at = CORE, core, at + 2
        core_is_changed, core_kept = false, nil
    end
    if answer and ticket_key then
        words[at + 1], words[at + 2], at = ticket_key, sub(ticket, 10, 21) .. pack('>I6', now) .. answer, at + 2
        if not found_ticket then call('ZADD', SERVERS, text_of(now), sub(ticket, 1, 9)) end -- so that it is found once the server is gone
    end
    if at > 0 then call('MSET', unpack(words)) end
    if core_flags < LAYOUT.HELD then core_kept = core end
end

-- Notes the next event, notifies the other servers, and writes. `answer`: the part of the answer that the ticket keeps; nil: nothing. Returns the
-- topics that had no ready job before and have one now; else nil.
local function settle(server, ticket, answer)
    if batches.changed then batches.settle() end
    if keeping.changed then keeping.settle(server) end
    flow.settle_all()
    events_settle()
    local woken = wake(server)
    if next_ms < next_before then
        notify('d' .. text_of(next_ms) .. ' ' .. next_topic)
        next_before = next_ms
    end
    if feed.listened and #feed.words + feed.lost > 0 then
        notify('e' .. server .. pack('>I6I4', now - adjust, feed.lost) .. table.concat(feed.words))
        feed.words, feed.lost = {}, 0
    end
    write(ticket, answer)
    return woken
end

-- Returns the beginning of every answer.
local function head(rest)
    local first = pack('>I6I6i6Bc0', clock + (parts.has_mail and parts.MAIL or 0), next_ms, core_flags >= LAYOUT.HELD and -2 ^ 47 or adjust, #next_topic, next_topic)
    return rest and first .. rest or first
end

-- The answer of a call that only looked.
local function shown(rest, more)
    local answer = more or {}
    table.insert(answer, 1, head(rest))
    return answer
end

-- ---- tickets: no call is carried out twice ----

-- Returns the kept answer of this very call if it was carried out before; else nil.
local function answered_before(ticket)
    if not found_ticket then return nil end
    local last, number = sub(found_ticket, 1, 12), sub(ticket, 10, 21)
    if last > number then error({err = 'STALE a later call of this slot was carried out'}) end
    if last < number then return nil end
    return sub(found_ticket, 19)
end

-- Returns words of an answer as a ticket keeps them: zero, one, or (2) more.
local function words_kept(words)
    local count = words and #words or 0
    if count == 0 then return '\0\0' end
    if count == 1 then return pack('>I2I2c0', 1, #words[1], words[1]) end
    local packed = cmsgpack.pack(words)
    return pack('>I2I4c0', 2, #packed, packed)
end

-- The words, and where they end.
local function words_read(text)
    local kind, at = unpack_from('>I2', text)
    local word
    if kind == 0 then return {}, at end
    if kind == 1 then
        word, at = unpack_from('>I2c0', text, at)
        return {word}, at
    end
    word, at = unpack_from('>I4c0', text, at)
    return cmsgpack.unpack(word), at
end

-- The answer of a call that changed something. `server`: who knows already what became ready, where it is not the caller.
local function changed(ticket, rest, more, server)
    settle(server or server_of(ticket), ticket, words_kept(more) .. (rest or ''))
    if not more then return {head(rest)} end
    table.insert(more, 1, head(rest))
    return more
end

local function repeated(text)
    local more, at = words_read(text)
    return shown(sub(text, at), more)
end

-- A call that fails (at an unreadable record) has done a part: that part is still written, so that no number is given out twice and
-- counts are right.
local function carry_out(body, keys, arguments)
    local done, answer = pcall(body, keys, arguments)
    if done then return answer end
    if batches.changed then pcall(batches.settle) end
    if keeping.changed then pcall(keeping.settle, '--------') end
    pcall(flow.settle_all)
    pcall(events_settle)
    pcall(write, '')
    core_kept = nil
    for i = 1, #met_topics do met_topics[i].cache.text = nil end
    -- Redis' pcall returns only the text of an error; an error word in front makes it one that callers recognize.
    error(type(answer) == 'string' and string.find(answer, '^%u+ ') and {err = answer} or answer, 0)
end

return settle, head, shown, answered_before, words_kept, words_read, changed, repeated, write, carry_out

end)()
