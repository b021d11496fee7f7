//! Commands beside `acp comply` that run an agent offline: `acp proxy --scripted`, and `--isolate` of prompt, chat and
//! proxy.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::{acp, installed::install};

/// A proxy on a port, and the address that it announced.
struct Proxy(Child, String);

impl Proxy {
    fn start(folder: &Path, command: &mut Command) -> Proxy {
        command.args(["--listen", "tcp://127.0.0.1:0", "--no-journal"]).current_dir(folder);
        let errors = std::fs::File::create(folder.join("proxy.log")).expect("a file");
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn().expect("acp starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let told: Value = serde_json::from_str(&line).unwrap_or_default();
        let said = std::fs::read_to_string(folder.join("proxy.log")).unwrap_or_default();
        permitted(&said);
        let address = told["listening"].as_str().unwrap_or_else(|| panic!("no address in {line:?}: {said}"));
        Proxy(child, format!("tcp://{address}"))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_proxy_serves_an_installed_agent_on_a_scripted_model() {
    let cache = tempfile::tempdir().expect("a folder");
    install(cache.path(), "qwen-0.24.4", "qwen", "@qwen-code/qwen-code@0.24.4");
    let work = tempfile::tempdir().expect("a folder");
    let work = work.path().canonicalize().expect("a real path");
    let mut command = acp();
    command.env("ACP_CACHE_DIR", cache.path()).env("ACP_TEST_SECRET", "plum");
    command.args(["proxy", "--agent", "qwen", "--scripted"]);
    let proxy = Proxy::start(&work, &mut command);
    // The second is a tool call of the model, whose result comes back in the answer.
    for (prompt, answer) in [("Say hello", "hello"), ("Write 'made' to made.txt", "written")] {
        let mut client = acp();
        let output = client.args(["prompt", "--connect", &proxy.1, prompt]).current_dir(&work).output();
        let (code, out, err) = texts(&output.expect("acp starts"));
        assert_eq!(code, Some(0), "{prompt}: {out}{err}");
        assert!(out.contains(answer), "{out}{err}");
    }
    // The profile's request after the session was opened came from the proxy, and the home is not ours.
    let set_up = std::fs::read_to_string(work.join("set-up.json")).expect("the session was set up");
    let set_up: Value = serde_json::from_str(&set_up).expect("JSON");
    assert_eq!((&set_up["secret"], &set_up["settings"]), (&Value::Null, &true.into()), "{set_up}");
    assert_ne!(set_up["home"].as_str(), std::env::var("HOME").ok().as_deref(), "{set_up}");
}

/// Fails by name where no network of our own can be made.
fn permitted(said: &str) {
    assert!(
        !said.contains("does not let us have a network") && !said.contains("needs the programs unshare"),
        "{said}: allow it, or leave the tests of --isolate out with ACP_SKIP=netns"
    );
}

fn is_left_out() -> bool {
    let left_out = std::env::var("ACP_SKIP").is_ok_and(|skip| skip.split(',').any(|word| word == "netns"));
    if left_out {
        eprintln!("left out: ACP_SKIP has netns");
    }
    left_out
}

/// The mock as a command line that first notes which network it lives in.
fn noting(folder: &Path) -> String {
    let script = format!(
        "readlink /proc/self/ns/net >'{0}/network'; cat /proc/self/net/dev >'{0}/devices'; exec '{1}' mock\n",
        folder.display(),
        env!("CARGO_BIN_EXE_acp")
    );
    std::fs::write(folder.join("agent.sh"), script).expect("a script");
    format!("sh {}", folder.join("agent.sh").display())
}

/// The agent's network is not this one, and loopback is all it has.
fn was_alone(folder: &Path) {
    let noted = |name: &str| std::fs::read_to_string(folder.join(name)).expect("the agent ran");
    let ours = std::fs::read_link("/proc/self/ns/net").expect("a network");
    assert_ne!(noted("network").trim(), ours.to_string_lossy());
    let devices = noted("devices");
    let names: Vec<&str> = devices.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    assert_eq!(names, ["lo"], "{devices}");
}

#[test]
fn prompt_isolates_its_agent() {
    if is_left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = acp();
    command.args(["prompt", "--isolate", "--command", &noting(folder.path()), "Say 'hello'"]);
    let (code, out, err) = texts(&command.stdin(Stdio::null()).output().expect("acp starts"));
    permitted(&err);
    assert_eq!((code, out.as_str()), (Some(0), "hello\n"), "{err}");
    was_alone(folder.path());
}

#[test]
fn chat_isolates_its_agent() {
    if is_left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = acp();
    command.args(["chat", "--isolate", "--command", &noting(folder.path())]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("acp starts");
    let mut keys = child.stdin.take().expect("its input");
    keys.write_all(b"Say 'hello'\nSay 'again'\n").expect("written");
    drop(keys);
    let (code, out, err) = texts(&child.wait_with_output().expect("it ends"));
    permitted(&err);
    assert_eq!((code, out.as_str()), (Some(0), "hello\nagain\n"), "{err}");
    was_alone(folder.path());
}

#[test]
fn a_proxy_isolates_its_agent_and_is_reached_from_outside() {
    if is_left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = acp();
    command.args(["proxy", "--isolate", "--command", &noting(folder.path())]);
    let proxy = Proxy::start(folder.path(), &mut command);
    let output = acp().args(["prompt", "--connect", &proxy.1, "Say 'hello'"]).output();
    let (code, out, err) = texts(&output.expect("acp starts"));
    assert_eq!((code, out.as_str()), (Some(0), "hello\n"), "{err}");
    was_alone(folder.path());
}
