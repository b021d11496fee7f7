//! Just enough of WebDriver to open a page and click through it.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A browser without a window; it ends with this value.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts the driver on a free port and opens a session.
    pub fn start() -> Browser {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect(
                "cannot start chromedriver; scripts/setup installs it, ACP_SKIP=browser leaves this test out",
            );
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines
            .find_map(|line| {
                let line = line.ok()?;
                let (_, tail) = line.split_once("started successfully on port ")?;
                tail.trim_end_matches('.').parse().ok()
            })
            .expect("chromedriver says its port");
        // The rest of its output must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Browser { driver, port, session: String::new() };
        let options =
            json!({ "args": ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
        let wanted = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" } } } });
        let opened = browser.call("POST", "/session", &wanted);
        browser.session = opened["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    /// Opens a page.
    pub fn open(&self, url: &str) {
        self.post("url", &json!({ "url": url }));
    }

    /// Runs a script in the page and returns what it returns.
    pub fn script(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Clicks on what the selector finds first.
    pub fn click(&self, selector: &str) {
        let element = self.find(selector);
        self.post(&format!("element/{element}/click"), &json!({}));
    }

    /// Types into what the selector finds first.
    pub fn type_into(&self, selector: &str, text: &str) {
        let element = self.find(selector);
        self.post(&format!("element/{element}/value"), &json!({ "text": text }));
    }

    /// Everything that the page complained about.
    pub fn complaints(&self) -> Value {
        self.post("se/log", &json!({ "type": "browser" }))
    }

    /// A command of the browser's own protocol, such as the choice of light or dark.
    pub fn own(&self, command: &str, params: &Value) {
        self.post("goog/cdp/execute", &json!({ "cmd": command, "params": params }));
    }

    fn find(&self, selector: &str) -> String {
        let found = self.post("element", &json!({ "using": "css selector", "value": selector }));
        let element = found.as_object().and_then(|found| found.values().next()?.as_str()).unwrap_or_default();
        assert!(!element.is_empty(), "nothing on the page is {selector}: {found}");
        element.to_owned()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}/{path}", self.session), body)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(180))).unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        // The driver keeps the connection open, so only the length tells where the answer ends.
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).unwrap();
        let value: Value = serde_json::from_slice(&answer).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(value["value"].get("error").is_none(), "{path}: {value}");
        value["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Best effort: without it the browser would outlive its driver.
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            let _ = write!(stream, "DELETE /session/{} HTTP/1.1\r\nHost: localhost\r\n\r\n", self.session);
            let _ = stream.read(&mut [0; 64]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
