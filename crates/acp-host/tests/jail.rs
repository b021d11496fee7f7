//! Ways out of a session's folders, each tried for reading and for writing, each refused without a trace.

mod common;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use common::World;

/// A name, what to prepare, and the path to ask for.
type Attempt = (&'static str, fn(&World), fn(&World) -> PathBuf);

fn nothing(_: &World) {}

fn link(world: &World, target: impl AsRef<Path>, name: &str) {
    symlink(target, world.root.join(name)).expect("a link");
}

const ATTEMPTS: &[Attempt] = &[
    ("an absolute path elsewhere", nothing, |w| w.outside.join("secret")),
    ("the password file", nothing, |_| "/etc/passwd".into()),
    ("the root folder", nothing, |_| "/".into()),
    ("one dot-dot", nothing, |w| w.root.join("../outside/secret")),
    (
        "dot-dot after a folder that is there",
        |w| std::fs::create_dir(w.root.join("d")).expect("a folder"),
        |w| w.root.join("d/../../outside/secret"),
    ),
    ("dot-dot after a folder that is not there", nothing, |w| w.root.join("no/../../outside/secret")),
    ("many dot-dots", nothing, |w| w.root.join("../../../../../../../../etc/passwd")),
    ("dot-dot out and in again to a neighbour", nothing, |w| w.root.join("../root/../outside/secret")),
    ("dot-dot with dots between", nothing, |w| w.root.join("./.././outside/./secret")),
    ("dot-dot with doubled slashes", nothing, |w| {
        format!("{}//..//outside//secret", w.root.display()).into()
    }),
    ("the parent folder itself", nothing, |w| w.root.join("..")),
    (
        "a sibling whose name begins like the root",
        |w| {
            std::fs::create_dir(w.temp.path().join("rooted")).expect("a folder");
            std::fs::write(w.temp.path().join("rooted/secret"), "secret").expect("a file");
        },
        |w| format!("{}ed/secret", w.root.display()).into(),
    ),
    ("an absolute link to a file", |w| link(w, w.outside.join("secret"), "l"), |w| w.root.join("l")),
    ("a relative link to a file", |w| link(w, "../outside/secret", "l"), |w| w.root.join("l")),
    ("an absolute link to a folder", |w| link(w, &w.outside, "l"), |w| w.root.join("l/secret")),
    ("a relative link to a folder", |w| link(w, "../outside", "l"), |w| w.root.join("l/secret")),
    ("a link to the root of the system", |w| link(w, "/", "l"), |w| w.root.join("l/etc/passwd")),
    ("a link to the parent", |w| link(w, "..", "l"), |w| w.root.join("l/outside/secret")),
    (
        "a chain of links",
        |w| {
            link(w, "b", "a");
            link(w, "c", "b");
            link(w, &w.outside, "c");
        },
        |w| w.root.join("a/secret"),
    ),
    (
        "dot-dot behind a link to a folder inside",
        |w| {
            std::fs::create_dir(w.root.join("d")).expect("a folder");
            link(w, "d", "l");
        },
        |w| w.root.join("l/../../outside/secret"),
    ),
    ("a link that points to nothing outside", |w| link(w, w.outside.join("new"), "l"), |w| w.root.join("l")),
    (
        "a relative link that points to nothing outside",
        |w| link(w, "../outside/new", "l"),
        |w| w.root.join("l"),
    ),
    (
        "a link inside an additional folder",
        |w| {
            symlink(w.outside.join("secret"), w.more.join("l")).expect("a link");
        },
        |w| w.more.join("l"),
    ),
    ("dot-dot out of an additional folder", nothing, |w| w.more.join("../outside/secret")),
    (
        "a link to the process's root folder",
        |w| link(w, "/proc/self/root", "l"),
        |w| w.root.join(format!("l{}/secret", w.outside.display())),
    ),
    (
        "a link to the process's working folder",
        |w| link(w, "/proc/self/cwd", "l"),
        |w| w.root.join("l/Cargo.toml"),
    ),
    ("a link to an open file", |w| link(w, "/proc/self/fd/0", "l"), |w| w.root.join("l")),
    ("the process's memory of itself", nothing, |_| "/proc/self/environ".into()),
    ("a path of the root's own name further down", nothing, |w| {
        format!("/tmp/elsewhere{}/secret", w.root.display()).into()
    }),
    (
        "a link loop",
        |w| {
            link(w, "b", "a");
            link(w, "a", "b");
        },
        |w| w.root.join("a/secret"),
    ),
    ("a relative path", nothing, |_| "hello.txt".into()),
    ("a relative dot-dot path", nothing, |_| "../outside/secret".into()),
    ("an empty path", nothing, |_| PathBuf::new()),
    ("a home path", nothing, |_| "~/secret".into()),
    ("a file address", nothing, |w| format!("file://{}/secret", w.outside.display()).into()),
];

#[tokio::test]
async fn no_attempt_to_read_outside_succeeds() {
    assert!(ATTEMPTS.len() >= 25);
    for (name, prepare, path) in ATTEMPTS {
        let world = World::new();
        prepare(&world);
        let answer = world.read(&path(&world)).await;
        let error = answer.outcome.expect_err(name);
        assert!(!error.to_string().contains("secret\n"), "{name}");
    }
}

#[tokio::test]
async fn no_attempt_to_write_outside_succeeds_or_leaves_anything() {
    for (name, prepare, path) in ATTEMPTS {
        let world = World::new();
        prepare(&world);
        let before = tree(world.temp.path());
        let answer = world.write(&path(&world), "broken in").await;
        assert!(answer.outcome.is_err(), "{name}");
        assert_eq!(before, tree(world.temp.path()), "{name} left something behind");
    }
}

#[tokio::test]
async fn a_command_cannot_start_outside() {
    for (name, prepare, path) in ATTEMPTS {
        let world = World::new();
        prepare(&world);
        let cwd = path(&world);
        let cwd = cwd.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(&cwd);
        let real = cwd.canonicalize();
        if real.is_ok_and(|real| real.starts_with(&world.root) || real.starts_with(&world.more)) {
            continue; // the folder of a link is inside, only its target is not
        }
        let params = serde_json::json!({"sessionId": "s", "command": "true", "args": [], "cwd": cwd});
        let answer = world.ask("terminal/create", params).await;
        assert!(answer.outcome.is_err(), "{name}");
    }
}

/// A link is swapped between inside and outside as fast as possible while reads and writes go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_of_links_never_leads_outside() {
    let world = World::new();
    std::fs::create_dir(world.root.join("in")).expect("a folder");
    std::fs::write(world.root.join("in/secret"), "harmless").expect("a file");
    // The link is there before the first write, which would make a folder of that name.
    symlink("in", world.root.join("l")).expect("a link");
    let (root, outside) = (world.root.clone(), world.outside.clone());
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let halt = std::sync::Arc::clone(&stop);
    let swapper = std::thread::spawn(move || {
        let (link, draft) = (root.join("l"), root.join("draft"));
        let mut swaps = 0_u32;
        while !halt.load(std::sync::atomic::Ordering::Relaxed) {
            let target = if swaps.is_multiple_of(2) { Path::new("in").to_owned() } else { outside.clone() };
            let _ = symlink(target, &draft);
            let _ = std::fs::rename(&draft, &link);
            swaps += 1;
        }
        swaps
    });
    let mut seen = [0_u32; 2];
    for round in 0..400 {
        if let Ok(result) = world.read(&world.root.join("l/secret")).await.outcome {
            assert_eq!(result["content"], "harmless");
            seen[0] += 1;
        }
        let written = world.write(&world.root.join("l/note"), &round.to_string()).await;
        seen[1] += u32::from(written.outcome.is_ok());
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(swapper.join().expect("the swapper ends") > 10);
    assert_eq!(std::fs::read_to_string(world.outside.join("secret")).expect("still there"), "secret");
    assert!(!world.outside.join("note").exists());
    assert!(seen[0] > 0 && seen[1] > 0, "the race was never run: {seen:?}");
}

#[tokio::test]
async fn links_that_stay_inside_work() {
    let world = World::new();
    std::fs::create_dir(world.root.join("d")).expect("a folder");
    link(&world, "hello.txt", "relative");
    link(&world, world.root.join("hello.txt"), "absolute");
    link(&world, world.root.join("d"), "folder");
    symlink(world.root.join("hello.txt"), world.more.join("across")).expect("a link");
    for path in [world.root.join("relative"), world.root.join("absolute"), world.more.join("across")] {
        let result = world.read(&path).await.outcome.expect("inside");
        assert_eq!(result["content"], "one\ntwo\nthree\n");
    }
    world.write(&world.root.join("absolute"), "new").await.outcome.expect("inside");
    assert_eq!(std::fs::read_to_string(world.root.join("hello.txt")).expect("the file"), "new");
    assert!(world.root.join("absolute").is_symlink());
    world.write(&world.root.join("folder/new.txt"), "new").await.outcome.expect("inside");
    assert!(world.root.join("d/new.txt").is_file());
}

/// Every path under a folder with its content.
fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let kind = entry.file_type().expect("a type");
            let content = if kind.is_file() { std::fs::read(&path).expect("a file") } else { Vec::new() };
            if kind.is_dir() {
                todo.push(path.clone());
            }
            found.push((path, content));
        }
    }
    found.sort();
    found
}
