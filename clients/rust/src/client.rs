//! The calls of a server, one method each.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Map, Value};

use crate::codec::{decode_job, encode_result, Codec};
use crate::options::Query;
use crate::text::{encoded, jittered, milliseconds, time_of};
use crate::transport::{Call, Options, Transport, FIRST_PAUSE, LONGEST_PAUSE};
use crate::{Ack, Again, Error, Extend, Filter, Job, JobName, MemberFilter, Move, Nack, Push, Pushed, Schedule, Scheduled, Take};

const PUSHES_MAX: usize = 1000; // in a request
pub(crate) const LEASES_MAX: usize = 1000;
const RESULTS_BYTES_MAX: usize = 1 << 19; // of results in base64, in a request; the server takes 1 MiB

type Members = Map<String, Value>;

/// A server, or several that share a store. A clone is the same client; any number of threads may use it.
#[derive(Clone)]
pub struct Client {
    pub(crate) transport: Arc<Transport>,
    pub(crate) codec: Option<Arc<Codec>>,
}

/// The outcome of [`Client::request_cancel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// The job is cancelled.
    Cancelled,
    /// A consumer holds the job and is notified; the job is cancelled unless the consumer acks it.
    Requested,
}

/// The leases of jobs: a job, a lease, or several in a slice, an array or a vector.
pub trait Leases {
    /// Adds the leases to a list.
    fn add_to(&self, leases: &mut Vec<String>);
}

impl Leases for Job {
    fn add_to(&self, leases: &mut Vec<String>) {
        leases.push(self.lease.clone());
    }
}

impl Leases for str {
    fn add_to(&self, leases: &mut Vec<String>) {
        leases.push(self.into());
    }
}

impl Leases for String {
    fn add_to(&self, leases: &mut Vec<String>) {
        leases.push(self.clone());
    }
}

impl<T: Leases> Leases for [T] {
    fn add_to(&self, leases: &mut Vec<String>) {
        self.iter().for_each(|one| one.add_to(leases));
    }
}

impl<T: Leases, const N: usize> Leases for [T; N] {
    fn add_to(&self, leases: &mut Vec<String>) {
        self[..].add_to(leases);
    }
}

impl<T: Leases> Leases for Vec<T> {
    fn add_to(&self, leases: &mut Vec<String>) {
        self[..].add_to(leases);
    }
}

impl<T: Leases + ?Sized> Leases for &T {
    fn add_to(&self, leases: &mut Vec<String>) {
        (**self).add_to(leases);
    }
}

fn leases_of(jobs: impl Leases) -> Vec<String> {
    let mut leases = Vec::new();
    jobs.add_to(&mut leases);
    leases
}

/// The answer for a lease.
pub(crate) struct Answered {
    pub(crate) error: Option<Error>,
    pub(crate) cancel_requested: bool,
    pub(crate) is_done: bool, // for certain
}

impl Client {
    /// Returns a client with the default options. It does not connect yet.
    pub fn new() -> Result<Client, Error> {
        Client::with(Options::new())
    }

    /// Returns a client with these options. It does not connect yet.
    pub fn with(options: Options) -> Result<Client, Error> {
        Ok(Client { transport: Arc::new(Transport::new(&options)?), codec: options.codec.map(Arc::new) })
    }

    fn codec(&self) -> Option<&Codec> {
        self.codec.as_deref()
    }

    fn decoded(&self, job: Job) -> Job {
        decode_job(self.codec(), job)
    }

    fn call(&self, mut call: Call) -> Result<Members, Error> {
        self.transport.call(&mut call)
    }

    // ---- push ----

    /// Pushes a job.
    pub fn push(&self, push: Push) -> Result<Pushed, Error> {
        self.push_items(vec![push.encoded(self.codec())?.into_item()])?.pop().unwrap_or_else(|| Err(Error::no_result()))
    }

    /// Pushes any number of jobs, up to 1,000 in a request. A rejected job has an error in its place and does not affect the others.
    pub fn push_many(&self, pushes: impl IntoIterator<Item = Push>) -> Result<Vec<Result<Pushed, Error>>, Error> {
        let encoded = pushes.into_iter().map(|push| Ok(push.encoded(self.codec())?.into_item()));
        let mut items = encoded.collect::<Result<Vec<Value>, Error>>()?;
        let mut results = Vec::with_capacity(items.len());
        while !items.is_empty() {
            let later = items.split_off(items.len().min(PUSHES_MAX));
            results.extend(self.push_items(items)?);
            items = later;
        }
        Ok(results)
    }

