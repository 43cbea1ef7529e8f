//! A pushed job, and a delivered one.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use base64::prelude::{Engine, BASE64_STANDARD};
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::codec::stored_as;
use crate::text::time_of;
use crate::Error;

/// The body of a job, or its result: bytes with a content type.
///
/// Text and bytes convert into a body, and so does a [`serde_json::Value`]; use [`Body::json`] for any other value.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    pub(crate) bytes: Vec<u8>,
    pub(crate) content_type: String,
}

impl Body {
    /// Writes a value as JSON.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Body, Error> {
        let bytes = serde_json::to_vec(value).map_err(|fault| Error::refused("bad_body", format!("the body cannot be written as JSON: {fault}")))?;
        Ok(Body { bytes, content_type: "application/json".into() })
    }

    /// Sets another content type.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Body {
        self.content_type = content_type.into();
        self
    }

    /// Returns the bytes and their content type.
    pub fn into_parts(self) -> (Vec<u8>, String) {
        (self.bytes, self.content_type)
    }

    fn binary(bytes: Vec<u8>) -> Body {
        Body { bytes, content_type: "application/octet-stream".into() }
    }

    fn text(text: String) -> Body {
        Body { bytes: text.into_bytes(), content_type: "text/plain; charset=utf-8".into() }
    }

    /// Adds the members of an answer with this result.
    pub(crate) fn add_result(&self, item: &mut Map<String, Value>) {
        item.insert("result_base64".into(), BASE64_STANDARD.encode(&self.bytes).into());
        item.insert("result_type".into(), self.content_type.clone().into());
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Body::binary(bytes)
    }
}

impl From<&[u8]> for Body {
    fn from(bytes: &[u8]) -> Body {
        Body::binary(bytes.into())
    }
}

impl<const N: usize> From<&[u8; N]> for Body {
    fn from(bytes: &[u8; N]) -> Body {
        Body::binary(bytes.into())
    }
}

impl From<String> for Body {
    fn from(text: String) -> Body {
        Body::text(text)
    }
}

impl From<&str> for Body {
    fn from(text: &str) -> Body {
        Body::text(text.into())
    }
}

impl From<Value> for Body {
    fn from(value: Value) -> Body {
        Body { bytes: value.to_string().into_bytes(), content_type: "application/json".into() }
    }
}

/// The topic and the id of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobName {
    /// The topic of the job.
    pub topic: String,
    /// The id of the job.
    pub id: String,
}

impl<T: Into<String>, I: Into<String>> From<(T, I)> for JobName {
    fn from((topic, id): (T, I)) -> JobName {
        JobName { topic: topic.into(), id: id.into() }
    }
}

impl From<&Job> for JobName {
    fn from(job: &Job) -> JobName {
        JobName { topic: job.topic.clone(), id: job.id.clone() }
    }
}

impl From<&Pushed> for JobName {
    fn from(pushed: &Pushed) -> JobName {
        JobName { topic: pushed.topic.clone(), id: pushed.id.clone() }
    }
}

/// The outcome of a push.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Pushed {
    /// The topic of the job.
    pub topic: String,
    /// The id of the job.
    pub id: String,
    /// `created`, `replaced`, or `existed` if nothing was changed.
    pub result: String,
    /// When the job is due.
    pub due_at: Option<SystemTime>,
}

/// The outcome of [`Client::schedule`](crate::Client::schedule).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Scheduled {
    /// `created`, `replaced`, or `existed` if nothing was changed.
    pub result: String,
    /// The next fire; `None` if the schedule does not fire again.
    pub next: Option<SystemTime>,
}

/// A job as it was taken, or its current state. `body` has exactly the pushed bytes.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Job {
    /// The topic of the job.
    pub topic: String,
    /// The id of the job.
    pub id: String,
    /// The bytes that were pushed.
    pub body: Vec<u8>,
    /// The content type of the body.
    pub content_type: String,
    /// The names and values that were pushed with the job.
    pub meta: BTreeMap<String, String>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// A number that rises with every delivery of the job. Store it with your data to fence off late writes.
    pub delivery: u64,
    /// A lower priority is delivered first.
    pub priority: i64,
    /// The state: `delayed`, `ready`, `leased`, `retrying`, `dead`, `finished`; `unknown` if the server does not know the job.
    pub state: String,
    /// When the job is or was due.
    pub due_at: Option<SystemTime>,
    /// The lease of a taken job.
    pub lease: String,
    /// When the lease ends unless it is extended.
    pub lease_until: Option<SystemTime>,
    /// The error of the last attempt.
    pub last_error: Option<String>,
    /// The name of the consumer that holds the job.
    pub consumer: Option<String>,
    /// Whether a cancel was requested while the job was leased: unless it is acked, it is cancelled when the lease ends.
    pub cancel_requested: bool,
    /// The group of the job.
    pub group: Option<String>,
    /// The waiting job of the batch of which the job is a member.
    pub batch: Option<JobName>,
    /// The number of members that have not ended, while the job waits for them.
    pub waits_for: Option<u64>,
    /// The members of a waiting job by their outcome: `unfinished`, `acked`, `dead`, `cancelled`, `expired`.
    pub outcomes: BTreeMap<String, u64>,
    /// How a finished job ended: `acked`, `cancelled` or `expired`.
    pub outcome: Option<String>,
    /// When the job finished.
    pub finished_at: Option<SystemTime>,
    /// The duration of the last attempt of a finished job.
    pub duration: Option<Duration>,
    /// The last progress that the worker reported.
    pub progress: Option<String>,
    /// The result that the worker returned.
    pub result: Option<Vec<u8>>,
    /// The content type of the result.
    pub result_type: Option<String>,
    /// Why the body or the result, which is empty then, cannot be decoded. Check it before you ack a job whose body you read as bytes.
    pub codec_error: Option<Error>,
    /// The name of the body in the store of a claim check.
    pub stored_as: Option<String>,
}

