//! An order is charged, then shipped, then the customer gets a mail: checkout [SECONDS], the mail 0 seconds after the shipment by default.

use std::time::Duration;

use tarry::{Client, Push, Taken, Worker};

fn step(job: &Taken) -> Result<(), tarry::Failure> {
    println!("{} {}", job.topic, job.id);
    if job.topic == "mail" {
        job.quit(); // a real worker runs until SIGTERM
    }
    Ok(())
}

fn main() -> Result<(), tarry::Error> {
    let delay = Duration::from_secs_f64(std::env::args().nth(1).map_or(0.0, |text| text.parse().expect("seconds")));
    let client = Client::new()?;
    let charge = Push::new("charge", "").id("1001");
    let ship = Push::new("ship", "").id("1001").member_jobs([charge]);
    client.push_batch(Push::new("mail", "").id("1001").delay(delay), [ship])?;
    println!("order 1001 placed");
    Worker::new(&client).topic("charge", step).topic("ship", step).topic("mail", step).run()
}
