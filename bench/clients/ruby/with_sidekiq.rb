# frozen_string_literal: true

# The job for Sidekiq, and pushes of it: with_sidekiq.rb NUMBER
require "sidekiq"

DONE = File.open(ENV.fetch("BENCH_DONE"), "a")
DONE.sync = true

class Count
  include Sidekiq::Worker

  def perform(_number)
    DONE.write(".")
  end
end

if $PROGRAM_NAME == __FILE__
  Integer(ARGV[0]).times.each_slice(1000) { |part| Sidekiq::Client.push_bulk("class" => Count, "args" => part.map { |n| [n] }) }
end
