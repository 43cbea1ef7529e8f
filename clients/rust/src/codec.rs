//! The codec of bodies and results between the program and the server: compression, encryption, storage elsewhere. docs/codec.md has the format.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, str};

use base64::prelude::{Engine, BASE64_STANDARD};
use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_256_GCM, NONCE_LEN};
use ring::hmac;
use serde_json::{Map, Value};

use crate::text::random;
use crate::{Body, Error, Job};

const ENCODED: &str = "application/vnd.tarry.encoded";
const GZIP: &str = "gzip";
const AES_GCM: &str = "aes-gcm";
const CLAIM_CHECK: &str = "claim-check";
const ORDER: [&str; 3] = [GZIP, AES_GCM, CLAIM_CHECK];
const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 16;
const NAME_BYTES: usize = 32;

pub(crate) const BODY: &str = "body";
pub(crate) const RESULT: &str = "result";

/// Stores bodies in place of the server. A name is 32 hexadecimal digits.
pub trait Store: Send + Sync {
    /// Stores the data of a new name.
    fn put(&self, name: &str, data: &[u8]) -> io::Result<()>;
    /// Returns `None` if the store does not have the data.
    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>>;
    /// Does nothing if the store does not have the data.
    fn delete(&self, name: &str) -> io::Result<()>;
}

/// A directory that all producers and consumers share. The files are synced to the disk.
#[derive(Debug, Clone)]
pub struct DirectoryStore(PathBuf);

impl DirectoryStore {
    /// Uses a directory that exists.
    pub fn new(path: impl Into<PathBuf>) -> DirectoryStore {
        DirectoryStore(path.into())
    }
}

fn ignore_missing(fault: io::Error) -> io::Result<()> {
    if fault.kind() == io::ErrorKind::NotFound {
        Ok(())
    } else {
        Err(fault)
    }
}

impl Store for DirectoryStore {
    fn put(&self, name: &str, data: &[u8]) -> io::Result<()> {
        let temporary = self.0.join(format!(".{name}"));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        file.write_all(data)?;
        file.sync_all()?;
        fs::rename(&temporary, self.0.join(name))?;
        if cfg!(unix) {
            File::open(&self.0)?.sync_all()?;
        }
        Ok(())
    }

    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        fs::read(self.0.join(name)).map(Some).or_else(|fault| ignore_missing(fault).map(|()| None))
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name)).or_else(ignore_missing)
    }
}

#[derive(Clone)]
struct Key {
    cipher: LessSafeKey,
    nonces: hmac::Key, // for schedules
}

#[derive(Clone)]
struct ClaimCheck {
    store: Arc<dyn Store>,
    above: usize,
    is_deleted: bool,
}

/// A codec of bodies and results: [`Options::codec`](crate::Options::codec) gives it to a client. Encodes in the order gzip, AES-GCM, claim check.
#[derive(Clone)]
pub struct Codec {
    gzip_above: Option<usize>,
    inflated_max: usize,
    current: Option<String>,
    keys: HashMap<String, Key>,
    claim_check: Option<ClaimCheck>,
    context: String,
}

impl Default for Codec {
    fn default() -> Codec {
        Codec { gzip_above: None, inflated_max: 64 << 20, current: None, keys: HashMap::new(), claim_check: None, context: String::new() }
    }
}

/// Shows no key.
impl fmt::Debug for Codec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Codec").field("current", &self.current).field("keys", &self.keys.keys()).finish_non_exhaustive()
    }
}

fn error(detail: String) -> Error {
    Error::codec(detail)
}

