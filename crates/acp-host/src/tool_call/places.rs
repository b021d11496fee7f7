//! Where a tool call can show a command or a path: its input, in the words of many agents, its locations and its
//! content.

use acp_policy::shell;
use serde_json::{Map, Value};

/// Keys under which agents put a command: a line, a list of words, or a list of lines.
const COMMANDS: &[&str] = &[
    "command",
    "cmd",
    "commands",
    "script",
    "scripts",
    "argv",
    "program",
    "executable",
    "exec",
    "shell_command",
    "shellcommand",
    "command_line",
    "commandline",
    "bash_command",
    "bashcommand",
];
/// Keys whose list is one of whole lines.
const LINES: &[&str] = &["commands", "scripts"];
/// Keys of what follows a program.
const ARGUMENTS: &[&str] = &["args", "arguments", "argv"];
/// Keys of the environment that a command gets.
const ENVIRONMENT: &[&str] =
    &["env", "environment", "envs", "env_vars", "envvars", "environment_variables", "environmentvariables"];
/// Keys of the folder that a command runs in.
const FOLDERS: &[&str] = &["cwd", "workdir", "working_directory", "workingdirectory", "work_dir"];
/// Keys that name the folder that a command runs in, where there is a command, and any folder otherwise.
const MAYBE_FOLDERS: &[&str] = &["directory", "dir", "folder", "dir_path", "dirpath", "workspace"];
/// Keys under which agents put a file or a folder, or a list of them.
const PATHS: &[&str] = &[
    "path",
    "paths",
    "file",
    "files",
    "file_path",
    "filepath",
    "file_paths",
    "filepaths",
    "abs_path",
    "abspath",
    "absolute_path",
    "absolutepath",
    "target",
    "target_file",
    "targetfile",
    "target_path",
    "targetpath",
    "source",
    "source_path",
    "sourcepath",
    "destination",
    "destination_path",
    "destinationpath",
    "src",
    "dst",
    "dest",
    "from",
    "to",
    "old_path",
    "oldpath",
    "new_path",
    "newpath",
    "notebook_path",
    "notebookpath",
    "filename",
    "file_name",
    "relative_path",
    "relativepath",
    "relative_workspace_path",
    "uri",
    "uris",
    "root",
    "move_path",
    "movepath",
];
/// Keys whose object has the paths as its own keys.
const BY_PATH: &[&str] = &["changes", "file_changes", "filechanges"];
/// Keys of text that is written, looked for, or meant for people.
const PROSE: &[&str] = &[
    "content",
    "contents",
    "text",
    "file_text",
    "filetext",
    "insert_text",
    "new_string",
    "old_string",
    "newstring",
    "oldstring",
    "new_str",
    "old_str",
    "newtext",
    "oldtext",
    "new_text",
    "old_text",
    "description",
    "explanation",
    "summary",
    "justification",
    "reason",
    "risklevel",
    "risklevelreason",
    "title",
    "message",
    "query",
    "prompt",
];

/// The most paths in folders that are looked at.
const MOST_JOINED: usize = 4096;

/// Everything that a tool call shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Places {
    /// Commands, each as a shell would read it.
    pub commands: Vec<String>,
    /// Files and folders that its input names.
    pub paths: Vec<String>,
    /// Files that it shows changes of.
    pub changed: Vec<String>,
    /// Files that it says it touches or mentions.
    pub located: Vec<String>,
    /// The folder that its command runs in; several where it contradicts itself.
    pub cwds: Vec<String>,
    /// Other texts of its input: each may be a command or a path.
    pub others: Vec<String>,
    /// Folders from which its relative paths may be meant.
    pub folders: Vec<String>,
    /// What its paths would be in other ways of writing them: `@src/a`, `editor://file/src/a`, a list of folders.
    pub readings: Vec<String>,
}

impl Places {
    pub(super) fn of(input: Option<&Value>, locations: &Value, content: &Value) -> Places {
        let mut places = Places::default();
        if let Some(input) = input {
            places.input("", input);
        }
        if places.commands.is_empty() {
            places.cwds.retain(|cwd| !places.paths.contains(cwd));
        }
        for location in locations.as_array().into_iter().flatten() {
            let texts = [&location["path"], &location["uri"]].into_iter().filter_map(Value::as_str);
            places.located.extend(texts.map(path_of));
        }
        for piece in content.as_array().into_iter().flatten() {
            places.content(piece);
        }
        let named = places.paths.iter().chain(&places.changed).chain(&places.located).chain(&places.others);
        let readings: Vec<String> = named.flat_map(|text| other_readings(text)).collect();
        places.readings.extend(readings);
        let Places { commands, paths, changed, located, cwds, .. } = &mut places;
        for list in [commands, paths, changed, located, cwds] {
            let mut seen = std::collections::HashSet::new();
            list.retain(|text| !text.is_empty() && seen.insert(text.clone()));
        }
        places
    }

