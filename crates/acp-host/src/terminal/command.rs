//! From the params of `terminal/create` to a process to start.

use std::path::{Path, PathBuf};
use std::process::Command;

use acp_policy::shell;
use acp_rpc::RpcError;

use cap_std::fs::Dir;

use super::{CreateParams, EnvVariable};
use crate::jail::Roots;
use crate::refusal;
use crate::tool_call;

/// Variables that agents set and that change nothing about what a command does, with the values for which that holds.
const HARMLESS: [(&str, &[&str]); 9] = [
    ("CLAUDECODE", &[]),
    ("CI", &[]),
    ("NO_COLOR", &[]),
    ("FORCE_COLOR", &[]),
    ("COLUMNS", &[]),
    ("LINES", &[]),
    ("TERM", &["dumb", "xterm", "xterm-256color"]),
    ("PAGER", &["cat"]),
    ("GIT_PAGER", &["cat"]),
];

/// The command as one line, for rules, questions and logs. The variables that the agent sets stand in front of it as a
/// shell would have them: a `git status` with a `PATH` of the agent's own is not `git status`. What a shell is given to
/// run (`sh -c LINE`) is that line.
pub(crate) fn line(params: &CreateParams) -> String {
    let arguments: Vec<&str> = arguments(params).iter().map(String::as_str).collect();
    with_variables(params, tool_call::line_of(&params.command, &arguments))
}

/// The same with the shell that runs it.
pub(crate) fn whole_line(params: &CreateParams) -> String {
    let arguments = arguments(params).iter().map(String::as_str);
    with_variables(params, shell::command_line(std::iter::once(params.command.as_str()).chain(arguments)))
}

fn with_variables(params: &CreateParams, command: String) -> String {
    let command = if is_shell_line(params) { params.command.trim().to_owned() } else { command };
    let set = |it: &EnvVariable| format!("{}={}", shell::quoted([&*it.name]), shell::quoted([&*it.value]));
    let variables = params.env.iter().flatten().filter(|it| !is_harmless(it)).map(set);
    variables.chain([command]).collect::<Vec<_>>().join(" ")
}

fn is_harmless(variable: &EnvVariable) -> bool {
    let known = HARMLESS.iter().find(|(name, _)| *name == variable.name);
    known.is_some_and(|(_, values)| values.is_empty() || values.contains(&variable.value.as_str()))
}

/// Checks the params and builds the command; the working folder must lie in the session's folders.
pub(super) fn build(roots: &Roots, params: &CreateParams) -> Result<(Command, Dir), RpcError> {
    if params.command.trim().is_empty() {
        return Err(RpcError::invalid_params("terminal/create needs a command"));
    }
    let texts = std::iter::once(&params.command).chain(arguments(params));
    if texts.into_iter().any(|text| text.contains('\0')) {
        return Err(RpcError::invalid_params("a command cannot contain a NUL character"));
    }
    let mut command = if is_shell_line(params) {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(&params.command);
        shell
    } else {
        let mut command = Command::new(&params.command);
        command.args(arguments(params));
        command
    };
    for secret in acp_link::credentials::all() {
        command.env_remove(secret);
    }
    for variable in params.env.iter().flatten() {
        if variable.name.is_empty() || variable.name.contains(['=', '\0']) || variable.value.contains('\0') {
            let message = format!("{:?} cannot be an environment variable", variable.name);
            return Err(RpcError::invalid_params(message));
        }
        command.env(&variable.name, &variable.value);
    }
    let folder = folder(roots, params.cwd.as_deref())?;
    command.current_dir(opened(&folder).unwrap_or_else(|| cwd(roots, params).to_owned()));
    Ok((command, folder))
}

fn cwd<'a>(roots: &'a Roots, params: &'a CreateParams) -> &'a Path {
    params.cwd.as_deref().unwrap_or_else(|| roots.cwd())
}

/// Opens the folder that a command runs in: what is checked is what is used, whatever becomes of its name meanwhile.
fn folder(roots: &Roots, cwd: Option<&Path>) -> Result<Dir, RpcError> {
    if let Some(cwd) = cwd.filter(|cwd| !cwd.is_absolute()) {
        return Err(RpcError::invalid_params(format!("the cwd {:?} must be absolute", cwd.display())));
    }
    let name = cwd.unwrap_or_else(|| roots.cwd());
    roots.open_dir(cwd)?.map_err(|_| refusal::no_file(name))
}

/// The name by which a process that we start finds an open folder, before it becomes another program.
#[cfg(target_os = "linux")]
fn opened(folder: &Dir) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    let name = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    name.is_dir().then_some(name)
}

#[cfg(not(target_os = "linux"))]
fn opened(_: &Dir) -> Option<PathBuf> {
    None
}

fn arguments(params: &CreateParams) -> &[String] {
    params.args.as_deref().unwrap_or_default()
}

/// Some agents send a whole shell line in `command`: no arguments, and no program of that name.
fn is_shell_line(params: &CreateParams) -> bool {
    const SPECIAL: &[char] =
        &[' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')', '$', '`', '"', '\'', '\\', '*', '='];
    *params.is_shell_line.get_or_init(|| {
        arguments(params).is_empty() && params.command.contains(SPECIAL) && !is_program(&params.command)
    })
}

fn is_program(name: &str) -> bool {
    if name.contains('/') {
        return Path::new(name).is_file();
    }
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_appears_after_the_decision_is_not_started() {
        let temp = tempfile::tempdir().expect("a folder");
        let program = temp.path().join("git status");
        let params = serde_json::json!({"sessionId": "s", "command": program});
        let params: CreateParams = serde_json::from_value(params).expect("params");
        assert_eq!(line(&params), params.command, "a line for a shell");
        std::fs::write(&program, "").expect("a file");
        let roots = Roots::open(temp.path(), &[]).expect("roots");
        let (command, _) = build(&roots, &params).expect("a command");
        assert_eq!(command.get_program(), "sh");
    }
}
