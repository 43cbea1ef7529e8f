//! A reminder for a meeting that is moved: reminder [SECONDS], 3600 by default.

use std::time::{Duration, SystemTime};

use tarry::{Client, Move, Push, Taken, Worker};

fn remind(job: &Taken) -> Result<(), tarry::Failure> {
    println!("reminder: {}", job.text());
    job.quit(); // a real worker runs until SIGTERM
    Ok(())
}

fn main() -> Result<(), tarry::Error> {
    let delay = Duration::from_secs_f64(std::env::args().nth(1).map_or(3600.0, |text| text.parse().expect("seconds")));
    let client = Client::new()?;
    let now = SystemTime::now();
    client.push(Push::new("reminders", "meeting with Ada").id("meeting-7").at(now + 24 * delay))?;
    println!("reminder set");
    client.reschedule("reminders", "meeting-7", Move::at(now + delay))?;
    println!("meeting moved, reminder moved");
    Worker::new(&client).topic("reminders", remind).run()
}
