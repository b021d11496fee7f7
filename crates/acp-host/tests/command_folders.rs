//! What a pattern says about a command holds in the session's folders, and for what the words of the command lead to.

mod common;

use std::os::unix::fs::symlink;
use std::path::Path;

use acp_host::ProviderSettings;
use acp_policy::{Policy, PolicyRules, ToolPatterns};
use common::{World, settings};
use serde_json::{Value, json};

fn allowing(pattern: &str) -> World {
    let allow = ToolPatterns::parse([pattern]).expect("a pattern");
    World::with(ProviderSettings {
        rules: PolicyRules { allow, ..PolicyRules::of(Policy::Default) },
        ..settings(Policy::Default)
    })
}

/// Whether the client says yes when the agent asks to run a command itself.
async fn may_run(world: &World, input: Value) -> bool {
    let options = json!([
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]);
    let call = json!({"toolCallId": "c", "kind": "execute", "rawInput": input});
    let params = json!({"sessionId": "s", "toolCall": call, "options": options});
    world.result("session/request_permission", params).await["outcome"]["optionId"] == "yes"
}

/// Whether the client runs the command for the agent.
async fn runs(world: &World, line: &str, cwd: &Path) -> bool {
    world.ask("terminal/create", json!({"sessionId": "s", "command": line, "cwd": cwd})).await.outcome.is_ok()
}

/// A repository whose configuration starts a program, as it can lie in any folder of files.
fn repository(folder: &Path) {
    std::fs::create_dir_all(folder.join("objects")).expect("a folder");
    std::fs::create_dir_all(folder.join("refs")).expect("a folder");
    std::fs::write(folder.join("HEAD"), "ref: refs/heads/main\n").expect("a file");
    std::fs::write(
        folder.join("config"),
        "[core]\nbare = false\nworktree = .\nfsmonitor = \"touch x; false\"\n",
    )
    .expect("a file");
}

#[tokio::test]
async fn a_pattern_for_some_commands_does_not_hold_in_a_folder_of_others() {
    for pattern in ["Bash(npm test)", "Bash(npm *)"] {
        let world = allowing(pattern);
        let (inside, outside) = (world.root.join("sub"), &world.outside);
        assert!(may_run(&world, json!({"command": "npm test"})).await);
        assert!(may_run(&world, json!({"command": "npm test", "cwd": world.root})).await);
        assert!(may_run(&world, json!({"command": "npm test", "cwd": inside})).await);
        for key in ["cwd", "workdir", "workingDirectory", "directory", "dir_path"] {
            assert!(!may_run(&world, json!({"command": "npm test", key: outside})).await, "{key}");
        }
        let two = json!({"command": "npm test", "cwd": inside, "workdir": outside});
        assert!(!may_run(&world, two).await, "of two folders the worse counts");
    }
    let world = allowing("Bash");
    assert!(may_run(&world, json!({"command": "npm test", "cwd": world.outside})).await, "every command");
}

#[tokio::test]
async fn a_set_does_not_cover_git_in_a_repository_that_came_with_the_files() {
    let world = allowing("Bash(git:read)");
    std::fs::create_dir_all(world.root.join("src/deep")).expect("a folder");
    repository(&world.root.join("bare"));
    repository(&world.root.join("inner/.git"));
    std::fs::create_dir(world.root.join("inner/sub")).expect("a folder");
    std::fs::create_dir(world.root.join("worktree")).expect("a folder");
    std::fs::write(world.root.join("worktree/.git"), "gitdir: ../bare").expect("a file");
    for folder in ["bare", "bare/refs", "inner", "inner/sub", "inner/.git", "worktree"] {
        let folder = world.root.join(folder);
        assert!(!runs(&world, "git status", &folder).await, "{}", folder.display());
        assert!(
            !may_run(&world, json!({"command": "git status", "cwd": folder})).await,
            "{}",
            folder.display()
        );
    }
    assert!(!world.root.join("bare/x").exists(), "its program was not started");
    for folder in ["", "src", "src/deep"] {
        assert!(runs(&world, "git status", &world.root.join(folder)).await, "{folder}");
    }
    repository(&world.root.join(".git"));
    assert!(runs(&world, "git status", &world.root.join("src")).await, "the session's own is trusted");
    assert!(!runs(&world, "git status", &world.root.join(".git")).await);
}

