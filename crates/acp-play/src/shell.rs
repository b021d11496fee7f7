//! The few commands that tests let agents run.

use std::time::Duration;

use crate::files::{self, Files};

/// How a command ends, if nobody kills it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) output: String,
    pub(crate) code: i32,
    pub(crate) takes: Duration,
}

/// Runs a program with its arguments; `None` when there is no program of that name.
pub(crate) fn run(files: &mut Files, cwd: &str, words: &[String]) -> Option<Ran> {
    let (program, args) = words.split_first()?;
    let name = program.rsplit('/').next().unwrap_or(program);
    Some(match name {
        "sh" | "bash" => match args {
            [flag, line, ..] if flag == "-c" => script(files, cwd, line),
            _ => Ran::default(),
        },
        "echo" => said(match args.split_first() {
            Some((first, rest)) if first == "-n" => rest.join(" "),
            _ => format!("{}\n", args.join(" ")),
        }),
        "printf" => said(printf(args)),
        "pwd" => said(format!("{cwd}\n")),
        "true" | ":" => Ran::default(),
        "false" => Ran { code: 1, ..Ran::default() },
        "sleep" => Ran { takes: seconds(args), ..Ran::default() },
        "exit" => {
            Ran { code: args.first().and_then(|code| code.parse().ok()).unwrap_or(0), ..Ran::default() }
        }
        "cat" => each(args, |path| {
            let path = files::from(cwd, path);
            files.read(&path).ok().map(|contents| String::from_utf8_lossy(contents).into_owned())
        }),
        "ls" => list(files, cwd, args),
        "touch" => each(args, |path| files.append(&files::from(cwd, path), b"").ok().map(|()| String::new())),
        "mkdir" => each(args, |path| {
            files.make_folder(&files::from(cwd, path));
            Some(String::new())
        }),
        "rm" => each(args, |path| files.remove(&files::from(cwd, path)).then(String::new)),
        "grep" => grep(files, cwd, args),
        _ => return None,
    })
}

fn script(files: &mut Files, cwd: &str, line: &str) -> Ran {
    let mut all = Ran::default();
    for (joint, piece) in pieces(line) {
        let skipped = match joint {
            Joint::Always => false,
            Joint::IfWell => all.code != 0,
            Joint::IfBad => all.code == 0,
        };
        if skipped || piece.trim().is_empty() {
            continue;
        }
        let ran = command(files, cwd, &piece);
        all.output.push_str(&ran.output);
        all.code = ran.code;
        all.takes += ran.takes;
        if piece.trim_start().starts_with("exit") {
            break;
        }
    }
    all
}

/// One command of a script, with its redirections.
fn command(files: &mut Files, cwd: &str, piece: &str) -> Ran {
    let Some(words) = shlex::split(piece) else {
        return Ran { output: "sh: syntax error\n".to_owned(), code: 2, ..Ran::default() };
    };
    let mut plain: Vec<String> = Vec::new();
    let mut target = None;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            ">" => target = words.next().map(|path| (path, false)),
            ">>" => target = words.next().map(|path| (path, true)),
            "2>&1" | "1>&2" | ">&2" => {}
            _ => plain.push(word),
        }
    }
    let Some(mut ran) = run(files, cwd, &plain) else {
        let name = plain.first().map_or("", String::as_str);
        return Ran { output: format!("sh: {name}: not found\n"), code: 127, ..Ran::default() };
    };
    if let Some((path, append)) = target {
        let path = files::from(cwd, &path);
        let text = std::mem::take(&mut ran.output).into_bytes();
        let done = if append { files.append(&path, &text) } else { files.write(&path, text) };
        if done.is_err() {
            ran.code = 1;
        }
    }
    ran
}

#[derive(Clone, Copy)]
enum Joint {
    Always,
    IfWell,
    IfBad,
}