    /// Whether it shows nothing that a rule or a person could judge.
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
            && self.paths.is_empty()
            && self.changed.is_empty()
            && self.located.is_empty()
    }

    /// Its relative paths, and what may be one, as they are in the folders that it names; nothing where these are too many.
    pub(super) fn in_folders(&self) -> Option<Vec<String>> {
        let names = self.paths.iter().chain(&self.others).filter(|name| !name.starts_with('/'));
        let names: Vec<&String> = names.collect();
        if names.len().saturating_mul(self.folders.len()) > MOST_JOINED {
            return None;
        }
        let joined = |folder: &String, name: &String| format!("{}/{name}", folder.trim_end_matches('/'));
        Some(
            self.folders
                .iter()
                .flat_map(|folder| names.iter().map(move |name| joined(folder, name)))
                .collect(),
        )
    }

    fn input(&mut self, key: &str, value: &Value) {
        match value {
            Value::String(text) => self.text(key, text),
            Value::Array(items) if COMMANDS.contains(&key) => self.command_list(key, items),
            Value::Array(items) => {
                let parts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
                self.readings.extend(parts.filter(|parts| parts.len() > 1).map(|parts| parts.join("/")));
                items.iter().for_each(|item| self.input(key, item));
            }
            Value::Object(members) => self.object(key, members),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text(&mut self, key: &str, text: &str) {
        if FOLDERS.contains(&key) || MAYBE_FOLDERS.contains(&key) || key == "root" {
            self.folders.push(path_of(text));
        }
        // Models write the arguments of a call as a text, and some agents pass it on as that.
        if !PROSE.contains(&key)
            && let Some(value) = json_in(text)
        {
            self.input(key, &value);
        }
        if COMMANDS.contains(&key) {
            self.commands.push(text.trim().to_owned());
        } else if PATHS.contains(&key) || file_uri(text).is_some() {
            self.paths.push(path_of(text));
        } else if FOLDERS.contains(&key) {
            self.cwds.push(path_of(text));
        } else if MAYBE_FOLDERS.contains(&key) {
            self.cwds.push(path_of(text));
            self.paths.push(path_of(text));
        } else if !PROSE.contains(&key) || text.trim_start().starts_with("*** Begin Patch") {
            self.paths.extend(patched(text));
            self.others.push(text.to_owned());
        }
    }

    /// A list of whole lines is several commands; a list of words is one.
    fn command_list(&mut self, key: &str, items: &[Value]) {
        let words: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
        match words {
            Some(lines) if LINES.contains(&key) => {
                self.commands.extend(lines.iter().map(|line| line.trim().to_owned()));
            }
            Some(words) if !words.is_empty() => self.commands.push(line_of(words[0], &words[1..])),
            Some(_) => {}
            None => items.iter().for_each(|item| self.input(key, item)),
        }
    }

    fn object(&mut self, key: &str, members: &Map<String, Value>) {
        let lower = |name: &String| name.to_ascii_lowercase();
        let arguments = members.iter().find(|(name, _)| ARGUMENTS.contains(&lower(name).as_str()));
        let arguments = arguments.and_then(|(name, list)| {
            let words: Option<Vec<&str>> = list.as_array()?.iter().map(Value::as_str).collect();
            words.map(|words| (name, words))
        });
        let program = members
            .iter()
            .find(|(name, value)| COMMANDS.contains(&lower(name).as_str()) && value.is_string());
        let joined = program.zip(arguments).filter(|((a, _), (b, _))| a != b);
        if let Some(((_, program), (_, arguments))) = &joined {
            self.commands.push(line_of(program.as_str().unwrap_or_default(), arguments));
        }
        let before = self.commands.len();
        for (name, value) in members {
            let is_joined = joined
                .as_ref()
                .is_some_and(|((program, _), (arguments, _))| name == *program || name == *arguments);
            let is_path = name.contains(['/', '.']);
            if BY_PATH.contains(&key) && (value.is_object() || value.is_array() || is_path) {
                self.paths.push(path_of(name));
            }
            if !is_joined && !ENVIRONMENT.contains(&lower(name).as_str()) {
                self.input(&lower(name), value);
            }
        }
        let start = if joined.is_some() { before.saturating_sub(1) } else { before };
        if let Some(variables) = members.iter().find(|(name, _)| ENVIRONMENT.contains(&lower(name).as_str()))
        {
            let variables = variables_of(variables.1);
            for command in self.commands.iter_mut().skip(start).filter(|_| !variables.is_empty()) {
                *command = format!("{variables} {command}");
            }
        }
    }

    fn content(&mut self, piece: &Value) {
        match piece["type"].as_str() {
            Some("diff") => self.changed.extend(piece["path"].as_str().map(path_of)),
            _ => {
                let block = if piece["content"].is_object() { &piece["content"] } else { piece };
                for uri in [&block["uri"], &block["resource"]["uri"]] {
                    self.located.extend(uri.as_str().filter(|uri| is_file(uri)).map(path_of));
                }
            }
        }
    }
}

/// A program with its arguments as a line. What a shell is given to run is that line itself.
pub(crate) fn line_of(program: &str, arguments: &[&str]) -> String {
    if let Some(line) = shell_line(program, arguments) {
        return line.to_owned();
    }
    shell::command_line(std::iter::once(program).chain(arguments.iter().copied()))
}

/// The line that `sh -c LINE` runs, for the system's own shells.
fn shell_line<'a>(program: &str, arguments: &[&'a str]) -> Option<&'a str> {
    let name =
        ["/bin/", "/usr/bin/"].iter().find_map(|folder| program.strip_prefix(folder)).unwrap_or(program);
    if !matches!(name, "sh" | "bash" | "dash" | "zsh") {
        return None;
    }
    match arguments {
        ["-c" | "-lc" | "-cl", line] | ["-l", "-c", line] => Some(line.trim()),
        _ => None,
    }
}

