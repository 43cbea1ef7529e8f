//! A worker: takes jobs, runs a handler for each, extends their leases, and reports the results. docs/clients.md has the rules by number.
//!
//! In addition to the threads of the handlers there are three: the one that called `run` takes, the heartbeat extends, the answerer acks and
//! nacks. Their shared state is under one lock. Hooks and handlers are called without it.

use std::any::Any;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::error::Error as StdError;
use std::io::Write;
use std::ops::Deref;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::client::{parts_of, take_by, Answered, LEASES_MAX};
use crate::codec::{decode_job, encode_result, is_encoded};
use crate::options::ERROR_BYTES;
use crate::text::{cut, jittered, milliseconds};
use crate::transport::{Transport, FIRST_PAUSE, LONGEST_PAUSE};
use crate::{Body, Client, Error, Extend, Job, Nack, Take};

const WAIT: Duration = Duration::from_secs(30); // of a take
const MOMENT: Duration = Duration::from_millis(500); // that a take has when the worker stops: jobs that a proxy holds would wait for the end of their lease
const LINGER: Duration = Duration::from_millis(5); // for answers that come together
const SLOTS_LINGER: Duration = Duration::from_millis(1); // for slots that become free together, if a take has filled all
const BEATS: u32 = 10; // in the time of a lease: nine tenths are left whenever the server goes
const GRACE: Duration = Duration::from_secs(2); // that leases have once a server is back
const PAUSE: Duration = Duration::from_millis(250); // at most, before an extend or an answer that failed is repeated: soon enough for that grace
const LOG_PAUSE: Duration = Duration::from_secs(10); // between lines about the same kind of call that fails
const STOP_GRACE: Duration = Duration::from_secs(30);

type Members = Map<String, Value>;
type Handler = Arc<dyn Fn(&Taken) -> Result<Done, Failure> + Send + Sync>;

/// What a handler returns if the job is done: nothing, or a result for those that wait for the job.
#[derive(Debug, Clone, Default)]
pub struct Done(Option<Body>);

impl From<()> for Done {
    fn from((): ()) -> Done {
        Done(None)
    }
}

impl<B: Into<Body>> From<Option<B>> for Done {
    fn from(result: Option<B>) -> Done {
        Done(result.map(Into::into))
    }
}

macro_rules! done_from {
    ($($kind:ty),*) => {$(
        impl From<$kind> for Done {
            fn from(result: $kind) -> Done {
                Done(Some(result.into()))
            }
        }
    )*};
}
done_from!(Body, Value, String, &str, Vec<u8>, &[u8]);

/// What a handler returns if the job failed. Any error converts into one, and the job is retried after its backoff.
#[derive(Debug, Clone)]
pub struct Failure {
    error: String,
    after: Option<Duration>,
    is_final: bool,
    result: Option<Body>,
}

impl Failure {
    /// The job is retried after its backoff.
    pub fn new(error: impl Into<String>) -> Failure {
        Failure { error: error.into(), after: None, is_final: false, result: None }
    }

    /// The job is retried after this time.
    pub fn retry(after: Duration, error: impl Into<String>) -> Failure {
        Failure { after: Some(after), ..Failure::new(error) }
    }

    /// The job is dead immediately, because no further attempt can help.
    pub fn reject(error: impl Into<String>) -> Failure {
        Failure { is_final: true, ..Failure::new(error) }
    }

    /// Sets the result that is sent to those that wait for a rejected job.
    pub fn result(mut self, result: impl Into<Body>) -> Failure {
        self.result = Some(result.into());
        self
    }

    fn nack(&self) -> Nack {
        let mut nack = Nack::new().error(&cut(&self.error, ERROR_BYTES));
        if let Some(after) = self.after {
            nack = nack.delay(after);
        }
        if self.is_final {
            nack = nack.final_attempt();
            if let Some(result) = &self.result {
                nack = nack.result(result.clone());
            }
        }
        nack
    }
}

impl<E: StdError> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::new(error.to_string())
    }
}

/// How the work on a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The job is done.
    Acked,
    /// The job failed and is retried.
    Nacked,
    /// The job failed for ever.
    Rejected,
    /// The lease was lost; another worker may process the job.
    Lost,
    /// The job was returned unprocessed.
    GivenBack,
}

/// A job under its lease.
pub struct Taken {
    job: Job,
    decoded: OnceLock<Job>,
    client: Client,
    lease_for: Duration,
    worker: Weak<Shared>,
    notice: Mutex<bool>, // whether the handler was notified
    noticed: Condvar,
    is_lost: AtomicBool,
    is_unwanted: AtomicBool,
}

