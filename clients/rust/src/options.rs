//! Options of calls. What is not set has the default of the server.

use std::time::{Duration, SystemTime};

use base64::prelude::{Engine, BASE64_STANDARD};
use serde_json::{Map, Value};

use crate::codec::BODY;
use crate::text::{cut, milliseconds, moment};
use crate::{Body, Codec, Error};

pub(crate) const ERROR_BYTES: usize = 200;
const PROGRESS_BYTES: usize = 256;

pub(crate) type Query = Vec<(String, String)>;
type Members = Map<String, Value>;

/// Which jobs to take.
#[derive(Debug, Clone)]
#[must_use]
pub struct Take {
    pub(crate) query: Query,
    pub(crate) wait: Duration,
}

impl Take {
    /// Takes a job of these topics, the first topic first.
    pub fn new<T: Into<String>>(topics: impl IntoIterator<Item = T>) -> Take {
        let mut query = vec![("body".into(), "base64".into())];
        query.extend(topics.into_iter().map(|topic| ("topic".into(), topic.into())));
        Take { query, wait: Duration::ZERO }
    }

    fn set(mut self, name: &str, value: String) -> Take {
        self.query.retain(|(other, _)| other != name);
        self.query.push((name.into(), value));
        self
    }

    /// Sets the largest number of jobs, 1 by default.
    pub fn max(self, jobs: usize) -> Take {
        self.set("max", jobs.to_string())
    }

    /// Sets how long to wait for the first job.
    pub fn wait(mut self, wait: Duration) -> Take {
        self.wait = wait;
        self.set("wait", milliseconds(wait))
    }

    /// Sets the lease, in place of that of the job.
    pub fn lease(self, lease: Duration) -> Take {
        self.set("lease_for", milliseconds(lease))
    }

    /// Sets the name that is shown as the holder of the jobs, in 1 to 64 printable ASCII characters.
    pub fn consumer(self, consumer: impl Into<String>) -> Take {
        self.set("consumer", consumer.into())
    }
}

/// Which jobs [`Client::list`](crate::Client::list) returns; by default all, without bodies.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Filter {
    pub(crate) query: Query,
    pub(crate) page: Option<usize>,
}

impl Filter {
    /// Selects all jobs.
    pub fn new() -> Filter {
        Filter::default()
    }

    fn set(mut self, name: &str, value: impl Into<String>) -> Filter {
        self.query.push((name.into(), value.into()));
        self
    }

    /// Selects the jobs in this state.
    pub fn state(self, state: impl Into<String>) -> Filter {
        self.set("state", state)
    }

    /// Selects the jobs whose id begins so.
    pub fn id_prefix(self, prefix: impl Into<String>) -> Filter {
        self.set("id_prefix", prefix)
    }

    /// Requests the bodies as well.
    pub fn bodies(self) -> Filter {
        self.set("body", "base64")
    }

    /// Sets the number of jobs in a request, 100 by default.
    pub fn page(mut self, jobs: usize) -> Filter {
        self.page = Some(jobs);
        self
    }
}

/// Which members [`Client::members`](crate::Client::members) returns; by default all, without results.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct MemberFilter {
    pub(crate) query: Query,
    pub(crate) page: Option<usize>,
}

impl MemberFilter {
    /// Selects all members.
    pub fn new() -> MemberFilter {
        MemberFilter::default()
    }

    /// Selects the members with this outcome: `unfinished`, `acked`, `dead`, `cancelled` or `expired`.
    pub fn outcome(mut self, outcome: impl Into<String>) -> MemberFilter {
        self.query.push(("outcome".into(), outcome.into()));
        self
    }

    /// Requests the results of finished members as well.
    pub fn results(mut self) -> MemberFilter {
        self.query.push(("results".into(), "true".into()));
        self
    }

    /// Sets the number of members in a request, 100 by default.
    pub fn page(mut self, members: usize) -> MemberFilter {
        self.page = Some(members);
        self
    }
}

/// What [`Client::reschedule`](crate::Client::reschedule) changes.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Move {
    pub(crate) query: Query,
}

impl Move {
    /// Makes the job due after this time.
    pub fn delay(delay: Duration) -> Move {
        Move::default().set("delay", milliseconds(delay))
    }

