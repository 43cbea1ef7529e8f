//! Connections to a unix socket, for ureq.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ureq::config::Config;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, ShutdownHandle, Transport};
use ureq::{Agent, Error};

/// Returns an agent whose connections all go to this socket.
pub(crate) fn agent(config: Config, path: PathBuf) -> Agent {
    Agent::with_parts(config, UnixConnector { path }, DefaultResolver::default())
}

#[derive(Debug)]
struct UnixConnector {
    path: PathBuf,
}

impl Connector<()> for UnixConnector {
    type Out = UnixTransport;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<UnixTransport>, Error> {
        let stream = Arc::new(Socket(UnixStream::connect(&self.path)?));
        (details.register_shutdown)(Arc::downgrade(&stream) as Weak<dyn ShutdownHandle>)?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(UnixTransport { stream, buffers }))
    }
}

struct Socket(UnixStream);

impl ShutdownHandle for Socket {
    fn shutdown(&self) {
        let _ = self.0.shutdown(Shutdown::Both); // an error means that it is closed already
    }
}

struct UnixTransport {
    stream: Arc<Socket>,
    buffers: LazyBuffers,
}

/// Returns the time that is left. A socket does not accept zero.
fn left(timeout: NextTimeout) -> Option<Duration> {
    timeout.not_zero().map(|left| *left)
}

fn named(fault: std::io::Error, timeout: NextTimeout) -> Error {
    match fault.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => fault.into(),
    }
}

impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let mut stream = &self.stream.0;
        stream.set_write_timeout(left(timeout))?;
        stream.write_all(&self.buffers.output()[..amount]).map_err(|fault| named(fault, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let mut stream = &self.stream.0;
        stream.set_read_timeout(left(timeout))?;
        loop {
            match stream.read(self.buffers.input_append_buf()) {
                Err(fault) if fault.kind() == ErrorKind::Interrupted => {}
                Err(fault) => return Err(named(fault, timeout)),
                Ok(amount) => {
                    self.buffers.input_appended(amount);
                    return Ok(amount > 0);
                }
            }
        }
    }

    /// Whether the server has neither closed the connection nor sent bytes without a request.
    fn is_open(&mut self) -> bool {
        let mut stream = &self.stream.0;
        let is_quiet = stream.set_nonblocking(true).is_ok() && matches!(stream.read(&mut [0]), Err(fault) if fault.kind() == ErrorKind::WouldBlock);
        stream.set_nonblocking(false).is_ok() && is_quiet
    }
}

impl fmt::Debug for UnixTransport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("UnixTransport")
    }
}
