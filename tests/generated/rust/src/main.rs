//! Uses the client that openapi-generator made for Rust. Prints what it received as one JSON object.

use std::fmt::Debug;
use std::path::PathBuf;

use serde_json::{json, Value};
use tarry_api::apis::configuration::Configuration;
use tarry_api::apis::push_api::PushError;
use tarry_api::apis::{consume_api, jobs_api, push_api, server_api, topics_api, Error};
use tarry_api::models;

/// Pushes a file. The generated function has a parameter for each option.
async fn push(api: &Configuration, topic: &str, id: &str, body: &PathBuf, delay: Option<&str>, priority: Option<i32>, max_attempts: Option<&str>) -> Result<models::Result, Error<PushError>> {
    push_api::push(
        api, topic, id, body.clone(), delay, None, priority, None, None, max_attempts, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None,
        None, None,
    )
    .await
}

fn refusal<T: Debug, E: Debug>(answer: Result<T, Error<E>>) -> Value {
    match answer {
        Err(Error::ResponseError(refused)) => {
            let problem: models::Problem = serde_json::from_str(&refused.content).unwrap();
            json!([refused.status.as_u16(), problem.code])
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (topic, body) = (arguments[1].as_str(), PathBuf::from(&arguments[2]));
    let api = &Configuration { base_path: std::env::var("TARRY_URL").unwrap(), ..Configuration::new() };
    let mut seen = json!({});

    let wanted = models::Settings { lease_for: Some("45s".into()), max_attempts: Some(Some(json!(3))), push_rate: Some("1000/s".into()), ..Default::default() };
    let settings = topics_api::set_topic(
        api, topic, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None, Some(wanted),
    )
    .await
    .unwrap()
    .settings;
    seen["settings"] = json!([settings.lease_for, settings.max_attempts, settings.push_rate]);
    let patched = topics_api::patch_topic(api, topic, json!({"max_attempts": "none"})).await.unwrap();
    seen["patched"] = json!(patched.settings.max_attempts);

    seen["pushed"] = json!(push(api, topic, "now", &body, None, None, None).await.unwrap().result);
    seen["delayed"] = json!(push(api, topic, "later", &body, Some("1h"), Some(7), Some("5")).await.unwrap().state);
    let listed = jobs_api::list_jobs(api, topic, Some(models::State::Delayed), None, None, None, None, None, None).await.unwrap().jobs;
    seen["listed"] = listed.iter().map(|job| json!([job.id, job.state, job.priority])).collect();
    let later = jobs_api::get(api, topic, "later", None, None, None).await.unwrap();
    seen["due_at"] = json!(later.due_at.unwrap().timestamp());

    let taken = consume_api::take(api, topic, Some(1), None, Some("30s"), Some("base64"), None, None).await.unwrap().jobs;
    let job = &taken[0];
    seen["taken"] = json!([job.id, job.body_base64, job.attempt]);
    seen["delivery"] = json!(job.delivery);
    let lease = || Some(vec![job.lease.clone()]);
    seen["extended"] = json!(consume_api::extend(api, lease(), Some("1m"), None, None).await.unwrap().results[0].result);
    let leases = models::AckLeases::new(vec![models::AckLease::String(job.lease.clone())]);
    seen["acked"] = json!(consume_api::ack(api, None, None, Some(leases)).await.unwrap().results[0].result);
    seen["acked_again"] = refusal(consume_api::ack(api, lease(), None, None).await);

    let item = |id: &str| models::Item { id: Some(id.into()), ..models::Item::new(topic.into()) };
    let a = models::Item { body: Some(Some(json!({"n": 1}))), meta: Some([("kind".to_string(), "x".to_string())].into()), ..item("a") };
    let b = models::Item { body: Some(Some(json!("text"))), ..item("b") };
    let results = push_api::push_batch(api, vec![a, b, item("b ad")], None, None, None).await.unwrap().results;
    seen["batch"] = results.iter().map(|result| json!(result.result)).collect();
    let taken = consume_api::take_any(api, vec![topic.into()], Some(2), Some("5s"), None, None, None, None).await.unwrap().jobs;
    let (first, second) = (&taken[0], &taken[1]);
    seen["bodies"] = json!([first.body, first.meta, second.body]);
    let options = models::NackLeaseOptions { delay: Some("1h".into()), error: Some("too early".into()), ..models::NackLeaseOptions::new(first.lease.clone()) };
    let nacked = models::NackLeases::new(vec![models::NackLease::NackLeaseOptions(Box::new(options))]);
    seen["nacked"] = json!(consume_api::nack(api, None, None, None, None, None, None, Some(nacked)).await.unwrap().results[0].state);
    let returned = models::ReturnLeases::new(vec![models::ReturnLease::String(second.lease.clone())]);
    seen["returned"] = json!(consume_api::return_jobs(api, None, None, None, Some(returned)).await.unwrap().results[0].state);
    seen["cancelled"] = json!(jobs_api::cancel(api, topic, "later", None, None).await.unwrap().result);
    seen["missing"] = refusal(jobs_api::get(api, topic, "later", None, None, None).await);
    seen["bad_delay"] = refusal(push(api, topic, "x", &body, Some("soon"), None, None).await);

    let counts = topics_api::topic(api, topic).await.unwrap().counts;
    seen["counts"] = json!([counts.retrying, counts.ready, counts.leased]);
    seen["last_error"] = json!(jobs_api::get(api, topic, "a", None, None, None).await.unwrap().last_error);
    let (info, server, status) = (server_api::info(api).await.unwrap(), server_api::server(api).await.unwrap(), server_api::status(api).await.unwrap());
    seen["about"] = json!([info.name, server.store, status.well]);
    println!("{seen}");
}
