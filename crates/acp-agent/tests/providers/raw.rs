//! A server that answers with given bytes and keeps what it was asked.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What is sent before the connection ends.
#[derive(Clone)]
pub enum Answer {
    /// These bytes.
    Bytes(Vec<u8>),
    /// These bytes, and then nothing more while the other side waits.
    Stall(Vec<u8>),
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub head: String,
    pub body: Value,
}

impl Asked {
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub struct Raw {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Raw {
    /// Gives these answers in their order, the last one for ever.
    pub async fn start(answers: Vec<Answer>) -> Raw {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let keep = asked.clone();
        let task = tokio::spawn(async move {
            for n in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let answer = answers[n.min(answers.len() - 1)].clone();
                tokio::spawn(serve(stream, answer, keep.clone()));
            }
        });
        Raw { url, asked, task }
    }

    pub async fn bytes(answer: impl Into<Vec<u8>>) -> Raw {
        Raw::start(vec![Answer::Bytes(answer.into())]).await
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("nobody panicked").clone()
    }
}

/// A whole answer of this kind.
pub fn http(status: &str, kind: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{headers}connection: close\r\n\r\n{body}")
        .into_bytes()
}

/// A stream of these events.
pub fn events(events: &[Value]) -> Vec<u8> {
    let line = |event: &Value| {
        let text = event.as_str().map_or_else(|| event.to_string(), str::to_owned);
        format!("data: {text}\n\n")
    };
    http("200 OK", "text/event-stream", "", &events.iter().map(line).collect::<String>())
}

async fn serve(mut stream: TcpStream, answer: Answer, asked: Arc<Mutex<Vec<Asked>>>) {
    let Some(request) = read(&mut stream).await else { return };
    asked.lock().expect("nobody panicked").push(request);
    let (bytes, stall) = match answer {
        Answer::Bytes(bytes) => (bytes, false),
        Answer::Stall(bytes) => (bytes, true),
    };
    if stream.write_all(&bytes).await.is_err() {
        return;
    }
    let _ = stream.flush().await;
    if stall {
        // Until the other side gives up.
        let _ = stream.read(&mut [0; 16]).await;
    }
    let _ = stream.shutdown().await;
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
            let asked = Asked { head, body: Value::Null };
            let length = asked.header("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
            if bytes.len() >= at + 4 + length {
                let body = serde_json::from_slice(&bytes[at + 4..]).unwrap_or(Value::Null);
                return Some(Asked { body, ..asked });
            }
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
        }
    }
}