impl Taken {
    fn new(job: Job, worker: &Arc<Shared>) -> Taken {
        Taken {
            job,
            decoded: OnceLock::new(),
            client: worker.client.clone(),
            lease_for: worker.lease,
            worker: Arc::downgrade(worker),
            notice: Mutex::new(false),
            noticed: Condvar::new(),
            is_lost: AtomicBool::new(false),
            is_unwanted: AtomicBool::new(false),
        }
    }

    /// Whether the lease is lost. Another worker may process the job from then on, and the result of the handler is discarded.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Whether a user requested a cancel. The result of the handler still counts: an error cancels the job.
    pub fn is_cancel_requested(&self) -> bool {
        self.is_unwanted.load(Ordering::Acquire)
    }

    /// Sleeps until the lease is lost or a cancel is requested, for this time at most. Returns whether that happened.
    pub fn sleep(&self, time: Duration) -> bool {
        let notice = self.notice.lock().unwrap_or_else(PoisonError::into_inner);
        *self.noticed.wait_timeout_while(notice, time, |is_noticed| !*is_noticed).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Stores the progress of the job, which is shown with it, in up to 256 bytes of text. Returns false if the lease is lost.
    pub fn report_progress(&self, text: &str) -> Result<bool, Error> {
        let results = self.client.extend(&self.job, Extend::new().lease(self.lease_for).progress(text))?;
        Ok(results.iter().all(Result::is_ok))
    }

    /// Stops the worker without waiting, with its grace. This job is answered as always.
    pub fn quit(&self) {
        if let Some(worker) = self.worker.upgrade() {
            Stopper(worker).quit();
        }
    }

    /// Decodes body and result, before the handler sees the job.
    fn decode(&self) -> Result<(), Failure> {
        if is_encoded(&self.job.content_type) {
            let job = self.decoded.get_or_init(|| decode_job(self.client.codec.as_deref(), self.job.clone()));
            return job.codec_error.clone().map_or(Ok(()), |error| Err(Failure::from(error)));
        }
        Ok(())
    }

    fn notify(&self, flag: &AtomicBool) {
        flag.store(true, Ordering::Release);
        *self.notice.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.noticed.notify_all();
    }

    fn lose(&self) {
        self.notify(&self.is_lost);
    }
}

impl Deref for Taken {
    type Target = Job;

    fn deref(&self) -> &Job {
        self.decoded.get().unwrap_or(&self.job)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Ack,
    Nack,
    Return,
}

impl Verb {
    fn path(self) -> &'static str {
        match self {
            Verb::Ack => "ack",
            Verb::Nack => "nack",
            Verb::Return => "return",
        }
    }
}

/// A job from take to answer.
struct Held {
    job: Arc<Taken>,
    taken_at: Instant,
    lives_until: Instant,
    next_beat: Option<Instant>,
    is_begun: bool,
    is_ended: bool,
    is_answered: bool, // the hook is running, or has run
    answer: Option<(Verb, Members)>,
}

#[derive(Default)]
struct State {
    held: BTreeMap<u64, Held>,
    waiting: VecDeque<u64>, // taken, not begun
    answers: Vec<u64>,
    running: usize,
    taken: u64, // jobs so far
    is_run: bool,
    is_stopping: bool,
    is_taking: bool,
    is_over: bool,
    grace: Duration,
    logged_at: HashMap<&'static str, Instant>,
}

type OnTaken = Box<dyn Fn(&Taken) + Send + Sync>;
type OnDone = Box<dyn Fn(&Taken, Outcome, Duration) + Send + Sync>;
type OnError = Box<dyn Fn(&Error, &str) + Send + Sync>;

struct Shared {
    client: Client,
    line: Transport, // of the takes
    topics: Vec<String>,
    handlers: HashMap<String, Handler>,
    concurrency: usize,
    lease: Duration,
    consumer: String,
    grace: Duration,
    is_logging: bool,
    on_taken: Option<OnTaken>,
    on_done: Option<OnDone>,
    on_error: Option<OnError>,
    state: Mutex<State>,
    changed: Condvar, // slots and the state of the worker, for taking and stopping
    begins: Condvar,  // for handlers: one of them is woken for a job
    answerable: Condvar,
    beating: Condvar,
}

/// Takes jobs, runs a handler for each, extends their leases, and reports the results.
///
/// ```no_run
/// fn main() -> Result<(), tarry::Error> {
///     let client = tarry::Client::new()?;
///     let close = |job: &tarry::Taken| {
///         println!("closing {}: {}", job.id, job.text());
///         Ok(())
///     };
///     tarry::Worker::new(&client).topic("orders", close).concurrency(8).run()
/// }
/// ```
#[must_use]
pub struct Worker {
    shared: Shared,
    signals: bool,
}

/// Stops a worker from another thread.
#[derive(Clone)]
pub struct Stopper(Arc<Shared>);

/// A worker that is ready to run, with its [`Stopper`].
pub(crate) struct Running {
    shared: Arc<Shared>,
    signals: bool,
}

impl Worker {
    /// Returns a worker without a topic.
    pub fn new(client: &Client) -> Worker {
        let shared = Shared {
            client: client.clone(),
            line: client.transport.separate(),
            topics: Vec::new(),
            handlers: HashMap::new(),
            concurrency: 10,
            lease: Duration::from_secs(60),
            consumer: consumer_name(&host(), std::process::id()),
            grace: STOP_GRACE,
            is_logging: true,
            on_taken: None,
            on_done: None,
            on_error: None,
            state: Mutex::default(),
            changed: Condvar::new(),
            begins: Condvar::new(),
            answerable: Condvar::new(),
            beating: Condvar::new(),
        };
        Worker { shared, signals: true }
    }

