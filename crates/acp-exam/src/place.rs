//! Where one test of a client runs: its folders, its programs, the client's environment, and how the client is told what
//! to start.

use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use acp_campaign::cell::Cell;
use acp_comply::Program;
use acp_match::{Fill, Template, Vars};
use serde_json::Value;

use crate::client::ClientUnderTest;
use crate::driver::AgentForm;
use crate::stub;
use crate::words::WordValues;

/// What of our environment a client keeps.
const KEPT: [&str; 6] = ["LANG", "LC_ALL", "TZ", "TERM", "SHELL", "USER"];

/// The folders of one test.
#[derive(Debug)]
pub(crate) struct ExamPlace {
    pub cell: Cell,
    /// The folder around the workspace.
    pub outside: PathBuf,
    /// What is first on the client's PATH.
    pub programs: PathBuf,
    /// Variables for the client; everything else is taken away.
    pub env: Vec<(OsString, OsString)>,
}

impl ExamPlace {
    /// Makes the folders.
    pub fn make(name: &str, keep: Option<&Path>, client: &ClientUnderTest) -> Result<ExamPlace, String> {
        let fault = |error: std::io::Error| format!("cannot make a place for the test: {error}");
        let mut cell = Cell::make(name, keep).map_err(fault)?;
        let outside = cell.sandbox.clone();
        cell.sandbox = outside.join("workspace");
        let programs = cell.root().join("bin");
        for folder in [&cell.sandbox, &programs] {
            std::fs::create_dir_all(folder).map_err(fault)?;
        }
        symlink(&client.program, programs.join("acp")).map_err(fault)?;
        Ok(ExamPlace { cell, outside, programs, env: Vec::new() })
    }

    /// Writes what the test declares. `vars` are the test's variables.
    pub fn fill(&self, program: &Program, vars: &Vars) -> Result<(), String> {
        let fault = |error: std::io::Error| format!("cannot write the test's files: {error}");
        self.cell.fill(&program.sandbox).map_err(fault)?;
        let Some(test) = &program.client else { return Ok(()) };
        for file in &test.outside {
            write(&self.outside.join(&file.path), &file.contents).map_err(fault)?;
        }
        for link in &test.links {
            let path = self.cell.sandbox.join(&link.path);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).map_err(fault)?;
            }
            symlink(template(&link.target, vars)?, path).map_err(fault)?;
        }
        Ok(())
    }

    /// Says how the client is told what to start, fills its home and its environment, and gives the values for words.
    pub fn prepare(
        &mut self,
        program: &Program,
        client: &ClientUnderTest,
        agent: &AgentAddress,
        vars: &Vars,
    ) -> Result<WordValues, String> {
        let fault = |error: std::io::Error| format!("cannot fill the client's home: {error}");
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let driver = &client.driver;
        let single = Vars::new()
            .with("workspace", text(&self.cell.sandbox))
            .with("home", text(&self.cell.home))
            .with("tmp", text(&self.cell.temp))
            .with("driver", text(&client.folder))
            .with("packages", text(&client.packages))
            .with("bin", text(&client.bin))
            .with("limit", client.patience.as_secs().to_string());
        let mut values = WordValues { single, ..WordValues::default() };
        let words = agent.words(client, program, driver.agent.form, &self.programs).map_err(fault)?;
        let line = shlex::try_join(words.iter().map(String::as_str)).map_err(|error| error.to_string())?;
        match driver.agent.form {
            AgentForm::Argv => values.several.push(("agent", words)),
            AgentForm::File => {
                values.single.set("agent", line);
                values.single.set("agentCommand", words[0].as_str());
                values.several.push(("agent", words.clone()));
                values.several.push(("agentArgs", words[1..].to_vec()));
            }
            AgentForm::Shell => values.single.set("agent", line),
            AgentForm::Name | AgentForm::Connect => values.single.set("agent", words[0].as_str()),
        }
        for (path, content) in &driver.home {
            write(&self.cell.home.join(path), &render(content, &values)?).map_err(fault)?;
        }
        if let Some(path) = &driver.agent.path {
            let content = driver.agent.json.clone();
            let content =
                content.or_else(|| driver.agent.text.clone().map(Value::String)).unwrap_or_default();
            let path = self.cell.home.join(values.fill_text(path)?);
            write(&path, &render(&content, &values)?).map_err(fault)?;
        }
        self.env = self.environment(program, client, &values, vars)?;
        Ok(values)
    }

    fn environment(
        &self,
        program: &Program,
        client: &ClientUnderTest,
        values: &WordValues,
        vars: &Vars,
    ) -> Result<Vec<(OsString, OsString)>, String> {
        let kept = KEPT.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
        let mut env: Vec<(OsString, OsString)> = kept.collect();
        let mut path = self.programs.clone().into_os_string();
        path.push(":");
        path.push(&client.bin);
        if let Some(ours) = std::env::var_os("PATH") {
            path.push(":");
            path.push(ours);
        }
        env.extend([
            ("PATH".into(), path),
            ("HOME".into(), self.cell.home.clone().into_os_string()),
            ("TMPDIR".into(), self.cell.temp.clone().into_os_string()),
        ]);
        for (name, value) in &client.driver.env {
            env.push((name.into(), values.fill_text(value)?.into()));
        }
        let habits = program.client.iter().flat_map(|test| &test.stub.environment);
        for (name, value) in habits {
            env.push((name.into(), template(value, vars)?.into()));
        }
        Ok(env)
    }
}

