#!/usr/bin/env bash
# Warnings, unit tests, Active Job if it is installed. Then the gem is built and installed into an empty folder, and the worker of README.md runs
# with it against the server at TARRY_URL, until a SIGTERM comes while a handler works.
set -euo pipefail
cd "$(dirname "$0")"
: "${TARRY_URL:?give the URL of a server}"
for file in lib/*.rb lib/*/*.rb lib/*/*/*.rb conformance.rb ../../examples/ruby/*.rb; do
    warnings=$(ruby -wc "$file" 2>&1 >/dev/null)
    [ -z "$warnings" ] || { echo "$warnings" && exit 1; }
done
ruby -w test/test_units.rb
ruby -w test/test_codec.rb
if ruby -e 'require "active_job"' 2>/dev/null; then ruby test/test_active_job.rb; else echo "not run: Active Job is not here (Debian: ruby-activejob)"; fi

version=$(sed -n 's/^project(tarry VERSION \([0-9.]*\) .*/\1/p' ../../CMakeLists.txt)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
worker=$(sed -n '/^## A worker/,/^worker.run/p' README.md | sed -n '/^require/,$p')
[ "$(wc -l <<<"$worker")" -le 10 ] || { echo "the worker of README.md has more than 10 lines" && exit 1; }
gem build --silent --output "$place/tarry.gem" tarry.gemspec
export GEM_HOME=$place/gems
gem install --silent --local --no-document "$place/tarry.gem"
cd "$place"
# A handler that works for a while when the signal comes.
{
    echo '$stdout.sync = true'
    sed 's|^  puts .*|&\n  sleep 1\n  puts "closed"|' <<<"$worker"
    echo 'puts Tarry::VERSION'
} >worker.rb
jobs=$TARRY_URL/v1/topics/orders
curl -sfS -X PUT "$jobs/jobs/1001" -H 'Content-Type: application/json' -d '{"order":1001}' >/dev/null
ruby -w worker.rb >output &
pid=$!
until grep -q '^closing 1001: 1001$' output; do
    kill -0 $pid || { echo "the worker has ended" && exit 1; }
    sleep 0.05
done
kill -TERM $pid
wait $pid
[ "$(tail -2 output | tr '\n' ' ')" = "closed $version " ] || { echo "the worker has not waited for its handler, or has another version" && cat output && exit 1; }
curl -sfS "$jobs" | grep -q '"acked": *1' || { echo "the job is not acked" && exit 1; }
echo "tarry $version works"
