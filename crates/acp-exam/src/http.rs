//! A listener on loopback whose address nobody can guess: only who was told it asks for it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// The longest head of a request, and the longest body that is kept.
const MOST: usize = 64 * 1024;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 15\r\nconnection: close\r\n\r\n<p>Thank you.\n\n";

/// Counts requests for its own path. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct HttpWitness {
    /// Where it listens, with the random path.
    pub url: String,
    seen: Arc<Seen>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Seen {
    requests: Mutex<Vec<Value>>,
    changed: Notify,
}

impl HttpWitness {
    pub async fn start() -> std::io::Result<HttpWitness> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let path = format!("/{:016x}{:016x}", random(), random());
        let url = format!("http://{}{path}", listener.local_addr()?);
        let seen = Arc::<Seen>::default();
        let (mut tasks, theirs) = (JoinSet::new(), Arc::clone(&seen));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, path.clone(), Arc::clone(&theirs)));
            }
        });
        Ok(HttpWitness { url, seen, _tasks: tasks })
    }

    /// Waits for a further request. Cancel safe.
    pub async fn changed(&self) {
        self.seen.changed.notified().await;
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.seen.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The keys of a new hasher are random; nobody else knows them.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

async fn serve(mut stream: TcpStream, path: String, seen: Arc<Seen>) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut piece).await {
            Ok(count @ 1..) if bytes.len() < MOST => bytes.extend_from_slice(&piece[..count]),
            _ => return,
        }
    };
    let Some(mut request) = parse(&String::from_utf8_lossy(&bytes[..head])) else { return };
    let length = request["headers"]["content-length"].as_str().and_then(|text| text.parse().ok());
    let end = head + length.unwrap_or(0usize).min(MOST);
    while bytes.len() < end
        && let Ok(count @ 1..) = stream.read(&mut piece).await
    {
        bytes.extend_from_slice(&piece[..count]);
    }
    let body = String::from_utf8_lossy(&bytes[head..end.min(bytes.len())]).into_owned();
    if request["path"].as_str().is_some_and(|asked| asked.starts_with(&path)) {
        request["body"] = json!(body);
        seen.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        seen.changed.notify_one();
        let _ = stream.write_all(ANSWER).await;
    } else {
        let _ = stream
            .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .await;
    }
    let _ = stream.shutdown().await;
}

fn parse(head: &str) -> Option<Value> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let headers: Map<String, Value> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_lowercase(), json!(value.trim())))
        .collect();
    Some(json!({ "method": method, "path": path, "headers": headers }))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(url: &str, path: &str) -> String {
        let address = url.trim_start_matches("http://").split('/').next().expect("an address");
        let mut stream = TcpStream::connect(address).await.expect("connected");
        let request = format!("POST {path} HTTP/1.1\r\nUser-Agent: x y\r\nContent-Length: 2\r\n\r\nhi");
        stream.write_all(request.as_bytes()).await.expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answered");
        answer
    }

    #[tokio::test]
    async fn only_requests_for_the_random_path_count() {
        let witness = HttpWitness::start().await.expect("a listener");
        assert!(ask(&witness.url, "/").await.starts_with("HTTP/1.1 404"));
        assert!(witness.requests().is_empty());
        let path = witness.url.splitn(4, '/').nth(3).map(|path| format!("/{path}?q=1")).expect("a path");
        assert!(ask(&witness.url, &path).await.starts_with("HTTP/1.1 200"));
        witness.changed().await;
        let requests = witness.requests();
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0]["method"], "POST");
        assert_eq!(requests[0]["headers"]["user-agent"], "x y");
        assert_eq!(requests[0]["body"], "hi");
    }
}