/// Where the runner waits for the agents that the client starts.
#[derive(Clone, Debug)]
pub(crate) struct AgentAddress(pub String);

impl AgentAddress {
    /// The words that start our agent, or its address.
    fn words(
        &self,
        client: &ClientUnderTest,
        program: &Program,
        form: AgentForm,
        programs: &Path,
    ) -> std::io::Result<Vec<String>> {
        let own = client.program.to_string_lossy().into_owned();
        let mut words = vec![own, stub::ARGUMENT.to_owned(), self.0.clone(), program.id.clone()];
        if form == AgentForm::Connect {
            return Ok(vec![self.0.clone()]);
        }
        let quoted = shlex::try_join(words.iter().map(String::as_str)).map_err(std::io::Error::other)?;
        if program.client.as_ref().is_some_and(|test| test.stub.wrapped) {
            // Something behind it, or the shell would become the agent.
            let script = format!("{quoted} \"$@\"; exit $?");
            words = ["/bin/sh", "-c", &script, "sh"].map(str::to_owned).to_vec();
        }
        if form == AgentForm::Name {
            let name: String =
                program.id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            let name = format!("exam-{name}");
            let start = shlex::try_join(words.iter().map(String::as_str)).map_err(std::io::Error::other)?;
            let path = programs.join(&name);
            std::fs::write(&path, format!("#!/bin/sh\nexec {start} \"$@\"\n"))?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
            return Ok(vec![name]);
        }
        Ok(words)
    }
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, content)
}

pub(crate) fn template(text: &str, vars: &Vars) -> Result<String, String> {
    let filled = Template::parse(text).and_then(|template| template.render(vars, Fill::Raw));
    filled.map_err(|error| format!("{text:?} in the test: {error}"))
}

/// Text as it is, anything else as JSON, with values filled in. A list's word that stands for several becomes several.
fn render(content: &Value, values: &WordValues) -> Result<String, String> {
    match content {
        Value::String(text) => values.fill_text(text),
        other => Ok(serde_json::to_string_pretty(&rendered(other, values)?).unwrap_or_default() + "\n"),
    }
}

fn rendered(content: &Value, values: &WordValues) -> Result<Value, String> {
    Ok(match content {
        Value::String(text) => Value::String(values.fill_text(text)?),
        Value::Array(items) => {
            let mut list = Vec::new();
            for item in items {
                match item {
                    Value::String(word) => {
                        let words = values.fill(std::slice::from_ref(word))?;
                        list.extend(words.into_iter().map(Value::String));
                    }
                    other => list.push(rendered(other, values)?),
                }
            }
            Value::Array(list)
        }
        Value::Object(object) => {
            let members = object.iter().map(|(key, value)| Ok((key.clone(), rendered(value, values)?)));
            Value::Object(members.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_settings_file_takes_the_agent_as_words_or_as_one_line() {
        let words = ["/bin/acp", "exam-stub"].map(str::to_owned).to_vec();
        let values = WordValues {
            single: Vars::new().with("agent", "/bin/acp exam-stub").with("agentCommand", "/bin/acp"),
            several: vec![("agent", words.clone()), ("agentArgs", words[1..].to_vec())],
            ..WordValues::default()
        };
        let file = json!({ "command": "${agentCommand}", "args": ["${agentArgs}"], "line": "${agent}", "all": ["x", "${agent}"] });
        let text = render(&file, &values).expect("it is filled in");
        let read: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            read,
            json!({ "command": "/bin/acp", "args": ["exam-stub"], "line": "/bin/acp exam-stub", "all": ["x", "/bin/acp", "exam-stub"] })
        );
    }
}
