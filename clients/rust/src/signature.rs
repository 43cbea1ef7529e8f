//! Checks that a callback was sent by your own server: Standard Webhooks.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::prelude::{Engine, BASE64_STANDARD};
use ring::hmac;

use crate::Job;

const TOLERANCE: Duration = Duration::from_secs(300); // either way

/// The callback was not signed with one of the secrets, or not just now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSignature(String);

impl fmt::Display for BadSignature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for BadSignature {}

/// Returns the job of a callback. `secrets`: one, or several while they change, as in the policy file, with or without `whsec_`. `body`: the
/// received bytes. The signature covers id, time and body; trust the other headers, and so the topic and the id, only on https.
///
/// ```no_run
/// # fn received(headers: Vec<(String, String)>, body: Vec<u8>) -> Result<(), tarry::BadSignature> {
/// let job = tarry::verify(&["whsec_c2VjcmV0"], headers, &body)?;
/// # Ok(())
/// # }
/// ```
pub fn verify<N: AsRef<str>, V: AsRef<[u8]>>(secrets: &[&str], headers: impl IntoIterator<Item = (N, V)>, body: &[u8]) -> Result<Job, BadSignature> {
    verify_at(SystemTime::now(), secrets, headers, body)
}

/// Does the same as [`verify`] at another time.
pub fn verify_at<N, V>(now: SystemTime, secrets: &[&str], headers: impl IntoIterator<Item = (N, V)>, body: &[u8]) -> Result<Job, BadSignature>
where
    N: AsRef<str>,
    V: AsRef<[u8]>,
{
    let (mut message, mut stamp, mut signatures) = (String::new(), String::new(), String::new());
    let mut job = Job { body: body.into(), content_type: "application/octet-stream".into(), state: "leased".into(), priority: 100, ..Job::default() };
    for (name, value) in headers {
        let (name, value) = (name.as_ref().to_ascii_lowercase(), String::from_utf8_lossy(value.as_ref()).into_owned());
        match name.as_str() {
            "webhook-id" => message = value,
            "webhook-timestamp" => stamp = value,
            "webhook-signature" => signatures = value,
            "tarry-topic" => job.topic = value,
            "tarry-id" => job.id = value,
            "tarry-attempt" => job.attempt = value.parse().unwrap_or_default(),
            "tarry-delivery" => job.delivery = value.parse().unwrap_or_default(),
            "content-type" => job.content_type = value,
            _ => drop(name.strip_prefix("tarry-meta-").map(|name| job.meta.insert(name.into(), value))),
        }
    }
    let is_digits = !stamp.is_empty() && stamp.bytes().all(|byte| byte.is_ascii_digit());
    let sent = stamp.parse().ok().filter(|_| is_digits).map(Duration::from_secs);
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    if sent.is_none_or(|sent| sent.abs_diff(now) > TOLERANCE) {
        return Err(BadSignature("the time stamp is missing or too far away".into()));
    }
    let signed = [format!("{message}.{stamp}.").as_bytes(), body].concat();
    let mut matches = false;
    for secret in secrets {
        let key = BASE64_STANDARD.decode(secret.strip_prefix("whsec_").unwrap_or(secret));
        let key = key.map_err(|_| BadSignature("a secret is not base64, give it as in the policy file".into()))?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        for signature in signatures.split(' ').filter_map(|one| BASE64_STANDARD.decode(one.strip_prefix("v1,")?).ok()) {
            matches |= hmac::verify(&key, &signed, &signature).is_ok(); // in constant time
        }
    }
    if matches {
        Ok(job)
    } else {
        Err(BadSignature("no signature is right".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_callback_is_a_job_and_a_changed_one_is_not() {
        let (secret, body) = ("whsec_c2VjcmV0", b"x");
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"secret"), b"msg.1000000.x");
        let signature = format!("v1,AAAA v1,{}", BASE64_STANDARD.encode(tag));
        let headers =
            [("Webhook-Id", "msg"), ("Webhook-Timestamp", "1000000"), ("Webhook-Signature", &signature), ("Tarry-Id", "7"), ("Tarry-Meta-who", "Ada")];
        let job = verify_at(now, &["b3RoZXI=", secret], headers, body).unwrap();
        assert_eq!((job.id.as_str(), job.meta["who"].as_str()), ("7", "Ada"));
        assert!(verify_at(now, &[secret], headers, b"y").is_err());
        assert!(verify_at(now + Duration::from_secs(301), &[secret], headers, body).is_err());
        assert!(verify_at(now, &["???"], headers, body).unwrap_err().to_string().contains("not base64"));
    }
}
