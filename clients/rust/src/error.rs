//! Errors of calls. docs/clients.md lists the codes of each kind.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

/// A rejection by the server, or a missing answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The job or topic does not exist, or the job has finished.
    NotFound(Box<Problem>),
    /// The state of the job does not allow this: see [`Problem::state`].
    Conflict(Box<Problem>),
    /// The lease has ended, or was answered.
    LeaseEnded(Box<Problem>),
    /// The call is wrong, and a retry would fail again.
    Refused(Box<Problem>),
    /// The caller is unknown, or lacks the right.
    Denied(Box<Problem>),
    /// The topic, the caller, the disk or the memory has no room for another job.
    Full(Box<Problem>),
    /// The server did not answer within the retries. It is unknown whether the call was carried out.
    Unavailable(Box<Problem>),
    /// A body or a result cannot be encoded or decoded. The detail names the key, the step or the limit.
    Codec(Box<Problem>),
    /// Any other answer of the server.
    Server(Box<Problem>),
}

/// The reason for an error, as the server returned it.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Problem {
    /// Stable; docs/api.md has the table.
    pub code: String,
    /// A short name of the problem; may be empty.
    pub title: String,
    /// What failed and what to do, for people.
    pub detail: String,
    /// The status of HTTP; 0 for an item of a batch, and if there was no answer.
    pub status: u16,
    /// The state of the job, with [`Error::Conflict`].
    pub state: Option<String>,
    /// The limit that was met.
    pub limit: Option<Value>,
    /// The pause that the server requested.
    pub retry_after: Option<Duration>,
}

impl Error {
    /// Returns the reason for the error.
    pub fn problem(&self) -> &Problem {
        match self {
            Error::NotFound(problem)
            | Error::Conflict(problem)
            | Error::LeaseEnded(problem)
            | Error::Refused(problem)
            | Error::Denied(problem)
            | Error::Full(problem)
            | Error::Unavailable(problem)
            | Error::Codec(problem)
            | Error::Server(problem) => problem,
        }
    }

    /// Returns the stable code of the error.
    pub fn code(&self) -> &str {
        &self.problem().code
    }

    /// The error for a rejection: the members of a problem, or of a result in a batch.
    pub(crate) fn of(status: u16, members: &Map<String, Value>, retry_after: Option<Duration>) -> Error {
        let text = |name| members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let title = text("title").unwrap_or_default();
        let otherwise = || if status == 0 { "the item was rejected".into() } else { format!("the server answered {status}") };
        let problem = Problem {
            code: text("code").or(text("result")).unwrap_or_default().into(),
            title: title.into(),
            detail: text("detail").or(text("title")).map_or_else(otherwise, Into::into),
            status,
            state: text("state").map(Into::into),
            limit: members.get("limit").filter(|limit| !limit.is_null()).cloned(),
            retry_after,
        };
        kind_of(&problem.code, status)(Box::new(problem))
    }

    pub(crate) fn refused(code: &str, detail: impl Into<String>) -> Error {
        Error::Refused(Box::new(Problem { code: code.into(), detail: detail.into(), ..Problem::default() }))
    }

    pub(crate) fn codec(detail: String) -> Error {
        Error::Codec(Box::new(Problem { code: "codec".into(), detail, ..Problem::default() }))
    }

    pub(crate) fn no_answer(detail: impl fmt::Display) -> Error {
        Error::Unavailable(Box::new(Problem { code: "no_answer".into(), detail: format!("no answer: {detail}"), ..Problem::default() }))
    }

    pub(crate) fn no_result() -> Error {
        Error::Server(Box::new(Problem { code: "bad_answer".into(), detail: "the answer has no result for it".into(), ..Problem::default() }))
    }
}

fn kind_of(code: &str, status: u16) -> fn(Box<Problem>) -> Error {
    match (code, status) {
        ("not_found" | "no_batch", _) => Error::NotFound,
        ("conflict" | "leased" | "dead" | "batch_closed" | "waits" | "too_many_members" | "too_many_batches", _) => Error::Conflict,
        ("lease_ended", _) => Error::LeaseEnded,
        ("unauthorized" | "forbidden", _) => Error::Denied,
        ("topic_full" | "group_full" | "caller_full" | "no_space" | "memory", _) => Error::Full,
        ("too_many_requests" | "unavailable" | "stopping", _) => Error::Unavailable,
        (_, 401 | 403) => Error::Denied,
        (_, 404) => Error::NotFound,
        (_, 409) => Error::Conflict,
        (_, 429 | 502..=504) => Error::Unavailable,
        (_, 507) => Error::Full,
        (_, 0 | 400..=499) => Error::Refused,
        _ => Error::Server,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = self.problem();
        match problem.code.as_str() {
            "" => out.write_str(&problem.detail),
            code => write!(out, "{code}: {}", problem.detail),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(status: u16, members: Value) -> Error {
        Error::of(status, members.as_object().unwrap(), None)
    }

    #[test]
    fn the_code_decides_the_kind_before_the_status() {
        assert!(matches!(of(409, json!({"code": "lease_ended"})), Error::LeaseEnded(_)));
        assert!(matches!(of(409, json!({"code": "another"})), Error::Conflict(_)));
        assert!(matches!(of(0, json!({"result": "bad_topic"})), Error::Refused(_)));
        assert!(matches!(of(0, json!({"result": "batch_closed"})), Error::Conflict(_)));
        assert!(matches!(of(0, json!({"result": "no_batch"})), Error::NotFound(_)));
        assert!(matches!(of(507, json!({})), Error::Full(_)));
        assert!(matches!(of(307, json!({})), Error::Server(_)));
        assert!(matches!(of(500, json!({})), Error::Server(_)));
    }

    #[test]
    fn an_error_has_the_members_of_its_problem() {
        let error = of(409, json!({"code": "leased", "title": "Leased", "detail": "a consumer holds it", "state": "leased", "limit": 3}));
        let problem = error.problem();
        assert_eq!((problem.title.as_str(), problem.status, problem.state.as_deref(), &problem.limit), ("Leased", 409, Some("leased"), &Some(json!(3))));
        assert_eq!(error.to_string(), "leased: a consumer holds it");
        assert_eq!(of(500, json!({})).to_string(), "the server answered 500");
    }
}
