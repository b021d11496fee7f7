//! Reading and writing files for an agent.

mod common;

use std::os::unix::fs::PermissionsExt;

use acp_host::{FileLimits, OfferedCapabilities, ProviderLimits, ProviderSettings};
use acp_policy::Policy;
use common::{World, settings};
use serde_json::json;

#[tokio::test]
async fn line_is_counted_from_one_and_limit_counts_lines() {
    let world = World::new();
    let path = world.root.join("hello.txt");
    for (line, limit, expected) in [
        (json!(null), json!(null), "one\ntwo\nthree\n"),
        (json!(1), json!(null), "one\ntwo\nthree\n"),
        (json!(2), json!(1), "two\n"),
        (json!(2), json!(null), "two\nthree\n"),
        (json!(null), json!(2), "one\ntwo\n"),
        (json!(3), json!(9), "three\n"),
        (json!(4), json!(1), ""),
        (json!(99), json!(null), ""),
        (json!(1), json!(0), ""),
        (json!(0), json!(1), "one\n"),
    ] {
        let params = json!({"sessionId": "s", "path": path, "line": line, "limit": limit});
        let result = world.result("fs/read_text_file", params).await;
        assert_eq!(result["content"], expected, "line {line} limit {limit}");
    }
}

#[tokio::test]
async fn parts_put_together_are_the_file_again() {
    let world = World::new();
    let text = "a\r\n\nb 😀\nno end of line";
    std::fs::write(world.root.join("x"), text).expect("a file");
    let mut whole = String::new();
    for line in 1..=4 {
        let params = json!({"sessionId": "s", "path": world.root.join("x"), "line": line, "limit": 1});
        whole += world.result("fs/read_text_file", params).await["content"].as_str().expect("text");
    }
    assert_eq!(whole, text);
}

#[tokio::test]
async fn a_missing_file_is_the_canonical_error() {
    let world = World::new();
    let error = world.read(&world.root.join("nope")).await.outcome.expect_err("missing");
    assert_eq!(error.code, -32002);
    assert_eq!(error.data.expect("data")["uri"], format!("file://{}/nope", world.root.display()));
}

#[tokio::test]
async fn what_is_not_text_is_a_clear_error() {
    let world = World::new();
    std::fs::write(world.root.join("binary"), b"ok\xFFno").expect("a file");
    let error = world.read(&world.root.join("binary")).await.outcome.expect_err("not text");
    assert!(error.message.contains("not UTF-8 (byte 2)"), "{error}");
    let error = world.read(&world.root).await.outcome.expect_err("a folder");
    assert!(error.message.contains("it is a folder"), "{error}");
}

