# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require_relative "../lib/tarry"

# The vectors that all clients share, stores, and a job that cannot be decoded.
class CodecTest < Minitest::Test
  FOUND = JSON.parse(File.read(File.join(__dir__, "../../conformance/codec.json")))

  class MemoryStore < Hash
    alias get []
    alias put store
  end

  def bytes(text)
    text&.unpack1("m0")
  end

  def codec(one)
    store = MemoryStore.new.update((one["stored"] || {}).transform_values { |data| bytes(data) })
    Tarry::Codec.new(gzip: Tarry::Gzip.new(inflated: one.fetch("inflated", 1 << 26)), aes_gcm: one["no_keys"] ? nil : Tarry::AesGcm.new(FOUND["current"], FOUND["keys"]),
                     claim_check: one["no_store"] ? nil : Tarry::ClaimCheck.new(store), context: one.fetch("context", FOUND["context"]))
  end

  def test_encodes_as_every_client_does
    FOUND["vectors"].each do |one|
      made = codec(one).encode(bytes(one["body_base64"]), one["content_type"], one["part"], steady: one.fetch("is_steady", false), nonce: bytes(one["nonce_base64"]))
      assert_equal [bytes(one["encoded_base64"]), one["encoded_type"]], made, one["about"]
    end
  end

  def test_decodes_what_every_client_encodes
    [*FOUND["vectors"], *FOUND["decodes"], *FOUND["outputs"].values.flatten].each do |one|
      data, kind = codec(one).decode(bytes(one["encoded_base64"]), one["encoded_type"], one["part"])
      assert_equal [bytes(one["body_base64"]), one["content_type"]], [data, kind], one["about"]
    end
  end

  def test_reports_what_is_wrong
    FOUND["errors"].each do |one|
      error = assert_raises(Tarry::CodecError, one["about"]) { codec(one).decode(bytes(one["encoded_base64"]), one["encoded_type"], one["part"]) }
      assert_equal one["error"], error.detail, one["about"]
    end
  end

  def test_only_what_becomes_smaller_is_compressed
    mine, random = Tarry::Codec.new(gzip: Tarry::Gzip.new(above: 100)), SecureRandom.bytes(200)
    ["a" * 99, random].each { |data| assert_equal [data, "text/plain"], mine.encode(data, "text/plain") }
    assert_equal "application/vnd.tarry.encoded; steps=gzip", mine.encode("a" * 100, "text/plain").last
  end

  def job(data, kind)
    Tarry::Job.of("topic" => "t", "id" => "1", "body_base64" => [data].pack("m0"), "content_type" => kind)
  end

  def test_large_bodies_are_stored_and_deleted
    Dir.mktmpdir do |place|
      mine = Tarry::Codec.new(claim_check: Tarry::ClaimCheck.new(Tarry::DirectoryStore.new(place), above: 20))
      data, kind = mine.encode("a body that is longer", "text/plain")
      assert_equal [[data], "application/vnd.tarry.encoded; steps=claim-check"], [Dir.children(place), kind]
      assert_equal 0o600, File.stat(File.join(place, data)).mode & 0o777
      found = job(data, kind).decode(mine)
      assert_equal ["a body that is longer", "text/plain", data], [found.text, found.content_type, found.stored_as]
      2.times { mine.delete_stored(found) }
      assert_empty Dir.children(place)
    end
  end

  def test_a_body_that_cannot_be_decoded_is_never_read_as_it_is
    one = FOUND["vectors"].first
    [nil, Tarry::Codec.new].each do |mine|
      found = job(bytes(one["encoded_base64"]), one["encoded_type"]).decode(mine)
      %i[body text json].each { |read| assert_raises(Tarry::CodecError) { found.public_send(read) } }
      assert found.codec_error && found.result.nil?
    end
  end

  def test_bad_keys_are_rejected
    [["a", { "b" => "k" * 32 }], ["a", { "a" => "k" * 16 }], ["a b", { "a b" => "k" * 32 }]].each { |given| assert_raises(ArgumentError) { Tarry::AesGcm.new(*given) } }
  end
end
