//! `acp init`, and the steps that it writes, run with a plain shell

use crate::{ACP, Place, path_with_acp, texts};

fn init(place: &Place, args: &[&str]) -> (i32, String, String) {
    place.acp(&[&["init"], args].concat())
}

#[test]
fn it_writes_files_that_the_next_commands_use() {
    let place = Place::new();
    let command = format!("{ACP} mock");
    let (code, out, err) = init(&place, &["--command", &command, "--no-run", "--name", "mine"]);
    assert_eq!(code, 0, "{out}{err}");
    for line in
        ["wrote acp.toml", "wrote acp-expected.txt", "wrote .github/workflows/acp.yml", "Next:", "OWNER"]
    {
        assert!(out.contains(line), "{line}: {out}");
    }
    let (code, out, err) = place.acp(&["info", "--no-session"]);
    assert_eq!(code, 0, "{out}{err}");
    let (code, out, err) = place.acp(&["comply", "--test", "init.version-echo"]);
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn a_second_run_changes_nothing_and_force_overwrites() {
    let place = Place::new();
    let command = format!("{ACP} mock");
    let args = ["--command", &command, "--no-run", "--ci", "shell"];
    assert_eq!(init(&place, &args).0, 0);
    let (code, out, _) = init(&place, &args);
    assert_eq!(code, 0);
    assert_eq!(out.matches("unchanged ").count(), 4, "{out}");
    assert!(!out.contains("say in acp.toml"), "{out}");
    assert_eq!(place.read(".gitignore"), "/acp-reports/\n");
    place.write("acp-expected.txt", "CAN-01  mine\n");
    place.write("acp.toml", "# mine\n");
    let (code, out, _) = init(&place, &args);
    assert_eq!(code, 0);
    assert!(out.contains("kept acp.toml") && out.contains("kept acp-expected.txt"), "{out}");
    assert_eq!(
        (place.read("acp.toml").as_str(), place.read("acp-expected.txt").as_str()),
        ("# mine\n", "CAN-01  mine\n")
    );
    assert_eq!(init(&place, &[&args[..], &["--force"]].concat()).0, 0);
    assert!(place.read("acp.toml").contains("[agents."), "it was overwritten");
}

#[test]
fn links_of_a_checkout_lead_it_nowhere() {
    let place = Place::new();
    let outside = Place::new();
    outside.write("profile", "mine\n");
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(outside.path.join(to), place.path.join(name)).expect("a link");
    };
    let args = ["--command", "true", "--no-run", "--name", "mine", "--force"];
    link("profile", "acp.toml");
    link("nothing", "acp-expected.txt");
    link(".", ".github");
    let (code, out, err) = init(&place, &args);
    assert!(code != 0 && err.contains(".github is a link"), "{code} {out}{err}");
    assert!(place.read("acp.toml").contains("[agents.mine]"), "the link was replaced");
    assert_eq!(outside.read("profile"), "mine\n");
    assert!(!outside.path.join("nothing").exists() && !outside.path.join("workflows").exists());
}

