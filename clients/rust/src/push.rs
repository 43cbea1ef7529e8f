//! A job to be pushed.

use std::time::{Duration, SystemTime};

use base64::prelude::{Engine, BASE64_STANDARD};
use serde_json::{Map, Value};

use crate::text::{milliseconds, moment, new_id};
use crate::{Body, Codec, Error, JobName};

/// A job to be pushed. What is not set follows the topic.
///
/// Without an id the client makes one, so that a push that is repeated because its answer was lost creates one job.
#[derive(Debug, Clone)]
#[must_use]
pub struct Push {
    pub(crate) topic: String,
    body: Body,
    id: Option<String>,
    options: Map<String, Value>, // as the API has them
    meta: Map<String, Value>,
    has_once: bool,
    member_jobs: Vec<Push>,
}

impl Push {
    /// Makes a push of a body, which is text, bytes, or JSON: see [`Body`].
    pub fn new(topic: impl Into<String>, body: impl Into<Body>) -> Push {
        Push { topic: topic.into(), body: body.into(), id: None, options: Map::new(), meta: Map::new(), has_once: false, member_jobs: Vec::new() }
    }

    fn set(mut self, name: &str, value: impl Into<Value>) -> Push {
        self.options.insert(name.into(), value.into());
        self
    }

    /// Sets your id, by which you cancel, reschedule and look up the job.
    pub fn id(mut self, id: impl Into<String>) -> Push {
        self.id = Some(id.into());
        self
    }

    /// Makes the job due after this time.
    pub fn delay(self, delay: Duration) -> Push {
        self.set("delay", milliseconds(delay))
    }

    /// Makes the job due at this time.
    pub fn at(self, at: SystemTime) -> Push {
        self.set("at", moment(at))
    }

    /// Sets the priority; a lower one is delivered first.
    pub fn priority(self, priority: i64) -> Push {
        self.set("priority", priority)
    }

    /// Sets the time after which the job expires.
    pub fn ttl(self, ttl: Duration) -> Push {
        self.set("ttl", milliseconds(ttl))
    }

    /// Sets the lease of a take that names none.
    pub fn lease(self, lease: Duration) -> Push {
        self.set("lease_for", milliseconds(lease))
    }

    /// Sets the number of attempts after which the job is dead.
    pub fn max_attempts(self, attempts: u32) -> Push {
        self.set("max_attempts", attempts)
    }

    /// Sets the waits between attempts, such as `exponential:1s..1h` or `fixed:30s`.
    pub fn backoff(self, backoff: impl Into<String>) -> Push {
        self.set("backoff", backoff.into())
    }

    /// Decides what happens if the id exists: `replace`, `keep`, `reject` or `after`.
    pub fn on_conflict(self, on_conflict: impl Into<String>) -> Push {
        self.set("on_conflict", on_conflict.into())
    }

    /// Makes the push idempotent: if a push to the topic had the same text within [`once_for`](Push::once_for) (5 minutes), nothing changes, even
    /// if its job has ended. The server then makes a missing id.
    pub fn once(mut self, once: impl Into<String>) -> Push {
        self.has_once = true;
        self.set("once", once.into())
    }

    /// Sets how long the server remembers [`once`](Push::once).
    pub fn once_for(self, once_for: Duration) -> Push {
        self.set("once_for", milliseconds(once_for))
    }

    /// Sets how long the server keeps the job and its result after its end, in place of the setting of the topic; zero keeps nothing.
    pub fn keep_finished(self, keep: Duration) -> Push {
        self.set("keep_finished", milliseconds(keep))
    }

    /// Sets the group. Groups, such as the tenants of a service, are served fairly and may have limits.
    pub fn group(self, group: impl Into<String>) -> Push {
        self.set("group", group.into())
    }

    /// Makes the job a member of the batch of this waiting job.
    pub fn batch(self, name: impl Into<JobName>) -> Push {
        let JobName { topic, id } = name.into();
        self.set("batch_topic", topic).set("batch_id", id)
    }

    /// Names the lease of a member of the batch that runs, which may add members after the close.
    pub fn parent(self, lease: impl Into<String>) -> Push {
        self.set("parent", lease.into())
    }

    /// Makes the job wait: it becomes due when its batch is closed and all members have ended.
    pub fn waits(self) -> Push {
        self.set("waits", true)
    }

    /// Makes the batch of this waiting job close itself when it has this number of members.
    pub fn members(self, members: u32) -> Push {
        self.set("members", members)
    }

    /// Sets the time after which the waiting job becomes due in any case, 7 days by default.
    pub fn wait_at_most(self, time: Duration) -> Push {
        self.set("wait_at_most", milliseconds(time))
    }

    /// Sets the time after which the waiting job is dead if its batch is not closed, 1 hour by default.
    pub fn close_within(self, time: Duration) -> Push {
        self.set("close_within", milliseconds(time))
    }