fn variables_of(value: &Value) -> String {
    let set = |name: &str, value: &str| format!("{}={}", shell::quoted([name]), shell::quoted([value]));
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let list: Vec<String> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| set(name, &text(value))).collect(),
        Value::Array(items) => {
            items.iter().map(|it| set(it["name"].as_str().unwrap_or_default(), &text(&it["value"]))).collect()
        }
        Value::String(line) => vec![line.clone()],
        _ => Vec::new(),
    };
    list.join(" ")
}

fn is_file(uri: &str) -> bool {
    file_uri(uri).is_some() || !uri.contains("://")
}

/// An object or a list that a text holds.
fn json_in(text: &str) -> Option<Value> {
    let text = text.trim();
    let looks_so =
        (text.starts_with('{') && text.ends_with('}')) || (text.starts_with('[') && text.ends_with(']'));
    looks_so.then(|| serde_json::from_str(text).ok()).flatten()
}

/// What follows the scheme of a `file:` address, however it is written.
fn file_uri(text: &str) -> Option<&str> {
    let (scheme, rest) = text.trim().split_once(':')?;
    scheme.eq_ignore_ascii_case("file").then_some(rest)
}

/// The path of a `file:` address, and any other text as it is.
fn path_of(text: &str) -> String {
    let Some(rest) = file_uri(text) else { return text.trim().to_owned() };
    let path = match rest.strip_prefix("//") {
        // What stands before the first slash is a host.
        Some(rest) => rest.find('/').map_or(rest, |at| &rest[at..]),
        None => rest,
    };
    decoded(path.split(['?', '#']).next().unwrap_or(path))
}

/// What else a path may mean to an agent: people and models write `@src/a`, editors `vscode://file/src/a`.
fn other_readings(text: &str) -> Vec<String> {
    const ON_THE_NET: [&str; 6] = ["http", "https", "ws", "wss", "ftp", "ssh"];
    if text.len() > 4096 {
        return Vec::new();
    }
    let mut found: Vec<String> = text.strip_prefix('@').map(str::to_owned).into_iter().collect();
    if let Some((scheme, rest)) = text.split_once("://")
        && !ON_THE_NET.iter().any(|known| scheme.eq_ignore_ascii_case(known))
        && let Some((host, path)) = rest.split_once('/')
    {
        let path = path.split(['?', '#']).next().unwrap_or(path);
        found.extend([decoded(path), decoded(&format!("/{path}")), decoded(&format!("{host}/{path}"))]);
    } else if text.contains('%') {
        found.push(decoded(text));
    }
    found
}