/// The commands of a line, each with what joins it to the one before; quotes are respected.
fn pieces(line: &str) -> Vec<(Joint, String)> {
    let mut pieces = vec![(Joint::Always, String::new())];
    let mut quote = None;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let joint = match (letter, quote) {
            ('\'' | '"', None) => {
                quote = Some(letter);
                None
            }
            (letter, Some(open)) if letter == open => {
                quote = None;
                None
            }
            (';' | '\n', None) => Some(Joint::Always),
            ('&', None) if letters.next_if_eq(&'&').is_some() => Some(Joint::IfWell),
            ('|', None) if letters.next_if_eq(&'|').is_some() => Some(Joint::IfBad),
            _ => None,
        };
        match (joint, pieces.last_mut()) {
            (Some(joint), _) => pieces.push((joint, String::new())),
            (None, Some((_, piece))) => piece.push(letter),
            (None, None) => {}
        }
    }
    pieces
}

fn said(output: String) -> Ran {
    Ran { output, ..Ran::default() }
}

/// Does something for each argument that is no flag; one that fails is said and spoils the exit code.
fn each(args: &[String], mut work: impl FnMut(&str) -> Option<String>) -> Ran {
    let mut ran = Ran::default();
    for path in args.iter().filter(|arg| !arg.starts_with('-')) {
        match work(path) {
            Some(text) => ran.output.push_str(&text),
            None => {
                ran.output.push_str(&format!("{path}: No such file or directory\n"));
                ran.code = 1;
            }
        }
    }
    ran
}

fn list(files: &Files, cwd: &str, args: &[String]) -> Ran {
    let path =
        args.iter().find(|arg| !arg.starts_with('-')).map_or(cwd.to_owned(), |path| files::from(cwd, path));
    if files.is_folder(&path) {
        return said(files.names(&path).iter().map(|name| format!("{name}\n")).collect());
    }
    match files.read(&path) {
        Ok(_) => said(format!("{path}\n")),
        Err(_) => Ran {
            output: format!("ls: cannot access '{path}': No such file or directory\n"),
            code: 2,
            ..Ran::default()
        },
    }
}

fn grep(files: &Files, cwd: &str, args: &[String]) -> Ran {
    let words: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let Some((text, _)) = words.split_first() else { return Ran { code: 2, ..Ran::default() } };
    let mut output = String::new();
    for (path, contents) in files.below(cwd) {
        let shown = path.strip_prefix(cwd).unwrap_or(path);
        for (at, line) in String::from_utf8_lossy(contents).lines().enumerate() {
            if line.contains(text.as_str()) {
                output.push_str(&format!(".{shown}:{}:{line}\n", at + 1));
            }
        }
    }
    let code = i32::from(output.is_empty());
    Ran { output, code, ..Ran::default() }
}

fn printf(args: &[String]) -> String {
    let Some((format, values)) = args.split_first() else { return String::new() };
    let text = format.replace("\\n", "\n").replace("\\t", "\t");
    values.iter().fold(text, |text, value| text.replacen("%s", value, 1)).replace("%%", "%")
}

fn seconds(args: &[String]) -> Duration {
    let time = args.first().and_then(|time| time.trim_end_matches('s').parse::<f64>().ok());
    time.and_then(|time| Duration::try_from_secs_f64(time).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(files: &mut Files, line: &str) -> (String, i32) {
        let ran = run(files, "/box", &["sh".to_owned(), "-c".to_owned(), line.to_owned()]).unwrap();
        (ran.output, ran.code)
    }

    #[test]
    fn scripts_join_and_redirect() {
        let mut files = Files::default();
        files.make_folder("/box");
        assert_eq!(
            sh(&mut files, "echo 'a; b' > x.txt && cat x.txt; false || exit 3"),
            ("a; b\n".to_owned(), 3)
        );
        assert_eq!(sh(&mut files, "cat none"), ("none: No such file or directory\n".to_owned(), 1));
        assert_eq!(sh(&mut files, "frobnicate").1, 127);
        assert_eq!(sh(&mut files, "pwd && ls"), ("/box\nx.txt\n".to_owned(), 0));
    }

    #[test]
    fn sleeping_takes_its_time() {
        let ran = run(&mut Files::default(), "/", &["sleep".to_owned(), "1.5".to_owned()]).unwrap();
        assert_eq!(ran.takes, Duration::from_millis(1500));
    }
}
