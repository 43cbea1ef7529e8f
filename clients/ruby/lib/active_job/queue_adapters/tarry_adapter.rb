# frozen_string_literal: true

require "tarry"

module ActiveJob
  module QueueAdapters
    # Pushes the jobs of Active Job: a queue is a topic. `config.active_job.queue_adapter = :tarry`, or an adapter with a client of your own.
    class TarryAdapter
      def initialize(client = nil)
        @client = client
        @lock = Mutex.new
      end

      # Whether Rails pushes a job after the commit of the transaction around it.
      def enqueue_after_transaction_commit?
        true
      end

      def enqueue(job)
        push(job)
      end

      def enqueue_at(job, timestamp)
        push(job, at: timestamp)
      end

      # Returns a worker for these queues. Its options are those of Tarry::Worker.
      def worker(*queues, **options)
        Tarry::Worker.new(client, queues, **options) do |taken|
          ActiveJob::Base.execute(taken.json.merge("provider_job_id" => taken.id))
          nil
        end
      end

      private

      def client
        @lock.synchronize { @client ||= Tarry::Client.new }
      end

      def push(job, **options)
        pushed = client.push(job.queue_name, job.serialize, priority: job.priority, meta: { "active-job" => job.job_id }, **options)
        job.provider_job_id = pushed.id
      end
    end
  end
end
