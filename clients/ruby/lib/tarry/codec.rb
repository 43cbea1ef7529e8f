# frozen_string_literal: true

require "openssl"
require "zlib"

module Tarry
  # A body or a result cannot be encoded or decoded. The detail names the key, the step or the limit.
  class CodecError < Error
    def initialize(detail)
      super(detail, code: "codec")
    end
  end

  # Compresses data of at least `above` bytes, if it becomes smaller. Data that inflates to more than `inflated` bytes is an error.
  Gzip = Struct.new(:above, :inflated) do
    def initialize(above: 1024, inflated: Codec::INFLATED_BYTES)
      super(above, inflated)
    end
  end

  # Encrypts with AES-256-GCM under the key `current`, and decrypts with each of `keys`: 32 bytes, or these in base64, by their ids.
  class AesGcm
    KEY_BYTES = 32
    NONCE_BYTES = 12
    TAG_BYTES = 16
    ID = /\A[A-Za-z0-9._-]{1,32}\z/
    attr_reader :current

    def initialize(current, keys)
      @current = current
      @keys = keys.to_h { |id, key| [id, key.bytesize == KEY_BYTES ? key.b : Format.bytes_of(key) || key] }
      raise ArgumentError, "there is no key '#{current}', add it to the keys" unless keys.key?(current)

      @keys.each do |id, key|
        raise ArgumentError, "bad id of a key '#{id}', give 1 to 32 letters, digits, dots, underscores and hyphens" unless id.match?(ID)
        raise ArgumentError, "the key '#{id}' has #{key.bytesize} bytes, give #{KEY_BYTES}" unless key.bytesize == KEY_BYTES
      end
      @nonce_keys = @keys.transform_values { |key| OpenSSL::HMAC.digest("SHA256", key, "tarry-codec nonce") }
    end

    # `steady`: equal data has equal bytes, so that the same schedule again changes nothing.
    def encrypt(data, bound, steady: false, nonce: nil)
      nonce ||= steady ? OpenSSL::HMAC.digest("SHA256", @nonce_keys[current], "#{bound}\n".b << data)[0, NONCE_BYTES] : SecureRandom.bytes(NONCE_BYTES)
      cipher = cipher_of(:encrypt, @keys[current], nonce, bound)
      nonce + cipher.update(data) + cipher.final + cipher.auth_tag(TAG_BYTES)
    end

    def decrypt(data, bound, id, part)
      key = @keys[id] or raise CodecError, "the #{part} is encrypted with the key '#{id}', which the codec does not have"
      text_bytes = data.bytesize - NONCE_BYTES - TAG_BYTES
      raise CodecError, "the #{part} is too short to be encrypted" if text_bytes.negative?

      cipher = cipher_of(:decrypt, key, data[0, NONCE_BYTES], bound)
      cipher.auth_tag = data[-TAG_BYTES, TAG_BYTES]
      (text_bytes.zero? ? "".b : cipher.update(data[NONCE_BYTES, text_bytes])) + cipher.final
    rescue OpenSSL::Cipher::CipherError
      raise CodecError, "the #{part} cannot be decrypted with the key '#{id}': it was changed, or has another context"
    end

    # Shows no key.
    def inspect
      "#<#{self.class} #{@keys.keys.join(', ')}>"
    end

    private

    def cipher_of(direction, key, nonce, bound)
      cipher = OpenSSL::Cipher.new("aes-256-gcm").public_send(direction)
      cipher.key, cipher.iv, cipher.auth_data = key, nonce, bound
      cipher
    end
  end

  # A directory that all producers and consumers share. The files are synced to the disk. A store of your own has put(name, data), get(name), which returns
  # nil if it does not have the data, and delete(name). A name is 32 hexadecimal digits. Threads may call a store at the same time.
  class DirectoryStore
    def initialize(path)
      @path = path
    end

    def put(name, data)
      temporary = File.join(@path, ".#{name}")
      File.open(temporary, File::WRONLY | File::CREAT | File::EXCL | File::BINARY, 0o600) do |file|
        file.write(data)
        file.fsync
      end
      File.rename(temporary, File.join(@path, name))
      File.open(@path, &:fsync)
    end

    def get(name)
      File.binread(File.join(@path, name))
    rescue Errno::ENOENT
      nil
    end

    def delete(name)
      File.unlink(File.join(@path, name))
    rescue Errno::ENOENT
      nil
    end
  end

  # Stores data of more than `above` bytes in `store`. The server gets its name. With `delete`, a worker deletes the data of a body after the ack of its job.
  ClaimCheck = Struct.new(:store, :above, :delete) do
    def initialize(store, above: 64 << 10, delete: true)
      super(store, above, delete)
    end
  end

  # The codec of bodies and results between the program and the server: compression, encryption, storage elsewhere, in this order. docs/codec.md has the format.
  #
  #   Tarry::Codec.new(gzip: Tarry::Gzip.new, aes_gcm: Tarry::AesGcm.new("2026-11", "2026-11" => key))
  #
  # `context`, such as the name of a service, must be the same for those that encrypt and decrypt: data of another context is rejected.
  class Codec
    ENCODED = "application/vnd.tarry.encoded"
    GZIP = "gzip"
    AES_GCM = "aes-gcm"
    CLAIM_CHECK = "claim-check"
    ORDER = [GZIP, AES_GCM, CLAIM_CHECK].freeze
    NAME = /\A[0-9a-f]{32}\z/
    INFLATED_BYTES = 64 << 20
    private_constant :ENCODED, :GZIP, :AES_GCM, :CLAIM_CHECK, :ORDER, :NAME

    def initialize(gzip: nil, aes_gcm: nil, claim_check: nil, context: "")
      @gzip, @aes_gcm, @claim_check, @context = gzip, aes_gcm, claim_check, context
    end

    # Returns the bytes for the server, and their content type. `part` is "body" or "result". `steady`, for schedules: equal data has equal bytes
    # and is never stored elsewhere. `nonce` is for tests.
    def encode(data, content_type, part = "body", steady: false, nonce: nil)
      raise CodecError, "the content type has more than 255 bytes" if content_type.bytesize > 255

      steps, out = [], [content_type.bytesize].pack("C") << content_type.b << data.b
      packed = compressed(data, out)
      steps, out = [GZIP], packed if packed
      if @aes_gcm
        steps << AES_GCM
        out = @aes_gcm.encrypt(out, bound(part, steps, @aes_gcm.current), steady: steady, nonce: nonce)
      end
      if @claim_check && !steady && out.bytesize > @claim_check.above
        steps << CLAIM_CHECK
        out = stored(out)
      end
      steps.empty? ? [data, content_type] : [out, "#{ENCODED}; steps=#{steps.join('+')}#{"; key=#{@aes_gcm.current}" if @aes_gcm}"]
    end

    # Returns the bytes and the content type as they were before encode, and the name in the store, if there is one. Data that is not encoded stays as it is.
    def decode(data, content_type, part = "body")
      return [data, content_type] unless self.class.encoded?(content_type)

      steps, key = self.class.steps_of(content_type, part)
      data, name = fetch(data, part), data if steps.delete(CLAIM_CHECK)
      data = decrypt(data, steps, key, part) if steps.include?(AES_GCM)
      data = inflate(data, part) if steps.include?(GZIP)
      head = data.getbyte(0)
      raise CodecError, "the #{part} is too short" if head.nil? || data.bytesize <= head

      [data.byteslice(head + 1..), data.byteslice(1, head).force_encoding(Encoding::UTF_8), name]
    end

    # Deletes the stored body of an acked job, if it has one. A worker does this itself.
    def delete_stored(job)
      @claim_check.store.delete(job.stored_as) if @claim_check&.delete && job.stored_as
    end

    def self.encoded?(content_type)
      content_type.to_s.split(";", 2).first.to_s.strip == ENCODED
    end

    # Returns the steps in the order of their application, and the id of the key.
    def self.steps_of(content_type, part)
      members = content_type.split(";").drop(1).to_h { |one| one.strip.split("=", 2).then { |name, value| [name, value.to_s] } }
      steps, key = members.fetch("steps", "").split("+", -1), members.fetch("key", "")
      steps = [""] if steps.empty?
      unknown = (steps - ORDER).first
      raise CodecError, "the #{part} has the step '#{unknown}', which the codec does not have" if unknown
      raise CodecError, "the content type of the #{part} is not valid" if steps != ORDER & steps || steps.include?(AES_GCM) != key.match?(AesGcm::ID)

      [steps, key]
    end

    private

    # Returns the additional data that is authenticated.
    def bound(part, steps, key)
      ["tarry-codec 1", part, steps.join("+"), key, @context].join("\n").b
    end

    # Returns nil if the data is not compressed.
    def compressed(data, out)
      return unless @gzip && data.bytesize >= @gzip.above

      packed = Zlib.gzip(out)
      packed if packed.bytesize < out.bytesize
    end

    def stored(data)
      SecureRandom.hex(16).tap { |name| @claim_check.store.put(name, data) }
    end

    def fetch(name, part)
      raise CodecError, "the #{part} is stored elsewhere, and the codec has no store" unless @claim_check
      raise CodecError, "the #{part} is stored elsewhere, but its name is not valid" unless name.match?(NAME)

      begin
        found = @claim_check.store.get(name)
      rescue StandardError => e
        raise CodecError, "the #{part} is stored elsewhere as '#{name}' and cannot be read: #{e.message}"
      end
      found or raise CodecError, "the #{part} is stored elsewhere as '#{name}', which the store does not have"
    end

    def decrypt(data, steps, key, part)
      raise CodecError, "the #{part} is encrypted with the key '#{key}', and the codec has no keys" unless @aes_gcm

      @aes_gcm.decrypt(data, bound(part, steps, key), key, part)
    end

    def inflate(data, part)
      most, out = @gzip ? @gzip.inflated : INFLATED_BYTES, "".b
      reader = Zlib::Inflate.new(16 + Zlib::MAX_WBITS)
      reader.inflate(data) do |piece|
        out << piece
        raise CodecError, "the #{part} inflates to more than #{most} bytes" if out.bytesize > most
      end
      raise CodecError, "the #{part} is not valid gzip" unless reader.finished? && reader.total_in == data.bytesize

      out
    rescue Zlib::Error
      raise CodecError, "the #{part} is not valid gzip"
    ensure
      reader&.reset
      reader&.close
    end
  end
end