fn is_key_id(id: &str) -> bool {
    (1..=32).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn is_name(name: &str) -> bool {
    name.len() == NAME_BYTES && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Codec {
    /// Returns a codec without steps.
    pub fn new() -> Codec {
        Codec::default()
    }

    /// Compresses data of at least 1,024 bytes, if it becomes smaller. Data that inflates to more than 64 MiB is an error.
    #[cfg(feature = "gzip")]
    pub fn gzip(self) -> Codec {
        self.gzip_with(1024, 64 << 20)
    }

    /// Compresses data of at least `above` bytes. Data that inflates to more than `inflated_max` bytes is an error.
    #[cfg(feature = "gzip")]
    pub fn gzip_with(mut self, above: usize, inflated_max: usize) -> Codec {
        (self.gzip_above, self.inflated_max) = (Some(above), inflated_max);
        self
    }

    /// Encrypts with AES-256-GCM under the key `current`, and decrypts with each of the keys, of 32 bytes, by their ids.
    pub fn aes_gcm<I: Into<String>, K: AsRef<[u8]>>(mut self, current: &str, keys: impl IntoIterator<Item = (I, K)>) -> Result<Codec, Error> {
        for (id, key) in keys {
            let (id, key) = (id.into(), key.as_ref());
            if !is_key_id(&id) {
                return Err(error(format!("bad id of a key '{id}', give 1 to 32 letters, digits, dots, underscores and hyphens")));
            }
            let Ok(unbound) = UnboundKey::new(&AES_256_GCM, key) else {
                return Err(error(format!("the key '{id}' has {} bytes, give {KEY_BYTES}", key.len())));
            };
            let nonces = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), b"tarry-codec nonce");
            let nonces = hmac::Key::new(hmac::HMAC_SHA256, nonces.as_ref());
            self.keys.insert(id, Key { cipher: LessSafeKey::new(unbound), nonces });
        }
        if !self.keys.contains_key(current) {
            return Err(error(format!("there is no key '{current}', add it to the keys")));
        }
        self.current = Some(current.into());
        Ok(self)
    }

    /// Stores data of more than 64 KiB in the store. The server gets its name. A worker deletes the data of a body after the ack of its job.
    pub fn claim_check(self, store: impl Store + 'static) -> Codec {
        self.claim_check_with(store, 64 << 10, true)
    }

    /// Stores data of more than `above` bytes in the store. `is_deleted`: whether a worker deletes the data of a body after the ack of its job.
    pub fn claim_check_with(mut self, store: impl Store + 'static, above: usize, is_deleted: bool) -> Codec {
        self.claim_check = Some(ClaimCheck { store: Arc::new(store), above, is_deleted });
        self
    }

    /// Sets the context, such as the name of a service. It must be the same for those that encrypt and decrypt: data of another context is rejected.
    pub fn context(mut self, context: impl Into<String>) -> Codec {
        self.context = context.into();
        self
    }

    /// Encodes a body for the server.
    pub fn encode(&self, body: Body) -> Result<Body, Error> {
        self.encode_part(body, BODY, false, None)
    }

    /// Decodes a body that comes by a callback or a broker. A body that is not encoded stays as it is.
    pub fn decode(&self, body: Body) -> Result<Body, Error> {
        decode_part(Some(self), &body.bytes, &body.content_type, BODY)
    }

    /// `is_steady`, for schedules: equal data has equal bytes and is never stored elsewhere.
    pub(crate) fn encode_part(&self, body: Body, part: &str, is_steady: bool, nonce: Option<[u8; NONCE_LEN]>) -> Result<Body, Error> {
        let kind = body.content_type.as_bytes();
        let Ok(kind_bytes) = u8::try_from(kind.len()) else {
            return Err(error("the content type has more than 255 bytes".into()));
        };
        let mut steps = Vec::new();
        let mut out = [&[kind_bytes], kind, &body.bytes].concat();
        if self.gzip_above.is_some_and(|above| body.bytes.len() >= above) {
            let packed = gzip::deflate(&out).map_err(|fault| error(format!("the {part} cannot be compressed: {fault}")))?;
            if packed.len() < out.len() {
                (steps, out) = (vec![GZIP], packed);
            }
        }
        let mut key = String::new();
        if let Some(current) = &self.current {
            steps.push(AES_GCM);
            out = self.encrypt(out, &self.bound(part, &steps, current), current, is_steady, nonce)?;
            key = format!("; key={current}");
        }
        if let Some(check) = self.claim_check.as_ref().filter(|check| !is_steady && out.len() > check.above) {
            let name: String = random::<{ NAME_BYTES / 2 }>().iter().map(|byte| format!("{byte:02x}")).collect();
            check.store.put(&name, &out).map_err(|fault| error(format!("the {part} cannot be stored: {fault}")))?;
            steps.push(CLAIM_CHECK);
            out = name.into_bytes();
        }
        if steps.is_empty() {
            return Ok(body);
        }
        Ok(Body { bytes: out, content_type: format!("{ENCODED}; steps={}{key}", steps.join("+")) })
    }

    /// Deletes the stored body of an acked job, if it has one. A worker does this itself.
    pub fn delete_stored(&self, job: &Job) -> io::Result<()> {
        match (&self.claim_check, &job.stored_as) {
            (Some(check), Some(name)) if check.is_deleted => check.store.delete(name),
            _ => Ok(()),
        }
    }

    /// The additional data that is authenticated.
    fn bound(&self, part: &str, steps: &[&str], key: &str) -> Vec<u8> {
        ["tarry-codec 1", part, &steps.join("+"), key, &self.context].join("\n").into_bytes()
    }

    fn encrypt(&self, mut data: Vec<u8>, bound: &[u8], id: &str, is_steady: bool, nonce: Option<[u8; NONCE_LEN]>) -> Result<Vec<u8>, Error> {
        let key = &self.keys[id];
        let nonce = nonce.unwrap_or_else(|| {
            let mut nonce = random();
            if is_steady {
                nonce.copy_from_slice(&hmac::sign(&key.nonces, &[bound, b"\n", &data].concat()).as_ref()[..NONCE_LEN]);
            }
            nonce
        });
        let sealed = key.cipher.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(bound), &mut data);
        sealed.map_err(|_| error("AES-GCM fails".into()))?;
        Ok([&nonce[..], &data].concat())
    }

    fn decrypt(&self, mut data: Vec<u8>, bound: &[u8], id: &str, part: &str) -> Result<Vec<u8>, Error> {
        if self.keys.is_empty() {
            return Err(error(format!("the {part} is encrypted with the key '{id}', and the codec has no keys")));
        }
        let Some(key) = self.keys.get(id) else {
            return Err(error(format!("the {part} is encrypted with the key '{id}', which the codec does not have")));
        };
        if data.len() < NONCE_LEN + TAG_BYTES {
            return Err(error(format!("the {part} is too short to be encrypted")));
        }
        let mut text = data.split_off(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(&data).map_err(|_| error(format!("the {part} is too short to be encrypted")))?;
        match key.cipher.open_in_place(nonce, Aad::from(bound), &mut text) {
            Ok(plain) => Ok(plain.to_vec()),
            Err(_) => Err(error(format!("the {part} cannot be decrypted with the key '{id}': it was changed, or has another context"))),
        }
    }

    fn fetch(&self, data: &[u8], part: &str) -> Result<Vec<u8>, Error> {
        let Some(check) = &self.claim_check else {
            return Err(error(format!("the {part} is stored elsewhere, and the codec has no store")));
        };
        let Some(name) = str::from_utf8(data).ok().filter(|name| is_name(name)) else {
            return Err(error(format!("the {part} is stored elsewhere, but its name is not valid")));
        };
        match check.store.get(name) {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(error(format!("the {part} is stored elsewhere as '{name}', which the store does not have"))),
            Err(fault) => Err(error(format!("the {part} is stored elsewhere as '{name}' and cannot be read: {fault}"))),
        }
    }
}

