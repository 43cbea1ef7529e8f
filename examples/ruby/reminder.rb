#!/usr/bin/env ruby
# frozen_string_literal: true

# A reminder for a meeting that is moved: reminder.rb [SECONDS], 3600 by default.

require "tarry"

$stdout.sync = true
delay = Float(ARGV.fetch(0, 3600))
client = Tarry::Client.new
now = Time.now

client.push("reminders", "meeting with Ada", id: "meeting-7", at: now + 24 * delay)
puts "reminder set"
client.reschedule("reminders", "meeting-7", at: now + delay)
puts "meeting moved, reminder moved"

worker = Tarry::Worker.new(client, "reminders") do |job|
  puts "reminder: #{job.text}"
  worker.quit # a real worker runs until SIGTERM
  nil
end
worker.run
