# frozen_string_literal: true

module Tarry
  VERSION = "1.0.0"
end