    /// Makes the job due at this time.
    pub fn at(at: SystemTime) -> Move {
        Move::default().set("at", moment(at))
    }

    /// Changes the priority.
    pub fn priority(self, priority: i64) -> Move {
        self.set("priority", priority.to_string())
    }

    fn set(mut self, name: &str, value: String) -> Move {
        self.query.push((name.into(), value));
        self
    }
}

/// Options of an ack.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Ack {
    pub(crate) members: Members,
}

impl Ack {
    /// Acks without a result.
    pub fn new() -> Ack {
        Ack::default()
    }

    /// Sets the result of the job.
    pub fn result(mut self, result: impl Into<Body>) -> Ack {
        result.into().add_result(&mut self.members);
        self
    }

    /// Sets how long no job of its group is delivered; without a group, of its topic.
    pub fn hold(mut self, hold: Duration) -> Ack {
        self.members.insert("hold".into(), milliseconds(hold).into());
        self
    }
}

/// Options of a nack.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Nack {
    pub(crate) members: Members,
}

impl Nack {
    /// Makes the next attempt follow the backoff of the job.
    pub fn new() -> Nack {
        Nack::default()
    }

    fn set(mut self, name: &str, value: impl Into<Value>) -> Nack {
        self.members.insert(name.into(), value.into());
        self
    }

    /// Sets the time until the next attempt, in place of the backoff.
    pub fn delay(self, delay: Duration) -> Nack {
        self.set("delay", milliseconds(delay))
    }

    /// Sets the error of the attempt, cut to 200 bytes.
    pub fn error(self, error: &str) -> Nack {
        match cut(error, ERROR_BYTES) {
            text if text.is_empty() => self,
            text => self.set("error", text),
        }
    }

    /// Makes the job dead: no further attempt follows.
    pub fn final_attempt(self) -> Nack {
        self.set("final", true)
    }

    /// Sets the result that is sent to those that wait for the job, with [`final_attempt`](Nack::final_attempt).
    pub fn result(mut self, result: impl Into<Body>) -> Nack {
        result.into().add_result(&mut self.members);
        self
    }

    /// Sets how long no job of its group is delivered; without a group, of its topic.
    pub fn hold(self, hold: Duration) -> Nack {
        self.set("hold", milliseconds(hold))
    }
}

/// Options of an extension. A duration converts into one.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Extend {
    pub(crate) members: Members,
}

impl Extend {
    /// Extends the lease by the lease time of the job.
    pub fn new() -> Extend {
        Extend::default()
    }

    /// Sets the time after which the lease ends.
    pub fn lease(mut self, lease: Duration) -> Extend {
        self.members.insert("lease_for".into(), milliseconds(lease).into());
        self
    }

    /// Stores the progress of the job, which is shown with it, in up to 256 bytes of text.
    pub fn progress(mut self, progress: &str) -> Extend {
        self.members.insert("progress".into(), cut(progress, PROGRESS_BYTES).into());
        self
    }
}

impl From<Duration> for Extend {
    fn from(lease: Duration) -> Extend {
        Extend::new().lease(lease)
    }
}

/// How a job is pushed again. What is not set stays the same; without a delay the job is due now.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Again {
    pub(crate) query: Query,
    pub(crate) body: Option<Body>,
}

impl Again {
    /// Pushes the job again as it is.
    pub fn new() -> Again {
        Again::default()
    }

    fn set(mut self, name: &str, value: String) -> Again {
        self.query.push((name.into(), value));
        self
    }

    /// Sets another body.
    pub fn body(mut self, body: impl Into<Body>) -> Again {
        self.body = Some(body.into());
        self
    }

    /// Makes the job due after this time.
    pub fn delay(self, delay: Duration) -> Again {
        self.set("delay", milliseconds(delay))
    }

    /// Makes the job due at this time.
    pub fn at(self, at: SystemTime) -> Again {
        self.set("at", moment(at))
    }

    /// Changes the priority.
    pub fn priority(self, priority: i64) -> Again {
        self.set("priority", priority.to_string())
    }
}

/// A plan, and the jobs that it pushes. It has a cron expression, several, or an interval.
#[derive(Debug, Clone)]
#[must_use]
pub struct Schedule {
    members: Members,
    cron: Vec<String>,
    body: Option<Body>,
    pub(crate) takes_over: bool,
}

