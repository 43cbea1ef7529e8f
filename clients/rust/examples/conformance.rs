//! The adapter of the Rust client for clients/conformance: JSON lines in, JSON lines out.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::prelude::{Engine, BASE64_STANDARD};
use serde_json::{json, Value};
use tarry::{
    Ack, Again, Body, Cancelled, Client, Codec, DirectoryStore, Error, Extend, Failure, Filter, Job, JobName, MemberFilter, Move, Nack, Options, Outcome, Push,
    Schedule, Stopper, Take, Taken, Worker,
};

type Answer = Result<Value, Error>;

fn show(line: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("cannot write");
}

fn text<'a>(request: &'a Value, name: &str) -> &'a str {
    request[name].as_str().unwrap_or_default()
}

fn time(request: &Value, name: &str) -> Option<Duration> {
    request[name].as_u64().map(Duration::from_millis)
}

fn at(request: &Value, name: &str) -> Option<SystemTime> {
    time(request, name).map(|since| UNIX_EPOCH + since)
}

fn texts(request: &Value, name: &str) -> Vec<String> {
    request[name].as_array().into_iter().flatten().filter_map(Value::as_str).map(String::from).collect()
}

/// The body of a request under these names, or None.
fn body(request: &Value, base64: &str) -> Option<Body> {
    let body: Body = match (&request[base64], &request["text"], request.get("json")) {
        (Value::String(coded), ..) => BASE64_STANDARD.decode(coded).expect("base64").into(),
        (_, Value::String(text), _) => text.as_str().into(),
        (.., Some(value)) => value.clone().into(),
        _ => return None,
    };
    Some(match request["content_type"].as_str() {
        Some(kind) => body.content_type(kind),
        None => body,
    })
}

fn result(step: &Value) -> Option<Body> {
    step.get("result").and_then(|given| body(given, "base64"))
}

