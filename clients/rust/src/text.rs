//! Durations, times and ids as the API has them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::rand::{SecureRandom, SystemRandom};

/// Writes a duration for the API, rounded up, so that a job is never early.
pub(crate) fn milliseconds(duration: Duration) -> String {
    format!("{}ms", duration.as_nanos().div_ceil(1_000_000))
}

/// Writes a time for the API, in milliseconds since 1970, rounded up.
pub(crate) fn moment(time: SystemTime) -> String {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos().div_ceil(1_000_000).to_string(),
        Err(before) => format!("-{}", before.duration().as_millis()),
    }
}

/// Reads a time of an answer, such as 2026-01-31T12:00:00.250Z.
pub(crate) fn time_of(text: &str) -> Option<SystemTime> {
    let (date, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let days = days_since_1970(date.next()??, date.next()??, date.next()??);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let nanos = if fraction.is_empty() { 0 } else { format!("{fraction:0<9.9}").parse::<u64>().ok()? };
    since_1970(days, clock).map(|since| UNIX_EPOCH + since + Duration::from_nanos(nanos))
}

/// Reads a date of HTTP, such as Sun, 06 Nov 1994 08:49:37 GMT, as the time since 1970.
pub(crate) fn http_date_of(text: &str) -> Option<Duration> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let parts: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, clock, "GMT"] = parts[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    since_1970(days_since_1970(year.parse().ok()?, month, day.parse().ok()?), clock)
}

fn since_1970(days: i64, clock: &str) -> Option<Duration> {
    let mut clock = clock.splitn(3, ':').map(|part| part.parse::<u64>().ok());
    let seconds = clock.next()?? * 3600 + clock.next()?? * 60 + clock.next()??;
    Some(Duration::from_secs(u64::try_from(days).ok()? * 86400 + seconds))
}

/// The number of days of a date in the Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year }; // years begin in March here, so that a leap day is the last one
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468
}

pub(crate) fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).expect("the system has no random numbers");
    bytes
}

/// Makes a ULID: 48 bits of milliseconds and 80 random ones.
pub(crate) fn new_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let random = random::<10>().iter().fold(0u128, |bits, byte| bits << 8 | u128::from(*byte));
    let bits = now << 80 | random;
    (0..26).rev().map(|at| b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"[(bits >> (5 * at) & 31) as usize] as char).collect()
}

/// A random half of a pause is left out, so that many clients do not return together.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + f64::from(u32::from_le_bytes(random())) / f64::from(u32::MAX) / 2.0)
}

/// Cuts a text to one line of at most so many bytes.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    let line: String = text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    let end = (0..=bytes_max.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    line[..end].into()
}

/// Encodes a part of a path, or a name or value of a query.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_times_are_never_early() {
        assert_eq!(milliseconds(Duration::from_micros(1_001)), "2ms");
        assert_eq!(milliseconds(Duration::ZERO), "0ms");
        assert_eq!(moment(UNIX_EPOCH + Duration::from_nanos(1)), "1");
        assert_eq!(moment(UNIX_EPOCH - Duration::from_millis(5)), "-5");
    }

    #[test]
    fn reads_the_times_of_answers_and_of_http() {
        assert_eq!(time_of("2024-02-29T23:59:59.250Z"), Some(UNIX_EPOCH + Duration::from_millis(1_709_251_199_250)));
        assert_eq!(time_of("1970-01-01T00:00:00Z"), Some(UNIX_EPOCH));
        assert_eq!(time_of("2024-02-29"), None);
        assert_eq!(time_of("2024-02-29T23:59:59.xZ"), None);
        assert_eq!(http_date_of("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(784_111_777)));
        assert_eq!(http_date_of("tomorrow"), None);
    }

    #[test]
    fn ids_sort_by_their_time() {
        let first = new_id();
        std::thread::sleep(Duration::from_millis(2));
        assert!(first.len() == 26 && first < new_id());
    }

    #[test]
    fn a_cut_text_is_one_line_and_keeps_whole_characters() {
        assert_eq!(cut("a\nb", 10), "a b");
        assert_eq!(cut("银行", 4), "银");
        assert_eq!(cut("", 4), "");
    }

    #[test]
    fn encodes_all_but_unreserved_characters() {
        assert_eq!(encoded("a/b?c#d%e&f=g+h ç~"), "a%2Fb%3Fc%23d%25e%26f%3Dg%2Bh%20%C3%A7~");
    }

    #[test]
    fn a_jittered_pause_is_between_a_half_and_the_whole() {
        for _ in 0..100 {
            let pause = jittered(Duration::from_millis(100));
            assert!((Duration::from_millis(50)..=Duration::from_millis(100)).contains(&pause), "{pause:?}");
        }
    }
}
