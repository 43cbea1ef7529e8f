//! Requests and answers: connections that are used again, and what is repeated when. docs/clients.md has the rules.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use ureq::http::{HeaderMap, HeaderValue, Request};
use ureq::tls::{parse_pem, Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig};
use ureq::Agent;

use crate::options::Query;
use crate::text::{encoded, http_date_of, jittered};
use crate::{Body, Codec, Error};

pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(50);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const CONNECTIONS: usize = 256; // kept open to a server

/// Options of a client. What is not set has the default.
#[derive(Debug, Clone)]
#[must_use]
pub struct Options {
    url: Option<String>,
    token: Option<String>,
    timeout: Duration,
    retry_for: Duration,
    ca_file: Option<PathBuf>,
    certificate: Option<(PathBuf, PathBuf)>,
    pub(crate) codec: Option<Codec>,
}

impl Default for Options {
    fn default() -> Options {
        Options { url: None, token: None, timeout: Duration::from_secs(10), retry_for: Duration::from_secs(30), ca_file: None, certificate: None, codec: None }
    }
}

impl Options {
    /// Returns the defaults.
    pub fn new() -> Options {
        Options::default()
    }

    /// Sets where the server is: `http://HOST:PORT`, `https://HOST` or `unix:PATH`. Several, separated by commas, are tried in turn. Without it:
    /// `TARRY_URL`, else `http://127.0.0.1:8279`.
    pub fn url(mut self, url: impl Into<String>) -> Options {
        self.url = Some(url.into());
        self
    }

    /// Sets the token. Without it: the text of the file `TARRY_TOKEN_FILE`, else `TARRY_TOKEN`.
    pub fn token(mut self, token: impl Into<String>) -> Options {
        self.token = Some(token.into());
        self
    }

    /// Sets the time limit of one request, 10 s by default; a call that waits has its wait and this.
    pub fn timeout(mut self, timeout: Duration) -> Options {
        self.timeout = timeout;
        self
    }

    /// Sets how long a call is retried before it fails, 30 s by default; zero: no retry.
    pub fn retry_for(mut self, retry_for: Duration) -> Options {
        self.retry_for = retry_for;
        self
    }

    /// Trusts server certificates signed by the CAs of this PEM file, in place of those of the system.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Options {
        self.ca_file = Some(path.into());
        self
    }

    /// Sets the client certificate and its key, both PEM files.
    pub fn certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Options {
        self.certificate = Some((certificate.into(), key.into()));
        self
    }

    /// Sets the codec of bodies and results; by default they stay as they are.
    pub fn codec(mut self, codec: Codec) -> Options {
        self.codec = Some(codec);
        self
    }

    fn tls(&self) -> Result<TlsConfig, Error> {
        let roots: Vec<Certificate<'static>> = match &self.ca_file {
            Some(path) => certificates_of(path)?,
            None => rustls_native_certs::load_native_certs().certs.iter().map(|one| Certificate::from_der(one).to_owned()).collect(),
        };
        let own = match &self.certificate {
            None => None,
            Some((certificate, key)) => {
                let found = PrivateKey::from_pem(&read(key)?).map_err(|fault| bad_pem(key, fault))?;
                Some(ClientCert::new_with_certs(&certificates_of(certificate)?, found))
            }
        };
        Ok(TlsConfig::builder().root_certs(RootCerts::new_with_certs(&roots)).client_cert(own).build())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|fault| Error::refused("bad_file", format!("'{}' cannot be read: {fault}", path.display())))
}

fn bad_pem(path: &Path, fault: impl std::fmt::Display) -> Error {
    Error::refused("bad_file", format!("'{}' is not a PEM file of the expected kind: {fault}", path.display()))
}

fn certificates_of(path: &Path) -> Result<Vec<Certificate<'static>>, Error> {
    let mut found = Vec::new();
    for item in parse_pem(&read(path)?) {
        if let PemItem::Certificate(one) = item.map_err(|fault| bad_pem(path, fault))? {
            found.push(one);
        }
    }
    if found.is_empty() {
        return Err(bad_pem(path, "it has no certificate"));
    }
    Ok(found)
}