/// A member of a request, and the option that it sets.
type Sets<T> = (&'static str, fn(Push, T) -> Push);

fn push(request: &Value) -> Push {
    let mut push = Push::new(text(request, "topic"), body(request, "body_base64").unwrap_or_else(|| "".into()));
    let options: [Sets<String>; 7] = [
        ("parent", Push::parent),
        ("on_dead", Push::on_dead),
        ("id", Push::id),
        ("backoff", Push::backoff),
        ("on_conflict", Push::on_conflict),
        ("once", Push::once),
        ("group", Push::group),
    ];
    for (name, set) in options {
        if let Some(value) = request[name].as_str() {
            push = set(push, value.into());
        }
    }
    let times: [Sets<Duration>; 5] = [
        ("wait_at_most_ms", Push::wait_at_most),
        ("close_within_ms", Push::close_within),
        ("delay_ms", Push::delay),
        ("ttl_ms", Push::ttl),
        ("keep_finished_ms", Push::keep_finished),
    ];
    for (name, set) in times {
        if let Some(value) = time(request, name) {
            push = set(push, value);
        }
    }
    if let Some(moment) = at(request, "at_ms") {
        push = push.at(moment);
    }
    if let Some(priority) = request["priority"].as_i64() {
        push = push.priority(priority);
    }
    if request["batch"].is_object() {
        push = push.batch((text(&request["batch"], "topic"), text(&request["batch"], "id")));
    }
    if request["waits"] == true {
        push = push.waits();
    }
    push = match &request["members"] {
        Value::Array(members) => push.member_jobs(members.iter().map(self::push)),
        Value::Number(members) => push.members(members.as_u64().unwrap_or_default() as u32),
        _ => push,
    };
    if let Some(attempts) = request["max_attempts"].as_u64() {
        push = push.max_attempts(attempts as u32);
    }
    for (name, value) in request["meta"].as_object().into_iter().flatten() {
        push = push.meta(name, value.as_str().unwrap_or_default());
    }
    push
}

/// The codec that a request describes.
fn codec(given: &Value) -> Result<Option<Codec>, Error> {
    if given.is_null() {
        return Ok(None);
    }
    let mut codec = Codec::new().context(text(given, "context"));
    if given["gzip"].is_object() {
        codec = codec.gzip();
    }
    if let Some(above) = given["claim_check"]["above"].as_u64() {
        codec = codec.claim_check_with(DirectoryStore::new(text(&given["claim_check"], "directory")), above as usize, true);
    }
    if let Some(keys) = given["keys"].as_object() {
        let keys = keys.iter().map(|(id, key)| (id, BASE64_STANDARD.decode(key.as_str().unwrap_or_default()).expect("base64")));
        codec = codec.aes_gcm(text(given, "current"), keys)?;
    }
    Ok(Some(codec))
}

fn milliseconds(time: Option<SystemTime>) -> Option<u64> {
    time.map(|time| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64)
}

fn shown(job: &Job) -> Value {
    json!({"topic": job.topic, "id": job.id, "lease": job.lease, "attempt": job.attempt, "delivery": job.delivery, "body_base64": job.codec_error.is_none().then(|| BASE64_STANDARD.encode(&job.body)),
        "codec_error": job.codec_error.as_ref().map(|error| &error.problem().detail),
        "content_type": job.content_type, "meta": job.meta, "consumer": job.consumer, "cancel_requested": job.cancel_requested, "state": job.state,
        "batch": job.batch.as_ref().map(|name| json!({"topic": name.topic, "id": name.id})), "waits_for": job.waits_for, "outcomes": job.outcomes,
        "group": job.group, "outcome": job.outcome, "progress": job.progress, "last_error": job.last_error, "finished_at_ms": milliseconds(job.finished_at),
        "duration_ms": job.duration.map(|time| time.as_millis() as u64), "result_base64": job.result.as_ref().map(|bytes| BASE64_STANDARD.encode(bytes)),
        "result_type": job.result_type})
}

fn pushed(one: Result<tarry::Pushed, Error>) -> Value {
    match one {
        Ok(one) => json!({"id": one.id, "result": one.result}),
        Err(error) => json!({"error": problem(&error)}),
    }
}

fn problem(error: &Error) -> Value {
    let kind = match error {
        Error::NotFound(_) => "NotFound",
        Error::Conflict(_) => "Conflict",
        Error::LeaseEnded(_) => "LeaseEnded",
        Error::Refused(_) => "Refused",
        Error::Denied(_) => "Denied",
        Error::Full(_) => "Full",
        Error::Unavailable(_) => "Unavailable",
        _ => "TarryError",
    };
    json!({"kind": kind, "code": error.code(), "status": error.problem().status, "detail": error.problem().detail})
}

fn results(found: Result<Vec<Result<(), Error>>, Error>) -> Answer {
    let codes: Vec<String> = found?.iter().map(|one| one.as_ref().map_or_else(|error| error.code().into(), |()| "ok".into())).collect();
    Ok(json!({"results": codes}))
}

/// A client, and what it has.
struct Adapter {
    client: Client,
    taken: HashMap<String, Job>,
    workers: HashMap<String, Stopper>,
}

impl Adapter {
    /// Gives the leases as they are, or the jobs: one, or several.
    fn answer_jobs(&self, request: &Value, call: impl Fn(&dyn tarry::Leases) -> Answer) -> Answer {
        let leases = texts(request, "leases");
        if request.get("as").is_none() {
            return call(&leases);
        }
        let jobs: Vec<&Job> = leases.iter().map(|lease| &self.taken[lease]).collect();
        match (text(request, "as"), &jobs[..]) {
            ("job", [job]) => call(job),
            ("several", [first, second]) => call(&[*first, *second]),
            _ => call(&jobs),
        }
    }

    fn answer(&mut self, request: &Value) -> Answer {
        let client = self.client.clone();
        let (topic, id, name) = (text(request, "topic"), text(request, "id"), text(request, "name"));
        let done = |done: bool| Ok(json!({"done": done}));
        match text(request, "op") {
            "open" => {
                let mut options = Options::new().url(text(request, "url"));
                if let Some(token) = request["token"].as_str() {
                    options = options.token(token);
                }
                if let Some(time) = time(request, "retry_for_ms") {
                    options = options.retry_for(time);
                }
                if let Some(time) = time(request, "timeout_ms") {
                    options = options.timeout(time);
                }
                if let Some(path) = request["ca_file"].as_str() {
                    options = options.ca_file(path);
                }
                if let (Some(certificate), Some(key)) = (request["certificate"].as_str(), request["key"].as_str()) {
                    options = options.certificate(certificate, key);
                }
                if let Some(codec) = codec(&request["codec"])? {
                    options = options.codec(codec);
                }
                self.client = Client::with(options)?;
                Ok(json!({}))
            }
            // for bench/codec.py
            "recode" => {
                let (codec, mut found) = (codec(&request["codec"])?.unwrap_or_default(), Body::from(""));
                for _ in 0..request["times"].as_u64().unwrap_or_default() {
                    found = codec.decode(codec.encode(body(request, "body_base64").unwrap_or_else(|| "".into()))?)?;
                }
                Ok(json!({"body_base64": BASE64_STANDARD.encode(found.into_parts().0)}))
            }
            "push" => {
                let found = client.push(push(request))?;
                Ok(json!({"id": found.id, "result": found.result, "due_at_ms": milliseconds(found.due_at)}))
            }
            "push_many" => {
                let found = client.push_many(request["items"].as_array().into_iter().flatten().map(push))?;
                Ok(found.into_iter().map(pushed).collect::<Vec<_>>().into())
            }
            "push_batch" => {
                let members = request["members"].as_array().into_iter().flatten().map(push);
                let found = client.push_batch(push(&request["job"]), members)?;
                Ok(json!({"closed": found.is_closed, "results": found.results.into_iter().map(pushed).collect::<Vec<_>>()}))
            }
            "close_batch" => client.close_batch(topic, id).and_then(|()| done(true)),
            "members" => {
                let mut filter = MemberFilter::new().page(request["page"].as_u64().unwrap_or(100) as usize);
                if let Some(outcome) = request["outcome"].as_str() {
                    filter = filter.outcome(outcome);
                }
                let jobs = client.members(topic, id, filter).map(|one| one.map(|job| shown(&job))).collect::<Result<Vec<_>, _>>()?;
                Ok(json!({"jobs": jobs}))
            }
            "push_and_wait" => Ok(json!({"job": shown(&client.push_and_wait(push(request), time(request, "wait_ms").unwrap_or_default())?)})),
            "wait" => {
                let names: Vec<JobName> = texts(request, "ids").into_iter().map(|id| JobName::from((topic, id))).collect();
                let timeout = time(request, "timeout_ms").unwrap_or_default();
                let found = if request["any"] == true { client.wait_any(names, timeout)? } else { client.wait(names, timeout)? };
                Ok(json!({"jobs": found.iter().map(shown).collect::<Vec<_>>()}))
            }
            "cancel" => done(client.cancel(topic, id)?),
            "cancel_batch" => done(client.cancel_batch(topic, id)?),
            "request_cancel" => {
                let result = client.request_cancel(topic, id)?.map(|result| match result {
                    Cancelled::Cancelled => "cancelled",
                    Cancelled::Requested => "requested",
                });
                Ok(json!({"result": result}))
            }
            "run" => client.run(topic, id).and_then(|()| done(true)),
            "reschedule" => {
                let mut to = match (time(request, "delay_ms"), at(request, "at_ms")) {
                    (Some(delay), _) => Move::delay(delay),
                    (None, Some(moment)) => Move::at(moment),
                    (None, None) => Move::default(),
                };
                if let Some(priority) = request["priority"].as_i64() {
                    to = to.priority(priority);
                }
                client.reschedule(topic, id, to)?;
                done(true)
            }
            "get" => Ok(json!({"job": client.get(topic, id)?.as_ref().map(shown)})),
            "list" => {
                let mut filter = Filter::new().page(request["page"].as_u64().unwrap_or(100) as usize);
                if let Some(state) = request["state"].as_str() {
                    filter = filter.state(state);
                }
                let ids = client.list(topic, filter).map(|one| one.map(|job| job.id)).collect::<Result<Vec<_>, _>>()?;
                Ok(json!({"ids": ids}))
            }
            "take" => {
                let mut take = Take::new(texts(request, "topics")).max(request["max"].as_u64().unwrap_or(1) as usize);
                take = take.wait(time(request, "wait_ms").unwrap_or_default());
                if let Some(lease) = time(request, "lease_ms") {
                    take = take.lease(lease);
                }
                if let Some(consumer) = request["consumer"].as_str() {
                    take = take.consumer(consumer);
                }
                let found = client.take(take)?;
                self.taken.extend(found.iter().map(|job| (job.lease.clone(), job.clone())));
                Ok(json!({"jobs": found.iter().map(shown).collect::<Vec<_>>()}))
            }
            "ack" => {
                let mut ack = Ack::new();
                if let Some(result) = result(request) {
                    ack = ack.result(result);
                }
                if let Some(hold) = time(request, "hold_ms") {
                    ack = ack.hold(hold);
                }
                self.answer_jobs(request, |jobs| results(client.ack_with(Given(jobs), ack.clone())))
            }
            "nack" => {
                let mut nack = Nack::new().error(text(request, "error"));
                if let Some(delay) = time(request, "delay_ms") {
                    nack = nack.delay(delay);
                }
                if request["final"] == true {
                    nack = nack.final_attempt();
                }
                if let Some(result) = result(request) {
                    nack = nack.result(result);
                }
                if let Some(hold) = time(request, "hold_ms") {
                    nack = nack.hold(hold);
                }
                self.answer_jobs(request, |jobs| results(client.nack(Given(jobs), nack.clone())))
            }
            "extend" => {
                let mut extend = time(request, "lease_ms").map_or_else(Extend::new, Extend::from);
                if let Some(progress) = request["progress"].as_str() {
                    extend = extend.progress(progress);
                }
                self.answer_jobs(request, |jobs| results(client.extend(Given(jobs), extend.clone())))
            }
            "give_back" => self.answer_jobs(request, |jobs| results(client.give_back(Given(jobs)))),
            "again" => {
                let mut again = Again::new();
                if let Some(body) = body(request, "body_base64") {
                    again = again.body(body);
                }
                if let Some(delay) = time(request, "delay_ms") {
                    again = again.delay(delay);
                }
                if let Some(priority) = request["priority"].as_i64() {
                    again = again.priority(priority);
                }
                done(client.again(texts(request, "leases"), again)?)
            }
            "schedule" => {
                let mut schedule = Schedule::new(topic);
                if let Some(body) = body(request, "body_base64") {
                    schedule = schedule.body(body);
                }
                let cron = request["cron"].as_str().map_or_else(|| texts(request, "cron"), |one| vec![one.into()]);
                schedule = cron.into_iter().fold(schedule, Schedule::cron);
                if let Some(every) = time(request, "every_ms") {
                    schedule = schedule.every(every);
                }
                if let Some(zone) = request["zone"].as_str() {
                    schedule = schedule.zone(zone);
                }
                for (name, value) in request["members"].as_object().into_iter().flatten() {
                    schedule = schedule.member(name, value.clone());
                }
                if request["take_over"] == true {
                    schedule = schedule.take_over();
                }
                let found = client.schedule(name, schedule)?;
                Ok(json!({"result": found.result, "next_ms": milliseconds(found.next)}))
            }
            "unschedule" => done(client.unschedule(name)?),
            "verify" => {
                let secrets = texts(request, "secrets");
                let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
                let headers = request["headers"].as_object().into_iter().flatten().map(|(name, value)| (name, value.as_str().unwrap_or_default()));
                let body = BASE64_STANDARD.decode(text(request, "body_base64")).expect("base64");
                let now = at(request, "now_ms").unwrap_or_else(SystemTime::now);
                Ok(json!({"valid": tarry::verify_at(now, &secrets, headers, &body).is_ok()}))
            }
            "worker" => {
                self.start_worker(request.clone());
                Ok(json!({}))
            }
            "stop" => {
                if let Some(stopper) = self.workers.remove(name) {
                    stopper.stop(time(request, "grace_ms").unwrap_or_default());
                }
                Ok(json!({}))
            }
            "quit" => Ok(json!({})),
            other => panic!("unknown op '{other}'"),
        }
    }

    fn start_worker(&mut self, request: Value) {
        let name = text(&request, "name").to_string();
        let mut worker = Worker::new(&self.client).signals(false).concurrency(request["concurrency"].as_u64().unwrap_or(1) as usize);
        if let Some(logged) = request["log"].as_bool() {
            worker = worker.log(logged);
            if logged && log::set_logger(&Log).is_ok() {
                log::set_max_level(log::LevelFilter::Warn);
            }
        }
        worker = worker.lease(time(&request, "lease_ms").unwrap_or(Duration::from_secs(60)));
        if let Some(consumer) = request["consumer"].as_str() {
            worker = worker.consumer(consumer);
        }
        let own = name.clone();
        worker = worker.on_error(|error, what| eprintln!("{what}: {error}")).on_done(move |job, outcome, _| {
            let outcome = match outcome {
                Outcome::Acked => "ack",
                Outcome::Nacked => "nack",
                Outcome::Rejected => "reject",
                Outcome::GivenBack => "given_back",
                _ => "lost",
            };
            show(&json!({"event": "ended", "worker": own, "id": job.id, "attempt": job.attempt, "outcome": outcome}));
        });
        let plans: Vec<(String, Value)> = match request["handlers"].as_object() {
            Some(handlers) => handlers.clone().into_iter().collect(),
            None => texts(&request, "topics").into_iter().map(|topic| (topic, request["handler"].clone())).collect(),
        };
        for (topic, plan) in plans {
            let name = name.clone();
            worker = worker.topic(topic, move |job| handle(&plan, &name, job));
        }
        self.workers.insert(name, worker.start().0);
    }
}

/// Leases of either kind.
struct Given<'a>(&'a dyn tarry::Leases);

