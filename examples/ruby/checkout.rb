#!/usr/bin/env ruby
# frozen_string_literal: true

# An order is charged, then shipped, then the customer gets a mail: checkout.rb [SECONDS], the mail 0 seconds after the shipment by default.

require "tarry"

$stdout.sync = true
delay = Float(ARGV.fetch(0, 0))
client = Tarry::Client.new

step = lambda do |job|
  puts "#{job.topic} #{job.id}"
  @worker.quit if job.topic == "mail" # a real worker runs until SIGTERM
  nil
end

charge = { topic: "charge", id: "1001" }
ship = { topic: "ship", id: "1001", members: [charge] }
client.push_batch({ topic: "mail", id: "1001", delay: delay }, [ship])
puts "order 1001 placed"
@worker = Tarry::Worker.new(client, { "charge" => step, "ship" => step, "mail" => step })
@worker.run
