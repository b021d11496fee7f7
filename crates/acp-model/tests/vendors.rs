//! The endpoint against the vendors' own client libraries (`scripts/fetch-model-fixtures.sh` installs them).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use acp_model::{EndpointSettings, ModelEndpoint, ModelScript};

fn clients() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("fixtures/model-clients")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_vendors_own_libraries_understand_the_endpoint() {
    if std::env::var("ACP_SKIP").is_ok_and(|skip| skip.split(',').any(|word| word == "pip")) {
        eprintln!("left out: ACP_SKIP has pip");
        return;
    }
    let clients = clients();
    assert!(
        clients.join("installed").exists(),
        "the client libraries are missing from {}: run scripts/fetch-model-fixtures.sh, or leave this test out with ACP_SKIP=pip",
        clients.display()
    );
    let script = ModelScript::parse(include_str!("vendors/script.json")).unwrap();
    let settings = EndpointSettings { script, pace: Duration::from_millis(1), ..EndpointSettings::default() };
    let endpoint = ModelEndpoint::start(settings).await.unwrap();
    let mut python = Command::new("python3");
    python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vendors/drive.py")).arg(endpoint.url());
    python.env("PYTHONPATH", &clients).env("PYTHONDONTWRITEBYTECODE", "1").env("NO_PROXY", "*");
    let ran = tokio::task::spawn_blocking(move || python.output()).await.unwrap().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && said.contains("all done"), "{said}");
}
