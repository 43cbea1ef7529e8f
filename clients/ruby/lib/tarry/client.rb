# frozen_string_literal: true

module Tarry
  # A server, or several that share a store. Threads may use one client together.
  #
  #   client = Tarry::Client.new
  #   client.push("orders", { order: 1001 }, id: "1001", delay: 1800)
  class Client
    PUSHES_MAX = 1000 # in a request
    LEASES_MAX = 1000
    RESULTS_BYTES_MAX = 1 << 19 # of results in base64, in a request; the server takes 1 MiB
    ERROR_BYTES = 200
    PROGRESS_BYTES = 256
    ARGUMENTS = %i[topic body id delay at priority ttl lease max_attempts backoff on_conflict once once_for keep_finished group batch parent waits members
                   wait_at_most close_within on_dead callback meta content_type traceparent tracestate].freeze
    TIMES = { delay: "delay", ttl: "ttl", lease: "lease_for", once_for: "once_for", keep_finished: "keep_finished", wait_at_most: "wait_at_most",
              close_within: "close_within" }.freeze # as the API has them
    AS_THEY_ARE = %i[priority max_attempts backoff on_conflict once group waits on_dead callback].freeze
    private_constant :ARGUMENTS, :TIMES, :AS_THEY_ARE

    attr_reader :transport, :codec

    # `url`: TARRY_URL, else http://127.0.0.1:8279; several, separated by commas, are tried in turn; unix:PATH for a unix socket. `token`: the
    # text of the file TARRY_TOKEN_FILE, else TARRY_TOKEN. `ca_file`: PEM file of the CAs that sign the certificate of the server, in place of
    # those of the system. `certificate` and `key`: PEM files of the client. `codec`: a Codec for bodies and results.
    def initialize(url = nil, token: nil, timeout: 10, retry_for: 30, ca_file: nil, certificate: nil, key: nil, codec: nil)
      @codec = codec
      url ||= [ENV["TARRY_URL"], "http://127.0.0.1:8279"].find { |one| one && !one.empty? }
      token ||= ENV["TARRY_TOKEN_FILE"].to_s.empty? ? ENV["TARRY_TOKEN"] : File.read(ENV["TARRY_TOKEN_FILE"]).strip
      @transport = Transport.new(url, token: token, timeout: timeout, retry_for: retry_for, ca_file: ca_file, certificate: certificate, key: key)
    end

    # Closes idle connections.
    def close
      transport.close
    end

    # ---- push ----

    # Pushes a job. Options: id, delay or at, priority, ttl, lease, max_attempts, backoff, on_conflict, once, once_for, keep_finished, group,
    # callback, meta, content_type, traceparent, tracestate. Of batches: `batch`, topic and id of the waiting job of which this job is a member; `parent`,
    # a member that runs, or its lease, which may add members after the close; `waits`, `members`, `wait_at_most`, `close_within`, `on_dead`. Without an id the client makes one, so that a repeated try does not create a second job.
    def push(topic, body = "".b, **options)
      result = push_items([item_of(topic: topic, body: body, **options)]).first
      result.is_a?(Error) ? raise(result) : result
    end

    # Pushes many jobs; each item is a hash with the arguments of push. A rejected job has an error in its place and does not affect the others.
    def push_many(items)
      items.map { |item| item_of(**item) }.each_slice(PUSHES_MAX).flat_map { |part| push_items(part) }
    end

    # Pushes a waiting job and up to 999 members in one call and closes the batch; each is a hash with the arguments of push. `members` of a member are its
    # own members, so a chain is one call. If a job is rejected, its result is an error, and its batch stays open.
    def push_batch(job, members)
      answer = transport.call("POST", "/v1/batches", **json({ job: item_of(**job), members: members.map { |item| item_of(**item) } }))
      BatchPushed.new(results: (answer["results"] || []).map { |result| pushed_of(result) }, closed: answer["closed"] == true)
    end

    # Closes the batch of a waiting job: it gets no more members.
    def close_batch(topic, id)
      call = Transport::Call.new(method: "POST", path: job_path(topic, id, "close"))
      transport.perform(call)
      nil
    rescue NotFound
      raise unless call.repeated # an earlier try may have closed it, and the job has ended since
    end

    # Cancels a waiting job and its members. Consumers that hold members are notified, as by request_cancel. False: the job does not exist.
    def cancel_batch(topic, id)
      delete(job_path(topic, id), [%w[members true]])
    end

    # Yields the members of a batch, or returns an enumerator. Pages are requested while you iterate. Finished members are found if they are kept.
    # `outcome`: only unfinished, acked, dead, cancelled or expired ones. `results`: with the results of finished members.
    def members(topic, id, outcome: nil, results: false, page: 100, &block)
      return enum_for(:members, topic, id, outcome: outcome, results: results, page: page) unless block

      query = { "limit" => page, "outcome" => outcome, "results" => results || nil }.compact
      each_page(job_path(topic, id, "members"), query, "members", &block)
    end

    # Pushes a job and waits for its end, up to 4 minutes. Returns the job with its outcome and result, or as it is after `wait`. If the answer is
    # lost, the call is repeated, and the wait begins again; a job that was acked in between runs twice, unless its topic has a dedup_window.
    def push_and_wait(topic, body = "".b, wait: 30, **options)
      item = item_of(topic: topic, body: body, **options)
      id = item.delete("id") or raise ArgumentError, "a push that waits needs an id if it has a once"
      headers = { "Content-Type" => item.delete("content_type"), **headers_of(item.delete("meta") || {}) }
      data = Format.bytes_of(item.delete("body_base64"))
      query = item.reject { |name, _| name == "topic" }.merge("wait" => Format.milliseconds(wait)).to_a
      call = long(wait, method: "PUT", path: job_path(topic, id), query: query, body: data, headers: headers)
      began = now
      answer = answer_of_push(call)
      return wait([topic, id], timeout: wait).first unless answer["attempt"]

      job, left = Job.of(answer).decode(codec), wait - (now - began)
      job.ended? || left <= 0 ? job : self.wait([topic, id], timeout: left).first # a push that is not the first with its once does not wait
    end

    # ---- one job ----

    # Cancels a job. False: it does not exist. A job that a consumer holds cannot be cancelled (Conflict): see request_cancel.
    def cancel(topic, id)
      delete(job_path(topic, id))
    end

    # Returns "cancelled", or "requested" if a consumer holds the job: it is notified, and the job is cancelled unless it is acked. nil: the job
    # does not exist or has finished.
    def request_cancel(topic, id)
      transport.call("DELETE", job_path(topic, id), query: [%w[request true]])["result"]
    rescue NotFound
      nil
    end

    # Returns the new due time.
    def reschedule(topic, id, delay: nil, at: nil, priority: nil)
      Format.time_of(transport.call("PATCH", job_path(topic, id), query: moves_of(delay, at, priority))["due_at"])
    end

    # Makes the job due now.
    def run(topic, id)
      transport.call("POST", job_path(topic, id, "run"))
      nil
    end

    # Returns the job, or nil.
    def get(topic, id)
      Job.of(transport.call("GET", job_path(topic, id), query: [%w[body base64]])).decode(codec)
    rescue NotFound
      nil
    end

    # Yields all jobs by due time, or returns an enumerator. Pages are requested while you iterate.
    def list(topic, state: nil, id_prefix: nil, bodies: false, page: 100, &block)
      return enum_for(:list, topic, state: state, id_prefix: id_prefix, bodies: bodies, page: page) unless block

      query = { "limit" => page, "state" => state, "id_prefix" => id_prefix, "body" => bodies ? "base64" : nil }.compact
      each_page(job_path(topic), query, "jobs", &block)
    end

    # Waits until all jobs have ended, or with `any` until one has, up to 4 minutes and 1,000 jobs. A job is a Job, a Pushed, or [topic, id].
    # Returns each as it is then, in the given order; the state of a job that the server does not know is "unknown".
    def wait(*jobs, any: false, timeout: 30)
      names = names_of(jobs)
      spec = { jobs: names.map { |topic, id| { topic: topic, id: id } }, for: any ? "any" : "all", wait: Format.milliseconds(timeout) }
      answer = transport.perform(long(timeout, method: "POST", path: "/v1/wait", query: [%w[body base64]], **json(spec)))
      found = (answer["jobs"] || []).to_h { |one| [[one["topic"], one["id"]], Job.of(one).decode(codec)] }
      names.map { |topic, id| found[[topic, id]] || Job.new(topic: topic, id: id, state: "unknown") }
    end

    # ---- schedules ----

    # Creates or replaces a schedule that pushes a job each time it fires. `members`: other members of the specification in docs/schedules.md, as
    # the API has them, such as overlap: "skip". The same call again changes nothing. `take_over`: also change
    # a schedule of another owner.
    def schedule(name, topic, body = nil, cron: nil, every: nil, zone: nil, content_type: nil, take_over: false, **members)
      spec = { topic: topic, cron: cron, zone: zone, content_type: content_type, every: every && Format.milliseconds(every), **members }
      body, spec[:content_type] = codec.encode(*Format.body_of(body, content_type), steady: true) if codec && !body.nil?
      is_binary = body.is_a?(String) && (body.encoding == Encoding::BINARY || !body.valid_encoding?)
      spec[is_binary ? :body_base64 : :body] = is_binary ? Format.base64(body) : body
      answer = transport.call("PUT", schedule_path(name), query: take_over ? [%w[take_over true]] : [], **json(spec.compact))
      Scheduled.new(result: answer["result"], next: Format.time_of(answer["next"]))
    end

    # Deletes a schedule; its jobs that are due stay. False: it does not exist.
    def unschedule(name)
      delete(schedule_path(name))
    end

    # ---- consuming ----

    # Returns ready jobs, topics in the given order. `consumer` is shown as their holder. It is never retried: a call whose answer was lost may
    # hold jobs until their lease ends.
    def take(*topics, **options)
      take_encoded(*topics, **options).each { |job| job.decode(codec) }
    end

    # For the worker, which decodes in the threads of its handlers. Yields the members of each job, if a block makes the jobs.
    def take_encoded(*topics, max: 1, wait: 0, lease: nil, consumer: nil, cut: nil)
      query = topics.flatten.map { |topic| ["topic", topic] } + [["max", max], ["wait", Format.milliseconds(wait)], %w[body base64]]
      query << ["lease_for", Format.milliseconds(lease)] if lease
      query << ["consumer", consumer] if consumer
      call = Transport::Call.new(method: "POST", path: "/v1/take", query: query, timeout: wait + transport.timeout, once: true)
      answer = cut ? answer_once(call, cut) : transport.perform(call)
      (answer["jobs"] || []).map { |job| block_given? ? yield(job) : Job.of(job) }
    end

    # Acks jobs, or their leases; returns nil for each answer that counts, otherwise the error. A lease that an earlier try may have acked counts.
    # `result`, of one job: a string, or what becomes JSON. `hold`: how long no job of its group is delivered; without a group, of its topic.
    def ack(*jobs, result: nil, content_type: nil, hold: nil)
      answer_jobs("ack", jobs, **result_members(result, content_type), **hold_members(hold))
    end

    # Reports that jobs failed. `result`, of one job, with `final`, is sent to those that wait for the job. `hold` as in ack.
    def nack(*jobs, delay: nil, error: "", final: false, result: nil, content_type: nil, hold: nil)
      options = {}
      options["delay"] = Format.milliseconds(delay) if delay
      options["error"] = Format.cut(error, ERROR_BYTES) unless error.to_s.empty?
      options["final"] = true if final
      answer_jobs("nack", jobs, **options, **result_members(result, content_type), **hold_members(hold))
    end

    # Makes the leases end later. `progress`, up to 256 bytes of text, is shown with the job.
    def extend_lease(*jobs, lease: nil, progress: "")
      options = {}
      options["lease_for"] = Format.milliseconds(lease) if lease
      options["progress"] = Format.cut(progress, PROGRESS_BYTES) unless progress.to_s.empty?
      answer_jobs("extend", jobs, **options)
    end

    # Returns jobs unprocessed: they are ready again immediately, and the attempt does not count.
    def give_back(*jobs)
      answer_jobs("return", jobs)
    end

    # Acks a job and pushes it again in one step; what is not given stays the same. False: its cancel was requested, and it has ended.
    def again(job, body = nil, delay: nil, at: nil, priority: nil, content_type: nil)
      query = [["lease", lease_of(job)], *moves_of(delay, at, priority)]
      data, kind = body.nil? ? nil : encoded(body, content_type)
      call = Transport::Call.new(method: "POST", path: "/v1/again", query: query, body: data, headers: kind ? { "Content-Type" => kind } : {})
      begin
        answer = transport.perform(call)
      rescue LeaseEnded
        return true if call.repeated # an earlier try may have done it

        raise
      end
      (answer["results"] || []).none? { |one| one["result"] == "cancelled" }
    end

    # Sends the answers of leases, for a worker: yields the place and the result of each, and returns nil or the error of each.
    def answer_items(verb, items, **how)
      self.class.parts(items).flat_map do |part|
        call = Transport::Call.new(method: "POST", path: "/v1/#{verb}", **json({ leases: part }), **how)
        results = transport.perform(call)["results"] || []
        part.each_index.map do |at|
          result = results[at] or next Error.new("the answer has no result for it", code: "bad_answer")
          yield at, result if block_given?
          counts = %w[ok cancelled].include?(result["result"]) || (call.repeated && verb != "extend" && result["result"] == "lease_ended")
          counts ? nil : Error.of(0, result)
        end
      end
    end

    # Cuts answers into parts that fit in one request.
    def self.parts(items)
      parts, size = [], 0
      items.each do |item|
        more = item.fetch("result_base64", "").bytesize
        if parts.empty? || parts.last.size == LEASES_MAX || size + more > RESULTS_BYTES_MAX && more.positive?
          parts << []
          size = 0
        end
        parts.last << item
        size += more
      end
      parts
    end

    # Returns the members of an answer with this result.
    def result_members(result, content_type = nil)
      return {} if result.nil?

      data, kind = encoded(result, content_type, "result")
      { "result_base64" => Format.base64(data), "result_type" => kind }
    end

    private

    # Returns the bytes for the server, and their content type.
    def encoded(body, content_type, part = "body")
      data, kind = Format.body_of(body, content_type)
      codec ? codec.encode(data, kind, part) : [data, kind]
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def json(value)
      { body: JSON.generate(value), headers: { "Content-Type" => "application/json" } }
    end

    # A call that the server answers after `wait` at the latest.
    def long(wait, **how)
      Transport::Call.new(timeout: wait + transport.timeout, retry_for: wait + transport.retry_for, **how)
    end

    def job_path(topic, *rest)
      id, *verbs = rest
      ["/v1/topics", Format.encoded(topic), "jobs", *(id && Format.encoded(id)), *verbs].join("/")
    end

    def schedule_path(name)
      "/v1/schedules/#{Format.encoded(name)}"
    end

    def delete(path, query = [])
      call = Transport::Call.new(method: "DELETE", path: path, query: query)
      transport.perform(call)
      true
    rescue NotFound
      call.repeated ? true : false # an earlier try may have done it
    end

    def moves_of(delay, at, priority)
      { "delay" => delay && Format.milliseconds(delay), "at" => at && Format.moment(at), "priority" => priority }.compact.to_a
    end

    def headers_of(meta)
      meta.transform_keys { |name| %w[traceparent tracestate].include?(name) ? name : "Tarry-Meta-#{name}" }
    end

    def each_page(path, query, name)
      loop do
        answer = page_of(path, query)
        (answer[name] || []).each { |job| yield Job.of(job).decode(codec) }
        query["cursor"] = answer["cursor"] or break
      end
    end

    def page_of(path, query)
      transport.call("GET", path, query: query.to_a)
    rescue NotFound
      {}
    end

    def answer_of_push(call)
      transport.perform(call)
    rescue Conflict => e
      raise unless call.repeated && e.code == "leased"

      {} # an earlier try has pushed it, and a worker holds it
    rescue NotFound
      {} # it existed, has ended, and is not kept
    end

    def answer_once(call, cut)
      answer = transport.once(call, cut)
      raise Error.of(answer.status, answer.members, answer.retry_after) if answer.status >= 300

      answer.members
    end

    # An item of a batch push, of the arguments of push.
    def item_of(**given)
      unknown = given.keys - ARGUMENTS
      raise ArgumentError, "push has no argument '#{unknown.first}'" unless unknown.empty?
      raise ArgumentError, "a push needs a topic" unless given[:topic]

      data, kind = encoded(given.fetch(:body, "".b), given[:content_type])
      item = AS_THEY_ARE.to_h { |name| [name.to_s, given[name]] }.compact
      TIMES.each { |name, member| item[member] = Format.milliseconds(given[name]) unless given[name].nil? }
      item["at"] = Format.moment(given[:at]) if given[:at]
      item.update(batch_members(**given.slice(:batch, :parent, :members)))
      item.update("topic" => given[:topic], "body_base64" => Format.base64(data), "content_type" => kind)
      item["id"] = given[:id] || Format.new_id if given[:id] || !given[:once] # else the server makes one that belongs to the shard of the once
      item["on_conflict"] ||= "keep" unless given[:id]
      meta = { "traceparent" => given[:traceparent], "tracestate" => given[:tracestate] }.compact.merge((given[:meta] || {}).transform_keys(&:to_s))
      item["meta"] = meta unless meta.empty?
      item
    end

    def batch_members(batch: nil, parent: nil, members: nil)
      members = members.map { |item| item_of(**item) } if members.is_a?(Array)
      { "batch_topic" => batch&.first, "batch_id" => batch&.last, "parent" => lease_of(parent), "members" => members }.compact
    end

    # Retries items that a limit rejects, like a call.
    def push_items(items)
      limit, pause = now + transport.retry_for, Transport::FIRST_PAUSE
      results = Array.new(items.size) { Error.new("the answer has no result for it", code: "bad_answer") }
      left = items.each_index.to_a
      loop do
        found = transport.call("POST", "/v1/jobs", **json(left.map { |at| items[at] }))["results"] || []
        left.zip(found) { |at, result| results[at] = pushed_of(result) if result }
        left = left.select { |at| results[at].is_a?(Unavailable) }
        wait = pause * rand(0.5..1.0)
        return results if left.empty? || now + wait > limit

        sleep(wait)
        pause = [2 * pause, Transport::LONGEST_PAUSE].min
      end
    end

    def pushed_of(result)
      return Error.of(0, result) unless %w[created replaced existed].include?(result["result"])

      Pushed.new(topic: result["topic"], id: result["id"], result: result["result"], due_at: Format.time_of(result["due_at"]))
    end

    def names_of(jobs)
      jobs.flat_map do |one|
        case one
        when Job, Pushed then [[one.topic, one.id]]
        when Array then one.size == 2 && one.all?(String) ? [one] : names_of(one)
        else raise TypeError, "a job to wait for is a Job, a Pushed or [topic, id], not #{one.inspect}"
        end
      end
    end

    def lease_of(job)
      job.is_a?(Job) ? job.lease : job
    end

    def hold_members(hold)
      hold ? { "hold" => Format.milliseconds(hold) } : {}
    end

    def answer_jobs(verb, jobs, **options)
      items = jobs.flatten.map { |job| { "lease" => lease_of(job), **options } }
      raise ArgumentError, "a result belongs to one job, so ack the others in another call" if options["result_base64"] && items.size != 1

      answer_items(verb, items)
    end
  end
end