pub(crate) fn is_encoded(content_type: &str) -> bool {
    content_type.split(';').next().is_some_and(|kind| kind.trim() == ENCODED)
}

/// The steps in the order of their application, and the id of the key.
fn steps_of<'a>(content_type: &'a str, part: &str) -> Result<(Vec<&'a str>, &'a str), Error> {
    let members: HashMap<&str, &str> = content_type.split(';').skip(1).map(|one| one.trim().split_once('=').unwrap_or((one.trim(), ""))).collect();
    let (text, key) = (members.get("steps").copied().unwrap_or_default(), members.get("key").copied().unwrap_or_default());
    let steps: Vec<&str> = text.split('+').collect();
    if let Some(unknown) = steps.iter().find(|one| !ORDER.contains(one)) {
        return Err(error(format!("the {part} has the step '{unknown}', which the codec does not have")));
    }
    let in_order: Vec<&str> = ORDER.into_iter().filter(|one| steps.contains(one)).collect();
    if steps != in_order || steps.contains(&AES_GCM) != is_key_id(key) {
        return Err(error(format!("the content type of the {part} is not valid")));
    }
    Ok((steps, key))
}

/// Decodes by the codec, if the client has one.
pub(crate) fn decode_part(codec: Option<&Codec>, data: &[u8], content_type: &str, part: &str) -> Result<Body, Error> {
    let mut data = data.to_vec();
    if !is_encoded(content_type) {
        return Ok(Body { bytes: data, content_type: content_type.into() });
    }
    let (mut steps, key) = steps_of(content_type, part)?;
    let Some(codec) = codec else {
        return Err(error(format!("the {part} is encoded ({}), and the client has no codec", steps.join(", "))));
    };
    if steps.last() == Some(&CLAIM_CHECK) {
        steps.pop();
        data = codec.fetch(&data, part)?;
    }
    if steps.contains(&AES_GCM) {
        data = codec.decrypt(data, &codec.bound(part, &steps, key), key, part)?;
    }
    if steps.contains(&GZIP) {
        data = gzip::inflate(&data, codec.inflated_max, part)?;
    }
    let end = 1 + data.first().copied().map_or(0, usize::from);
    if data.len() < end {
        return Err(error(format!("the {part} is too short")));
    }
    let bytes = data.split_off(end);
    let content_type = str::from_utf8(&data[1..]).map_err(|_| error(format!("the {part} has a bad content type")))?.into();
    Ok(Body { bytes, content_type })
}

