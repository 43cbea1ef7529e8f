//! Pushes jobs and works on them, with tarry or with apalis on Redis: bench tarry|apalis push NUMBER, bench tarry|apalis work.
use apalis::prelude::*;
use apalis_redis::{Config, RedisStorage};
use serde::{Deserialize, Serialize};
use std::{env, fs, io::Write, sync::OnceLock};

/// Jobs that are worked on at a time, in both.
const CONCURRENCY: usize = 100;

#[derive(Debug, Clone, Deserialize, Serialize)]
struct Count {
    n: u64,
}

fn count() {
    static DONE: OnceLock<fs::File> = OnceLock::new();
    let mut done = DONE.get_or_init(|| {
        let path = env::var("BENCH_DONE").expect("BENCH_DONE is set");
        fs::OpenOptions::new().append(true).create(true).open(path).expect("it can be written")
    });
    done.write_all(b".").expect("it can be written");
}

fn tarry_run(pushes: Option<u64>) -> Result<(), tarry::Error> {
    let client = tarry::Client::new()?;
    let Some(number) = pushes else {
        let handler = |job: &tarry::Taken| {
            let _: Count = serde_json::from_slice(&job.body)?;
            count();
            Ok(())
        };
        return tarry::Worker::new(&client).topic("bench", handler).concurrency(CONCURRENCY).run();
    };
    for first in (0..number).step_by(1000) {
        let part = first..number.min(first + 1000);
        client.push_many(part.map(|n| tarry::Push::new("bench", serde_json::json!({ "n": n }))))?;
    }
    Ok(())
}

async fn apalis_count(_: Count) -> Result<(), BoxDynError> {
    count();
    Ok(())
}

async fn apalis_run(pushes: Option<u64>) -> Result<(), BoxDynError> {
    let connection = apalis_redis::connect(env::var("BENCH_REDIS")?).await?;
    let config = Config::default().queue("bench").batch_size(CONCURRENCY);
    let mut storage = RedisStorage::new(connection).with_config(config);
    let Some(number) = pushes else {
        let name = format!("bench-{}", std::process::id());
        WorkerBuilder::new(name).backend(storage).concurrency(CONCURRENCY).parallelize(tokio::spawn).build(apalis_count).run().await?;
        return Ok(());
    };
    for n in 0..number {
        storage.push(Count { n }).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxDynError> {
    let words: Vec<String> = env::args().collect();
    let pushes = match words[2].as_str() {
        "push" => Some(words[3].parse()?),
        _ => None,
    };
    if words[1] == "tarry" {
        tokio::task::spawn_blocking(move || tarry_run(pushes)).await??;
        return Ok(());
    }
    apalis_run(pushes).await
}
