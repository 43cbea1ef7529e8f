# frozen_string_literal: true

require "net/http"
require "openssl"
require "socket"
require "uri"

module Tarry
  # Requests and answers: connections that are used again, and what is repeated when. docs/clients.md has the rules.
  #
  # Any number of threads may use it. A connection serves one request at a time, and is kept for the next.
  class Transport
    FIRST_PAUSE = 0.05
    LONGEST_PAUSE = 5.0
    AGAIN = [429, 502, 503, 504].freeze
    IDLE_S = 15 # that a connection may be kept
    BROKEN = [IOError, SystemCallError, SocketError, Timeout::Error, OpenSSL::SSL::SSLError, Net::ProtocolError, Net::HTTPBadResponse, Net::HTTPHeaderSyntaxError].freeze
    METHODS = { "GET" => Net::HTTP::Get, "PUT" => Net::HTTP::Put, "POST" => Net::HTTP::Post, "PATCH" => Net::HTTP::Patch, "DELETE" => Net::HTTP::Delete }.freeze

    Answer = Struct.new(:status, :members, :retry_after)
    private_constant :Answer

    # A call, and how it is repeated. `repeated`, out: an earlier try may have been carried out.
    Call = Struct.new(:method, :path, :query, :body, :headers, :timeout, :retry_for, :pause_max, :once, :goes_on, :repeated, keyword_init: true)

    # A connection to a unix socket.
    class UnixConnection < Net::HTTP
      attr_writer :socket_path

      private

      def connect
        @socket = Net::BufferedIO.new(UNIXSocket.new(@socket_path), read_timeout: @read_timeout, write_timeout: @write_timeout, continue_timeout: @continue_timeout)
        on_connect
      end
    end
    private_constant :UnixConnection

    # A server, and how a connection to it is made.
    class Place
      attr_reader :prefix

      def initialize(url, tls)
        @tls = tls
        if url.match?(/\Aunix:./)
          @path, @prefix = url.delete_prefix("unix:"), ""
          return
        end
        uri = URI.parse(url.include?("://") ? url : "http://#{url}")
        raise URI::InvalidURIError if !uri.is_a?(URI::HTTP) || uri.hostname.to_s.empty? || url == "unix:"

        @secure, @host, @prefix = uri.scheme == "https", uri.hostname, uri.path.delete_suffix("/")
        port = url.sub(%r{\A\w+://}, "")[%r{\A[^/]*}][/:(\d+)\z/, 1]
        @port = port ? port.to_i : @secure ? 443 : 8279
      rescue URI::InvalidURIError
        raise Refused.new("bad URL '#{url}', give one like http://127.0.0.1:8279", code: "bad_url")
      end

      def connection
        made = @path ? UnixConnection.new("127.0.0.1", 80, nil) : Net::HTTP.new(@host, @port, nil)
        made.socket_path = @path if @path
        made.max_retries = 0
        made.keep_alive_timeout = IDLE_S
        return made unless @secure

        made.use_ssl = true
        @tls.each { |name, value| made.public_send("#{name}=", value) }
        made
      end
    end
    private_constant :Place

    attr_reader :timeout, :retry_for

    def initialize(url, token:, timeout:, retry_for:, ca_file: nil, certificate: nil, key: nil)
      tls = tls_of(ca_file, certificate, key)
      @places = url.split(",").map(&:strip).reject(&:empty?).map { |one| Place.new(one, tls) }
      raise Refused.new("no URL, give one like http://127.0.0.1:8279", code: "bad_url") if @places.empty?

      @timeout, @retry_for = timeout, retry_for
      @headers = { "User-Agent" => "tarry-ruby", "Accept-Encoding" => "identity" }
      @headers["Authorization"] = "Bearer #{token}" if token && !token.empty?
      @lock, @at, @idle, @process = Mutex.new, 0, [], Process.pid
    end

    def close
      idle = @lock.synchronize { @idle.slice!(0..) }
      idle.each { |_, connection| finish(connection) }
    end

    # Returns the members of the answer to a call that was carried out; otherwise raises the error.
    def call(method, path, **how)
      perform(Call.new(method: method, path: path, **how))
    end

    # The same for a call that reports whether it was repeated.
    def perform(call)
      limit = now + (call.retry_for || @retry_for)
      pause, is_last = FIRST_PAUSE, false
      loop do
        fault = attempt(call) { |members| return members }
        wait = fault.retry_after
        raise fault if call.once || fault.status.positive? && !AGAIN.include?(fault.status)

        call.repeated ||= ![429, 503].include?(fault.status)
        unless wait
          wait = pause * rand(0.5..1.0)
          pause = [2 * pause, call.pause_max || LONGEST_PAUSE].min
        end
        left = limit - now
        raise fault if is_last || call.goes_on && !call.goes_on.call || fault.retry_after && wait > left

        is_last = wait >= left # the last try is at the limit, not before it
        sleep([[wait, left].min, 0].max)
      end
    end

    # Makes one try. `cut` can end it from another thread.
    def once(call, cut = nil)
      at, connection = lend(call.timeout || @timeout)
      begin
        connection.start unless connection.started?
        cut&.hold(connection)
        found = connection.request(request_of(call, @places[at].prefix))
        raise EOFError, "the answer is cut" if found.content_length && found.body.to_s.bytesize < found.content_length # Net::HTTP accepts it

        answer = found
      rescue *BROKEN
        next_place(at)
        raise
      ensure
        cut&.hold(nil)
        answer ? keep(at, connection) : finish(connection)
      end
      next_place(at) if [502, 503, 504].include?(answer.code.to_i)
      Answer.new(answer.code.to_i, members_of(answer.body), retry_after_of(answer))
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # Yields the members of a success, or returns the error.
    def attempt(call)
      answer = once(call)
      return Error.of(answer.status, answer.members, answer.retry_after) if answer.status >= 300

      yield answer.members
    rescue *BROKEN => e
      Unavailable.new("no answer: #{e.message}", code: "no_answer")
    end

    def request_of(call, prefix)
      query = (call.query || []).map { |name, value| "#{Format.encoded(name)}=#{Format.encoded(value)}" }.join("&")
      request = METHODS.fetch(call.method).new(prefix + call.path + (query.empty? ? "" : "?#{query}"))
      @headers.merge(call.headers || {}).each { |name, value| request[name] = value }
      request.body = call.body || "" if call.body || request.request_body_permitted? && call.method != "DELETE"
      request["Content-Type"] ||= "application/octet-stream" if request.body
      request
    end

    def members_of(text)
      found = JSON.parse(text.to_s)
      found.is_a?(Hash) ? found : {}
    rescue JSON::ParserError
      {} # an empty answer, or a page of a proxy
    end

    # Seconds from either form of the header. A date is compared with the Date of the answer, because the local clock may be wrong.
    def retry_after_of(answer)
      text = answer["Retry-After"]&.strip
      return text && text.to_f if text.nil? || text.match?(/\A\d+\z/)

      [Time.httpdate(text) - (answer["Date"] ? Time.httpdate(answer["Date"]) : Time.now), 0.0].max
    rescue ArgumentError
      nil
    end

    def lend(timeout)
      at, connection = @lock.synchronize do
        @idle, @process = [], Process.pid if @process != Process.pid # a child must not use the connections of its parent
        @idle.delete_if { |at, other| at != @at && finish(other) }
        @idle.pop || [@at, nil]
      end
      connection ||= @places[at].connection
      connection.open_timeout = connection.read_timeout = connection.write_timeout = timeout
      [at, connection]
    end

    def keep(at, connection)
      @lock.synchronize { @idle.push([at, connection]) if connection.started? }
    end

    def finish(connection)
      connection.finish if connection.started?
      true
    rescue *BROKEN
      true # closed already
    end

    def next_place(failed)
      @lock.synchronize { @at = (@at + 1) % @places.size if @at == failed }
    end

    def tls_of(ca_file, certificate, key)
      tls = { verify_mode: OpenSSL::SSL::VERIFY_PEER }
      if ca_file
        certificates_of(ca_file)
        tls[:ca_file] = ca_file.to_s
      end
      return tls unless certificate

      tls[:cert], *tls[:extra_chain_cert] = certificates_of(certificate)
      tls[:key] = read_pem(key || certificate) { |text| OpenSSL::PKey.read(text) }
      tls
    end

    def certificates_of(path)
      read_pem(path) { |text| OpenSSL::X509::Certificate.load(text) }
    end

    def read_pem(path)
      yield File.read(path)
    rescue SystemCallError => e
      raise Refused.new("'#{path}' cannot be read: #{e.message}", code: "bad_file")
    rescue OpenSSL::OpenSSLError => e
      raise Refused.new("'#{path}' is not a PEM file of the expected kind: #{e.message}", code: "bad_file")
    end
  end

  # Cuts a request from another thread: the connection on which it waits is closed.
  class Cut
    def initialize
      @lock, @connection, @cut = Mutex.new, nil, false
    end

    def cut
      @lock.synchronize do
        @cut = true
        @connection&.finish
      rescue IOError
        nil # it is closed already
      end
    end

    def hold(connection)
      @lock.synchronize do
        raise IOError, "cut" if @cut && connection

        @connection = connection
      end
    end
  end
end
