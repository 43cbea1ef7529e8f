# frozen_string_literal: true

# The adapter for the real Active Job, against the server at TARRY_URL.

require "minitest/autorun"
require "timeout"
$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "active_job"
require "active_job/queue_adapters/tarry_adapter"

ActiveJob::Base.queue_adapter = :tarry
ActiveJob::Base.logger = nil
DONE = Queue.new

class Sum < ActiveJob::Base
  def perform(first, second)
    DONE << [first + second, provider_job_id]
  end
end

class Flaky < ActiveJob::Base
  retry_on(RuntimeError, wait: 1, attempts: 3) { |_, error| DONE << error.message }

  def perform
    raise "attempt #{executions}"
  end
end

class ActiveJobTest < Minitest::Test
  def setup
    @client = Tarry::Client.new
  end

  def work(queue, count)
    worker = ActiveJob::Base.queue_adapter.worker(queue, concurrency: 2)
    thread = Thread.new { worker.run(signals: false) }
    Array.new(count) { Timeout.timeout(60) { DONE.pop } }
  ensure
    worker.stop(5)
    thread.join
  end

  def test_a_job_is_performed_with_its_arguments
    Sum.set(queue: "sums").perform_later(1, 2)
    Sum.set(queue: "sums", wait: 1.second, priority: 3).perform_later(3, 4)
    assert_equal [3, 7], work("sums", 2).map(&:first)
  end

  def test_a_delayed_job_can_be_cancelled_by_its_id
    job = Sum.set(queue: "later", wait: 1.hour).perform_later(1, 2)
    found = @client.get("later", job.provider_job_id)
    assert_equal ["delayed", job.job_id], [found.state, found.meta["active-job"]]
    assert_in_delta Time.now + 3600, found.due_at, 60
    assert @client.cancel("later", job.provider_job_id)
  end

  def test_a_job_that_fails_is_retried_as_active_job_does_it
    Flaky.set(queue: "flaky").perform_later
    assert_equal ["attempt 3"], work("flaky", 1)
  end
end