#[tokio::test]
async fn a_pipe_is_refused_without_waiting_for_a_writer() {
    let world = World::new();
    let fifo = world.root.join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    for answer in [world.read(&fifo).await, world.write(&fifo, "x").await] {
        let error = answer.outcome.expect_err("a pipe");
        assert!(
            error.message.contains("regular file") || error.message.contains("No such device"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn sizes_are_limited_but_parts_can_be_read() {
    let files = FileLimits { read_bytes: 10, write_bytes: 5 };
    let world = World::with_limits(ProviderLimits { files, ..ProviderLimits::default() });
    let path = world.root.join("hello.txt");
    let error = world.read(&path).await.outcome.expect_err("14 bytes");
    assert!(error.message.contains("line and limit"), "{error}");
    let params = json!({"sessionId": "s", "path": path, "line": 2, "limit": 1});
    assert_eq!(world.result("fs/read_text_file", params).await["content"], "two\n");
    std::fs::write(&path, "one\nfar too long a line\n").expect("a file");
    let params = json!({"sessionId": "s", "path": path, "line": 2, "limit": 1});
    let error = world.error("fs/read_text_file", params).await;
    assert!(error.message.contains("line 2 alone") && !error.message.contains("line and limit"), "{error}");
    world.write(&path, "12345").await.outcome.expect("5 bytes fit");
    let error = world.write(&path, "123456").await.outcome.expect_err("6 bytes do not");
    assert!(error.message.contains("limit of 5"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "12345");
}

#[tokio::test]
async fn a_write_makes_files_and_folders_and_keeps_the_mode() {
    let world = World::new();
    let path = world.root.join("a/b/c.txt");
    let answer = world.write(&path, "new").await;
    assert_eq!(answer.outcome.expect("written"), json!({}));
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "new");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    world.write(&path, "newer").await.outcome.expect("written");
    let meta = std::fs::metadata(&path).expect("the file");
    assert_eq!(meta.permissions().mode() & 0o777, 0o755);
    let left: Vec<_> = std::fs::read_dir(world.root.join("a/b")).expect("the folder").collect();
    assert_eq!(left.len(), 1, "a draft was left behind: {left:?}");
}

#[tokio::test]
async fn a_reader_never_sees_half_a_write() {
    let world = World::new();
    let path = world.root.join("big");
    let texts = ["a".repeat(300_000), "b".repeat(300_000)];
    std::fs::write(&path, &texts[0]).expect("a file");
    let reader = {
        let (path, texts) = (path.clone(), texts.clone());
        tokio::task::spawn_blocking(move || {
            for _ in 0..300 {
                let seen = std::fs::read_to_string(&path).expect("always there");
                assert!(texts.contains(&seen), "half a file: {} bytes", seen.len());
            }
        })
    };
    for round in 0..40 {
        world.write(&path, &texts[round % 2]).await.outcome.expect("written");
    }
    reader.await.expect("the reader saw whole files only");
}

#[tokio::test]
async fn additional_folders_are_served_too() {
    let world = World::new();
    world.write(&world.more.join("x"), "y").await.outcome.expect("written");
    assert_eq!(world.read(&world.more.join("x")).await.outcome.expect("read")["content"], "y");
}

#[tokio::test]
async fn what_is_not_offered_is_not_found() {
    let world =
        World::with(ProviderSettings { offer: OfferedCapabilities::default(), ..settings(Policy::Yolo) });
    for method in [
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "terminal/output",
        "terminal/wait_for_exit",
        "terminal/kill",
        "terminal/release",
        "elicitation/create",
        "_vendor/thing",
        "foo/bar",
    ] {
        assert_eq!(world.error(method, json!({})).await.code, -32601, "{method}");
    }
}

#[tokio::test]
async fn bad_params_and_unknown_sessions_are_told_apart() {
    let world = World::new();
    let path = world.root.join("hello.txt");
    assert_eq!(world.error("fs/read_text_file", json!({"sessionId": "s"})).await.code, -32602);
    assert_eq!(
        world.error("fs/read_text_file", json!({"sessionId": "s", "path": path, "line": "1"})).await.code,
        -32602
    );
    let error = world.error("fs/read_text_file", json!({"sessionId": "other", "path": path})).await;
    assert_eq!((error.code, error.data), (-32002, Some(json!({"sessionId": "other"}))));
    world.providers.close_session("s");
    assert_eq!(world.read(&path).await.outcome.expect_err("closed").code, -32002);
}

#[tokio::test]
async fn the_policy_guards_files_and_every_decision_is_logged() {
    for (policy, read, write) in [
        (Policy::None, false, false),
        (Policy::Read, true, false),
        (Policy::Write, true, true),
        (Policy::Yolo, true, true),
        (Policy::Default, true, false),
        (Policy::AcceptEdits, true, true),
        (Policy::Plan, true, false),
    ] {
        let world = World::with(settings(policy));
        let path = world.root.join("hello.txt");
        let answers = [(world.read(&path).await, read), (world.write(&path, "x").await, write)];
        for (answer, allowed) in answers {
            assert_eq!(answer.outcome.is_ok(), allowed, "{policy} {}", answer.method);
            assert!(!answer.log.is_empty());
            assert!(answer.log[0].to_string().contains(policy.as_str()), "{}", answer.log[0]);
            if let Err(error) = answer.outcome {
                assert_eq!(error.data.expect("data")["reason"], "permission_denied");
            }
        }
        let kept = std::fs::read_to_string(&path).expect("the file");
        assert_eq!(kept == "x", write, "{policy}");
    }
}
