# frozen_string_literal: true

module Tarry
  # The callback was not signed with one of the secrets, or not just now.
  class BadSignature < StandardError; end

  TOLERANCE = 300 # seconds, either way
  private_constant :TOLERANCE

  # Returns the job of a callback. `secrets`: one or several (while they change), as in the policy file, with or without `whsec_`. `headers`: a hash,
  # by the names of HTTP or of Rack. `body`: the received bytes. The signature covers id, time and body; trust the other headers only on https.
  def self.verify(secrets, headers, body, now: Time.now)
    found = headers.to_h { |name, value| [name.to_s.downcase.delete_prefix("http_").tr("_", "-"), value.to_s] }
    message, stamp = found["webhook-id"].to_s, found["webhook-timestamp"].to_s
    raise BadSignature, "the time stamp is missing or too far away" unless stamp.match?(/\A\d+\z/) && (now.to_f - stamp.to_i).abs <= TOLERANCE

    given = found["webhook-signature"].to_s.split
    matches = Array(secrets).count do |secret|
      key = Format.bytes_of(secret.delete_prefix("whsec_")) or raise ArgumentError, "a secret is not base64, give it as in the policy file"
      expected = "v1,#{Format.base64(OpenSSL::HMAC.digest("SHA256", key, "#{message}.#{stamp}.".b + body.b))}"
      given.count { |one| OpenSSL.secure_compare(one, expected) }.positive?
    end
    raise BadSignature, "no signature is right" if matches.zero?

    meta = found.filter_map { |name, value| [name.delete_prefix("tarry-meta-"), value] if name.start_with?("tarry-meta-") }.to_h
    Job.new(topic: found["tarry-topic"].to_s, id: found["tarry-id"].to_s, body: body.b, content_type: found["content-type"], meta: meta,
            attempt: found["tarry-attempt"].to_i, delivery: found["tarry-delivery"].to_i)
  end
end