impl Schedule {
    /// Makes a plan that pushes jobs to a topic.
    pub fn new(topic: impl Into<String>) -> Schedule {
        Schedule { members: Members::new(), cron: Vec::new(), body: None, takes_over: false }.member("topic", topic.into())
    }

    /// Sets the body of the jobs. Text and JSON are shown in the plan as they are, any other body in base64.
    pub fn body(mut self, body: impl Into<Body>) -> Schedule {
        let body = body.into();
        self.body = Some(body.clone());
        let is_json = body.content_type == "application/json";
        let value = match (is_json, std::str::from_utf8(&body.bytes)) {
            (true, _) => serde_json::from_slice::<Value>(&body.bytes).ok(),
            (false, Ok(text)) if body.content_type.starts_with("text/") => Some(text.into()),
            _ => None,
        };
        match value {
            Some(value) => self.member("body", value),
            None => self.member("body_base64", BASE64_STANDARD.encode(&body.bytes)),
        }
    }

    /// Adds a cron expression. The plan fires when any of them fires.
    pub fn cron(mut self, cron: impl Into<String>) -> Schedule {
        self.cron.push(cron.into());
        self
    }

    /// Sets the interval, in place of a cron expression.
    pub fn every(self, every: Duration) -> Schedule {
        self.member("every", milliseconds(every))
    }

    /// Sets the time zone, such as `Europe/Berlin`; UTC by default.
    pub fn zone(self, zone: impl Into<String>) -> Schedule {
        self.member("zone", zone.into())
    }

    /// Also changes a schedule of another owner.
    pub fn take_over(mut self) -> Schedule {
        self.takes_over = true;
        self
    }

    /// Sets another member of the specification in docs/schedules.md, as the API has it, such as `("overlap", "skip")`.
    pub fn member(mut self, name: impl Into<String>, value: impl Into<Value>) -> Schedule {
        self.members.insert(name.into(), value.into());
        self
    }

    /// Encodes the body, if the client has a codec. Equal bodies have equal bytes, so that the same plan again changes nothing.
    pub(crate) fn encoded(mut self, codec: Option<&Codec>) -> Result<Schedule, Error> {
        let (Some(codec), Some(mut body)) = (codec, self.body.take()) else {
            return Ok(self);
        };
        if let Some(given) = self.members.get("content_type").and_then(Value::as_str) {
            body = body.content_type(given);
        }
        let body = codec.encode_part(body, BODY, true, None)?;
        self.members.remove("body");
        let schedule = self.member("body_base64", BASE64_STANDARD.encode(&body.bytes));
        Ok(schedule.member("content_type", body.content_type))
    }

    pub(crate) fn into_spec(mut self) -> Value {
        match self.cron.len() {
            0 => {}
            1 => drop(self.members.insert("cron".into(), self.cron.remove(0).into())),
            _ => drop(self.members.insert("cron".into(), self.cron.into())),
        }
        self.members.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schedule_shows_text_and_json_as_they_are() {
        let spec = |body: Body| Schedule::new("t").every(Duration::from_secs(1)).body(body).into_spec();
        assert_eq!(spec("ç".into()), json!({"topic": "t", "every": "1000ms", "body": "ç"}));
        assert_eq!(spec(json!({"a": 1}).into()), json!({"topic": "t", "every": "1000ms", "body": {"a": 1}}));
        assert_eq!(spec(b"\xff".into()), json!({"topic": "t", "every": "1000ms", "body_base64": "/w=="}));
    }

    #[test]
    fn one_cron_expression_is_a_text_and_several_are_a_list() {
        assert_eq!(Schedule::new("t").cron("a").into_spec()["cron"], json!("a"));
        assert_eq!(Schedule::new("t").cron("a").cron("b").into_spec()["cron"], json!(["a", "b"]));
    }

    #[test]
    fn a_later_option_of_a_take_replaces_an_earlier_one() {
        let take = Take::new(["a", "b"]).max(1).max(2);
        assert_eq!(take.query.iter().filter(|(name, _)| name == "max").count(), 1);
        assert_eq!(take.query.iter().filter(|(name, _)| name == "topic").count(), 2);
    }
}