/// A server, and how a connection to it is made.
#[derive(Debug, Clone, PartialEq)]
enum Place {
    Http(String), // scheme, host, port, and what precedes the path
    #[cfg(unix)]
    Unix(PathBuf),
}

impl Place {
    fn of(text: &str) -> Result<Place, Error> {
        let bad = || Error::refused("bad_url", format!("bad URL '{text}', give one like http://127.0.0.1:8279"));
        if let Some(path) = text.strip_prefix("unix:") {
            #[cfg(unix)]
            return if path.is_empty() { Err(bad()) } else { Ok(Place::Unix(path.into())) };
            #[cfg(not(unix))]
            return Err(bad());
        }
        let url = if text.contains("://") { text.into() } else { format!("http://{text}") };
        let uri: ureq::http::Uri = url.parse().map_err(|_| bad())?;
        let (scheme, host) = (uri.scheme_str().unwrap_or_default(), uri.host().unwrap_or_default());
        if !matches!(scheme, "http" | "https") || host.is_empty() {
            return Err(bad());
        }
        let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 8279 });
        Ok(Place::Http(format!("{scheme}://{host}:{port}{}", uri.path().trim_end_matches('/'))))
    }

    fn base(&self) -> &str {
        match self {
            Place::Http(base) => base,
            #[cfg(unix)]
            Place::Unix(_) => "http://127.0.0.1",
        }
    }

    fn agent(&self, tls: &TlsConfig) -> Agent {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent("tarry-rust")
            .max_idle_connections(CONNECTIONS)
            .max_idle_connections_per_host(CONNECTIONS)
            .tls_config(tls.clone())
            .build();
        match self {
            Place::Http(_) => Agent::new_with_config(config),
            #[cfg(unix)]
            Place::Unix(path) => crate::unix::agent(config, path.clone()),
        }
    }
}

/// A call, and how it is repeated.
pub(crate) struct Call<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) body: Option<Body>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) timeout: Option<Duration>,   // of a try
    pub(crate) retry_for: Option<Duration>, // in place of that of the client
    pub(crate) pause_max: Duration,
    pub(crate) is_once: bool,                         // never repeated
    pub(crate) goes_on: Option<&'a dyn Fn() -> bool>, // decides before each further try
    pub(crate) is_repeated: bool,                     // out: an earlier try may have been carried out
}

impl<'a> Call<'a> {
    pub(crate) fn new(method: &'a str, path: impl Into<String>) -> Call<'a> {
        Call {
            method,
            path: path.into(),
            query: Query::new(),
            body: None,
            headers: Vec::new(),
            timeout: None,
            retry_for: None,
            pause_max: LONGEST_PAUSE,
            is_once: false,
            goes_on: None,
            is_repeated: false,
        }
    }

    pub(crate) fn query(mut self, query: Query) -> Call<'a> {
        self.query = query;
        self
    }

    pub(crate) fn json(mut self, value: Value) -> Call<'a> {
        self.body = Some(value.into());
        self
    }
}

/// Sends requests over persistent connections, and repeats them.
pub(crate) struct Transport {
    places: Vec<Place>,
    agents: Vec<Agent>,   // one for each place
    at: Arc<AtomicUsize>, // index of the server that answered last
    tls: TlsConfig,
    authorization: Option<HeaderValue>,
    pub(crate) timeout: Duration,
    pub(crate) retry_for: Duration,
}

type Members = Map<String, Value>;

enum Tried {
    Answered(Members),
    Failed { error: Error, wait: Option<Duration> },
}