    /// Adds a topic and its handler. The topic named first is served first. A handler returns nothing or a result; an error, or a panic, fails its job.
    pub fn topic<F, D>(mut self, topic: impl Into<String>, handler: F) -> Worker
    where
        F: Fn(&Taken) -> Result<D, Failure> + Send + Sync + 'static,
        D: Into<Done>,
    {
        let topic = topic.into();
        self.shared.topics.push(topic.clone());
        self.shared.handlers.insert(topic, Arc::new(move |job| handler(job).map(Into::into)));
        self
    }

    /// Sets the number of jobs in progress at the same time, 10 by default.
    pub fn concurrency(mut self, jobs: usize) -> Worker {
        self.shared.concurrency = jobs.max(1);
        self
    }

    /// Sets the lease of the jobs, one minute by default.
    pub fn lease(mut self, lease: Duration) -> Worker {
        self.shared.lease = lease;
        self
    }

    /// Sets the name that is shown with the jobs, `HOST:PID` by default.
    pub fn consumer(mut self, consumer: impl Into<String>) -> Worker {
        self.shared.consumer = consumer.into();
        self
    }

    /// Sets how long handlers may continue after a signal or [`Stopper::quit`], 30 s by default.
    pub fn grace(mut self, grace: Duration) -> Worker {
        self.shared.grace = grace;
        self
    }

    /// Sets whether SIGTERM and SIGINT stop the worker; true by default.
    pub fn signals(mut self, handled: bool) -> Worker {
        self.signals = handled;
        self
    }

    /// Sets whether failures go to the crate `log`, with the target `tarry`, or to standard error if the program has no logger or has set its
    /// level to off; true by default.
    pub fn log(mut self, logged: bool) -> Worker {
        self.shared.is_logging = logged;
        self
    }

    /// Sets a hook for each taken job.
    pub fn on_taken(mut self, hook: impl Fn(&Taken) + Send + Sync + 'static) -> Worker {
        self.shared.on_taken = Some(Box::new(hook));
        self
    }

    /// Sets a hook for the outcome of each job, with the time since its take.
    pub fn on_done(mut self, hook: impl Fn(&Taken, Outcome, Duration) + Send + Sync + 'static) -> Worker {
        self.shared.on_done = Some(Box::new(hook));
        self
    }

    /// Sets a hook for each call that fails, with its name.
    pub fn on_error(mut self, hook: impl Fn(&Error, &str) + Send + Sync + 'static) -> Worker {
        self.shared.on_error = Some(Box::new(hook));
        self
    }

    /// Works until a signal, or until a take is rejected for good, and then returns that error.
    pub fn run(self) -> Result<(), Error> {
        self.ready().run()
    }

    /// Works in a thread of its own. The stopper ends it.
    pub fn start(self) -> (Stopper, thread::JoinHandle<Result<(), Error>>) {
        let ready = self.ready();
        ready.shared.lock().is_run = true; // a stop may come before the thread begins
        (Stopper(ready.shared.clone()), thread::spawn(move || ready.run()))
    }