    /// Pushes a waiting job and up to 999 members in one call and closes the batch. Members may have [`member_jobs`](Push::member_jobs), so a
    /// chain is one call.
    pub fn push_batch(&self, job: Push, members: impl IntoIterator<Item = Push>) -> Result<BatchPushed, Error> {
        let encoded = members.into_iter().map(|push| Ok(push.encoded(self.codec())?.into_item()));
        let members = encoded.collect::<Result<Vec<Value>, Error>>()?;
        let job = job.encoded(self.codec())?.into_item();
        let answer = self.call(Call::new("POST", "/v1/batches").json(json!({"job": job, "members": members})))?;
        let is_closed = answer.get("closed").and_then(Value::as_bool).unwrap_or_default();
        Ok(BatchPushed { results: results_of(&answer).map(pushed_of).collect(), is_closed })
    }

    /// Closes the batch of a waiting job: it gets no more members.
    pub fn close_batch(&self, topic: &str, id: &str) -> Result<(), Error> {
        let mut call = Call::new("POST", job_path(topic, id, "/close"));
        match self.transport.call(&mut call) {
            Err(Error::NotFound(_)) if call.is_repeated => Ok(()), // an earlier try may have closed it, and the job has ended since
            answer => answer.map(drop),
        }
    }

    /// Sends one request. Items that a limit rejects are retried like a call.
    fn push_items(&self, items: Vec<Value>) -> Result<Vec<Result<Pushed, Error>>, Error> {
        let mut results: Vec<Result<Pushed, Error>> = items.iter().map(|_| Err(Error::no_result())).collect();
        let mut left: Vec<(usize, Value)> = items.into_iter().enumerate().collect();
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            let body: Value = left.iter().map(|(_, item)| item.clone()).collect::<Vec<_>>().into();
            let answer = self.call(Call::new("POST", "/v1/jobs").json(body))?;
            for ((at, _), result) in left.iter().zip(results_of(&answer)) {
                results[*at] = pushed_of(result);
            }
            left.retain(|(at, _)| matches!(results[*at], Err(Error::Unavailable(_))));
            let wait = jittered(pause);
            if left.is_empty() || began.elapsed() + wait > self.transport.retry_for {
                return Ok(results);
            }
            thread::sleep(wait);
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Pushes a job and waits for its end, up to 4 minutes. Returns the job with its outcome and result, or as it is after the wait. If the
    /// answer is lost, the call is repeated, and the wait begins again; a job that was acked in between runs twice, unless its topic has a
    /// `dedup_window`. A push with a `once` needs an id.
    pub fn push_and_wait(&self, push: Push, wait: Duration) -> Result<Job, Error> {
        let parts = push.encoded(self.codec())?.into_parts();
        let Some(id) = parts.id else {
            return Err(Error::refused("bad_id", "a push that waits needs an id if it has a once"));
        };
        let name = JobName { topic: parts.topic, id };
        let mut query = parts.query;
        query.push(("wait".into(), milliseconds(wait)));
        let mut call = self.long(Call::new("PUT", job_path(&name.topic, &name.id, "")).query(query), wait);
        (call.body, call.headers) = (Some(parts.body), parts.headers);
        let began = Instant::now();
        let answer = match self.transport.call(&mut call) {
            Err(Error::Conflict(problem)) if call.is_repeated && problem.code == "leased" => Members::new(), // a worker holds the job of an earlier try
            Err(Error::NotFound(_)) => Members::new(),                                                       // it existed, has ended, and is not kept
            answer => answer?,
        };
        if !answer.contains_key("attempt") {
            return self.wait_for_one(name, wait);
        }
        let job = self.decoded(Job::of(&answer));
        match wait.checked_sub(began.elapsed()) {
            Some(left) if !job.has_ended() && !left.is_zero() => self.wait_for_one(name, left), // a push that is not the first with its once does not wait
            _ => Ok(job),
        }
    }

    fn wait_for_one(&self, name: JobName, wait: Duration) -> Result<Job, Error> {
        self.wait([name], wait)?.pop().ok_or_else(Error::no_result)
    }

    /// Prepares a call that the server answers after the wait at the latest.
    fn long<'a>(&self, mut call: Call<'a>, wait: Duration) -> Call<'a> {
        call.timeout = Some(wait.saturating_add(self.transport.timeout));
        call.retry_for = Some(wait.saturating_add(self.transport.retry_for));
        call
    }

    // ---- one job ----

    /// Cancels a job. Returns false if it does not exist. A job that a consumer holds cannot be cancelled ([`Error::Conflict`]): see
    /// [`request_cancel`](Client::request_cancel).
    pub fn cancel(&self, topic: &str, id: &str) -> Result<bool, Error> {
        self.cancel_by(Call::new("DELETE", job_path(topic, id, "")))
    }

    /// Cancels a waiting job and its members. Consumers that hold members are notified, as by [`request_cancel`](Client::request_cancel).
    /// Returns false if the job does not exist.
    pub fn cancel_batch(&self, topic: &str, id: &str) -> Result<bool, Error> {
        self.cancel_by(Call::new("DELETE", job_path(topic, id, "")).query(query("members", "true")))
    }

    fn cancel_by(&self, mut call: Call) -> Result<bool, Error> {
        match self.transport.call(&mut call) {
            Err(Error::NotFound(_)) => Ok(call.is_repeated), // an earlier try may have done it
            answer => answer.map(|_| true),
        }
    }

    /// Cancels a job, or requests that from the consumer that holds it. Returns `None` if the job does not exist or has finished.
    pub fn request_cancel(&self, topic: &str, id: &str) -> Result<Option<Cancelled>, Error> {
        let answer = self.call(Call::new("DELETE", job_path(topic, id, "")).query(query("request", "true")));
        match answer {
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
            Ok(answer) if result_of(&answer) == "requested" => Ok(Some(Cancelled::Requested)),
            Ok(_) => Ok(Some(Cancelled::Cancelled)),
        }
    }

    /// Changes when a job is due. Returns the new due time.
    pub fn reschedule(&self, topic: &str, id: &str, to: Move) -> Result<Option<std::time::SystemTime>, Error> {
        let answer = self.call(Call::new("PATCH", job_path(topic, id, "")).query(to.query))?;
        Ok(answer.get("due_at").and_then(Value::as_str).and_then(time_of))
    }

    /// Makes a job due now.
    pub fn run(&self, topic: &str, id: &str) -> Result<(), Error> {
        self.call(Call::new("POST", job_path(topic, id, "/run"))).map(drop)
    }

    /// Returns a job, or `None` if it does not exist.
    pub fn get(&self, topic: &str, id: &str) -> Result<Option<Job>, Error> {
        match self.call(Call::new("GET", job_path(topic, id, "")).query(query("body", "base64"))) {
            Err(Error::NotFound(_)) => Ok(None),
            answer => answer.map(|answer| Some(self.decoded(Job::of(&answer)))),
        }
    }

    /// Returns the jobs of a topic by due time. Pages are requested while you iterate; an error ends the iteration.
    pub fn list(&self, topic: &str, filter: Filter) -> Jobs {
        self.jobs(format!("/v1/topics/{}/jobs", encoded(topic)), "jobs", filter.query, filter.page)
    }

    /// Returns the members of a batch, like [`list`](Client::list). Finished members are found if they are kept.
    pub fn members(&self, topic: &str, id: &str, members: MemberFilter) -> Jobs {
        self.jobs(job_path(topic, id, "/members"), "members", members.query, members.page)
    }

    fn jobs(&self, path: String, name: &'static str, mut query: Query, size: Option<usize>) -> Jobs {
        query.push(("limit".into(), size.unwrap_or(100).to_string()));
        Jobs { client: self.clone(), path, name, query, page: VecDeque::new(), cursor: Some(None) }
    }

    /// Waits until all of up to 1,000 jobs have ended, up to 4 minutes. Returns each as it is then, in the given order. The state of a job that
    /// the server does not know is `unknown`: a job that finished before the call is found only if its topic keeps finished jobs.
    pub fn wait<N: Into<JobName>>(&self, jobs: impl IntoIterator<Item = N>, timeout: Duration) -> Result<Vec<Job>, Error> {
        self.wait_for("all", jobs.into_iter().map(Into::into).collect(), timeout)
    }

    /// Does the same as [`wait`](Client::wait) until any of the jobs has ended.
    pub fn wait_any<N: Into<JobName>>(&self, jobs: impl IntoIterator<Item = N>, timeout: Duration) -> Result<Vec<Job>, Error> {
        self.wait_for("any", jobs.into_iter().map(Into::into).collect(), timeout)
    }

    fn wait_for(&self, which: &str, names: Vec<JobName>, timeout: Duration) -> Result<Vec<Job>, Error> {
        let jobs: Vec<Value> = names.iter().map(|name| json!({"topic": name.topic, "id": name.id})).collect();
        let spec = json!({"jobs": jobs, "for": which, "wait": milliseconds(timeout)});
        let answer = self.call(self.long(Call::new("POST", "/v1/wait").query(query("body", "base64")).json(spec), timeout))?;
        let found: HashMap<JobName, Job> = jobs_of(&answer).map(|job| (JobName::from(&job), self.decoded(job))).collect();
        Ok(names.iter().map(|name| found.get(name).cloned().unwrap_or_else(|| Job::unknown(name))).collect())
    }

    // ---- schedules ----

    /// Creates or replaces a schedule that pushes a job each time it fires. The same specification again changes nothing.
    pub fn schedule(&self, name: &str, schedule: Schedule) -> Result<Scheduled, Error> {
        let options = if schedule.takes_over { query("take_over", "true") } else { Query::new() };
        let answer = self.call(Call::new("PUT", schedule_path(name)).query(options).json(schedule.encoded(self.codec())?.into_spec()))?;
        Ok(Scheduled { result: result_of(&answer).into(), next: answer.get("next").and_then(Value::as_str).and_then(time_of) })
    }

    /// Deletes a schedule; its jobs that are due stay. Returns false if it does not exist.
    pub fn unschedule(&self, name: &str) -> Result<bool, Error> {
        let mut call = Call::new("DELETE", schedule_path(name));
        match self.transport.call(&mut call) {
            Err(Error::NotFound(_)) => Ok(call.is_repeated), // an earlier try may have done it
            answer => answer.map(|_| true),
        }
    }

    // ---- consuming ----

    /// Takes ready jobs. It is never retried: a call whose answer was lost may hold jobs until their lease ends.
    pub fn take(&self, take: Take) -> Result<Vec<Job>, Error> {
        Ok(take_by(&self.transport, take)?.into_iter().map(|job| self.decoded(job)).collect())
    }

    /// Acks jobs, or their leases. Returns an error for each answer that does not count; a lease that an earlier try may have acked counts. The
    /// same applies to nack, extend and give_back.
    pub fn ack(&self, jobs: impl Leases) -> Result<Vec<Result<(), Error>>, Error> {
        self.ack_with(jobs, Ack::new())
    }

    /// Acks jobs with a result, of one job, or with a hold. If the result is too big, the error is [`Error::Refused`], and the job stays leased.
    pub fn ack_with(&self, jobs: impl Leases, ack: Ack) -> Result<Vec<Result<(), Error>>, Error> {
        self.answer("ack", jobs, self.encoded(ack.members)?)
    }

    /// Reports that jobs failed.
    pub fn nack(&self, jobs: impl Leases, nack: Nack) -> Result<Vec<Result<(), Error>>, Error> {
        self.answer("nack", jobs, self.encoded(nack.members)?)
    }

    /// Encodes the result of an answer.
    fn encoded(&self, mut members: Members) -> Result<Members, Error> {
        encode_result(self.codec(), &mut members)?;
        Ok(members)
    }

    /// Makes the leases end later: by a duration, or by [`Extend`] with a progress.
    pub fn extend(&self, jobs: impl Leases, extend: impl Into<Extend>) -> Result<Vec<Result<(), Error>>, Error> {
        self.answer("extend", jobs, extend.into().members)
    }

    /// Returns jobs unprocessed: they are ready again immediately, and the attempt does not count.
    pub fn give_back(&self, jobs: impl Leases) -> Result<Vec<Result<(), Error>>, Error> {
        self.answer("return", jobs, Members::new())
    }

    /// Acks a job and pushes it again in one step. Returns false if its cancel was requested: the job has ended.
    pub fn again(&self, job: impl Leases, again: Again) -> Result<bool, Error> {
        let leases = leases_of(job);
        let [lease] = &leases[..] else {
            return Err(Error::refused("bad_lease", "again needs one job"));
        };
        let mut call = Call::new("POST", "/v1/again").query(again.query);
        call.query.push(("lease".into(), lease.clone()));
        call.body = match (again.body, self.codec()) {
            (Some(body), Some(codec)) => Some(codec.encode(body)?),
            (body, _) => body,
        };
        match self.transport.call(&mut call) {
            Err(Error::LeaseEnded(_)) if call.is_repeated => Ok(true), // an earlier try may have done it
            answer => Ok(!results_of(&answer?).any(|result| result_of(result) == "cancelled")),
        }
    }

    fn answer(&self, verb: &str, jobs: impl Leases, like: Members) -> Result<Vec<Result<(), Error>>, Error> {
        let leases = leases_of(jobs);
        if like.contains_key("result_base64") && leases.len() != 1 {
            return Err(Error::refused("bad_result", "a result belongs to one job, so ack the others in another call"));
        }
        let mut items: Vec<Members> = Vec::with_capacity(leases.len());
        for lease in leases {
            let mut item = like.clone();
            item.insert("lease".into(), lease.into());
            items.push(item);
        }
        let mut outcomes = Vec::with_capacity(items.len());
        for part in parts_of(&items) {
            let answered = self.answer_items(verb, part, |_| ())?;
            outcomes.extend(answered.into_iter().map(|one| one.error.map_or(Ok(()), Err)));
        }
        Ok(outcomes)
    }

    /// Sends the answers of one request. `how` changes the way in which it is repeated.
    pub(crate) fn answer_items<'a>(&self, verb: &str, items: &[Members], how: impl FnOnce(&mut Call<'a>)) -> Result<Vec<Answered>, Error> {
        let mut call = Call::new("POST", format!("/v1/{verb}")).json(json!({"leases": items}));
        how(&mut call);
        let answer = self.transport.call(&mut call)?;
        let mut results = results_of(&answer);
        let answered = |result: Option<&Members>| {
            let Some(members) = result else {
                return Answered { error: Some(Error::no_result()), cancel_requested: false, is_done: false };
            };
            let counts = match result_of(members) {
                "ok" | "cancelled" => true,
                "lease_ended" => call.is_repeated && verb != "extend", // an earlier try may have done it
                _ => false,
            };
            let cancel_requested = members.get("cancel_requested").and_then(Value::as_bool).unwrap_or_default();
            Answered { error: (!counts).then(|| Error::of(0, members, None)), cancel_requested, is_done: result_of(members) == "ok" }
        };
        Ok(items.iter().map(|_| answered(results.next())).collect())
    }
}

