# frozen_string_literal: true

# Pushes jobs, or works on them: with_tarry.rb push NUMBER | work THREADS
require "tarry"

client = Tarry::Client.new
if ARGV[0] == "push"
  Integer(ARGV[1]).times.each_slice(1000) { |part| client.push_many(part.map { |n| { topic: "bench", body: { n: n } } }) }
else
  done = File.open(ENV.fetch("BENCH_DONE"), "a")
  done.sync = true
  Tarry::Worker.new(client, "bench", concurrency: Integer(ARGV[1])) do |job|
    job.json["n"]
    done.write(".")
  end.run
end
