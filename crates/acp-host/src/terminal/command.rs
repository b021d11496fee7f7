//! From the params of `terminal/create` to a process to start.

use std::path::{Path, PathBuf};
use std::process::Command;

use acp_policy::shell;
use acp_rpc::RpcError;

use super::{CreateParams, EnvVariable};
use crate::jail::Roots;
use crate::refusal;

/// The command as one line, for rules, questions and logs. The variables that the agent sets stand in front of it as a
/// shell would have them: a `git status` with a `PATH` of the agent's own is not `git status`.
pub(crate) fn line(params: &CreateParams) -> String {
    let command = match arguments(params) {
        [] if is_shell_line(params) => params.command.clone(),
        args => {
            shell::quoted(std::iter::once(params.command.as_str()).chain(args.iter().map(String::as_str)))
        }
    };
    let set = |it: &EnvVariable| format!("{}={}", shell::quoted([&*it.name]), shell::quoted([&*it.value]));
    let variables = params.env.iter().flatten().map(set);
    variables.chain([command]).collect::<Vec<_>>().join(" ")
}

/// Checks the params and builds the command; the working folder must lie in the session's folders.
pub(super) fn build(roots: &Roots, params: &CreateParams) -> Result<Command, RpcError> {
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
    command.current_dir(folder(roots, params.cwd.as_deref())?);
    Ok(command)
}

fn folder(roots: &Roots, cwd: Option<&Path>) -> Result<PathBuf, RpcError> {
    let Some(cwd) = cwd else { return Ok(roots.cwd().to_owned()) };
    if !cwd.is_absolute() {
        return Err(RpcError::invalid_params(format!("the cwd {:?} must be absolute", cwd.display())));
    }
    if !cwd.is_dir() {
        return Err(refusal::no_file(cwd));
    }
    if roots.holds(cwd) { Ok(cwd.to_owned()) } else { Err(refusal::outside(cwd)) }
}

fn arguments(params: &CreateParams) -> &[String] {
    params.args.as_deref().unwrap_or_default()
}

/// Some agents send a whole shell line in `command`: no arguments, and no program of that name.
fn is_shell_line(params: &CreateParams) -> bool {
    const SPECIAL: &[char] =
        &[' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')', '$', '`', '"', '\'', '\\', '*', '='];
    arguments(params).is_empty() && params.command.contains(SPECIAL) && !is_program(&params.command)
}

fn is_program(name: &str) -> bool {
    if name.contains('/') {
        return Path::new(name).is_file();
    }
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}
