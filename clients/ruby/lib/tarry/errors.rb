# frozen_string_literal: true

module Tarry
  # A rejection by the server: `code` is stable, `detail` describes what to do. docs/clients.md lists the codes of each kind.
  class Error < StandardError
    attr_reader :code, :title, :detail, :status, :state, :limit, :retry_after

    def initialize(detail, code: "", title: nil, status: 0, state: nil, limit: nil, retry_after: nil)
      super(code.empty? ? detail : "#{code}: #{detail}")
      @detail, @code, @title, @status, @state, @limit, @retry_after = detail, code, title, status, state, limit, retry_after
    end

    # Returns the error for a rejection: `problem` as the server wrote it, or a result of a batch.
    def self.of(status, problem, retry_after = nil)
      code = (problem["code"] || problem["result"]).to_s
      kind = BY_CODE[code] || BY_STATUS[status] || (status.zero? || (400..499).cover?(status) ? Refused : Error)
      detail = problem["detail"] || problem["title"] || (status.zero? ? "the item was rejected" : "the server answered #{status}")
      kind.new(detail.to_s, code: code, title: problem["title"], status: status, state: problem["state"], limit: problem["limit"], retry_after: retry_after)
    end
  end

  # The job or topic does not exist, or the job has finished.
  class NotFound < Error; end

  # The state of the job does not allow this: see `state`.
  class Conflict < Error; end

  # The lease has ended, or was answered.
  class LeaseEnded < Error; end

  # The call is wrong, and a retry would fail again.
  class Refused < Error; end

  # The caller is unknown, or lacks the right.
  class Denied < Error; end

  # The topic, the caller, the disk or the memory has no room for another job.
  class Full < Error; end

  # The server did not answer within the retries. It is unknown whether the call was carried out.
  class Unavailable < Error; end

  class Error
    BY_CODE = {
      "not_found" => NotFound, "conflict" => Conflict, "leased" => Conflict, "dead" => Conflict, "lease_ended" => LeaseEnded,
      "no_batch" => NotFound, "batch_closed" => Conflict, "waits" => Conflict, "too_many_members" => Conflict, "too_many_batches" => Conflict,
      "unauthorized" => Denied, "forbidden" => Denied, "topic_full" => Full, "group_full" => Full, "caller_full" => Full, "no_space" => Full,
      "memory" => Full, "too_many_requests" => Unavailable, "unavailable" => Unavailable, "stopping" => Unavailable
    }.freeze
    BY_STATUS = {
      401 => Denied, 403 => Denied, 404 => NotFound, 409 => Conflict, 429 => Unavailable, 502 => Unavailable, 503 => Unavailable,
      504 => Unavailable, 507 => Full
    }.freeze
    private_constant :BY_CODE, :BY_STATUS
  end

  # Raised by a handler: the job is retried after `after` seconds; without it, after its backoff.
  class Retry < StandardError
    attr_reader :after

    def initialize(error = "", after: nil)
      super(error)
      @after = after
    end
  end

  # Raised by a handler if no further attempt can help: the job is dead immediately. `result` is sent to those that wait for the job.
  class Reject < StandardError
    attr_reader :result

    def initialize(error = "", result: nil)
      super(error)
      @result = result
    end
  end
end
