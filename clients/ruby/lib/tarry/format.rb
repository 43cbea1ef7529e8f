# frozen_string_literal: true

require "json"
require "securerandom"
require "time"

module Tarry
  # Durations, times, bodies and ids as the API has them.
  module Format
    CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

    module_function

    # Writes a duration in seconds, rounded up, so that a job is never early.
    def milliseconds(duration)
      raise TypeError, "a duration is a number of seconds, not #{duration.inspect}" unless duration.is_a?(Numeric)

      "#{(duration.to_r * 1000).ceil}ms"
    end

    # Writes a time: a Time, a DateTime, or seconds since 1970.
    def moment(at)
      seconds = at.is_a?(Numeric) ? at : at.respond_to?(:to_time) && !at.is_a?(String) && at.to_time
      raise TypeError, "a time is a Time or a number of seconds since 1970, not #{at.inspect}" unless seconds

      (seconds.to_r * 1000).ceil.to_s
    end

    # Reads a time of an answer.
    def time_of(text)
      text && Time.iso8601(text)
    end

    # Makes a ULID: 48 bits of milliseconds and 80 random ones.
    def new_id
      number = (Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond) << 80) | SecureRandom.random_number(1 << 80)
      125.step(0, -5).map { |shift| CROCKFORD[(number >> shift) & 31] }.join
    end

    # Returns the bytes and the content type: a binary string as it is, any other string as text in UTF-8, anything else as JSON.
    def body_of(body, content_type = nil)
      return [JSON.generate(body).b, content_type || "application/json"] unless body.is_a?(String)
      return [body, content_type || "application/octet-stream"] if body.encoding == Encoding::BINARY || !body.valid_encoding?

      [body.encode(Encoding::UTF_8).b, content_type || "text/plain; charset=utf-8"]
    end

    # Cuts a text to one line of at most so many bytes.
    def cut(text, bytes_max)
      line = text.to_s.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub.gsub(/[[:cntrl:]]/, " ")
      line.byteslice(0, bytes_max).scrub("")
    end

    # Encodes a part of a path, or a name or value of a query.
    def encoded(text)
      text.to_s.b.gsub(/[^A-Za-z0-9\-_.~]/n) { |byte| format("%%%02X", byte.ord) }.force_encoding(Encoding::US_ASCII)
    end

    # Writes bytes in base64.
    def base64(bytes)
      [bytes].pack("m0")
    end

    # Returns the bytes of base64 text; nil if the text is not base64.
    def bytes_of(text)
      text.unpack1("m0")
    rescue ArgumentError
      nil
    end
  end
end
