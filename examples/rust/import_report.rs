//! A report is sent when all rows of an import have been loaded: import_report [SECONDS [ROWS]], 0 seconds later and 20,000 rows by default.

use std::time::Duration;

use serde_json::{json, Value};
use tarry::{Client, Push, Taken, Worker};

fn load(job: &Taken) -> Result<(), tarry::Failure> {
    let _row: Value = job.json()?; // your own handler writes it to a database
    Ok(())
}

fn report(job: &Taken) -> Result<(), tarry::Failure> {
    println!("report: {}", job.meta["tarry-batch"]);
    job.quit(); // a real worker runs until SIGTERM
    Ok(())
}

fn main() -> Result<(), tarry::Error> {
    let delay = Duration::from_secs_f64(std::env::args().nth(1).map_or(0.0, |text| text.parse().expect("seconds")));
    let rows: u32 = std::env::args().nth(2).map_or(20_000, |text| text.parse().expect("rows"));
    let client = Client::new()?;
    client.push(Push::new("reports", "").id("import-7").waits().delay(delay))?;
    client.push_many((0..rows).map(|row| Push::new("rows", json!({"row": row})).batch(("reports", "import-7"))))?;
    client.close_batch("reports", "import-7")?;
    println!("{rows} rows pushed");
    Worker::new(&client).topic("rows", load).topic("reports", report).run()
}