    fn ready(self) -> Running {
        Running { shared: Arc::new(self.shared), signals: self.signals }
    }
}

impl Stopper {
    /// Takes no further job, gives back those that no handler has started, and waits for running handlers, for the grace at most. Then they are
    /// notified, and their jobs are given back. Returns once the worker has ended. Do not call it in a handler or a hook: see [`quit`](Stopper::quit).
    pub fn stop(&self, grace: Duration) {
        self.0.begin_to_stop(grace);
        drop(self.0.wait(&self.0.changed, self.0.lock(), |state| !state.is_over));
    }

    /// Stops without waiting, with the grace of the worker.
    pub fn quit(&self) {
        let shared = self.0.clone();
        thread::spawn(move || shared.begin_to_stop(shared.grace));
    }
}

impl Running {
    fn run(self) -> Result<(), Error> {
        let shared = self.shared;
        if shared.topics.is_empty() {
            return Err(Error::refused("bad_worker", "the worker has no topic, add one by topic(\"orders\", handler)"));
        }
        shared.lock().is_run = true;
        let _signals = self.signals.then(|| signals::Signals::new(Stopper(shared.clone())));
        for number in 0..shared.concurrency {
            let own = shared.clone();
            spawn(format!("tarry-{number}"), move || own.work());
        }
        let (beats, answers) = (shared.clone(), shared.clone());
        let helpers = [spawn("tarry-heartbeat".into(), move || beats.beat()), spawn("tarry-answers".into(), move || answers.send_answers())];
        let taken = shared.take_until_stopped();
        shared.wind_up();
        for helper in helpers {
            let _ = helper.join();
        }
        taken
    }
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::Builder::new().name(name).spawn(work).expect("the system has no thread left")
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, on: &Condvar, state: MutexGuard<'a, State>, mut not_yet: impl FnMut(&State) -> bool) -> MutexGuard<'a, State> {
        on.wait_while(state, |state| not_yet(state)).unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for<'a>(&self, on: &Condvar, state: MutexGuard<'a, State>, time: Duration, mut not_yet: impl FnMut(&State) -> bool) -> MutexGuard<'a, State> {
        on.wait_timeout_while(state, time, |state| not_yet(state)).unwrap_or_else(PoisonError::into_inner).0
    }

    /// A take in progress has a moment, and is then cut.
    fn begin_to_stop(&self, grace: Duration) {
        let mut state = self.lock();
        if !state.is_stopping {
            (state.is_stopping, state.grace) = (true, grace);
        }
        self.changed.notify_all();
        drop(self.wait_for(&self.changed, state, MOMENT, |state| state.is_taking));
        self.line.cut();
    }

    // ---- taking ----

    fn take_until_stopped(self: &Arc<Self>) -> Result<(), Error> {
        let mut pause = FIRST_PAUSE;
        while let Some(free) = self.free_slots() {
            let take = Take::new(&self.topics).max(free.min(LEASES_MAX)).wait(WAIT).lease(self.lease).consumer(&self.consumer);
            let taken = take_by(&self.line, take);
            let mut state = self.lock();
            state.is_taking = false;
            self.changed.notify_all();
            let is_stopping = state.is_stopping;
            drop(state);
            match taken {
                Ok(jobs) => {
                    pause = FIRST_PAUSE;
                    self.begin(jobs);
                }
                Err(_) if is_stopping => return Ok(()),
                Err(error @ (Error::Denied(_) | Error::NotFound(_) | Error::Refused(_))) => return Err(error),
                Err(error) => {
                    self.report(&error, "take");
                    let wait = error.problem().retry_after.unwrap_or_else(|| jittered(pause));
                    drop(self.wait_for(&self.changed, self.lock(), wait, |state| !state.is_stopping));
                    pause = (2 * pause).min(LONGEST_PAUSE);
                }
            }
        }
        Ok(())
    }

    /// Waits for free slots, and begins to take; None once the worker stops.
    fn free_slots(&self) -> Option<usize> {
        let free = |state: &State| self.concurrency.saturating_sub(state.running + state.waiting.len());
        let mut state = self.lock();
        if free(&state) == 0 {
            state = self.wait(&self.changed, state, |state| !state.is_stopping && free(state) == 0);
            // slots become free together; otherwise a take would be sent for the first one only
            state = self.wait_for(&self.changed, state, SLOTS_LINGER, |state| !state.is_stopping && 2 * free(state) < self.concurrency);
        }
        state.is_taking = !state.is_stopping;
        state.is_taking.then(|| free(&state))
    }

