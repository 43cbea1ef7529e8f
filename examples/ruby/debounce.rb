#!/usr/bin/env ruby
# frozen_string_literal: true

# A document that is saved again and again is indexed once, when it has been quiet for a while: debounce.rb [SECONDS], 5 by default.

require "tarry"

$stdout.sync = true
delay = Float(ARGV.fetch(0, 5))
client = Tarry::Client.new

# The job of the save before, if it still waits, is replaced: its body, and when it is due.
(1..3).each do |version|
  client.push("reindex", { version: version }, id: "doc-7", delay: delay, on_conflict: "replace")
  puts "saved version #{version}"
end

worker = Tarry::Worker.new(client, "reindex") do |job|
  puts "indexing version #{job.json["version"]}"
  worker.quit # a real worker runs until SIGTERM
  nil
end
worker.run
