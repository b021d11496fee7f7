//! Interactive: `acp chat` under a pseudo-terminal, and with lines from a pipe.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::processes::{all_gone, descendant_named, descendants, signal};
use crate::terminal::Terminal;
use crate::{acp, texts, workspace};

fn chat(folder: &std::path::Path, more: &[&str]) -> Terminal {
    let args: Vec<&str> = ["chat", "--agent", "mock"].iter().chain(more).copied().collect();
    let state = folder.join(".state").display().to_string();
    let mut terminal = Terminal::start(folder, &args, &[("XDG_STATE_HOME", &state)]);
    terminal.wait_for(":help for help");
    terminal.wait_for("> ");
    terminal
}

#[test]
fn a_person_talks_is_asked_for_permission_and_leaves() {
    let (_temp, folder) = workspace();
    let mut terminal = chat(&folder, &[]);
    let family = descendants(terminal.child.id());
    terminal.press("Write 'typed' to note.txt\r");
    // The change is shown before the question.
    terminal.wait_for("(new file)");
    terminal.wait_for("+ typed");
    terminal.wait_for("asks for permission");
    terminal.wait_for("which? ");
    assert!(terminal.is_sane(), "a question is answered in the usual mode");
    terminal.press("what\r");
    terminal.wait_for("please type a number");
    terminal.press("y\r");
    terminal.wait_for("done");
    terminal.wait_for("> ");
    assert!(folder.join("note.txt").exists());
    terminal.press("Write 'no' to other.txt\r");
    terminal.wait_for("which? ");
    terminal.press("n\r");
    terminal.wait_for("nothing was done");
    terminal.wait_for("> ");
    assert!(!folder.join("other.txt").exists());
    terminal.press("quit\r");
    assert_eq!(terminal.end(), 0);
    assert!(terminal.is_sane());
    assert!(terminal.screen().contains("\u{1b}["), "colour at a terminal");
    all_gone(&family);
}

#[test]
fn ctrl_c_cancels_a_turn_and_twice_quits() {
    let (_temp, folder) = workspace();
    let mut terminal = chat(&folder, &[]);
    terminal.press("Wait 50 seconds\r");
    terminal.wait_until_sane(true);
    terminal.press("\u{3}");
    terminal.wait_for("cancelling (Ctrl-C again quits) … ");
    terminal.wait_for("cancelled");
    terminal.wait_for("> ");
    terminal.press("Say 'still here'\r");
    terminal.wait_for("still here");
    terminal.wait_for("still here");
    terminal.wait_for("> ");
    terminal.press("\u{3}");
    terminal.wait_for("Ctrl-C again quits");
    terminal.wait_for("> ");
    let family = descendants(terminal.child.id());
    terminal.press("\u{3}");
    assert_eq!(terminal.end(), 0);
    assert!(terminal.is_sane());
    all_gone(&family);
}

#[test]
fn a_turn_that_does_not_end_is_left_by_a_second_ctrl_c() {
    let (_temp, folder) = workspace();
    let agent = crate::script("{}", "cat >/dev/null; sleep 60");
    let mut terminal = Terminal::start(&folder, &["chat", "--command", &agent], &[]);
    terminal.wait_for("> ");
    terminal.press("hi\r");
    terminal.wait_until_sane(true);
    terminal.press("\u{3}");
    terminal.wait_for("cancelling");
    let family = descendants(terminal.child.id());
    terminal.press("\u{3}");
    assert_eq!(terminal.end(), 0);
    assert!(terminal.is_sane());
    all_gone(&family);
}

#[test]
fn an_agent_killed_in_mid_turn_is_a_clear_error_and_the_terminal_stays_sane() {
    let (_temp, folder) = workspace();
    let mut terminal = chat(&folder, &[]);
    let agent = descendant_named(terminal.child.id(), "mock");
    terminal.press("Wait 50 seconds\r");
    terminal.wait_until_sane(true);
    let began = Instant::now();
    signal(agent, "KILL");
    terminal.wait_for("killed by signal 9");
    assert_eq!(terminal.end(), 3);
    assert!(began.elapsed() < Duration::from_secs(20), "it took {:?}", began.elapsed());
    assert!(terminal.is_sane());
}

#[test]
fn an_agent_killed_while_the_person_types_leaves_the_terminal_sane() {
    let (_temp, folder) = workspace();
    let mut terminal = chat(&folder, &[]);
    let agent = descendant_named(terminal.child.id(), "mock");
    terminal.press("half a li");
    // The line editor is at work.
    terminal.wait_until_sane(false);
    signal(agent, "KILL");
    terminal.wait_for("killed by signal 9");
    assert_eq!(terminal.end(), 3);
    assert!(terminal.is_sane());
}