    fn begin(self: &Arc<Self>, jobs: Vec<Job>) {
        let now = Instant::now();
        let jobs: Vec<_> = jobs.into_iter().map(|job| Arc::new(Taken::new(job, self))).collect();
        if let Some(hook) = &self.on_taken {
            jobs.iter().for_each(|job| hook(job));
        }
        let mut state = self.lock();
        for job in jobs {
            let number = state.taken;
            state.taken += 1;
            let (lives_until, next_beat) = (now + self.lease, Some(now + self.lease / BEATS));
            let one = Held { job, taken_at: now, lives_until, next_beat, is_begun: false, is_ended: false, is_answered: false, answer: None };
            state.held.insert(number, one);
            state.waiting.push_back(number);
            self.begins.notify_one();
        }
        self.beating.notify_one();
    }

    /// Gives back what was not begun, and waits for handlers and for answers.
    fn wind_up(&self) {
        let mut state = self.lock();
        if !state.is_stopping {
            (state.is_stopping, state.grace) = (true, self.grace);
        }
        for number in std::mem::take(&mut state.waiting) {
            self.settle(&mut state, number, Verb::Return, Members::new());
        }
        let grace = state.grace;
        state = self.wait_for(&self.changed, state, grace, |state| state.running > 0);
        let late: Vec<u64> = state.held.iter().filter(|(_, one)| one.is_begun && !one.is_ended).map(|(number, _)| *number).collect();
        for number in late {
            state.held[&number].job.lose();
            self.settle(&mut state, number, Verb::Return, Members::new());
        }
        state = self.wait(&self.changed, state, |state| !state.held.is_empty());
        state.is_over = true;
        drop(state);
        for waits in [&self.changed, &self.begins, &self.answerable, &self.beating] {
            waits.notify_all();
        }
    }

    // ---- handling ----

    fn next(&self) -> Option<(u64, Arc<Taken>)> {
        let mut state = self.wait(&self.begins, self.lock(), |state| state.waiting.is_empty() && !state.is_over);
        let number = state.waiting.pop_front()?;
        state.running += 1;
        let one = state.held.get_mut(&number)?;
        one.is_begun = true;
        Some((number, one.job.clone()))
    }

    fn work(&self) {
        while let Some((number, job)) = self.next() {
            let handler = self.handlers.get(&job.topic);
            let result = catch_unwind(AssertUnwindSafe(|| match handler {
                Some(handler) => job.decode().and_then(|()| handler(&job)),
                None => Err(Failure::new("the worker has no handler for the topic")),
            }));
            self.ended(number, &job, result.unwrap_or_else(|panic| Err(Failure::new(panic_text(&*panic)))));
        }
    }

    fn ended(&self, number: u64, job: &Taken, result: Result<Done, Failure>) {
        let (verb, members) = match result {
            Ok(Done(result)) => {
                let mut members = Members::new();
                if let Some(result) = result {
                    result.add_result(&mut members);
                }
                self.encode_result(&mut members);
                (Verb::Ack, members)
            }
            Err(failure) => {
                if !job.is_lost() && !job.is_cancel_requested() {
                    self.log(&format!("job {}/{} failed in attempt {}: {}", job.topic, job.id, job.attempt, failure.error));
                }
                let mut members = failure.nack().members;
                self.encode_result(&mut members);
                (Verb::Nack, members)
            }
        };
        let mut state = self.lock();
        state.running -= 1;
        if let Some(one) = state.held.get_mut(&number) {
            one.is_ended = true;
        }
        self.settle(&mut state, number, verb, members);
        self.changed.notify_all();
        if state.running == 0 {
            self.answerable.notify_one();
        }
    }

    /// A result that cannot be encoded is left out, because the work is done.
    fn encode_result(&self, members: &mut Members) {
        if let Err(error) = encode_result(self.client.codec.as_deref(), members) {
            self.report(&error, "result");
            members.retain(|name, _| !name.starts_with("result"));
        }
    }

    /// Marks the answer to be sent, once.
    fn settle(&self, state: &mut State, number: u64, verb: Verb, mut members: Members) {
        let Some(one) = state.held.get_mut(&number).filter(|one| one.answer.is_none() && !one.is_answered) else {
            return;
        };
        members.insert("lease".into(), one.job.lease.clone().into());
        one.answer = Some((verb, members));
        state.answers.push(number);
        if state.answers.len() == 1 || state.answers.len() >= LEASES_MAX {
            self.answerable.notify_one();
        }
    }

