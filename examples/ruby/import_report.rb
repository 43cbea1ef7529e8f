#!/usr/bin/env ruby
# frozen_string_literal: true

# A report is sent when all rows of an import have been loaded: import_report.rb [SECONDS [ROWS]], 0 seconds later and 20,000 rows by default.

require "tarry"

$stdout.sync = true
delay = Float(ARGV.fetch(0, 0))
rows = Integer(ARGV.fetch(1, 20_000))
client = Tarry::Client.new

load_row = lambda do |job|
  job.json["row"] # your own handler writes it to a database
  nil
end

report = lambda do |job|
  puts "report: #{job.meta["tarry-batch"]}"
  @worker.quit # a real worker runs until SIGTERM
  nil
end

client.push("reports", "", id: "import-7", waits: true, delay: delay)
client.push_many((1..rows).map { |row| { topic: "rows", body: { row: row }, batch: %w[reports import-7] } })
client.close_batch("reports", "import-7")
puts "#{rows} rows pushed"
@worker = Tarry::Worker.new(client, { "rows" => load_row, "reports" => report })
@worker.run