#[test]
fn a_signal_while_the_person_types_leaves_the_terminal_as_it_was() {
    for name in ["TERM", "HUP"] {
        let (_temp, folder) = workspace();
        let mut terminal = chat(&folder, &[]);
        terminal.press("half a li");
        terminal.wait_until_sane(false);
        signal(terminal.child.id(), name);
        terminal.end();
        assert!(terminal.is_sane(), "{name}");
        let screen = terminal.screen();
        let (on, off) = (screen.rfind("\x1b[?2004h"), screen.rfind("\x1b[?2004l"));
        assert!(off > on, "{name}: paste marks are left on: {screen:?}");
    }
}

#[test]
fn tab_completes_the_agents_commands() {
    let (_temp, folder) = workspace();
    let mut terminal = chat(&folder, &[]);
    terminal.press("Say 'ready'\r");
    terminal.wait_for("ready");
    terminal.wait_for("ready");
    terminal.wait_for("> ");
    terminal.press("/stat\t");
    terminal.wait_for("/status ");
    terminal.press("\u{3}");
    terminal.wait_for("> ");
    terminal.press("\u{4}");
    assert_eq!(terminal.end(), 0);
    assert!(terminal.is_sane());
}

#[test]
fn a_form_is_filled_in_and_reviewed() {
    let (_temp, folder) = workspace();
    let mut terminal = chat(&folder, &[]);
    terminal.press("Ask me a question with a form\r");
    terminal.wait_for("asks:");
    // However many fields the form has: an answer that fits any of them, until the review.
    let began = Instant::now();
    let mut answered = 0;
    loop {
        let screen = terminal.screen();
        if screen.contains("send them?") {
            break;
        }
        // Each question once: the next one stands after the echo of the last answer.
        if screen.ends_with(": ") && screen[answered..].contains('\n') {
            answered = screen.len();
            terminal.press("1\r");
        }
        assert!(began.elapsed() < crate::PATIENCE, "{screen}");
        std::thread::sleep(Duration::from_millis(10));
    }
    terminal.wait_for("send them?");
    terminal.press("y\r");
    terminal.wait_for("> ");
    assert!(!terminal.screen().contains("declined"), "{}", terminal.screen());
    terminal.press(":quit\r");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn no_color_is_respected() {
    let (_temp, folder) = workspace();
    let mut terminal =
        Terminal::start(&folder, &["prompt", "--agent", "mock", "Read greeting.txt"], &[("NO_COLOR", "1")]);
    terminal.wait_for("hello");
    assert_eq!(terminal.end(), 0);
    assert!(!terminal.screen().contains('\u{1b}'), "{:?}", terminal.screen());
}

#[test]
fn the_chats_own_commands_work() {
    let (_temp, folder) = workspace();
    let mut terminal = chat(&folder, &[]);
    for (typed, shown) in [
        (":help", "  :file PATH"),
        (":he\t", ":embed PATH"),
        (":modes", "* 1"),
        (":mode 2", "mode: "),
        (":modes", "* 2"),
        (":mode", "mode: "),
        (":set nothing on", "there is no option"),
        (":mode no-such", "there is no mode"),
        (":file nowhere.txt", "cannot find nowhere.txt"),
        (":file greeting.txt", "greeting.txt goes along with the next prompt"),
        (":nonsense", "there is no :nonsense"),
    ] {
        terminal.press(&format!("{typed}\r"));
        terminal.wait_for(shown);
        terminal.wait_for("> ");
    }
    terminal.press("\u{4}");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_command_that_runs_when_the_turn_is_cancelled_is_listed_as_stopped() {
    let (_temp, folder) = workspace();
    let mut terminal = chat(&folder, &["--policy", "yolo"]);
    std::fs::write(folder.join("wait.sh"), "touch began; sleep 50").expect("a script");
    terminal.press("Run the command sh wait.sh\r");
    terminal.wait_for("running");
    // The call is shown as running a moment before its process is there.
    let started = Instant::now();
    while !folder.join("began").exists() {
        assert!(started.elapsed() < Duration::from_secs(60), "the command did not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    terminal.wait_until_sane(true);
    terminal.press("\u{3}");
    terminal.wait_for("stopped");
    terminal.wait_for("cancelled");
    terminal.wait_for("> ");
    terminal.press("\u{4}");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn options_are_listed_and_set() {
    let (_temp, folder) = workspace();
    let session = r#"{"sessionId":"s","configOptions":[{"id":"web","name":"Web search","type":"boolean","currentValue":false},{"id":"model","name":"Model","type":"select","currentValue":"a","options":[{"value":"a","name":"A"},{"value":"b","name":"B"}]}]}"#;
    let set = session
        .replace("\"currentValue\":\"a\"", "\"currentValue\":\"b\"")
        .replace("\"sessionId\":\"s\",", "");
    let agent = format!(
        "read -r a; echo '{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"protocolVersion\":1}}}}'\n\
         read -r b; echo '{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{session}}}'\n\
         read -r c; echo \"$c\" >asked; echo '{{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{set}}}'\ncat >/dev/null\n"
    );
    std::fs::write(folder.join("agent.sh"), agent).expect("a script");
    let mut terminal = Terminal::start(&folder, &["chat", "--command", "sh agent.sh"], &[]);
    terminal.wait_for("> ");
    for (typed, shown) in [
        (":set", "web = false  Web search (true or false)"),
        (":set web perhaps", "web is true or false"),
        (":set model", "model = a  Model (a, b)"),
        (":set mode", "there is no option \"mode\": the agent has web, model"),
        (":set model 2", "model = b  Model (a, b)"),
    ] {
        terminal.press(&format!("{typed}\r"));
        terminal.wait_for(shown);
        terminal.wait_for("> ");
    }
    terminal.press("\u{4}");
    assert_eq!(terminal.end(), 0);
    let asked = std::fs::read_to_string(folder.join("asked")).expect("it was asked");
    assert!(asked.contains("session/set_config_option") && asked.contains("\"b\""), "{asked}");
}

#[test]
fn a_prompt_may_have_several_lines_and_is_found_again() {
    let (_temp, folder) = workspace();
    let mut terminal = chat(&folder, &[]);
    terminal.press("Say 'one \\\rtwo'\r");
    terminal.wait_for("one \r\ntwo");
    terminal.wait_for("> ");
    terminal.press("\u{4}");
    assert_eq!(terminal.end(), 0);
    // In the next conversation, the arrow finds it.
    let mut terminal = chat(&folder, &[]);
    terminal.press("\u{1b}[A");
    terminal.wait_for("Say 'one");
    terminal.press("\u{3}");
    terminal.wait_for("> ");
    terminal.press("\u{4}");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn lines_from_a_pipe_are_prompts() {
    let (_temp, folder) = workspace();
    let mut command = acp(&folder, &["chat", "--agent", "mock"], &[]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("acp starts");
    let mut keys = child.stdin.take().expect("input");
    keys.write_all(b"Say 'one'\n\nSay 'two'\n").expect("written");
    drop(keys);
    let (code, out, err) = texts(&child.wait_with_output().expect("it ends"));
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert_eq!(out, "one\ntwo\n");
}

#[test]
fn a_line_that_is_no_text_is_an_error_that_names_it() {
    let (_temp, folder) = workspace();
    let mut command = acp(&folder, &["chat", "--agent", "mock"], &[]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("acp starts");
    let mut keys = child.stdin.take().expect("input");
    keys.write_all(b"Say 'one'\nSay caf\xe9\nSay 'three'\n").expect("written");
    drop(keys);
    let (code, out, err) = texts(&child.wait_with_output().expect("it ends"));
    assert_eq!((code, out.as_str()), (2, "one\n"), "{err}");
    assert!(err.contains("line 2 of the input is not UTF-8 text"), "{err}");
}

#[test]
fn a_person_who_asks_for_the_summary_sees_it_once() {
    let (_temp, folder) = workspace();
    let run = ["comply", "--agent", "mock", "--test", "trn.stdio", "--format", "terminal"];
    let mut terminal = Terminal::start(&folder, &run, &[("NO_COLOR", "1")]);
    assert_eq!(terminal.end(), 0, "{}", terminal.screen());
    let screen = terminal.screen();
    assert_eq!(screen.matches("  CONFORMANT").count(), 1, "{screen}");
}

#[test]
fn what_the_agent_does_unasked_is_decided_in_the_same_form_and_always_is_kept() {
    let (_temp, folder) = workspace();
    let agent = format!("{} mock --variant never-asks", crate::ACP);
    let mut terminal = Terminal::start(&folder, &["chat", "--command", &agent], &[]);
    terminal.wait_for("> ");
    terminal.press("Write 'one' to one.txt\r");
    terminal.wait_for("wants fs/write_text_file");
    terminal.wait_for("1) Allow once");
    terminal.wait_for("2) Allow every file change below");
    terminal.wait_for("3) Reject");
    terminal.wait_for("which? ");
    terminal.press("Say something else\r");
    terminal.wait_for("please type a number from 1 to 3, or y, a or n");
    terminal.press("a\r");
    terminal.wait_for("done");
    terminal.wait_for("> ");
    terminal.press("Write 'two' to two.txt\r");
    terminal.wait_for("done");
    terminal.wait_for("> ");
    let screen = terminal.screen();
    assert_eq!(screen.matches("wants fs/write_text_file").count(), 1, "{screen}");
    assert!(folder.join("one.txt").exists() && folder.join("two.txt").exists());
    terminal.press("\u{4}");
    assert_eq!(terminal.end(), 0);
}
