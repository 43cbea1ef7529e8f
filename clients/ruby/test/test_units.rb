# frozen_string_literal: true

require "minitest/autorun"
require "tempfile"
require_relative "../lib/tarry"

class FormatTest < Minitest::Test
  F = Tarry::Format

  def test_durations_and_times_are_never_early
    assert_equal ["2ms", "0ms", "1500ms"], [F.milliseconds(0.0011), F.milliseconds(0), F.milliseconds(3r / 2)]
    assert_equal ["1", "1500"], [F.moment(Time.at(0, 1, :nsec)), F.moment(1.5)]
    assert_raises(TypeError) { F.milliseconds("30s") }
    assert_raises(TypeError) { F.moment("tomorrow") }
  end

  def test_the_content_type_follows_the_kind_of_body
    assert_equal ["x", "text/plain; charset=utf-8"], F.body_of("x")
    assert_equal ["\xFF".b, "application/octet-stream"], F.body_of("\xFF".b)
    assert_equal ["\xFF".b, "application/octet-stream"], F.body_of("\xFF").map(&:b)
    assert_equal ['{"a":[1,null]}', "application/json"], F.body_of({ a: [1, nil] })
    assert_equal ["{}", "application/json"], F.body_of("{}", "application/json")
    assert_equal "ü".b, F.body_of("ü".encode("ISO-8859-1")).first
  end

  def test_ids_sort_by_their_time
    first = F.new_id
    sleep 0.002
    assert_match(/\A[0-9A-HJKMNP-TV-Z]{26}\z/, first)
    assert_operator first, :<, F.new_id
  end

  def test_a_cut_text_is_one_line_and_keeps_whole_characters
    assert_equal ["a b", "银", ""], [F.cut("a\nb", 10), F.cut("银行", 4), F.cut("", 4)]
  end

  def test_all_but_unreserved_characters_are_encoded
    assert_equal "a%2Fb%3Fc%23d%25e%26f%3Dg%2Bh%20%C3%A7~", F.encoded("a/b?c#d%e&f=g+h ç~")
  end
end

class ErrorTest < Minitest::Test
  def test_the_code_decides_the_kind_before_the_status
    kind = ->(status, problem) { Tarry::Error.of(status, problem).class }
    assert_equal Tarry::LeaseEnded, kind.call(409, { "code" => "lease_ended" })
    assert_equal Tarry::Conflict, kind.call(409, { "code" => "another" })
    assert_equal Tarry::Refused, kind.call(0, { "result" => "bad_topic" })
    assert_equal Tarry::NotFound, kind.call(0, { "result" => "no_batch" })
    assert_equal Tarry::Conflict, kind.call(0, { "result" => "batch_closed" })
    assert_equal Tarry::Full, kind.call(507, {})
    assert_equal Tarry::Error, kind.call(307, {})
  end

  def test_an_error_has_the_members_of_its_problem
    error = Tarry::Error.of(409, { "code" => "leased", "title" => "Leased", "detail" => "a consumer holds it", "state" => "leased", "limit" => 3 })
    assert_equal ["leased: a consumer holds it", "Leased", 409, "leased", 3], [error.message, error.title, error.status, error.state, error.limit]
  end
end