    /// Sets the effect of a dead member on the waiting job: `go`, `hold` or `stop`.
    pub fn on_dead(self, on_dead: impl Into<String>) -> Push {
        self.set("on_dead", on_dead.into())
    }

    /// Sets the members of this member in [`push_batch`](crate::Client::push_batch).
    pub fn member_jobs(mut self, jobs: impl IntoIterator<Item = Push>) -> Push {
        self.member_jobs = jobs.into_iter().collect();
        self
    }

    /// Sets the URL to which the server delivers the job.
    pub fn callback(self, url: impl Into<String>) -> Push {
        self.set("callback", url.into())
    }

    /// Adds a name and a value that are delivered with the job.
    pub fn meta(mut self, name: impl Into<String>, value: impl Into<String>) -> Push {
        self.meta.insert(name.into(), value.into().into());
        self
    }

    /// Sets another content type than that of the kind of body.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Push {
        self.body.content_type = content_type.into();
        self
    }

    /// Sets the trace that the job continues.
    pub fn traceparent(self, traceparent: impl Into<String>) -> Push {
        self.meta("traceparent", traceparent)
    }

    /// Sets the state of the trace.
    pub fn tracestate(self, tracestate: impl Into<String>) -> Push {
        self.meta("tracestate", tracestate)
    }

    /// Makes the id, once, before the first request.
    fn with_id(mut self) -> Push {
        if self.id.is_none() {
            self.id = (!self.has_once).then(new_id); // else the server makes one that belongs to the shard of the once
            self.options.entry("on_conflict").or_insert("keep".into());
        }
        self
    }

    /// Encodes the body, if the client has a codec.
    pub(crate) fn encoded(mut self, codec: Option<&Codec>) -> Result<Push, Error> {
        if let Some(codec) = codec {
            self.body = codec.encode(self.body)?;
        }
        self.member_jobs = self.member_jobs.into_iter().map(|push| push.encoded(codec)).collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// Returns the item of a batch push.
    pub(crate) fn into_item(self) -> Value {
        let Push { topic, body, id, mut options, meta, member_jobs, .. } = self.with_id();
        options.insert("topic".into(), topic.into());
        options.insert("body_base64".into(), BASE64_STANDARD.encode(&body.bytes).into());
        options.insert("content_type".into(), body.content_type.into());
        options.extend(id.map(|id| ("id".into(), id.into())));
        if !meta.is_empty() {
            options.insert("meta".into(), meta.into());
        }
        if !member_jobs.is_empty() {
            options.insert("members".into(), member_jobs.into_iter().map(Push::into_item).collect());
        }
        options.into()
    }

    /// Returns the parts of a push of one job.
    pub(crate) fn into_parts(self) -> Parts {
        let Push { topic, body, id, options, meta, .. } = self.with_id();
        let text = |value: Value| match value {
            Value::String(text) => text,
            value => value.to_string(),
        };
        let header = |name: String| match name.as_str() {
            "traceparent" | "tracestate" => name,
            _ => format!("Tarry-Meta-{name}"),
        };
        Parts {
            topic,
            id,
            body,
            query: options.into_iter().map(|(name, value)| (name, text(value))).collect(),
            headers: meta.into_iter().map(|(name, value)| (header(name), text(value))).collect(),
        }
    }
}

/// A push of one job: what goes into the path, the query, the headers and the body.
pub(crate) struct Parts {
    pub(crate) topic: String,
    pub(crate) id: Option<String>,
    pub(crate) body: Body,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: Vec<(String, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_push_without_an_id_gets_one_and_keeps_what_exists() {
        let item = Push::new("t", "x").into_item();
        assert_eq!((item["id"].as_str().unwrap().len(), &item["on_conflict"]), (26, &json!("keep")));
        let item = Push::new("t", "x").once("order-1").into_item();
        assert_eq!((item.get("id"), &item["on_conflict"]), (None, &json!("keep")));
        let item = Push::new("t", "x").id("a").into_item();
        assert_eq!((&item["id"], item.get("on_conflict")), (&json!("a"), None));
    }

    #[test]
    fn a_member_of_a_chain_has_members_of_its_own() {
        let item = Push::new("t", "x").id("2").member_jobs([Push::new("t", "x").id("1").batch(("r", "7")).parent("L")]).into_item();
        let member = &item["members"][0];
        assert_eq!((&member["id"], &member["batch_topic"], &member["batch_id"], &member["parent"]), (&json!("1"), &json!("r"), &json!("7"), &json!("L")));
    }

    #[test]
    fn options_have_the_names_and_units_of_the_api() {
        let item =
            Push::new("t", b"x").id("a").delay(Duration::from_secs(1)).lease(Duration::from_millis(1)).priority(3).meta("who", "Ada").group("g").into_item();
        let expected = json!({"topic": "t", "id": "a", "body_base64": "eA==", "content_type": "application/octet-stream", "delay": "1000ms",
            "lease_for": "1ms", "priority": 3, "meta": {"who": "Ada"}, "group": "g"});
        assert_eq!(item, expected);
    }
}