impl tarry::Leases for Given<'_> {
    fn add_to(&self, leases: &mut Vec<String>) {
        self.0.add_to(leases);
    }
}

fn handle(plan: &Value, worker: &str, job: &Taken) -> Result<Option<Body>, Failure> {
    show(&json!({"event": "began", "worker": worker, "id": job.id, "attempt": job.attempt, "delivery": job.delivery}));
    let step = match plan["by_attempt"].as_array() {
        Some(steps) => &steps[(job.attempt as usize).min(steps.len()) - 1],
        None => plan,
    };
    if let Some(progress) = step["progress"].as_str() {
        show(&json!({"event": "reported", "worker": worker, "id": job.id, "done": job.report_progress(progress)?}));
    }
    if job.sleep(time(step, "sleep_ms").unwrap_or_default()) {
        show(&json!({"event": "notified", "worker": worker, "id": job.id, "cancel_requested": job.is_cancel_requested()}));
        if job.is_cancel_requested() && step["heeds"] != false {
            return Err(Failure::new("it is not wanted any more"));
        }
        return Ok(None);
    }
    let (error, result) = (text(step, "error"), result(step));
    match text(step, "do") {
        "fail" => Err(Failure::new(error)),
        "retry" => Err(Failure::retry(time(step, "after_ms").unwrap_or_default(), error)),
        "reject" => Err(result.into_iter().fold(Failure::reject(error), Failure::result)),
        _ => Ok(result),
    }
}

/// Writes the log of the client to standard error.
struct Log;

impl log::Log for Log {
    fn enabled(&self, metadata: &log::Metadata) -> bool {
        metadata.target() == "tarry"
    }

    fn log(&self, record: &log::Record) {
        if self.enabled(record.metadata()) {
            eprintln!("{}", record.args());
        }
    }

    fn flush(&self) {}
}

fn main() {
    let mut adapter = Adapter { client: Client::new().expect("a client"), taken: HashMap::new(), workers: HashMap::new() };
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let mut shown = match adapter.answer(&request) {
            Ok(found) => json!({"ok": found}),
            Err(error) => json!({"error": problem(&error)}),
        };
        shown["n"] = request["n"].clone();
        show(&shown);
        if request["op"] == "quit" {
            return;
        }
    }
}
