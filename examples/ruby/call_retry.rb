#!/usr/bin/env ruby
# frozen_string_literal: true

# A call that fails is made again later: call_retry.rb [SECONDS], 10 by default. The service is here as well: it answers 503 twice, then 200.

require "net/http"
require "socket"
require "tarry"

$stdout.sync = true
delay = Float(ARGV.fetch(0, 10))
service = TCPServer.new("127.0.0.1", 0)
Thread.new do
  ["503 Service Unavailable", "503 Service Unavailable", "200 OK"].each do |status|
    connection = service.accept
    nil until connection.gets == "\r\n"
    connection.write("HTTP/1.1 #{status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    connection.close
  end
end

client = Tarry::Client.new
client.push("calls", { url: "http://127.0.0.1:#{service.addr[1]}/" })
worker = Tarry::Worker.new(client, "calls") do |job|
  answer = Net::HTTP.post(URI(job.json["url"]), "")
  if answer.code == "503"
    puts "call #{job.attempt}: 503, again later"
    raise Tarry::Retry.new("the service answered 503", after: delay)
  end
  answer.value # any other error is retried by the job's own backoff
  puts "call #{job.attempt}: #{answer.code}, done"
  worker.quit # a real worker runs until SIGTERM
  nil
end
worker.run
