# frozen_string_literal: true

require "logger"
require "socket"

module Tarry
  # A job under its lease, for handlers.
  class Taken < Job
    # Reads a job of the answer to a take.
    def self.of(data, client, lease)
      super(data).tap { |taken| taken.send(:hold, client, lease) }
    end

    # Whether the lease is lost. Another worker may process the job from then on, and the result of the handler is discarded.
    def lost?
      @lost
    end

    # Sleeps until the lease is lost or a cancel is requested, for `seconds` at most. Returns whether that happened.
    def sleep(seconds)
      limit = now + seconds
      @lock.synchronize do
        while !@noticed && (left = limit - now).positive?
          @noticed_now.wait(@lock, left)
        end
        @noticed
      end
    end

    # Stores the progress of the job, which is shown with it: up to 256 bytes of text. False: the lease is lost.
    def report_progress(text)
      @client.extend_lease(self, lease: @lease_for, progress: text) == [nil]
    end

    # For the worker: notifies the handler.
    def lose(because_unwanted: false)
      @lock.synchronize do
        because_unwanted ? @cancel_requested = true : @lost = true
        @noticed = true
        @noticed_now.broadcast
      end
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def hold(client, lease)
      @client, @lease_for, @lock, @noticed_now, @noticed, @lost = client, lease, Mutex.new, ConditionVariable.new, false, false
    end
  end

  # Takes jobs, runs a handler for each, extends their leases, and reports the results. docs/clients.md has the rules by number.
  #
  #   Tarry::Worker.new(client, "orders", concurrency: 10) { |job| close(job.json["order"]) }.run
  #   Tarry::Worker.new(client, { "orders" => close_order, "mails" => send_mail }).run
  #
  # In addition to the threads of the handlers there are three: the one that called run takes, the heartbeat extends, the answerer acks and nacks.
  # Their shared state is under one lock. Hooks and handlers are called without it.
  class Worker
    WAIT = 30.0 # of a take
    MOMENT = 0.5 # that a take has when the worker stops: jobs that a proxy holds would wait for the end of their lease
    LINGER = 0.005 # for answers that come together
    SLOTS_LINGER = 0.001 # for slots that become free together, if a take has filled all
    AHEAD_S = 0.05 # of work that is taken beyond the free slots
    AHEAD_MAX_S = 0.25 # the same while jobs are left for other workers and a take takes long
    BEATS = 10 # in the time of a lease: nine tenths are left whenever the server goes
    GRACE = 2.0 # that leases have once a server is back
    PAUSE = 0.25 # at most, before an extend or an answer that failed is repeated: soon enough for that grace
    LOG_PAUSE = 10.0 # between lines about the same kind of call that fails
    VERBS = { "ack" => :ack, "nack" => :nack, "return" => :given_back }.freeze

    # A job from take to answer.
    Held = Struct.new(:job, :taken_at, :lives_until, :next_beat, :begun, :ended, :answered, :verb, :answer)
    private_constant :WAIT, :MOMENT, :LINGER, :SLOTS_LINGER, :AHEAD_S, :AHEAD_MAX_S, :BEATS, :GRACE, :PAUSE, :LOG_PAUSE, :VERBS, :Held

    # Returns HOST:PID, in 64 printable ASCII characters at most.
    def self.consumer_name(host, pid)
      ending = ":#{pid}"
      host.b.gsub(/[^!-~]/n, "")[0, 64 - ending.size].force_encoding(Encoding::UTF_8) + ending
    end

    # `topics`: a topic or several for the block, or a hash of handlers. A handler gets the job; what it returns is the result of the job, unless
    # that is nil. `lease` in seconds. `consumer`: HOST:PID. `grace`: seconds for running handlers after a signal. `logger`: where failures are
    # logged; nil switches that off. Hooks: on_taken(job), on_done(job, outcome, seconds), on_error(error, what).
    def initialize(client, topics, concurrency: 10, lease: 60, consumer: nil, grace: 30, logger: Logger.new($stderr, progname: "tarry"),
                   on_taken: nil, on_done: nil, on_error: nil, &handler)
      raise ArgumentError, "concurrency must be at least 1" if concurrency < 1
      raise ArgumentError, "give topics and a block, or a hash of handlers as in { 'orders' => close_order }" if topics.is_a?(Hash) == !handler.nil?

      @handlers = topics.is_a?(Hash) ? topics.transform_keys(&:to_s) : Array(topics).to_h { |topic| [topic.to_s, handler] }
      raise ArgumentError, "the worker has no topic" if @handlers.empty?

      @client, @topics, @concurrency, @lease, @grace, @logger = client, @handlers.keys, concurrency, lease.to_f, grace, logger
      @consumer = consumer || Worker.consumer_name(Socket.gethostname, Process.pid)
      @on_taken, @on_done, @on_error, @logged_at = on_taken, on_done, on_error, {}
      @lock, @changed, @freed, @begins, @answerable, @beating = Mutex.new, *Array.new(5) { ConditionVariable.new }
      @held, @waiting, @answers, @running, @idle, @begun, @ahead, @planned_at = {}.compare_by_identity, [], [], 0, 0, 0, 0, 0
      @started = @stopping = @over = @taking = @waking = false
      @cut = Cut.new
    end

    # Works until stop from another thread, or SIGTERM or SIGINT if `signals`; raises the error of a take that is rejected for good.
    def run(signals: true)
      @lock.synchronize { @started = true }
      with_signals(signals) do
        @concurrency.times { |number| thread("tarry-handler-#{number}") { work } }
        helpers = [thread("tarry-heartbeat") { beat }, thread("tarry-answers") { send_answers }]
        begin
          take_until_stopped
        ensure
          wind_up
          helpers.each(&:join)
        end
      end
      nil
    end

    # Takes no further job, gives back those that were not begun, and waits for running handlers, `grace` seconds at most. Returns once the worker
    # has ended. Not for handlers and hooks: see quit.
    def stop(grace = @grace)
      begin_to_stop(grace)
      @lock.synchronize { wait_until(@changed) { @over || !@started } }
      nil
    end

    # Stops without waiting; for handlers and hooks.
    def quit
      thread("tarry-stop") { begin_to_stop(@grace) }
      nil
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def thread(name, &work)
      Thread.new(&work).tap do |made|
        made.name = name
        made.report_on_exception = true
      end
    end

    # Waits, under the lock, until the block is true, for `seconds` at most.
    def wait_until(condition, seconds = nil)
      limit = seconds && now + seconds
      until yield
        left = limit && limit - now
        return if left && left <= 0

        condition.wait(@lock, left)
      end
    end

    def begin_to_stop(grace)
      @lock.synchronize do
        @stopping, @grace = true, grace unless @stopping
        [@changed, @freed].each(&:broadcast)
        wait_until(@changed, MOMENT) { !@taking }
      end
      @cut.cut
    end

    # A handler of signals may not lock, so it writes to a pipe.
    def with_signals(wanted)
      return yield unless wanted

      reader, writer = IO.pipe
      before = %w[TERM INT].to_h { |name| [name, trap(name) { writer.write_nonblock(".", exception: false) }] }
      listener = thread("tarry-signals") { begin_to_stop(@grace) if reader.read(1) }
      begin
        yield
      ensure
        before.each { |name, action| trap(name, action || "DEFAULT") }
        writer.close
        listener.join
        reader.close
      end
    end

    # ---- taking ----

    def take_until_stopped
      pause = Transport::FIRST_PAUSE
      while (free = free_slots)
        begin
          max = [free, Client::LEASES_MAX].min
          jobs = @client.take_encoded(*@topics, max: max, wait: WAIT, lease: @lease, consumer: @consumer, cut: @cut) do |data|
            Taken.of(data, @client, @lease)
          end
          pause = Transport::FIRST_PAUSE
          plan_ahead(are_left: jobs.size == max)
          begin_jobs(jobs)
        rescue Error, *Transport::BROKEN => e
          return if @lock.synchronize { @stopping }
          raise if [Denied, NotFound, Refused].include?(e.class)

          report(e, "take")
          wait = e.is_a?(Error) && e.retry_after || pause * rand(0.5..1.0)
          @lock.synchronize { wait_until(@changed, wait) { @stopping } }
          pause = [2 * pause, Transport::LONGEST_PAUSE].min
        ensure
          @lock.synchronize do
            @taking = false
            @changed.broadcast
          end
        end
      end
    end

    # Waits for free slots, and begins to take; nil once the worker stops.
    def free_slots
      @lock.synchronize do
        if free <= 0
          wait_until(@freed) { @stopping || free.positive? }
          wait_until(@freed, SLOTS_LINGER) { @stopping || 2 * free >= @concurrency } # otherwise a take would be sent for the first one only
        end
        @taking = !@stopping
        @taking ? free : nil
      end
    end

    def free
      @concurrency + @ahead - @running - @waiting.size
    end

    # Sets how many jobs are taken beyond the free slots, by how many were begun since the last take. Quick handlers would otherwise wait for each take.
    # `are_left`: more jobs are probably ready. Then it is the work of two takes, so that a slow answer does not stop the handlers.
    def plan_ahead(are_left:)
      @lock.synchronize do
        at = now
        elapsed = at - @planned_at
        ahead_s = are_left ? (2 * elapsed).clamp(AHEAD_S, AHEAD_MAX_S) : AHEAD_S
        @ahead = (@begun * ahead_s / [elapsed, AHEAD_S].max).to_i
        @begun, @planned_at = 0, at
      end
    end

    def begin_jobs(jobs)
      at = now
      held = jobs.map { |job| Held.new(job, at, at + @lease, at + @lease / BEATS) }
      held.each { |one| @on_taken&.call(one.job) }
      @lock.synchronize do
        held.each do |one|
          @held[one] = true
          @waiting << one
        end
        wake_one
      end
    end

    # Gives back what was not begun, and waits for handlers and for answers.
    def wind_up
      @lock.synchronize do
        @stopping = true
        @waiting.each { |one| settle(one, "return") }.clear
        wait_until(@changed, @grace) { @running.zero? }
        @held.each_key.select { |one| one.begun && !one.ended }.each do |one|
          one.job.lose
          settle(one, "return")
        end
        wait_until(@changed) { @held.empty? }
        @over = true
        [@changed, @begins, @answerable, @beating].each(&:broadcast)
      end
    end

    # ---- handling ----

    def next_job
      @lock.synchronize do
        until job_to_begin? || @over
          @idle += 1
          @begins.wait(@lock)
          @idle -= 1
          @waking = false
        end
        one = @waiting.shift or return
        one.begun = true
        @begun += 1
        @running += 1
        wake_one
        one
      end
    end

    def job_to_begin?
      while @waiting.first&.answered # its lease is lost
        @waiting.shift
        @freed.signal
      end
      !@waiting.empty? && !@stopping
    end

    # Wakes an idle thread if a job waits. One at a time, which wakes the next if there is still a job: quick threads take the jobs of several, and each thread
    # that woke for nothing would take its turn at the lock. With a hundred of them on a busy machine that took seconds for each take.
    def wake_one
      return if @waking || @idle.zero? || @waiting.empty?

      @waking = true
      @begins.signal
    end

    def work
      while (one = next_job)
        begin
          one.job.decode(@client.codec)
          raise one.job.codec_error if one.job.codec_error

          result, fault = @handlers.fetch(one.job.topic).call(one.job), nil
        rescue Exception => e # a handler may raise anything; it fails its job only
          result, fault = nil, e
        end
        ended(one, result, fault)
      end
    end

    def ended(one, result, fault)
      verb, answer = fault ? ["nack", failure(fault)] : ["ack", result_members(result)]
      if fault && !one.job.lost? && !one.job.cancel_requested?
        @logger&.warn("job #{one.job.topic}/#{one.job.id} failed in attempt #{one.job.attempt}: #{text_of(fault)}#{place_of(fault)}")
      end
      @lock.synchronize do
        one.ended = true
        @running -= 1
        settle(one, verb, **answer)
        @freed.signal if free == 1 || 2 * free >= @concurrency
        next unless @running.zero?

        @changed.broadcast
        @answerable.signal
      end
    end

    def failure(fault)
      answer = { "error" => Format.cut(text_of(fault), Client::ERROR_BYTES) }
      answer["delay"] = Format.milliseconds(fault.after) if fault.is_a?(Retry) && fault.after
      answer.update("final" => true, **result_members(fault.result)) if fault.is_a?(Reject)
      answer.delete("error") if answer["error"].empty?
      answer
    end

    def text_of(fault)
      fault.message.to_s.empty? ? fault.class.name : fault.message.to_s
    end

    def place_of(fault)
      fault.is_a?(Retry) || fault.is_a?(Reject) || fault.backtrace.nil? ? "" : " (#{fault.class}, #{fault.backtrace.first})"
    end

    # A result that is not JSON or cannot be stored is left out, because the work is done.
    def result_members(result)
      @client.result_members(result)
    rescue JSON::GeneratorError, EncodingError, SystemStackError => e
      report(e, "result")
      {}
    end

    # Marks the answer to be sent, once. The caller holds the lock.
    def settle(one, verb, **options)
      return if one.verb || one.answered

      one.verb, one.answer = verb, { "lease" => one.job.lease, **options }
      @answers << one
      @answerable.signal if @answers.size == 1 || @answers.size >= Client::LEASES_MAX
    end

    # ---- heartbeat ----

    def beat
      loop do
        due = @lock.synchronize do
          return if @over

          at = now
          beats = @held.each_key.reject { |one| one.answered || one.next_beat.nil? }
          due = give_back_late(beats.select { |one| one.next_beat <= at })
          if due.empty?
            soonest = (beats.map(&:next_beat).min || Float::INFINITY) - at
            @beating.wait(@lock, [[soonest, @lease / BEATS].min, 0.001].max)
          end
          due
        end
        due.each_slice(Client::LEASES_MAX) { |part| extend_part(part) }
      end
    end

    # Gives back jobs that no thread has begun within a third of the lease. Returns the others.
    def give_back_late(due)
      late, others = due.partition { |one| !one.begun && !one.verb && now - one.taken_at > @lease / 3 }
      late.each { |one| settle(one, "return") }
      unless late.empty?
        @waiting.reject!(&:verb)
        @freed.signal
      end
      others
    end

    def extend_part(due)
      sent, unwanted = now, []
      items = due.map { |one| { "lease" => one.job.lease, "lease_for" => Format.milliseconds(@lease) } }
      begin
        results = @client.answer_items("extend", items, once: true, timeout: (@lease / 4).clamp(0.5, 1.5)) do |at, result|
          unwanted << due[at] if result["cancel_requested"]
        end
      rescue Error => e
        report(e, "extend")
      end
      dropped = @lock.synchronize do
        unwanted.each { |one| one.job.lose(because_unwanted: true) unless one.verb || one.job.cancel_requested? } # the result of the handler counts
        due.each_with_index.select { |one, at| !one.answered && lost?(one, sent, results && results[at], !results.nil?) }.map(&:first)
      end
      drop(dropped)
    end

    # Notes the answer to an extend; true if the lease is lost.
    def lost?(one, sent, fault, is_answered)
      if is_answered && fault.nil?
        one.lives_until, one.next_beat = sent + @lease, sent + @lease / BEATS
        return false
      end
      if fault.is_a?(LeaseEnded)
        one.next_beat = nil
        return one.verb.nil?
      end
      one.next_beat = now + [@lease / 20, PAUSE].min
      now > one.lives_until + GRACE && one.verb.nil?
    end

    def drop(dropped)
      dropped.each do |one|
        @logger&.warn("the lease of job #{one.job.topic}/#{one.job.id} is lost; another worker may process it")
        one.job.lose
      end
      finish(dropped.map { |one| [one, :lost] })
    end

    # ---- answers ----

    # Calls the hook for jobs that have ended, and forgets them.
    def finish(outcomes)
      ended = @lock.synchronize { outcomes.reject { |one, _| one.answered }.each { |one, _| one.answered = true } }
      ended.each do |one, outcome|
        @on_done&.call(one.job, outcome, now - one.taken_at)
      rescue StandardError => e
        @logger&.warn("the hook on_done failed: #{e.message}")
      end
      @lock.synchronize do
        ended.each { |one, _| @held.delete(one) }
        @changed.broadcast
      end
    end

    def send_answers
      loop do
        batch = @lock.synchronize do
          wait_until(@answerable) { !@answers.empty? || @over }
          return if @answers.empty?

          wait_until(@answerable, LINGER) { @running.zero? || @answers.size >= Client::LEASES_MAX } if @running.positive?
          @answers.shift(Client::LEASES_MAX).reject(&:answered)
        end
        VERBS.each_key { |verb| send_parts(verb, batch.select { |one| one.verb == verb }) }
      end
    end

    # Sends each part of the size of a request by itself: if one is rejected, the others count.
    def send_parts(verb, those)
      start = 0
      Client.parts(those.map(&:answer)).each do |part|
        send_part(verb, those[start, part.size])
        start += part.size
      end
    end

    def send_part(verb, those)
      goes_on = -> { those.any? { |one| now < one.lives_until + GRACE } }
      timeout = [[@lease / 3, 0.5].max, @client.transport.timeout].min
      acked = []
      results = @client.answer_items(verb, those.map(&:answer), retry_for: Float::INFINITY, timeout: timeout, pause_max: PAUSE, goes_on: goes_on) do |at, result|
        acked << those[at].job if verb == "ack" && result["result"] == "ok" && those[at].job.stored_as
      end
      Thread.new { delete_stored(acked) } unless acked.empty?
    rescue Error => e
      return send_apart(verb, those, e) if %w[result_too_big body_too_big].include?(e.code)

      report(e, verb)
      finish(those.map { |one| [one, :lost] })
    else
      finish(those.zip(results).map { |one, fault| [one, fault ? :lost : one.answer["final"] ? :reject : VERBS.fetch(verb)] })
    end

    def delete_stored(jobs)
      jobs.each do |job|
        @client.codec.delete_stored(job)
      rescue StandardError => e
        report(e, "delete")
      end
    end

    # One result is too big, so the server has rejected the request. Its job is done, so it is answered without the result.
    def send_apart(verb, those, error)
      return those.each_slice((those.size + 1) / 2) { |half| send_parts(verb, half) } if those.size > 1

      report(error, "result")
      those.first.answer.delete_if { |name, _| name.start_with?("result") }
      send_parts(verb, those)
    end

    def report(error, what)
      is_due = @lock.synchronize do
        last = @logged_at[what]
        @logged_at[what] = now if last.nil? || now - last >= LOG_PAUSE
      end
      @logger&.warn("#{what} failed: #{error.message}") if is_due
      @on_error&.call(error, what)
    end
  end
end