/// A text with its `%41` written out.
fn decoded(path: &str) -> String {
    let bytes = path.as_bytes();
    let (mut decoded, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| path.get(at + 1..at + 3)).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// The files that a patch names.
fn patched(text: &str) -> Vec<String> {
    const HEADERS: [&str; 8] = [
        "*** Add File: ",
        "*** Update File: ",
        "*** Delete File: ",
        "*** Move to: ",
        "rename from ",
        "rename to ",
        "copy from ",
        "copy to ",
    ];
    let mut paths = Vec::new();
    for line in text.lines() {
        let own = HEADERS.iter().find_map(|header| line.strip_prefix(header));
        let unified = ["+++ ", "--- "].iter().find_map(|mark| line.strip_prefix(mark)).map(|path| {
            let path = path.split('\t').next().unwrap_or(path);
            path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path)
        });
        paths.extend(own.or(unified).filter(|path| *path != "/dev/null").map(|path| path.trim().to_owned()));
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(input: &Value) -> Places {
        Places::of(Some(input), &Value::Null, &Value::Null)
    }

    #[test]
    fn commands_are_found_in_the_words_of_many_agents() {
        for (input, expected) in [
            (json!({"command": "git status"}), vec!["git status"]),
            (json!({"cmd": ["git", "log", "a b"]}), vec!["git log 'a b'"]),
            (json!({"commands": ["a", "b"]}), vec!["a", "b"]),
            (json!({"script": "a\nb"}), vec!["a\nb"]),
            (json!({"argv": ["rm", "x"]}), vec!["rm x"]),
            (json!({"program": "rm", "args": ["-r", "x"]}), vec!["rm -r x"]),
            (json!({"command": "rm", "args": ["x"], "cwd": "/w"}), vec!["rm x"]),
            (json!({"command": ["bash", "-lc", "rm x | y"]}), vec!["rm x | y"]),
            (json!({"a": {"b": [{"Command": "rm x"}]}}), vec!["rm x"]),
            (json!({"command": "make", "env": {"A": "b c"}}), vec!["A='b c' make"]),
            (json!({"command": "make", "args": [], "env": [{"name": "A", "value": "b"}]}), vec!["A=b make"]),
        ] {
            assert_eq!(read(&input).commands, expected, "{input}");
        }
    }

    #[test]
    fn paths_are_found_in_the_words_of_many_agents() {
        for (input, expected) in [
            (json!({"file": "a"}), vec!["a"]),
            (json!({"target_file": "a"}), vec!["a"]),
            (json!({"filePath": "a", "content": "b"}), vec!["a"]),
            (json!({"uri": "file:///w/a%20b"}), vec!["/w/a b"]),
            (json!({"paths": ["a", "b"]}), vec!["a", "b"]),
            (json!({"files": [{"path": "a"}]}), vec!["a"]),
            (json!({"changes": {"/w/a": {"type": "update", "move_path": "/w/b"}}}), vec!["/w/a", "/w/b"]),
            (json!({"changes": [{"path": "a", "diff": "x"}]}), vec!["a"]),
            (json!({"input": "*** Begin Patch\n*** Update File: a\n*** Move to: b\n"}), vec!["a", "b"]),
            (json!({"patch": "--- a/x\n+++ b/x\n"}), vec!["x"]),
            (json!({"patch": "similarity index 100%\nrename from a\nrename to /w/b\n"}), vec!["a", "/w/b"]),
            (json!({"content": "*** Begin Patch\n*** Add File: /w/a\n"}), vec!["/w/a"]),
            (json!({"changes": {"/w/a": "new text"}}), vec!["/w/a"]),
            (json!({"directory": "/w/a"}), vec!["/w/a"]),
            (json!({"edits": {"list": [{"from": "a", "to": "b"}]}}), vec!["a", "b"]),
        ] {
            assert_eq!(read(&input).paths, expected, "{input}");
        }
    }

    #[test]
    fn what_is_written_is_no_place() {
        let places = read(&json!({"path": "a", "content": "rm x", "new_string": "/etc/passwd"}));
        assert_eq!((places.commands.len(), places.others.len(), places.paths.len()), (0, 0, 1));
    }

    #[test]
    fn content_and_locations_are_places_too() {
        let content = json!([
            {"type": "diff", "path": "/w/d", "newText": ""},
            {"type": "content", "content": {"type": "resource_link", "name": "l", "uri": "file:///w/l"}},
            {"type": "content", "content": {"type": "resource", "resource": {"uri": "file:///w/r", "text": ""}}},
            {"type": "content", "content": {"type": "resource_link", "name": "w", "uri": "https://example.com/"}},
        ]);
        let places = Places::of(None, &json!([{"path": "/w/1"}, {"path": "/w/2"}]), &content);
        assert_eq!(places.changed, ["/w/d"]);
        assert_eq!(places.located, ["/w/1", "/w/2", "/w/l", "/w/r"]);
    }
}
