//! A workspace with something to lose beside it.

#![expect(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};

use acp_host::{OfferedCapabilities, ProviderAnswer, ProviderLimits, ProviderSettings, Providers, Roots};
use acp_policy::{Policy, PolicyRules};
use acp_rpc::{Frame, Id};
use serde_json::{Value, json};

pub struct World {
    pub temp: tempfile::TempDir,
    pub root: PathBuf,
    pub more: PathBuf,
    pub outside: PathBuf,
    pub providers: Providers,
}

pub fn settings(policy: Policy) -> ProviderSettings {
    ProviderSettings {
        offer: OfferedCapabilities::ALL,
        rules: PolicyRules::of(policy),
        ..ProviderSettings::default()
    }
}

impl World {
    pub fn new() -> World {
        World::with(settings(Policy::Yolo))
    }

    pub fn with_limits(limits: ProviderLimits) -> World {
        World::with(ProviderSettings { limits, ..settings(Policy::Yolo) })
    }

    pub fn with(settings: ProviderSettings) -> World {
        let temp = tempfile::tempdir().expect("a temporary folder");
        let base = temp.path().canonicalize().expect("a real path");
        let [root, more, outside] = ["root", "more", "outside"].map(|name| base.join(name));
        for folder in [&root, &more, &outside] {
            std::fs::create_dir(folder).expect("a folder");
        }
        std::fs::write(outside.join("secret"), "secret").expect("a file");
        std::fs::write(root.join("hello.txt"), "one\ntwo\nthree\n").expect("a file");
        let providers = Providers::new(settings);
        providers.open_session("s", Roots::open(&root, std::slice::from_ref(&more)).expect("roots"));
        World { temp, root, more, outside, providers }
    }

    pub async fn ask(&self, method: &str, params: Value) -> ProviderAnswer {
        self.providers.answer(&request(1, method, &params)).await
    }

    /// The result; the error is a failed test.
    pub async fn result(&self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        answer.outcome.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The error; a result is a failed test.
    pub async fn error(&self, method: &str, params: Value) -> acp_rpc::RpcError {
        let answer = self.ask(method, params).await;
        match answer.outcome {
            Err(error) => error,
            Ok(result) => panic!("{method} was answered with {result}"),
        }
    }

    pub async fn read(&self, path: &Path) -> ProviderAnswer {
        self.ask("fs/read_text_file", json!({"sessionId": "s", "path": path})).await
    }

    pub async fn write(&self, path: &Path, content: &str) -> ProviderAnswer {
        self.ask("fs/write_text_file", json!({"sessionId": "s", "path": path, "content": content})).await
    }
}

pub fn request(id: i64, method: &str, params: &Value) -> Frame {
    Frame::request(&Id::from(id), method, params)
}
