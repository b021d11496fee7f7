//! The launches of a test: every agent that the client starts, by way of the stub or over TCP.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use acp_comply::program::StubHabits;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::stub::frames::{self, FromStub, ToStub};

/// The longest path that a local socket may have, with room for its end.
const LONGEST: usize = 100;
/// How many events wait for the test before a client is read no further.
const WAITING: usize = 64;

/// What an agent that the client started sees.
#[derive(Debug)]
pub(crate) enum LaunchEvent {
    /// It runs.
    Began { launch: u32, record: Value, orders: mpsc::UnboundedSender<LaunchOrder> },
    /// The client wrote this.
    Input { launch: u32, bytes: Bytes },
    /// The client wrote its last byte.
    InputEnded { launch: u32 },
    /// A signal came.
    Signal { launch: u32, name: String },
    /// All of one piece for standard error was taken.
    ErrorsTaken { launch: u32 },
    /// It is there no longer.
    Gone { launch: u32 },
}

/// What such an agent must do.
#[derive(Clone, Debug)]
pub(crate) enum LaunchOrder {
    /// Write this to the client.
    Output(Bytes),
    /// End its output.
    CloseOutput,
    /// Write this to standard error, so many times.
    Errors { bytes: Bytes, times: u32 },
    /// End with this code.
    Exit(u8),
}

/// Takes the launches of one test. What is under way ends when it is dropped.
#[derive(Debug)]
pub(crate) struct LaunchDoor {
    /// The local socket, or the address for clients that connect.
    pub address: String,
    /// Keeps the socket's folder where the test's own has too long a name.
    _folder: Option<tempfile::TempDir>,
    _tasks: JoinSet<()>,
}

/// Hands out launches' numbers and takes their events.
#[derive(Clone, Debug)]
struct Register {
    last: Arc<AtomicU32>,
    tell: mpsc::Sender<LaunchEvent>,
}

impl LaunchDoor {
    /// Waits for stubs on a socket in `folder`.
    pub fn local(
        folder: &Path,
        habits: StubHabits,
    ) -> std::io::Result<(LaunchDoor, mpsc::Receiver<LaunchEvent>)> {
        let (path, kept) = place(folder)?;
        let listener = UnixListener::bind(&path)?;
        let (register, events) = Register::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut launches = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                launches.spawn(serve_stub(stream, habits.clone(), register.clone()));
            }
        });
        let address = path.to_string_lossy().into_owned();
        Ok((LaunchDoor { address, _folder: kept, _tasks: tasks }, events))
    }

    /// Waits for clients that connect over TCP; each connection is a launch.
    pub async fn tcp() -> std::io::Result<(LaunchDoor, mpsc::Receiver<LaunchEvent>)> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = format!("tcp://{}", listener.local_addr()?);
        let (register, events) = Register::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut launches = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let (reader, writer) = stream.into_split();
                launches.spawn(serve_connection(reader, writer, register.clone()));
            }
        });
        Ok((LaunchDoor { address, _folder: None, _tasks: tasks }, events))
    }
}

impl Register {
    fn new() -> (Register, mpsc::Receiver<LaunchEvent>) {
        let (tell, events) = mpsc::channel(WAITING);
        (Register { last: Arc::default(), tell }, events)
    }

    async fn begin(&self, record: Value) -> (u32, mpsc::UnboundedReceiver<LaunchOrder>) {
        let launch = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (orders, next) = mpsc::unbounded_channel();
        self.tell(LaunchEvent::Began { launch, record, orders }).await;
        (launch, next)
    }

    async fn tell(&self, event: LaunchEvent) {
        // Nobody listens any more: the test is over.
        let _ = self.tell.send(event).await;
    }
}

/// A socket in the test's own folder, or in one of its own where that has too long a name.
fn place(folder: &Path) -> std::io::Result<(PathBuf, Option<tempfile::TempDir>)> {
    let path = folder.join("agent.sock");
    if path.as_os_str().len() <= LONGEST {
        return Ok((path, None));
    }
    let kept = tempfile::Builder::new().prefix("acp-exam-").tempdir()?;
    Ok((kept.path().join("agent.sock"), Some(kept)))
}

async fn serve_stub(stream: UnixStream, habits: StubHabits, register: Register) {
    let (mut reader, mut writer) = stream.into_split();
    if writer.write_all(&ToStub::Habits(habits).encode()).await.is_err() {
        return;
    }
    let Ok(Some(FromStub::Record(record))) = frames::read_word(&mut reader).await else { return };
    let (launch, mut orders) = register.begin(record).await;
    let mut writing = JoinSet::new();
    writing.spawn(async move {
        while let Some(order) = orders.recv().await {
            let word = match order {
                LaunchOrder::Output(bytes) => ToStub::Output(bytes.to_vec()),
                LaunchOrder::CloseOutput => ToStub::CloseOutput,
                LaunchOrder::Errors { bytes, times } => ToStub::Errors { bytes: bytes.to_vec(), times },
                LaunchOrder::Exit(code) => ToStub::Exit(code),
            };
            if writer.write_all(&word.encode()).await.is_err() {
                return;
            }
        }
    });
    while let Ok(Some(word)) = frames::read_word(&mut reader).await {
        register
            .tell(match word {
                FromStub::Input(bytes) => LaunchEvent::Input { launch, bytes: bytes.into() },
                FromStub::InputEnded => LaunchEvent::InputEnded { launch },
                FromStub::Signal(name) => LaunchEvent::Signal { launch, name },
                FromStub::ErrorsTaken => LaunchEvent::ErrorsTaken { launch },
                FromStub::Record(_) => continue,
            })
            .await;
    }
    register.tell(LaunchEvent::Gone { launch }).await;
}

/// A connection in place of a process: it has no standard error, and an exit closes it.
async fn serve_connection(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin + Send + 'static,
    register: Register,
) {
    let (launch, mut orders) = register.begin(json!({ "stdin": "socket", "stdout": "socket" })).await;
    let mut writing = JoinSet::new();
    writing.spawn(async move {
        while let Some(order) = orders.recv().await {
            let done = match order {
                LaunchOrder::Output(bytes) => writer.write_all(&bytes).await,
                LaunchOrder::Errors { .. } => Ok(()),
                LaunchOrder::CloseOutput | LaunchOrder::Exit(_) => writer.shutdown().await,
            };
            if done.is_err() {
                return;
            }
        }
    });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = reader.read(&mut buffer).await {
        register.tell(LaunchEvent::Input { launch, bytes: Bytes::copy_from_slice(&buffer[..count]) }).await;
    }
    register.tell(LaunchEvent::InputEnded { launch }).await;
    register.tell(LaunchEvent::Gone { launch }).await;
}