/// The outcome of [`Client::push_batch`].
#[derive(Debug)]
#[non_exhaustive]
pub struct BatchPushed {
    /// One result per job, each waiting job before its members.
    pub results: Vec<Result<Pushed, Error>>,
    /// False: a job was rejected, so a batch stays open.
    pub is_closed: bool,
}

/// The jobs of a topic, or the members of a batch, page by page.
pub struct Jobs {
    client: Client,
    path: String,
    name: &'static str, // of the list in an answer
    query: Query,
    page: VecDeque<Job>,
    cursor: Option<Option<String>>, // of the next page; None: this is the last one
}

impl Jobs {
    fn read_page(&mut self, cursor: Option<String>) -> Result<(), Error> {
        let mut query = self.query.clone();
        query.extend(cursor.map(|cursor| ("cursor".into(), cursor)));
        let answer = match self.client.call(Call::new("GET", &self.path).query(query)) {
            Err(Error::NotFound(_)) => return Ok(()),
            answer => answer?,
        };
        self.page.extend(objects(&answer, self.name).map(|job| self.client.decoded(Job::of(job))));
        self.cursor = answer.get("cursor").and_then(Value::as_str).map(|cursor| Some(cursor.into()));
        Ok(())
    }
}

impl Iterator for Jobs {
    type Item = Result<Job, Error>;

