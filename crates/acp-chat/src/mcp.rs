//! `--mcp`: MCP servers for the agent.

use std::io;
use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1::{
    EnvVariable, HttpHeader, McpServer, McpServerHttp, McpServerSse, McpServerStdio,
};
use serde_json::Value;

/// Why an MCP server's description cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum McpServerError {
    /// A command line with a mistake.
    #[error("--mcp {name}: {problem}")]
    Command {
        /// The server.
        name: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// Neither a server nor a file.
    #[error("--mcp {}: neither NAME=COMMAND nor a file that can be read: {error}", .path.display())]
    Unreadable {
        /// As it was given.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file is not JSON, or not what is expected in it.
    #[error("{} is not {expected}: {error}", .path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// The file describes no servers.
    #[error("{} has no mcpServers", .0.display())]
    NoServers(PathBuf),
    /// One of its servers can be neither started nor reached.
    #[error("{}: the MCP server {name:?} has neither a command nor a url", .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The server.
        name: String,
    },
}

/// Reads every `--mcp` value.
pub fn servers(values: &[String]) -> Result<Vec<McpServer>, McpServerError> {
    let mut servers = Vec::new();
    for value in values {
        match value.split_once('=') {
            Some((name, rest)) if !name.is_empty() && !name.contains('/') => {
                servers.push(inline(name, rest)?);
            }
            _ => servers.extend(file(Path::new(value))?),
        }
    }
    Ok(servers)
}

fn inline(name: &str, rest: &str) -> Result<McpServer, McpServerError> {
    if let Some(url) = rest.strip_prefix("sse+") {
        return Ok(McpServer::Sse(McpServerSse::new(name, url)));
    }
    if rest.starts_with("http://") || rest.starts_with("https://") {
        return Ok(McpServer::Http(McpServerHttp::new(name, rest)));
    }
    let wrong = |problem| McpServerError::Command { name: name.to_owned(), problem };
    let words = shlex::split(rest).ok_or_else(|| wrong("a quote does not end"))?;
    let Some((program, args)) = words.split_first() else { return Err(wrong("there is no command")) };
    Ok(McpServer::Stdio(McpServerStdio::new(name, absolute(program)).args(args.to_vec())))
}

/// A JSON file: `{"mcpServers": {NAME: {command, args, env} | {type, url, headers}}}` or the protocol's own list.
fn file(path: &Path) -> Result<Vec<McpServer>, McpServerError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| McpServerError::Unreadable { path: path.to_owned(), error })?;
    let wrong = |expected| move |error| McpServerError::Json { path: path.to_owned(), expected, error };
    let value: Value = serde_json::from_str(&text).map_err(wrong("JSON"))?;
    match value.get("mcpServers").unwrap_or(&value) {
        Value::Array(_) => {
            let list = value.get("mcpServers").unwrap_or(&value).clone();
            serde_json::from_value(list).map_err(wrong("a list of MCP servers"))
        }
        Value::Object(table) => table.iter().map(|(name, entry)| entry_of(path, name, entry)).collect(),
        _ => Err(McpServerError::NoServers(path.to_owned())),
    }
}

fn entry_of(path: &Path, name: &str, entry: &Value) -> Result<McpServer, McpServerError> {
    if let Some(url) = entry["url"].as_str() {
        let headers: Vec<HttpHeader> = pairs(&entry["headers"], HttpHeader::new);
        return Ok(match entry["type"].as_str() {
            Some("sse") => McpServer::Sse(McpServerSse::new(name, url).headers(headers)),
            _ => McpServer::Http(McpServerHttp::new(name, url).headers(headers)),
        });
    }
    let Some(command) = entry["command"].as_str() else {
        return Err(McpServerError::Unusable { path: path.to_owned(), name: name.to_owned() });
    };
    let args = entry["args"].as_array().into_iter().flatten();
    let args = args.filter_map(Value::as_str).map(str::to_owned).collect();
    let server =
        McpServerStdio::new(name, absolute(command)).args(args).env(pairs(&entry["env"], EnvVariable::new));
    Ok(McpServer::Stdio(server))
}

fn pairs<T>(table: &Value, make: impl Fn(String, String) -> T) -> Vec<T> {
    let entries = table.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some(make(name.clone(), value.as_str()?.to_owned()))).collect()
}

/// The protocol wants absolute paths; a bare name is looked up as a shell would.
fn absolute(program: &str) -> PathBuf {
    let path = Path::new(program);
    if program.contains('/') {
        return std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    }
    let found = std::env::var_os("PATH").and_then(|path| {
        std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
    });
    found.unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: &str) -> Value {
        serde_json::to_value(servers(&[value.to_owned()]).expect("servers")).expect("JSON")
    }

    #[test]
    fn servers_are_read_from_the_flag() {
        assert_eq!(
            read("web=https://x/y"),
            json!([{"type": "http", "name": "web", "url": "https://x/y", "headers": []}])
        );
        assert_eq!(read("old=sse+http://x")[0]["type"], "sse");
        let stdio = read("files=/bin/echo --root 'a b'");
        assert_eq!(
            stdio,
            json!([{"name": "files", "command": "/bin/echo", "args": ["--root", "a b"], "env": []}])
        );
        assert!(read("sh=sh -c true")[0]["command"].as_str().is_some_and(|path| path.starts_with('/')));
    }

    #[test]
    fn servers_are_read_from_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mcp.json");
        let text = r#"{"mcpServers": {"a": {"command": "/bin/a", "env": {"K": "V"}}, "b": {"url": "http://b", "headers": {"H": "1"}}}}"#;
        std::fs::write(&path, text).expect("a file");
        let list = read(path.to_str().expect("text"));
        assert_eq!(list[0]["env"], json!([{"name": "K", "value": "V"}]));
        assert_eq!(list[1]["headers"], json!([{"name": "H", "value": "1"}]));
        assert!(servers(&["/no/such/file".to_owned()]).is_err());
    }
}