/// Decodes body and result. One that cannot be decoded is removed.
pub(crate) fn decode_job(codec: Option<&Codec>, mut job: Job) -> Job {
    if !job.body.is_empty() && is_encoded(&job.content_type) {
        match decode_part(codec, &job.body, &job.content_type, BODY) {
            Ok(body) => (job.body, job.content_type) = (body.bytes, body.content_type),
            Err(error) => (job.body, job.codec_error) = (Vec::new(), Some(error)),
        }
    }
    let kind = job.result_type.clone().unwrap_or_default();
    if let Some(result) = job.result.take_if(|result| !result.is_empty() && is_encoded(&kind)) {
        match decode_part(codec, &result, &kind, RESULT) {
            Ok(body) => (job.result, job.result_type) = (Some(body.bytes), Some(body.content_type)),
            Err(error) => job.codec_error = Some(error),
        }
    }
    job
}

/// The name of a body in the store, if the body is stored there.
pub(crate) fn stored_as(body: &[u8], content_type: &str) -> Option<String> {
    let steps = is_encoded(content_type).then(|| steps_of(content_type, BODY).ok())??.0;
    let name = str::from_utf8(body).ok()?;
    (steps.last() == Some(&CLAIM_CHECK) && is_name(name)).then(|| name.into())
}