    // ---- heartbeat ----

    fn beat(&self) {
        loop {
            let state = self.lock();
            if state.is_over {
                return;
            }
            let now = Instant::now();
            let beats = || state.held.iter().filter(|(_, one)| !one.is_answered).filter_map(|(number, one)| Some((*number, one.next_beat?)));
            let due: Vec<u64> = beats().filter(|(_, at)| *at <= now).map(|(number, _)| number).collect();
            if due.is_empty() {
                let usual = self.lease / BEATS;
                let soonest = beats().map(|(_, at)| at - now).min().unwrap_or(usual);
                let time = soonest.min(usual).max(Duration::from_millis(1));
                drop(self.beating.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            drop(state);
            for part in due.chunks(LEASES_MAX) {
                self.extend(part);
            }
        }
    }

    fn extend(&self, due: &[u64]) {
        let sent = Instant::now();
        let state = self.lock();
        let due: Vec<(u64, Arc<Taken>)> = due.iter().filter_map(|number| Some((*number, state.held.get(number)?.job.clone()))).collect();
        drop(state);
        let item = |job: &Taken| Members::from_iter([("lease".into(), job.lease.clone().into()), ("lease_for".into(), milliseconds(self.lease).into())]);
        let items: Vec<Members> = due.iter().map(|(_, job)| item(job)).collect();
        let results = self.client.answer_items("extend", &items, |call| {
            call.is_once = true;
            call.timeout = Some((self.lease / 4).clamp(Duration::from_millis(500), Duration::from_millis(1500)));
        });
        if let Err(error) = &results {
            self.report(error, "extend");
        }
        let now = Instant::now();
        let mut dropped = Vec::new();
        let mut state = self.lock();
        for (at, (number, job)) in due.iter().enumerate() {
            let Some(one) = state.held.get_mut(number).filter(|one| !one.is_answered) else { continue };
            let answered = results.as_ref().ok().and_then(|results| results.get(at));
            match answered {
                Some(Answered { error: None, cancel_requested, .. }) => {
                    (one.lives_until, one.next_beat) = (sent + self.lease, Some(sent + self.lease / BEATS));
                    if *cancel_requested && one.answer.is_none() && !job.is_cancel_requested() {
                        job.notify(&job.is_unwanted); // its lease continues, and the result of the handler counts
                    }
                }
                Some(Answered { error: Some(Error::LeaseEnded(_)), .. }) => {
                    one.next_beat = None;
                    if one.answer.is_none() {
                        dropped.push(*number);
                    }
                }
                _ => {
                    one.next_beat = Some(now + (self.lease / 20).min(PAUSE));
                    if now > one.lives_until + GRACE && one.answer.is_none() {
                        dropped.push(*number);
                    }
                }
            }
        }
        let lost: Vec<(u64, Outcome)> = dropped.iter().map(|number| (*number, Outcome::Lost)).collect();
        for number in dropped {
            let job = &state.held[&number].job;
            self.log(&format!("the lease of job {}/{} is lost; another worker may process it", job.topic, job.id));
            job.lose();
        }
        self.finish(state, lost);
    }

    // ---- answers ----

    /// Calls the hook for jobs that have ended, and forgets them.
    fn finish(&self, mut state: MutexGuard<'_, State>, outcomes: Vec<(u64, Outcome)>) {
        let mut ended = Vec::new();
        for (number, outcome) in outcomes {
            if let Some(one) = state.held.get_mut(&number).filter(|one| !one.is_answered) {
                one.is_answered = true;
                ended.push((number, one.job.clone(), outcome, one.taken_at.elapsed()));
            }
        }
        drop(state);
        if let Some(hook) = &self.on_done {
            for (_, job, outcome, took) in &ended {
                let called = catch_unwind(AssertUnwindSafe(|| hook(job, *outcome, *took)));
                if called.is_err() {
                    self.log("the hook on_done panicked");
                }
            }
        }
        let mut state = self.lock();
        for (number, ..) in ended {
            state.held.remove(&number);
        }
        self.changed.notify_all();
    }

    fn send_answers(&self) {
        loop {
            let mut state = self.wait(&self.answerable, self.lock(), |state| state.answers.is_empty() && !state.is_over);
            if state.answers.is_empty() {
                return;
            }
            if state.running > 0 {
                state = self.wait_for(&self.answerable, state, LINGER, |state| state.running > 0 && state.answers.len() < LEASES_MAX);
            }
            let later = state.answers.len().min(LEASES_MAX);
            let later = state.answers.split_off(later);
            let batch = std::mem::replace(&mut state.answers, later);
            let answers: Vec<(u64, Verb, Members)> = batch
                .iter()
                .filter_map(|number| {
                    let one = state.held.get(number).filter(|one| !one.is_answered)?;
                    let (verb, members) = one.answer.clone()?;
                    Some((*number, verb, members))
                })
                .collect();
            drop(state);
            for verb in [Verb::Ack, Verb::Nack, Verb::Return] {
                let (numbers, items): (Vec<u64>, Vec<Members>) =
                    answers.iter().filter(|(_, other, _)| *other == verb).map(|(number, _, members)| (*number, members.clone())).unzip();
                self.send(verb, &numbers, &items);
            }
        }
    }

    /// Sends each part of the size of a request by itself: if one is rejected, the others count.
    fn send(&self, verb: Verb, numbers: &[u64], items: &[Members]) {
        let mut start = 0;
        for part in parts_of(items) {
            self.send_part(verb, &numbers[start..start + part.len()], part);
            start += part.len();
        }
    }

    fn send_part(&self, verb: Verb, numbers: &[u64], items: &[Members]) {
        let goes_on = || {
            let (state, now) = (self.lock(), Instant::now());
            numbers.iter().filter_map(|number| state.held.get(number)).any(|one| now < one.lives_until + GRACE)
        };
        let results = self.client.answer_items(verb.path(), items, |call| {
            call.retry_for = Some(Duration::MAX);
            call.timeout = Some((self.lease / 3).max(PAUSE * 2).min(self.client.transport.timeout));
            call.pause_max = PAUSE;
            call.goes_on = Some(&goes_on);
        });
        if let Err(error) = &results {
            if matches!(error.code(), "result_too_big" | "body_too_big") {
                return self.send_apart(verb, numbers, items, error);
            }
            self.report(error, verb.path());
        }
        let outcome = |at: usize| match results.as_ref().ok().and_then(|results| results.get(at)) {
            Some(Answered { error: None, .. }) => match verb {
                Verb::Ack => Outcome::Acked,
                Verb::Nack if items[at].contains_key("final") => Outcome::Rejected,
                Verb::Nack => Outcome::Nacked,
                Verb::Return => Outcome::GivenBack,
            },
            _ => Outcome::Lost,
        };
        if verb == Verb::Ack {
            let is_done = |at: usize| results.as_ref().is_ok_and(|results| results.get(at).is_some_and(|one| one.is_done));
            self.delete_stored(numbers.iter().enumerate().filter(|(at, _)| is_done(*at)).map(|(_, number)| number));
        }
        let outcomes = numbers.iter().enumerate().map(|(at, number)| (*number, outcome(at))).collect();
        self.finish(self.lock(), outcomes);
    }

    /// Deletes the stored bodies of acked jobs, in a thread, because a store may be slow.
    fn delete_stored<'a>(&self, numbers: impl Iterator<Item = &'a u64>) {
        let state = self.lock();
        let held = numbers.filter_map(|number| state.held.get(number));
        let jobs: Vec<Arc<Taken>> = held.map(|one| one.job.clone()).filter(|job| job.stored_as.is_some()).collect();
        drop(state);
        let (Some(codec), false, is_logging) = (self.client.codec.clone(), jobs.is_empty(), self.is_logging) else {
            return;
        };
        thread::spawn(move || {
            for job in jobs {
                if let (Err(fault), true) = (codec.delete_stored(&job), is_logging) {
                    log_failure(&format!("the stored body of job {}/{} cannot be deleted: {fault}", job.topic, job.id));
                }
            }
        });
    }

    /// One result is too big, so the server has rejected the request. Its job is done, so it is answered without the result.
    fn send_apart(&self, verb: Verb, numbers: &[u64], items: &[Members], error: &Error) {
        if items.len() > 1 {
            let half = items.len() / 2;
            self.send(verb, &numbers[..half], &items[..half]);
            return self.send(verb, &numbers[half..], &items[half..]);
        }
        self.report(error, "result");
        let mut item = items[0].clone();
        item.retain(|name, _| !name.starts_with("result"));
        self.send(verb, numbers, &[item]);
    }

    fn log(&self, text: &str) {
        if self.is_logging {
            log_failure(text);
        }
    }

    fn report(&self, error: &Error, what: &'static str) {
        let now = Instant::now();
        let mut state = self.lock();
        let is_due = state.logged_at.get(what).is_none_or(|at| now - *at >= LOG_PAUSE);
        if is_due {
            state.logged_at.insert(what, now);
        }
        drop(state);
        if is_due {
            self.log(&format!("{what} failed: {error}"));
        }
        if let Some(hook) = &self.on_error {
            hook(error, what);
        }
    }
}

/// Logs a failure; without a logger, to standard error.
fn log_failure(text: &str) {
    if log::max_level() == log::LevelFilter::Off {
        let _ = writeln!(std::io::stderr(), "tarry: {text}"); // nothing can be done if standard error is closed
    } else {
        log::warn!(target: "tarry", "{text}");
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("without a text"))
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| std::env::var("HOSTNAME"))
        .or_else(|_| std::env::var("COMPUTERNAME"))
        .unwrap_or_else(|_| "localhost".into())
}

