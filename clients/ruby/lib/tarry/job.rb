# frozen_string_literal: true

module Tarry
  # The outcome of a push. `result`: created, replaced, or existed (nothing was changed).
  Pushed = Struct.new(:topic, :id, :result, :due_at, keyword_init: true)

  # The outcome of Client#schedule. `result`: created, replaced, or existed (nothing was changed). `next`: the next fire, or nil.
  Scheduled = Struct.new(:result, :next, keyword_init: true)

  # The outcome of Client#push_batch. `results`: a Pushed or an error per job, each waiting job before its members. `closed`: whether all batches are closed.
  BatchPushed = Struct.new(:results, :closed, keyword_init: true)

  # A job as it was taken, or its current state. `body` has exactly the pushed bytes.
  #
  # `delivery` rises with every delivery of the job: store it with your data to fence off late writes. `cancel_requested`: unless the job is
  # acked, it is cancelled when its lease ends. `batch`: topic and id of the waiting job of which the job is a member. `waits_for`: the number of members
  # that have not ended, while the job waits. `outcomes`: the members of a waiting job by their outcome. `outcome` of a finished job: acked, cancelled or expired. `duration`: of its last attempt, in seconds.
  class Job
    MEMBERS = %i[topic id body content_type meta attempt delivery priority state due_at lease lease_until last_error consumer cancel_requested group
                 batch waits_for outcomes outcome finished_at duration progress result result_type].freeze
    TIMES = %i[due_at lease_until finished_at].freeze
    # Members that an answer has as they are here, and their variables.
    SAME = (MEMBERS - TIMES - %i[body batch duration result]).to_h { |name| [name.to_s, :"@#{name}"] }.freeze
    private_constant :TIMES, :SAME
    attr_reader(*(MEMBERS - TIMES - %i[body result]), :codec_error, :stored_as)

    # The times of an answer are read when they are asked for: most handlers need none.
    TIMES.each do |name|
      variable = :"@#{name}"
      define_method(name) do
        time = instance_variable_get(variable)
        time.is_a?(String) ? instance_variable_set(variable, Format.time_of(time)) : time
      end
    end

    def initialize(**members)
      @body, @content_type, @meta, @attempt, @delivery, @priority, @state, @lease = "".b, "application/octet-stream", {}, 0, 0, 100, "leased", ""
      @cancel_requested = false
      members.each { |name, value| instance_variable_set("@#{name}", value) unless value.nil? }
    end

    # Reads a job of an answer that was requested with body=base64.
    def self.of(data)
      new.tap { |job| job.send(:read, data) }
    end

    def read(data)
      data.each do |name, value|
        variable = SAME[name]
        instance_variable_set(variable, value) if variable && !value.nil?
      end
      @due_at, @lease_until, @finished_at = data.values_at("due_at", "lease_until", "finished_at")
      @body = data["body_base64"]&.then { |text| Format.bytes_of(text) } || @body
      @duration = data["duration_ms"] / 1000.0 if data["duration_ms"]
      @batch = data["batch"]&.values_at("topic", "id")
      @result = result_of(data)
    end
    private :read

    # Returns the body. Raises CodecError if it cannot be decoded.
    def body
      @body || raise(codec_error)
    end

    # Returns the result, or nil. Raises CodecError if it cannot be decoded.
    def result
      @result == false ? raise(codec_error) : @result
    end

    # Decodes body and result. `codec_error` is set if one cannot be decoded: to read that one raises it then. `stored_as`: the name of the body in the store of
    # a ClaimCheck.
    def decode(codec)
      found = decoded(codec, @body, @content_type, "body")
      @body, @content_type, @stored_as = found if found
      found = decoded(codec, @result, @result_type, "result")
      @result, @result_type = found if found
      self
    end

    # Returns nil if there is nothing to decode.
    def decoded(codec, data, content_type, part)
      return if data.nil? || data.empty? || !Codec.encoded?(content_type)
      return codec.decode(data, content_type, part) if codec

      raise CodecError, "the #{part} is encoded (#{Codec.steps_of(content_type, part).first.join(', ')}), and the client has no codec"
    rescue CodecError => e
      @codec_error = e
      [part == "result" ? false : nil, content_type]
    end
    private :decoded

    # Returns the bytes of a result, which an answer has in base64, as text, or as JSON.
    def result_of(data)
      return Format.bytes_of(data["result_base64"]) if data["result_base64"]

      result = data["result"]
      result.nil? || result.is_a?(String) && !data["result_type"].to_s.start_with?("application/json") ? result&.b : JSON.generate(result).b
    end
    private :result_of

    # Returns the body as text.
    def text
      body.dup.force_encoding(Encoding::UTF_8)
    end

    # Reads the body as JSON.
    def json
      JSON.parse(text)
    end

    # Returns the result as text; "" if the job has no result.
    def result_text
      result.to_s.dup.force_encoding(Encoding::UTF_8)
    end

    # Reads the result as JSON; nil if the job has no result.
    def result_json
      result && JSON.parse(result_text)
    end

    # Returns the trace in which the job was pushed.
    def traceparent
      meta["traceparent"]
    end

    def cancel_requested?
      cancel_requested
    end

    # Whether the job is finished or dead.
    def ended?
      %w[finished dead].include?(state)
    end

    # Shows neither the body nor the result.
    def inspect
      "#<#{self.class} #{topic}/#{id} #{state}, attempt #{attempt}>"
    end
  end
end
