//! A document that is saved again and again is indexed once, when it has been quiet for a while: debounce [SECONDS], 5 by default.

use std::time::Duration;

use serde_json::{json, Value};
use tarry::{Client, Push, Taken, Worker};

/// The job of the save before, if it still waits, is replaced: its body, and when it is due.
fn save(client: &Client, version: u32, delay: Duration) -> Result<(), tarry::Error> {
    client.push(Push::new("reindex", json!({"version": version})).id("doc-7").delay(delay).on_conflict("replace"))?;
    println!("saved version {version}");
    Ok(())
}

fn index(job: &Taken) -> Result<(), tarry::Failure> {
    let body: Value = job.json()?;
    println!("indexing version {}", body["version"]);
    job.quit(); // a real worker runs until SIGTERM
    Ok(())
}

fn main() -> Result<(), tarry::Error> {
    let delay = Duration::from_secs_f64(std::env::args().nth(1).map_or(5.0, |text| text.parse().expect("seconds")));
    let client = Client::new()?;
    for version in 1..=3 {
        save(&client, version, delay)?;
    }
    Worker::new(&client).topic("reindex", index).run()
}