/// Encodes the result in the members of an answer.
pub(crate) fn encode_result(codec: Option<&Codec>, members: &mut Map<String, Value>) -> Result<(), Error> {
    let (Some(codec), Some(coded)) = (codec, members.get("result_base64").and_then(Value::as_str)) else {
        return Ok(());
    };
    let bytes = BASE64_STANDARD.decode(coded).unwrap_or_default();
    let content_type = members.get("result_type").and_then(Value::as_str).unwrap_or_default().into();
    codec.encode_part(Body { bytes, content_type }, RESULT, false, None)?.add_result(members);
    Ok(())
}

#[cfg(feature = "gzip")]
mod gzip {
    use std::io::{self, Read, Write};

    use flate2::bufread::GzDecoder;
    use flate2::write::GzEncoder;
    use flate2::Compression;

    use super::error;
    use crate::Error;

    pub(super) fn deflate(data: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = GzEncoder::new(Vec::new(), Compression::default());
        out.write_all(data)?;
        out.finish()
    }

    pub(super) fn inflate(data: &[u8], most: usize, part: &str) -> Result<Vec<u8>, Error> {
        let (mut out, mut reader) = (Vec::new(), GzDecoder::new(data));
        let read = reader.by_ref().take(most as u64 + 1).read_to_end(&mut out);
        if out.len() > most {
            return Err(error(format!("the {part} inflates to more than {most} bytes")));
        }
        if read.is_err() || !reader.into_inner().is_empty() {
            return Err(error(format!("the {part} is not valid gzip")));
        }
        Ok(out)
    }
}

#[cfg(not(feature = "gzip"))]
mod gzip {
    use std::io;

    use super::error;
    use crate::Error;

    pub(super) fn deflate(_: &[u8]) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn inflate(_: &[u8], _: usize, part: &str) -> Result<Vec<u8>, Error> {
        Err(error(format!("the {part} is compressed, build the crate with the feature gzip")))
    }
}