impl Transport {
    pub(crate) fn new(options: &Options) -> Result<Transport, Error> {
        let url = options.url.clone().or_else(|| variable("TARRY_URL")).unwrap_or_else(|| "http://127.0.0.1:8279".into());
        let places = url.split(',').map(str::trim).filter(|one| !one.is_empty()).map(Place::of).collect::<Result<Vec<_>, _>>()?;
        if places.is_empty() {
            return Err(Error::refused("bad_url", "no URL, give one like http://127.0.0.1:8279"));
        }
        let token = match (&options.token, variable("TARRY_TOKEN_FILE")) {
            (Some(token), _) => Some(token.clone()),
            (None, Some(path)) => Some(String::from_utf8_lossy(&read(Path::new(&path))?).trim().into()),
            (None, None) => variable("TARRY_TOKEN"),
        };
        let bad_token = |_| Error::refused("bad_token", "the token has characters that a header cannot have");
        let authorization = token.filter(|token| !token.is_empty()).map(|token| HeaderValue::from_str(&format!("Bearer {token}")).map_err(bad_token));
        let needs_tls = places.iter().any(|place| place.base().starts_with("https:"));
        let tls = if needs_tls { options.tls()? } else { TlsConfig::default() };
        Ok(Transport {
            agents: places.iter().map(|place| place.agent(&tls)).collect(),
            places,
            at: Arc::default(),
            tls,
            authorization: authorization.transpose()?,
            timeout: options.timeout,
            retry_for: options.retry_for,
        })
    }

    /// Returns a transport to the same servers with its own connections, which [`cut`](Transport::cut) closes.
    pub(crate) fn separate(&self) -> Transport {
        Transport {
            places: self.places.clone(),
            agents: self.places.iter().map(|place| place.agent(&self.tls)).collect(),
            at: self.at.clone(),
            tls: self.tls.clone(),
            authorization: self.authorization.clone(),
            ..*self
        }
    }

    /// Ends the requests in progress and all later ones.
    pub(crate) fn cut(&self) {
        self.agents.iter().cloned().for_each(Agent::shutdown);
    }

    /// Returns the members of the answer to a call that was carried out, else the error.
    pub(crate) fn call(&self, call: &mut Call) -> Result<Members, Error> {
        let retry_for = call.retry_for.unwrap_or(self.retry_for);
        let limit = Instant::now().checked_add(retry_for); // None: for ever
        let (mut pause, mut is_last) = (FIRST_PAUSE, false);
        loop {
            let (error, wait) = match self.once(call)? {
                Tried::Answered(members) => return Ok(members),
                Tried::Failed { error, wait } => (error, wait),
            };
            let status = error.problem().status;
            if status != 0 && !is_again(status) || call.is_once || retry_for.is_zero() {
                return Err(error);
            }
            call.is_repeated |= !matches!(status, 429 | 503);
            let left = limit.map_or(Duration::MAX, |limit| limit.saturating_duration_since(Instant::now()));
            let pause_now = wait.unwrap_or_else(|| jittered(pause));
            if wait.is_none() {
                pause = (2 * pause).min(call.pause_max);
            }
            let is_too_late = wait.is_some_and(|wait| wait > left);
            if is_last || is_too_late || call.goes_on.is_some_and(|goes_on| !goes_on()) {
                return Err(error);
            }
            is_last = pause_now >= left; // the last try is at the limit, not before it
            std::thread::sleep(pause_now.min(left));
        }
    }

