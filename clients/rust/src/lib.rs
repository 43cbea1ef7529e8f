//! A client of tarry, the delay queue: push a job now, work on it when it is due. Calls block; any number of threads may share a [`Client`].
//!
//! ```no_run
//! use std::time::Duration;
//! use tarry::{Client, Push};
//!
//! # fn main() -> Result<(), tarry::Error> {
//! let client = Client::new()?; // TARRY_URL, else http://127.0.0.1:8279
//! client.push(Push::new("orders", r#"{"order": 1001}"#).id("1001").delay(Duration::from_secs(1800)))?;
//! client.cancel("orders", "1001")?; // it was paid
//! # Ok(())
//! # }
//! ```
//!
//! A [`Worker`] takes jobs, runs a handler for each, extends their leases, and reports the results.

mod client;
mod codec;
mod error;
mod job;
mod options;
mod push;
mod signature;
mod text;
mod transport;
#[cfg(unix)]
mod unix;
mod worker;

pub use client::{BatchPushed, Cancelled, Client, Jobs, Leases};
pub use codec::{Codec, DirectoryStore, Store};
pub use error::{Error, Problem};
pub use job::{Body, Job, JobName, Pushed, Scheduled};
pub use options::{Ack, Again, Extend, Filter, MemberFilter, Move, Nack, Schedule, Take};
pub use push::Push;
pub use signature::{verify, verify_at, BadSignature};
pub use transport::Options;
pub use worker::{Done, Failure, Outcome, Stopper, Taken, Worker};
