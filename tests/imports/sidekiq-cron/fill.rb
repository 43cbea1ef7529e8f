# Stores jobs of sidekiq-cron in Redis, prints them with the line of docs/schedules.md, and then by name their next 12 fires after each moment.
#
#   fill.rb REDIS-URL LINE MOMENT-MS...
require 'json'
require 'sidekiq'
require 'sidekiq-cron'

url, line, *moments = ARGV
Sidekiq.configure_client { |config| config.redis = { url: url } }

class Report
  include Sidekiq::Worker
  def perform(*args); end
end

CRONS = {
  'nightly report' => '30 2 * * * Europe/Berlin',
  'workdays' => '0 9 * * mon-fri',
  'often' => '*/5 * * * *',
  'both-days' => '15 10 1,15 * fri',
  'last-day' => '0 12 L * *',
  'first-monday' => '0 8 * * mon#1',
  'half-hours' => '0,30 1-3 * * * America/New_York',
  'daily' => '@daily',
  'seconds' => '30 0 6 * * *',
  'off' => '0 4 * * *'
}.freeze

CRONS.each do |name, cron|
  job = Sidekiq::Cron::Job.new('name' => name, 'cron' => cron, 'class' => 'Report', 'args' => [1, 'a'], 'queue' => 'low', 'description' => 'a report',
                               'status' => name == 'off' ? 'disabled' : 'enabled')
  raise job.errors.join(', ') unless job.save
end

puts eval(line) # rubocop:disable Security/Eval
fires = Sidekiq::Cron::Job.all.to_h do |job|
  lists = moments.map do |moment|
    at = Time.at(moment.to_i / 1000).utc
    Array.new(12) do
      at = Fugit.parse(job.cron).next_time(at)
      (at.to_f * 1000).round
    end
  end
  [job.name, lists]
end
puts JSON.generate(fires)