class ClientTest < Minitest::Test
  def item(**given)
    Tarry::Client.new.send(:item_of, **given)
  end

  def test_a_member_of_a_chain_has_members_of_its_own
    made = item(topic: "t", id: "2", parent: Tarry::Job.new(lease: "L"), members: [{ topic: "t", id: "1", batch: %w[r 7] }])
    assert_equal ["L", "1", "r", "7"], [made["parent"], *made["members"].first.values_at("id", "batch_topic", "batch_id")]
  end

  def test_a_push_without_an_id_gets_one_and_keeps_what_exists
    assert_equal [26, "keep"], item(topic: "t").values_at("id", "on_conflict").then { |id, rule| [id.size, rule] }
    assert_equal [nil, "keep"], item(topic: "t", once: "order-1").values_at("id", "on_conflict")
    assert_equal ["a", nil], item(topic: "t", id: "a").values_at("id", "on_conflict")
  end

  def test_a_misspelt_option_is_an_error
    assert_raises(ArgumentError) { Tarry::Client.new.push("t", "x", dealy: 3) }
    assert_raises(ArgumentError) { Tarry::Client.new.push_many([{ body: "x" }]) }
  end

  def test_answers_are_cut_by_number_and_by_size
    sizes = ->(count, bytes) { Tarry::Client.parts(Array.new(count) { { "result_base64" => "x" * bytes } }).map(&:size) }
    assert_equal [[1000, 1000, 500], [2, 2, 1], [1, 1], []], [sizes.call(2500, 0), sizes.call(5, 200_000), sizes.call(2, 600_000), sizes.call(0, 0)]
  end

  def test_bad_urls_and_files_are_named
    ["ftp://x", "http://", "unix:", "http://a b", " , "].each { |url| assert_equal "bad_url", assert_raises(Tarry::Refused) { Tarry::Client.new(url) }.code }
    error = assert_raises(Tarry::Refused) { Tarry::Client.new("https://x", ca_file: "/nowhere/ca.pem") }
    assert_includes error.message, "'/nowhere/ca.pem' cannot be read"
    Tempfile.create("ca") { |file| assert_includes assert_raises(Tarry::Refused) { Tarry::Client.new("https://x", ca_file: file.path) }.message, "is not a PEM file" }
  end

  def test_an_unused_port_is_unavailable
    error = assert_raises(Tarry::Unavailable) { Tarry::Client.new("http://127.0.0.1:1", retry_for: 0).push("t", "x") }
    assert_equal "no_answer", error.code
  end

  def test_a_worker_that_is_stopped_at_once_ends_although_no_server_is_there
    worker = Tarry::Worker.new(Tarry::Client.new("http://127.0.0.1:1"), "t", logger: nil) { nil }
    thread = Thread.new { worker.run(signals: false) }
    sleep 0.05
    worker.stop(1)
    assert thread.join(10)
  end

  def ahead(begun, seconds, are_left:)
    worker = Tarry::Worker.new(Tarry::Client.new("http://127.0.0.1:1"), "t", concurrency: 10, logger: nil) { nil }
    worker.instance_variable_set(:@begun, begun)
    worker.instance_variable_set(:@planned_at, Process.clock_gettime(Process::CLOCK_MONOTONIC) - seconds)
    worker.send(:plan_ahead, are_left: are_left)
    worker.instance_variable_get(:@ahead)
  end

  def test_a_worker_takes_ahead_what_it_begins_within_a_moment
    assert_in_delta 50, ahead(100_000, 100, are_left: false), 10
    assert_equal [0, 500], [ahead(300, 100, are_left: false), ahead(500, -10, are_left: false)]
  end

  def test_a_worker_takes_ahead_the_work_of_two_takes_if_jobs_are_left
    assert_in_delta 250, ahead(100_000, 100, are_left: true), 50
    assert_equal [0, 500], [ahead(300, 100, are_left: true), ahead(500, -10, are_left: true)]
    assert_equal 0, ahead(0, 0.1, are_left: true)
  end

  def test_a_job_that_no_thread_begins_is_given_back
    worker = Tarry::Worker.new(Tarry::Client.new("http://127.0.0.1:1"), "t", lease: 60, logger: nil) { nil }
    worker.send(:begin_jobs, Array.new(2) { Tarry::Job.allocate })
    late, soon = waiting = worker.instance_variable_get(:@waiting)
    late.taken_at -= 21
    assert_equal [soon], worker.send(:give_back_late, waiting.dup)
    assert_equal [soon], waiting
    assert_equal ["return", nil], [late.verb, soon.verb]
  end

  def test_a_job_whose_lease_is_lost_before_it_is_begun_does_not_run
    worker = Tarry::Worker.new(Tarry::Client.new("http://127.0.0.1:1"), "t", lease: 60, logger: nil) { nil }
    worker.send(:begin_jobs, Array.new(2) { Tarry::Job.allocate })
    lost, held = worker.instance_variable_get(:@waiting).dup
    freed = 0
    worker.send(:finish, [[lost, :lost]])
    worker.instance_variable_get(:@freed).define_singleton_method(:signal) { freed += 1 }
    assert_same held, worker.send(:next_job)
    assert_equal 1, freed, "its slot is free for a take"
  end

  # Each thread that wakes takes its turn at the lock: a hundred that woke for nothing stopped a worker for seconds on a busy machine.
  def test_quick_jobs_wake_one_idle_thread_at_a_time
    worker = Tarry::Worker.new(Tarry::Client.new("http://127.0.0.1:1"), "t", concurrency: 100, logger: nil) { nil }
    begins, wakes = worker.instance_variable_get(:@begins), 0
    begins.define_singleton_method(:signal) { wakes += 1 }
    worker.instance_variable_set(:@idle, 99) # this one is not asleep
    worker.send(:begin_jobs, Array.new(100) { Tarry::Job.allocate })
    100.times { worker.send(:next_job) }
    assert_equal 1, wakes
    worker.send(:begin_jobs, [Tarry::Job.allocate])
    assert_equal 1, wakes, "the first one is on its way"
  end

  def test_a_thread_that_wakes_wakes_the_next_one_if_jobs_wait
    worker = Tarry::Worker.new(Tarry::Client.new("http://127.0.0.1:1"), "t", concurrency: 100, logger: nil) { nil }
    begun = Queue.new
    threads = Array.new(20) { Thread.new { begun << worker.send(:next_job) } }
    threads.each { |thread| Thread.pass until thread.stop? }
    worker.send(:begin_jobs, Array.new(20) { Tarry::Job.allocate })
    assert_equal 20, Array.new(20) { begun.pop }.uniq(&:object_id).size
    threads.each(&:join)
  end
end