/// Returns HOST:PID, in 64 printable ASCII characters at most.
fn consumer_name(host: &str, pid: u32) -> String {
    let end = format!(":{pid}");
    let host: String = host.chars().filter(char::is_ascii_graphic).take(64 - end.len()).collect();
    host + &end
}

#[cfg(unix)]
mod signals {
    //! SIGTERM and SIGINT stop the workers that run. Without a worker they have their default action.

    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, OnceLock};
    use std::thread;

    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::iterator;

    use super::Stopper;

    static WORKERS: AtomicUsize = AtomicUsize::new(0);
    static IS_IDLE: OnceLock<Arc<AtomicBool>> = OnceLock::new();

    pub(super) struct Signals(Option<iterator::Handle>);

    impl Signals {
        pub(super) fn new(stopper: Stopper) -> Signals {
            let is_idle = IS_IDLE.get_or_init(|| {
                let flag = Arc::new(AtomicBool::new(false));
                for signal in [SIGTERM, SIGINT] {
                    let _ = signal_hook::flag::register_conditional_default(signal, flag.clone());
                }
                flag
            });
            WORKERS.fetch_add(1, Ordering::SeqCst);
            is_idle.store(false, Ordering::SeqCst);
            let Ok(mut signals) = iterator::Signals::new([SIGTERM, SIGINT]) else { return Signals(None) };
            let handle = signals.handle();
            thread::spawn(move || signals.forever().for_each(|_| stopper.quit()));
            Signals(Some(handle))
        }
    }

    impl Drop for Signals {
        fn drop(&mut self) {
            if let Some(handle) = &self.0 {
                handle.close();
            }
            if WORKERS.fetch_sub(1, Ordering::SeqCst) == 1 {
                if let Some(is_idle) = IS_IDLE.get() {
                    is_idle.store(true, Ordering::SeqCst);
                }
            }
        }
    }
}