#[test]
fn the_first_list_has_what_is_broken_and_the_shell_steps_pass_from_then_on() {
    let place = Place::new();
    // The suite is cut to a few tests by settings that are there already.
    place.write(
        "acp.toml",
        &format!(
            "[agents.mine]\ncommand = \"{ACP} mock --defect echoes-any-version\"\n\
             [comply]\nexpected = \"acp-expected.txt\"\ntest = [\"init.version-999\"]\nallow-incomplete = true\n"
        ),
    );
    let (code, out, err) = init(&place, &["--command", "unused", "--ci", "shell"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("kept acp.toml") && out.contains("acp-expected.txt (1 known failure)"), "{out}");
    let list = place.read("acp-expected.txt");
    assert!(list.contains("\nmine:INIT-05  TODO: why is this accepted?\n"), "{list}");
    let run = |place: &Place| {
        let mut shell = place.command("sh", &["./acp-check.sh"]);
        texts(&shell.env("PATH", path_with_acp()).output().expect("sh runs"))
    };
    let (code, out, err) = run(&place);
    assert_eq!(code, 0, "{out}{err}");
    assert!(place.read("acp-reports/report.html").contains("<html"));
    assert!(place.read("acp-reports/junit.xml").contains("<testsuite"));
    // Something new is broken.
    place.write("acp-expected.txt", "# nothing is known\n");
    let (code, out, err) = run(&place);
    assert_eq!(code, 1, "{out}{err}");
    // An agent that is not named is not replaced by one that passes.
    place.write("acp.toml", "# nothing\n");
    let (code, out, err) = run(&place);
    assert_eq!(code, 2, "{out}{err}");
    assert!(err.contains("acp.toml names no agent"), "{err}");
    std::fs::remove_file(place.path.join("acp.toml")).expect("it is there");
    let (code, out, err) = run(&place);
    assert_eq!(code, 2, "{out}{err}");
    assert!(err.contains("cannot read acp.toml"), "{err}");
}

/// The steps of a workflow that a shell runs, with the comment signs of the recipe taken away.
fn recipe(workflow: &str) -> String {
    let lines = workflow.lines().map(str::trim_start);
    let plain: Vec<&str> = lines.skip_while(|line| *line != "#- run: |").skip(1).collect();
    let steps = plain.iter().map_while(|line| line.strip_prefix("#    "));
    steps.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_recipe_in_the_workflow_runs_with_a_plain_shell() {
    let place = Place::new();
    let command = format!("{ACP} mock");
    let (code, out, _) =
        init(&place, &["--command", &command, "--no-run", "--action", "acme/acp-workbench@v1"]);
    assert_eq!(code, 0, "{out}");
    assert!(!out.contains("OWNER"), "{out}");
    let workflow = place.read(".github/workflows/acp.yml");
    assert!(workflow.contains("      - uses: acme/acp-workbench@v1\n"), "{workflow}");
    let steps = recipe(&workflow);
    assert!(steps.contains("acp comply"), "{steps}");
    place.write("acp.toml", &format!("{}test = [\"init.version-echo\"]\n", place.read("acp.toml")));
    let mut shell = place.command("sh", &["-e", "-c", &steps]);
    let (code, out, err) = texts(&shell.env("PATH", path_with_acp()).output().expect("sh runs"));
    assert_eq!(code, 0, "{out}{err}");
    assert!(place.read("acp-reports/junit.xml").contains("init.version-echo"));
}

#[test]
fn the_script_of_the_action_takes_the_agent_from_the_file() {
    let place = Place::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/ci/comply.sh");
    let run = |place: &Place| {
        let mut shell = place.command("sh", &[script]);
        shell.env("PATH", path_with_acp()).env("ACP_EXPECTED", "acp-expected.txt").env("ACP_COMMAND", "");
        texts(&shell.env("ACP_ARGS", "--test init.version-echo").output().expect("sh runs"))
    };
    let (code, _, err) = run(&place);
    assert_eq!(code, 2);
    assert!(err.contains("acp init"), "{err}");
    let command = format!("{ACP} mock");
    assert_eq!(init(&place, &["--command", &command, "--no-run"]).0, 0);
    let (code, out, err) = run(&place);
    assert_eq!(code, 0, "{out}{err}");
    assert!(place.read("acp-reports/badge.json").contains("brightgreen"));
}

#[test]
fn what_is_wrong_is_said_and_nothing_is_overwritten() {
    let place = Place::new();
    for (args, words) in [
        (&["no/such/folder"][..], "cannot use the folder no/such/folder"),
        (&["--command", "it's"], "a quote that does not end"),
        (&["--command", " "], "--command is empty"),
        (&["--name", "a b"], "use letters, digits"),
        (&["--name", "mock"], "a built-in agent"),
        (&["--action", "nowhere"], "OWNER/REPO@REF"),
        (&["--ci", "jenkins"], "jenkins"),
    ] {
        let (code, out, err) = init(&place, args);
        assert_eq!(code, 2, "{args:?}: {out}{err}");
        assert!(err.contains(words), "{args:?}: {err}");
    }
    assert_eq!(std::fs::read_dir(&place.path).expect("the folder").count(), 0, "nothing was written");
    let (code, out, err) = init(&place, &["--command", "/no/such/agent", "--ci", "none"]);
    assert_eq!(code, 3, "{out}{err}");
    assert!(err.contains("could not be tested") && out.contains("fix `command`"), "{out}{err}");
    assert!(place.read("acp-expected.txt").lines().all(|line| line.starts_with('#')));
    let (code, out, _) = init(&place, &["--force"]);
    assert_eq!(code, 0);
    assert!(out.contains("say in acp.toml how to start your agent"), "{out}");
}