#[cfg(all(test, feature = "gzip"))]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn found() -> Option<Value> {
        // not in the package
        let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/codec.json")).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }

    fn bytes(value: &Value) -> Vec<u8> {
        BASE64_STANDARD.decode(value.as_str().unwrap_or_default()).unwrap()
    }

    fn bytes_of(value: &Value) -> HashMap<String, Vec<u8>> {
        value.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), bytes(value))).collect()
    }

    struct MemoryStore(Mutex<HashMap<String, Vec<u8>>>);

    impl Store for MemoryStore {
        fn put(&self, name: &str, data: &[u8]) -> io::Result<()> {
            self.0.lock().unwrap().insert(name.into(), data.into());
            Ok(())
        }

        fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
            Ok(self.0.lock().unwrap().get(name).cloned())
        }

        fn delete(&self, name: &str) -> io::Result<()> {
            self.0.lock().unwrap().remove(name);
            Ok(())
        }
    }

    fn codec(found: &Value, one: &Value) -> Codec {
        let mut codec = Codec::new().gzip_with(1024, one["inflated"].as_u64().unwrap_or(64 << 20) as usize);
        codec = codec.context(one["context"].as_str().or(found["context"].as_str()).unwrap());
        if one["no_store"] != true {
            codec = codec.claim_check(MemoryStore(Mutex::new(bytes_of(&one["stored"]))));
        }
        if one["no_keys"] != true {
            codec = codec.aes_gcm(found["current"].as_str().unwrap(), bytes_of(&found["keys"])).unwrap();
        }
        codec
    }

    fn decoded(found: &Value, one: &Value) -> Result<Body, Error> {
        decode_part(Some(&codec(found, one)), &bytes(&one["encoded_base64"]), one["encoded_type"].as_str().unwrap(), one["part"].as_str().unwrap())
    }

    #[test]
    fn encodes_as_every_client_does() {
        for found in found().iter() {
            for one in found["vectors"].as_array().unwrap() {
                let body = Body { bytes: bytes(&one["body_base64"]), content_type: one["content_type"].as_str().unwrap().into() };
                let nonce = one["nonce_base64"].is_string().then(|| bytes(&one["nonce_base64"]).try_into().unwrap());
                let made = codec(found, one).encode_part(body, one["part"].as_str().unwrap(), one["is_steady"] == true, nonce).unwrap();
                assert_eq!((made.bytes, Value::from(made.content_type)), (bytes(&one["encoded_base64"]), one["encoded_type"].clone()), "{}", one["about"]);
            }
        }
    }

    #[test]
    fn decodes_what_every_client_encodes() {
        for found in found().iter() {
            let outputs = found["outputs"].as_object().unwrap().values().flat_map(|outputs| outputs.as_array().unwrap());
            for one in found["vectors"].as_array().unwrap().iter().chain(found["decodes"].as_array().unwrap()).chain(outputs) {
                let body = decoded(found, one).unwrap();
                assert_eq!((body.bytes, Value::from(body.content_type)), (bytes(&one["body_base64"]), one["content_type"].clone()), "{}", one["about"]);
            }
        }
    }

    #[test]
    fn reports_what_is_wrong() {
        for found in found().iter() {
            for one in found["errors"].as_array().unwrap() {
                let error = decoded(found, one).unwrap_err();
                assert!(matches!(error, Error::Codec(_)));
                assert_eq!(Value::from(error.problem().detail.clone()), one["error"], "{}", one["about"]);
            }
        }
    }

    #[test]
    fn only_what_becomes_smaller_is_compressed() {
        let mine = Codec::new().gzip_with(100, 1000);
        for data in [vec![b'a'; 99], random::<200>().to_vec()] {
            assert_eq!(mine.encode(data.clone().into()).unwrap(), data.into());
        }
        assert_eq!(mine.encode(vec![b'a'; 100].into()).unwrap().content_type, "application/vnd.tarry.encoded; steps=gzip");
    }

    #[test]
    fn large_bodies_are_stored_and_deleted() {
        let place = std::env::temp_dir().join(format!("tarry-{}", crate::text::new_id()));
        fs::create_dir(&place).unwrap();
        let files = || fs::read_dir(&place).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>();
        let mine = Codec::new().claim_check_with(DirectoryStore::new(&place), 20, true);
        let body = mine.encode("a body that is longer".into()).unwrap();
        let name = String::from_utf8(body.bytes.clone()).unwrap();
        assert_eq!((files(), body.content_type.as_str()), (vec![name.clone()], "application/vnd.tarry.encoded; steps=claim-check"));
        let members = serde_json::json!({"topic": "t", "id": "1", "body_base64": BASE64_STANDARD.encode(&body.bytes), "content_type": body.content_type});
        let job = decode_job(Some(&mine), Job::of(members.as_object().unwrap()));
        assert_eq!((job.text().as_str(), job.stored_as.as_ref()), ("a body that is longer", Some(&name)));
        mine.delete_stored(&job).unwrap();
        mine.delete_stored(&job).unwrap();
        assert!(files().is_empty());
        fs::remove_dir(&place).unwrap();
    }

    #[test]
    fn a_body_that_cannot_be_decoded_is_never_read_as_it_is() {
        for found in found().iter() {
            let one = &found["vectors"][0];
            for mine in [None, Some(Codec::new())] {
                let members = serde_json::json!({"topic": "t", "id": "1", "body_base64": one["encoded_base64"], "content_type": one["encoded_type"]});
                let job = decode_job(mine.as_ref(), Job::of(members.as_object().unwrap()));
                assert!(matches!(job.codec_error, Some(Error::Codec(_))) && job.body.is_empty());
                assert!(job.json::<Value>().unwrap_err().to_string().contains("codec: the body is enc"));
            }
        }
    }

    #[test]
    fn bad_keys_are_rejected() {
        for (current, id, bytes) in [("a", "b", 32), ("a", "a", 16), ("a b", "a b", 32)] {
            assert!(Codec::new().aes_gcm(current, [(id, vec![0; bytes])]).is_err());
        }
    }
}
