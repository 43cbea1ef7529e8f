# frozen_string_literal: true

# A client of tarry, the delay queue: push a job now, work on it when it is due. docs/clients.md describes the calls.
module Tarry
end

require_relative "tarry/version"
require_relative "tarry/errors"
require_relative "tarry/format"
require_relative "tarry/codec"
require_relative "tarry/job"
require_relative "tarry/transport"
require_relative "tarry/client"
require_relative "tarry/signature"
require_relative "tarry/worker"
