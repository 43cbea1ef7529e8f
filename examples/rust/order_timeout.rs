//! An order that is not paid in time is closed: order_timeout [SECONDS], 1800 by default.

use std::time::Duration;

use serde_json::{json, Value};
use tarry::{Client, Push, Taken, Worker};

/// The job has the order's own number, so any code with the order can cancel it.
fn place(client: &Client, order: &str, delay: Duration) -> Result<(), tarry::Error> {
    client.push(Push::new("orders", json!({"order": order})).id(order).delay(delay))?;
    println!("order {order} placed");
    Ok(())
}

fn pay(client: &Client, order: &str) -> Result<(), tarry::Error> {
    if client.cancel("orders", order)? {
        println!("order {order} paid, nothing to close");
    }
    Ok(())
}

fn close(job: &Taken) -> Result<(), tarry::Failure> {
    let body: Value = job.json()?;
    println!("order {} closed: not paid in time", body["order"].as_str().unwrap_or_default());
    job.quit(); // a real worker runs until SIGTERM
    Ok(())
}

fn main() -> Result<(), tarry::Error> {
    let delay = Duration::from_secs_f64(std::env::args().nth(1).map_or(1800.0, |text| text.parse().expect("seconds")));
    let client = Client::new()?;
    place(&client, "1001", delay)?;
    place(&client, "1002", delay)?;
    pay(&client, "1001")?;
    Worker::new(&client).topic("orders", close).run()
}
