//! A real nats-server on a free port of this machine, with a store of its own.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Whether tests with NATS are left out, visibly.
pub fn left_out() -> bool {
    let out = std::env::var("ACP_SKIP").is_ok_and(|skip| skip.split(',').any(|word| word == "nats"));
    if out {
        eprintln!("left out: ACP_SKIP names nats");
    }
    out
}

/// Where the server is: Debian puts it where people's PATH does not look.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let mut files = places.map(|place| place.join("nats-server"));
    files.find(|file| file.is_file())
}

/// Whether there is one.
pub fn is_there() -> bool {
    find().is_some()
}

fn program() -> PathBuf {
    find().expect("nats-server is missing; scripts/setup installs it, ACP_SKIP=nats leaves these tests out")
}

pub struct Server {
    process: Option<Child>,
    /// Once the server has chosen one.
    port: Option<u16>,
    store: tempfile::TempDir,
    args: Vec<String>,
}

impl Server {
    pub fn start() -> Server {
        Server::with(&[])
    }

    pub fn with(args: &[&str]) -> Server {
        let store = tempfile::tempdir().expect("a folder");
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut server = Server { process: None, port: None, store, args };
        server.restart();
        server
    }

    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port.expect("it was started")))
    }

    /// Starts it with the same store, on the same port; the first time on one that it chooses.
    pub fn restart(&mut self) {
        let port = self.port.map_or("-1".to_owned(), |port| port.to_string());
        let log = std::fs::File::create(self.store.path().join("log")).expect("a log");
        let process = Command::new(program())
            .args(["-a", "127.0.0.1", "-p", &port, "-js", "-sd"])
            .arg(self.store.path().join("store"))
            .arg("--ports_file_dir")
            .arg(self.store.path())
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("nats-server runs");
        self.process = Some(process);
        let began = Instant::now();
        while !self.listens() {
            let log = || std::fs::read_to_string(self.store.path().join("log")).unwrap_or_default();
            let ended = self.process.as_mut().and_then(|process| process.try_wait().expect("its state"));
            assert!(ended.is_none(), "nats-server has ended ({ended:?}):\n{}", log());
            assert!(began.elapsed() < PATIENCE, "nats-server does not listen:\n{}", log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn listens(&mut self) -> bool {
        self.port = self.port.or_else(|| self.chosen());
        self.port.is_some() && TcpStream::connect(self.address()).is_ok()
    }

    /// The port that it says it has chosen: `{"nats":["nats://127.0.0.1:4222"]}` in a file of its own.
    fn chosen(&self) -> Option<u16> {
        let mut files = std::fs::read_dir(self.store.path()).ok()?.flatten();
        let file = files.find(|file| file.path().extension().is_some_and(|end| end == "ports"))?;
        let text = std::fs::read_to_string(file.path()).ok()?;
        let (_, after) = text.split_once("127.0.0.1:")?;
        after.split_once('"')?.0.parse().ok()
    }

    /// Removes what it has stored; it must not run.
    pub fn forget(&mut self) {
        assert!(self.process.is_none(), "it runs");
        std::fs::remove_dir_all(self.store.path().join("store")).expect("removed");
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("it was running");
            process.wait().expect("it has ended");
        }
    }

    pub fn pause(&self) {
        self.signal("-STOP");
    }

    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let process = self.process.as_ref().expect("it runs");
        let done = Command::new("kill").args([signal, &process.id().to_string()]).status();
        assert!(done.is_ok_and(|status| status.success()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