impl Job {
    /// Returns the body as text; invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Reads the body as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.checked()?;
        serde_json::from_slice(&self.body)
    }

    /// Returns the result as text; empty if the job has no result.
    pub fn result_text(&self) -> String {
        String::from_utf8_lossy(self.result.as_deref().unwrap_or_default()).into_owned()
    }

    /// Reads the result as JSON; a missing result is an error.
    pub fn result_json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.checked()?;
        serde_json::from_slice(self.result.as_deref().unwrap_or_default())
    }

    fn checked(&self) -> Result<(), serde_json::Error> {
        self.codec_error.as_ref().map_or(Ok(()), |error| Err(serde::de::Error::custom(error)))
    }

    /// Returns the trace in which the job was pushed.
    pub fn traceparent(&self) -> Option<&str> {
        self.meta.get("traceparent").map(String::as_str)
    }

    /// Whether the job has ended: it is finished or dead.
    pub fn has_ended(&self) -> bool {
        matches!(self.state.as_str(), "finished" | "dead")
    }

    /// Reads a job of an answer that was requested with body=base64.
    pub(crate) fn of(members: &Map<String, Value>) -> Job {
        let text = |name| members.get(name).and_then(Value::as_str).map(String::from);
        let number = |name| members.get(name).and_then(Value::as_u64);
        let time = |name| members.get(name).and_then(Value::as_str).and_then(time_of);
        let meta = members.get("meta").and_then(Value::as_object);
        let body = bytes_of(members.get("body_base64")).unwrap_or_default();
        Job {
            stored_as: stored_as(&body, &text("content_type").unwrap_or_default()),
            codec_error: None,
            topic: text("topic").unwrap_or_default(),
            id: text("id").unwrap_or_default(),
            body,
            content_type: text("content_type").unwrap_or_else(|| "application/octet-stream".into()),
            meta: meta.into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.into()))).collect(),
            attempt: number("attempt").and_then(|number| number.try_into().ok()).unwrap_or_default(),
            delivery: number("delivery").unwrap_or_default(),
            priority: members.get("priority").and_then(Value::as_i64).unwrap_or(100),
            state: text("state").unwrap_or_else(|| "leased".into()),
            due_at: time("due_at"),
            lease: text("lease").unwrap_or_default(),
            lease_until: time("lease_until"),
            last_error: text("last_error"),
            consumer: text("consumer"),
            cancel_requested: members.get("cancel_requested").and_then(Value::as_bool).unwrap_or_default(),
            group: text("group"),
            batch: members.get("batch").and_then(name_of),
            waits_for: number("waits_for"),
            outcomes: members.get("outcomes").and_then(Value::as_object).map(counts_of).unwrap_or_default(),
            outcome: text("outcome"),
            finished_at: time("finished_at"),
            duration: number("duration_ms").map(Duration::from_millis),
            progress: text("progress"),
            result: result_of(members),
            result_type: text("result_type"),
        }
    }

    pub(crate) fn unknown(name: &JobName) -> Job {
        Job { topic: name.topic.clone(), id: name.id.clone(), state: "unknown".into(), ..Job::default() }
    }
}

fn name_of(batch: &Value) -> Option<JobName> {
    Some((batch["topic"].as_str()?, batch["id"].as_str()?).into())
}

fn counts_of(outcomes: &Map<String, Value>) -> BTreeMap<String, u64> {
    outcomes.iter().filter_map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect()
}

fn bytes_of(base64: Option<&Value>) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(base64?.as_str()?).ok()
}

/// The bytes of a result, which an answer has in base64, as text, or as JSON.
fn result_of(members: &Map<String, Value>) -> Option<Vec<u8>> {
    if let Some(bytes) = bytes_of(members.get("result_base64")) {
        return Some(bytes);
    }
    let is_json = members.get("result_type").and_then(Value::as_str).is_some_and(|kind| kind.starts_with("application/json"));
    match members.get("result")? {
        Value::Null => None,
        Value::String(text) if !is_json => Some(text.clone().into_bytes()),
        value => Some(value.to_string().into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_content_type_follows_the_kind_of_body() {
        let kind = |body: Body| body.content_type;
        assert_eq!(kind("x".into()), "text/plain; charset=utf-8");
        assert_eq!(kind(b"x".into()), "application/octet-stream");
        assert_eq!(kind(json!([1]).into()), "application/json");
        assert_eq!(kind(Body::from("{}").content_type("application/json")), "application/json");
        assert_eq!(Body::json(&vec![1, 2]).unwrap().bytes, b"[1,2]");
    }

    #[test]
    fn a_result_is_read_in_each_of_its_forms() {
        let result = |members: Value| Job::of(members.as_object().unwrap()).result;
        assert_eq!(result(json!({"result_base64": "/wAB"})), Some(vec![255, 0, 1]));
        assert_eq!(result(json!({"result": "x", "result_type": "text/plain"})), Some(b"x".into()));
        assert_eq!(result(json!({"result": "x", "result_type": "application/json"})), Some(br#""x""#.into()));
        assert_eq!(result(json!({"result": {"a": 1}, "result_type": "application/json"})), Some(br#"{"a":1}"#.into()));
        assert_eq!(result(json!({})), None);
    }
}
