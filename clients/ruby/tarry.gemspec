# frozen_string_literal: true

require_relative "lib/tarry/version"

Gem::Specification.new do |spec|
  spec.name = "tarry"
  spec.version = Tarry::VERSION
  spec.summary = "A client of tarry, the delay queue: push a job now, work on it when it is due"
  spec.authors = ["the tarry authors"]
  spec.license = "MIT"
  spec.required_ruby_version = ">= 3.1"
  spec.files = Dir["lib/**/*.rb", base: __dir__] + ["README.md"]
  spec.metadata["rubygems_mfa_required"] = "true"
end