#[cfg(not(unix))]
mod signals {
    use super::Stopper;

    pub(super) struct Signals;

    impl Signals {
        pub(super) fn new(_: Stopper) -> Signals {
            Signals
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_name_has_64_printable_characters_at_most() {
        assert_eq!(consumer_name("web 1\n", 7), "web1:7");
        assert_eq!(consumer_name(&"x".repeat(100), 12).len(), 64);
    }

    #[test]
    fn any_error_fails_a_job_and_a_rejection_is_final() {
        fn fails() -> Result<(), Failure> {
            "x".parse::<u32>()?;
            Ok(())
        }
        assert_eq!(fails().unwrap_err().nack().members["error"], "invalid digit found in string");
        let nack = Failure::reject("no such order").result("x").nack().members;
        assert_eq!((&nack["final"], &nack["error"], nack.contains_key("result_base64")), (&true.into(), &"no such order".into(), true));
        assert_eq!(Failure::retry(Duration::from_secs(3), "later").nack().members["delay"], "3000ms");
    }

    #[test]
    fn a_worker_without_a_topic_is_refused() {
        let client = Client::new().unwrap();
        assert_eq!(Worker::new(&client).run().unwrap_err().code(), "bad_worker");
    }

    #[test]
    fn a_worker_that_is_stopped_at_once_ends_although_no_server_is_there() {
        let client = Client::with(crate::Options::new().url("http://127.0.0.1:1")).unwrap();
        let (stopper, thread) = Worker::new(&client).topic("t", |_| Ok(())).signals(false).log(false).start();
        stopper.stop(Duration::from_secs(1));
        assert!(thread.join().unwrap().is_ok());
    }
}