    fn next(&mut self) -> Option<Result<Job, Error>> {
        while self.page.is_empty() {
            let cursor = self.cursor.take()?;
            if let Err(error) = self.read_page(cursor) {
                return Some(Err(error));
            }
        }
        self.page.pop_front().map(Ok)
    }
}

/// Takes jobs by the connections of a transport.
pub(crate) fn take_by(transport: &Transport, take: Take) -> Result<Vec<Job>, Error> {
    let mut call = Call::new("POST", "/v1/take").query(take.query);
    call.timeout = Some(take.wait.saturating_add(transport.timeout));
    call.is_once = true;
    Ok(jobs_of(&transport.call(&mut call)?).collect())
}

fn query(name: &str, value: &str) -> Query {
    vec![(name.into(), value.into())]
}

fn job_path(topic: &str, id: &str, rest: &str) -> String {
    format!("/v1/topics/{}/jobs/{}{rest}", encoded(topic), encoded(id))
}

fn schedule_path(name: &str) -> String {
    format!("/v1/schedules/{}", encoded(name))
}

fn objects<'a>(answer: &'a Members, name: &str) -> impl Iterator<Item = &'a Members> {
    answer.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

fn jobs_of(answer: &Members) -> impl Iterator<Item = Job> + '_ {
    objects(answer, "jobs").map(Job::of)
}