/// Runs git in a folder, with nobody's own settings.
fn git(folder: &Path, words: &[&str]) {
    let mut git = std::process::Command::new("git");
    git.args(["-c", "user.name=x", "-c", "user.email=x@example.com"]).args(words).current_dir(folder);
    let done = git
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .expect("git");
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// git asks the repositories of submodules for their state, and reads their configuration for that. Who may write files can
/// put one where a submodule belongs that is not checked out.
#[tokio::test]
async fn a_set_does_not_cover_git_with_a_repository_that_came_in_place_of_a_submodule() {
    for version in ["2", "4"] {
        let world = allowing("Bash(git:read)");
        git(&world.root, &["init", "-q"]);
        std::fs::create_dir_all(world.root.join("a/sub")).expect("a folder");
        git(&world.root, &["add", "hello.txt"]);
        let link = format!("160000,{},a/sub", "1".repeat(40));
        git(&world.root, &["update-index", "--index-version", version, "--add", "--cacheinfo", &link]);
        assert!(runs(&world, "git status", &world.root).await, "it is not checked out");
        // Where git puts it, it has the configuration that git wrote.
        let own = world.root.join(".git/modules/sub");
        repository(&own);
        std::fs::write(world.root.join("a/sub/.git"), "gitdir: ../../.git/modules/sub\n").expect("a file");
        assert!(runs(&world, "git status", &world.root).await, "it is the session's own");
        git(
            &world.root,
            &["--git-dir=.git/modules/sub", "--work-tree=.", "update-index", "--add", "--cacheinfo", &link],
        );
        std::fs::create_dir_all(world.root.join("a/sub/a/sub")).expect("a folder");
        assert!(runs(&world, "git status", &world.root).await, "nor is the one in it checked out");
        repository(&world.root.join("a/sub/a/sub/.git"));
        assert!(!runs(&world, "git status", &world.root).await, "one in it came with the files");
        std::fs::remove_dir_all(world.root.join("a/sub/a/sub/.git")).expect("removed");
        repository(&world.root.join("evil"));
        std::fs::write(world.root.join("a/sub/.git"), "gitdir: ../../evil\n").expect("a file");
        for line in ["git status", "git diff", "git describe --dirty"] {
            assert!(!runs(&world, line, &world.root).await, "{line}");
            assert!(!runs(&world, line, &world.root.join("a")).await, "{line}");
            assert!(!may_run(&world, json!({"command": line})).await, "{line}");
        }
    }
}

#[tokio::test]
async fn a_set_does_not_cover_words_that_lead_out_through_a_link() {
    let world = allowing("Bash(files:read), Bash(git:read)");
    symlink(&world.outside, world.root.join("link")).expect("a link");
    symlink(world.outside.join("secret"), world.root.join("file")).expect("a link");
    symlink("hello.txt", world.root.join("near")).expect("a link");
    for line in ["cat link/secret", "cat file", "head -n1 -- file", "ls link", "git diff file hello.txt"] {
        assert!(!runs(&world, line, &world.root).await, "{line}");
        assert!(!may_run(&world, json!({"command": line})).await, "{line}");
    }
    for line in ["cat near", "cat hello.txt", "ls", "git diff HEAD~1 -- new"] {
        assert!(runs(&world, line, &world.root).await, "{line}");
    }
    let world = allowing("Bash(cat *)");
    symlink(world.outside.join("secret"), world.root.join("file")).expect("a link");
    assert!(runs(&world, "cat file", &world.root).await, "a wildcard covers every path anyway");
}
