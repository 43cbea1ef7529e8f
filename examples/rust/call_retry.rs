//! A call that fails is made again later: call_retry [SECONDS], 10 by default. The service is here as well: it answers 503 twice, then 200.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use tarry::{Client, Failure, Push, Taken, Worker};

fn serve(service: TcpListener) -> std::io::Result<()> {
    for status in ["503 Service Unavailable", "503 Service Unavailable", "200 OK"] {
        let (mut connection, _) = service.accept()?;
        let mut lines = BufReader::new(&connection).lines();
        while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
        write!(connection, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    }
    Ok(())
}

fn call(job: &Taken, delay: Duration) -> Result<(), Failure> {
    match ureq::post(job.text()).send_empty() {
        Err(ureq::Error::StatusCode(503)) => {
            println!("call {}: 503, again later", job.attempt);
            return Err(Failure::retry(delay, "the service answered 503"));
        }
        answer => println!("call {}: {}, done", job.attempt, answer?.status().as_u16()), // any other error is retried by the job's own backoff
    }
    job.quit(); // a real worker runs until SIGTERM
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let delay = Duration::from_secs_f64(std::env::args().nth(1).map_or(Ok(10.0), |text| text.parse())?);
    let service = TcpListener::bind("127.0.0.1:0")?;
    let client = Client::new()?;
    client.push(Push::new("calls", format!("http://{}/", service.local_addr()?)))?;
    thread::spawn(|| serve(service));
    Ok(Worker::new(&client).topic("calls", move |job| call(job, delay)).run()?)
}