fn results_of(answer: &Members) -> impl Iterator<Item = &Members> {
    objects(answer, "results")
}

fn result_of(members: &Members) -> &str {
    members.get("result").and_then(Value::as_str).unwrap_or_default()
}

fn pushed_of(members: &Members) -> Result<Pushed, Error> {
    let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default().to_string();
    match result_of(members) {
        result @ ("created" | "replaced" | "existed") => {
            Ok(Pushed { topic: text("topic"), id: text("id"), result: result.into(), due_at: time_of(&text("due_at")) })
        }
        _ => Err(Error::of(0, members, None)),
    }
}

/// Cuts answers into parts that fit in one request.
pub(crate) fn parts_of(mut items: &[Members]) -> impl Iterator<Item = &[Members]> {
    std::iter::from_fn(move || {
        let mut size = 0;
        let end = items.iter().take(LEASES_MAX).enumerate().position(|(at, item)| {
            size += item.get("result_base64").and_then(Value::as_str).map_or(0, str::len);
            at > 0 && size > RESULTS_BYTES_MAX
        });
        let (part, later) = items.split_at(end.unwrap_or(items.len().min(LEASES_MAX)));
        items = later;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_cut_by_number_and_by_size() {
        let items = |count: usize, bytes: usize| -> Vec<Members> {
            (0..count).map(|_| json!({"result_base64": "x".repeat(bytes)}).as_object().unwrap().clone()).collect()
        };
        let sizes = |items: &[Members]| parts_of(items).map(<[Members]>::len).collect::<Vec<_>>();
        assert_eq!(sizes(&items(2500, 0)), [1000, 1000, 500]);
        assert_eq!(sizes(&items(5, 200_000)), [2, 2, 1]);
        assert_eq!(sizes(&items(2, 600_000)), [1, 1]);
        assert_eq!(sizes(&[]), [0; 0]);
    }

    #[test]
    fn leases_come_from_jobs_texts_and_lists() {
        let job = Job { lease: "a".into(), ..Job::default() };
        assert_eq!(leases_of(&job), ["a"]);
        assert_eq!(leases_of([&job, &job]), ["a", "a"]);
        assert_eq!(leases_of(vec![job.clone()]), ["a"]);
        assert_eq!(leases_of(["x", "y"]), ["x", "y"]);
        assert_eq!(leases_of("x"), ["x"]);
    }

    #[test]
    fn an_unused_port_is_unavailable() {
        let client = Client::with(Options::new().url("http://127.0.0.1:1").retry_for(Duration::ZERO)).unwrap();
        assert!(matches!(client.push(Push::new("t", "x")), Err(Error::Unavailable(problem)) if problem.code == "no_answer"));
    }
}