    /// Makes one try. Fails only if the request cannot be written.
    fn once(&self, call: &Call) -> Result<Tried, Error> {
        let at = self.at.load(Ordering::Relaxed);
        let mut target = format!("{}{}", self.places[at].base(), call.path);
        for (n, (name, value)) in call.query.iter().enumerate() {
            target.push(if n == 0 { '?' } else { '&' });
            target.push_str(&format!("{}={}", encoded(name), encoded(value)));
        }
        let mut request = Request::builder().method(call.method).uri(target);
        for (name, value) in &call.headers {
            request = request.header(name, value.as_bytes());
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let timeout = Some(call.timeout.unwrap_or(self.timeout));
        let agent = &self.agents[at];
        let bad = |fault: ureq::http::Error| Error::refused("bad_request", format!("the request cannot be written: {fault}"));
        let answered = match (&call.body, call.method) {
            (None, "GET" | "DELETE") => agent.run(agent.configure_request(request.body(()).map_err(bad)?).timeout_global(timeout).build()),
            (None, _) => agent.run(agent.configure_request(request.body(&[][..]).map_err(bad)?).timeout_global(timeout).build()),
            (Some(body), _) => {
                let request = request.header("Content-Type", body.content_type.as_str()).body(&body.bytes[..]).map_err(bad)?;
                agent.run(agent.configure_request(request).timeout_global(timeout).build())
            }
        };
        let read = answered.and_then(|mut answer| {
            let bytes = answer.body_mut().with_config().limit(u64::MAX).read_to_vec()?;
            Ok((answer.status().as_u16(), retry_after_of(answer.headers()), bytes))
        });
        if !matches!(&read, Ok((status, ..)) if !matches!(status, 502..=504)) {
            let next = (at + 1) % self.places.len();
            let _ = self.at.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        Ok(match read {
            Err(fault) => Tried::Failed { error: Error::no_answer(fault), wait: None },
            Ok((status, wait, bytes)) => {
                let members = match serde_json::from_slice(&bytes) {
                    Ok(Value::Object(members)) => members,
                    _ => Members::new(), // an empty answer, or a page of a proxy
                };
                match status {
                    0..=299 => Tried::Answered(members),
                    _ => Tried::Failed { error: Error::of(status, &members, wait), wait },
                }
            }
        })
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn is_again(status: u16) -> bool {
    matches!(status, 429 | 502..=504)
}

/// Reads the header in seconds or as a date. A date is compared with the Date of the answer, because the local clock may be wrong.
fn retry_after_of(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).map(str::trim);
    let value = text("Retry-After")?;
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let then = http_date_of(value)?;
    let now = text("Date").and_then(http_date_of).or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).ok())?;
    Some(then.saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(text: &str) -> String {
        Place::of(text).unwrap().base().into()
    }

    #[test]
    fn a_url_has_defaults_for_what_it_lacks() {
        assert_eq!(base("http://127.0.0.1:8279"), "http://127.0.0.1:8279");
        assert_eq!(base("queue.example"), "http://queue.example:8279");
        assert_eq!(base("https://queue.example/tarry/"), "https://queue.example:443/tarry");
        assert_eq!(base("http://[::1]:1"), "http://[::1]:1");
    }

    #[test]
    fn rejects_bad_urls() {
        for text in ["ftp://x", "http://", "unix:", "http://a b"] {
            assert_eq!(Place::of(text).unwrap_err().code(), "bad_url", "{text}");
        }
        assert_eq!(Transport::new(&Options::new().url(" , ")).err().unwrap().code(), "bad_url");
    }

    #[test]
    fn a_file_that_is_missing_or_has_no_certificate_is_named() {
        let error = |options: Options| Transport::new(&options.url("https://x")).err().unwrap().to_string();
        assert!(error(Options::new().ca_file("/nowhere/ca.pem")).contains("'/nowhere/ca.pem' cannot be read"));
        assert!(error(Options::new().ca_file("Cargo.toml")).contains("'Cargo.toml' is not a PEM file"));
    }

    #[test]
    fn a_date_is_compared_with_the_date_of_the_answer() {
        let mut headers = HeaderMap::new();
        assert_eq!(retry_after_of(&headers), None);
        headers.insert("Retry-After", HeaderValue::from_static("Sun, 06 Nov 1994 08:49:40 GMT"));
        headers.insert("Date", HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(retry_after_of(&headers), Some(Duration::from_secs(3)));
        headers.insert("Retry-After", HeaderValue::from_static("2"));
        assert_eq!(retry_after_of(&headers), Some(Duration::from_secs(2)));
    }
}
