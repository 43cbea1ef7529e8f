#!/usr/bin/env ruby
# frozen_string_literal: true

# An order that is not paid in time is closed: order_timeout.rb [SECONDS], 1800 by default.

require "tarry"

$stdout.sync = true
delay = Float(ARGV.fetch(0, 1800))
client = Tarry::Client.new

%w[1001 1002].each do |order|
  client.push("orders", { order: order }, id: order, delay: delay) # the order's own number, so any code with the order can cancel the job
  puts "order #{order} placed"
end
puts "order 1001 paid, nothing to close" if client.cancel("orders", "1001")

worker = Tarry::Worker.new(client, "orders") do |job|
  puts "order #{job.json["order"]} closed: not paid in time"
  worker.quit # a real worker runs until SIGTERM
  nil
end
worker.run
