#!/usr/bin/env ruby
# frozen_string_literal: true

# The adapter of the Ruby client for clients/conformance: JSON lines in, JSON lines out.

require "json"
require_relative "lib/tarry"

$stdin.set_encoding(Encoding::UTF_8)
$stdout.sync = true

# A client, and what it has.
class Adapter
  SAME = %w[id priority max_attempts backoff on_conflict once group parent waits on_dead meta content_type].freeze
  TIMES = { "delay_ms" => :delay, "at_ms" => :at, "ttl_ms" => :ttl, "keep_finished_ms" => :keep_finished, "wait_at_most_ms" => :wait_at_most,
            "close_within_ms" => :close_within }.freeze

  def initialize
    @lock, @workers, @taken = Mutex.new, {}, {}
  end

  def show(line)
    @lock.synchronize { $stdout.write("#{JSON.generate(line)}\n") }
  end

  def seconds(request, name)
    request[name] && request[name] / 1000.0
  end

  def problem(error)
    { kind: error.instance_of?(Tarry::Error) ? "TarryError" : error.class.name.split("::").last, code: error.code, status: error.status, detail: error.detail }
  end

  def body(request, base64 = "body_base64", otherwise = "".b)
    return request[base64].unpack1("m0") if request[base64]

    request.fetch("text") { request.fetch("json", otherwise) }
  end

  def result(step)
    given = step["result"] or return [nil, nil]
    [body(given, "base64"), given["content_type"]]
  end

  def push_options(request)
    members = request["members"]
    members = members.map { |member| item(member) } if members.is_a?(Array)
    batch = request["batch"]&.values_at("topic", "id")
    SAME.to_h { |name| [name.to_sym, request[name]] }.merge(TIMES.to_h { |name, option| [option, seconds(request, name)] }, { batch: batch, members: members }).compact
  end

  def item(request)
    { topic: request["topic"], body: body(request), **push_options(request) }
  end

  def pushed(one)
    one.is_a?(Tarry::Error) ? { error: problem(one) } : { id: one.id, result: one.result }
  end

  def milliseconds(time)
    time && (time.to_r * 1000).round
  end

  def job(one)
    same = %i[topic id lease attempt delivery content_type meta consumer cancel_requested state group waits_for outcomes outcome progress last_error result_type]
    { **same.to_h { |name| [name, one.public_send(name)] }, body_base64: one.codec_error ? nil : [one.body].pack("m0"), codec_error: one.codec_error&.detail, finished_at_ms: milliseconds(one.finished_at),
      duration_ms: milliseconds(one.duration), batch: one.batch && { topic: one.batch.first, id: one.batch.last }, result_base64: one.codec_error || one.result.nil? ? nil : [one.result].pack("m0") }
  end

  def results(found)
    { results: found.map { |one| one ? one.code : "ok" } }
  end

  # The leases as they are, or the jobs: one, a list, or several.
  def given(request)
    jobs = request["as"] ? request["leases"].map { |lease| @taken.fetch(lease) } : request["leases"]
    request["as"] == "list" ? [jobs] : jobs
  end

  # The codec that a request describes.
  def codec(given)
    return unless given

    check = given["claim_check"]
    Tarry::Codec.new(gzip: given["gzip"] && Tarry::Gzip.new, aes_gcm: given["keys"] && Tarry::AesGcm.new(given["current"], given["keys"]), context: given.fetch("context", ""),
                     claim_check: check && Tarry::ClaimCheck.new(Tarry::DirectoryStore.new(check["directory"]), above: check["above"]))
  end

  def open(request)
    options = { retry_for: seconds(request, "retry_for_ms"), timeout: seconds(request, "timeout_ms"), token: request["token"], ca_file: request["ca_file"],
                certificate: request["certificate"], key: request["key"], codec: codec(request["codec"]) }
    @client = Tarry::Client.new(request["url"], **options.compact)
    {}
  end

  # Encodes and decodes a body so many times, for bench/codec.py.
  def recode(request)
    plain, mine, found = request["body_base64"].unpack1("m0"), codec(request["codec"]), nil
    request["times"].times { found = mine.decode(*mine.encode(plain, request["content_type"])) }
    { body_base64: [found.first].pack("m0") }
  end

  def push(request)
    found = @client.push(request["topic"], body(request), **push_options(request))
    { id: found.id, result: found.result, due_at_ms: milliseconds(found.due_at) }
  end

  def push_many(request)
    @client.push_many(request["items"].map { |one| item(one) }).map { |one| pushed(one) }
  end

  def push_batch(request)
    found = @client.push_batch(item(request["job"]), request["members"].map { |one| item(one) })
    { closed: found.closed, results: found.results.map { |one| pushed(one) } }
  end

  def close_batch(request)
    @client.close_batch(request["topic"], request["id"])
    { done: true }
  end

  def cancel_batch(request)
    { done: @client.cancel_batch(request["topic"], request["id"]) }
  end

  def members(request)
    { jobs: @client.members(request["topic"], request["id"], outcome: request["outcome"], page: request["page"] || 100).map { |one| job(one) } }
  end

  def push_and_wait(request)
    { job: job(@client.push_and_wait(request["topic"], body(request), wait: seconds(request, "wait_ms"), **push_options(request))) }
  end

  def wait(request)
    names = request["ids"].map { |id| [request["topic"], id] }
    { jobs: @client.wait(*names, any: request["any"] || false, timeout: seconds(request, "timeout_ms")).map { |one| job(one) } }
  end

  def cancel(request)
    { done: @client.cancel(request["topic"], request["id"]) }
  end

  def request_cancel(request)
    { result: @client.request_cancel(request["topic"], request["id"]) }
  end

  def run(request)
    @client.run(request["topic"], request["id"])
    { done: true }
  end

  def reschedule(request)
    @client.reschedule(request["topic"], request["id"], delay: seconds(request, "delay_ms"), at: seconds(request, "at_ms"), priority: request["priority"])
    { done: true }
  end

  def get(request)
    found = @client.get(request["topic"], request["id"])
    { job: found && job(found) }
  end

  def list(request)
    { ids: @client.list(request["topic"], state: request["state"], page: request["page"] || 100).map(&:id) }
  end

  def take(request)
    found = @client.take(*request["topics"], max: request["max"], wait: seconds(request, "wait_ms"), lease: seconds(request, "lease_ms"), consumer: request["consumer"])
    found.each { |one| @taken[one.lease] = one }
    { jobs: found.map { |one| job(one) } }
  end

  def ack(request)
    value, content_type = result(request)
    results(@client.ack(*given(request), result: value, content_type: content_type, hold: seconds(request, "hold_ms")))
  end

  def nack(request)
    value, content_type = result(request)
    results(@client.nack(*given(request), delay: seconds(request, "delay_ms"), error: request["error"], final: request["final"], result: value,
                                          content_type: content_type, hold: seconds(request, "hold_ms")))
  end

  def extend_lease(request)
    results(@client.extend_lease(*given(request), lease: seconds(request, "lease_ms"), progress: request["progress"]))
  end

  def give_back(request)
    results(@client.give_back(*given(request)))
  end

  def again(request)
    { done: @client.again(request["leases"].first, request["text"], delay: seconds(request, "delay_ms"), priority: request["priority"]) }
  end

  def schedule(request)
    members = (request["members"] || {}).transform_keys(&:to_sym)
    found = @client.schedule(request["name"], request["topic"], body(request, "body_base64", nil), cron: request["cron"], every: seconds(request, "every_ms"),
                                                                                                   zone: request["zone"], take_over: request["take_over"] || false, **members)
    { result: found.result, next_ms: milliseconds(found.next) }
  end

  def unschedule(request)
    { done: @client.unschedule(request["name"]) }
  end

  def verify(request)
    Tarry.verify(request["secrets"], request["headers"], request["body_base64"].unpack1("m0"), now: Time.at(seconds(request, "now_ms") || Time.now))
    { valid: true }
  rescue Tarry::BadSignature
    { valid: false }
  end

  # ---- workers ----

  def step_of(plan, taken)
    steps = plan["by_attempt"] or return plan
    steps[[taken.attempt, steps.size].min - 1]
  end

  def handle(name, plan, taken)
    show({ event: "began", worker: name, id: taken.id, attempt: taken.attempt, delivery: taken.delivery })
    step = step_of(plan, taken)
    show({ event: "reported", worker: name, id: taken.id, done: taken.report_progress(step["progress"]) }) if step["progress"]
    if taken.sleep(seconds(step, "sleep_ms") || 0)
      show({ event: "notified", worker: name, id: taken.id, cancel_requested: taken.cancel_requested? })
      raise "it is not wanted any more" if taken.cancel_requested? && step["heeds"] != false

      return
    end
    value, = result(step)
    case step["do"]
    when "fail" then raise step["error"]
    when "retry" then raise Tarry::Retry.new(step["error"], after: seconds(step, "after_ms"))
    when "reject" then raise Tarry::Reject.new(step["error"], result: value)
    end
    value
  end

  def worker(request)
    name = request["name"]
    options = { concurrency: request["concurrency"], lease: seconds(request, "lease_ms"), consumer: request["consumer"],
                on_done: ->(taken, outcome, _) { show({ event: "ended", worker: name, id: taken.id, attempt: taken.attempt, outcome: outcome }) },
                on_error: ->(error, what) { warn "#{what}: #{error.message}" } }
    options[:logger] = nil if request["log"] == false
    handler_of = ->(plan) { ->(taken) { handle(name, plan, taken) } }
    made = if request["handlers"]
             Tarry::Worker.new(@client, request["handlers"].transform_values(&handler_of), **options)
           else
             Tarry::Worker.new(@client, request["topics"], **options, &handler_of.call(request["handler"]))
           end
    @workers[name] = made
    Thread.new { made.run(signals: false) }
    {}
  end

  def stop(request)
    @workers.delete(request["name"]).stop(seconds(request, "grace_ms"))
    {}
  end

  def answer(request)
    return { ok: {} } if request["op"] == "quit"

    { ok: public_send(request["op"].sub(/\Aextend\z/, "extend_lease"), request) }
  rescue Tarry::Error => e
    { error: problem(e) }
  end
end

adapter = Adapter.new
$stdin.each_line do |line|
  request = JSON.parse(line)
  adapter.show({ **adapter.answer(request), n: request["n"] })
  break if request["op"] == "quit"
end
