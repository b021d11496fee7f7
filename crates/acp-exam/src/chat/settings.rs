//! The entry that makes an editor start the exam.

use serde_json::json;

/// The editors with an entry of their own.
pub const EDITORS: [&str; 5] = ["zed", "jetbrains", "nvim", "emacs", "vscode"];

/// Where the entry goes, and the entry. `program` is the command that starts `acp`. `None`: no such editor.
pub fn entry(editor: &str, program: &str) -> Option<(&'static str, String)> {
    let server = json!({ "command": program, "args": ["exam"], "env": {} });
    let pretty = |value| serde_json::to_string_pretty(&value).unwrap_or_default();
    let quoted = json!(program).to_string();
    Some(match editor {
        "zed" => (
            "Zed: settings.json (command palette: zed: open settings)",
            pretty(json!({ "agent_servers": { "ACP exam": {
                "type": "custom", "command": program, "args": ["exam"], "env": {} } } })),
        ),
        "jetbrains" => (
            "JetBrains IDEs: ~/.jetbrains/acp.json",
            pretty(json!({ "agent_servers": { "ACP exam": server } })),
        ),
        "nvim" => (
            "Neovim with codecompanion.nvim: in its setup",
            format!(
                "require(\"codecompanion\").setup({{\n  adapters = {{ acp = {{\n    acp_exam = function()\n      return \
                 require(\"codecompanion.adapters\").extend(\"gemini_cli\", {{\n        name = \"acp_exam\",\n        \
                 commands = {{ default = {{ {quoted}, \"exam\" }} }},\n      }})\n    end,\n  }} }},\n}})"
            ),
        ),
        "emacs" => (
            "Emacs with agent-shell: in your init file",
            format!(
                "(setq agent-shell-agent-configs\n      (list (agent-shell-make-agent-config\n             :identifier \
                 'acp-exam\n             :buffer-name \"ACP exam\"\n             :client-maker\n             (lambda \
                 (buffer)\n               (acp-make-client :command {quoted} :command-params '(\"exam\")\n\
                 \x20                               :context-buffer buffer)))))"
            ),
        ),
        "vscode" => (
            "Visual Studio Code with an ACP extension: settings.json",
            pretty(json!({ "acp.agents": { "ACP exam": { "command": program, "args": ["exam"] } } })),
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_editor_has_an_entry_that_starts_the_exam() {
        for editor in EDITORS {
            let (place, text) = entry(editor, "/opt/acp").expect(editor);
            assert!(!place.is_empty() && text.contains("/opt/acp") && text.contains("exam"), "{editor}");
        }
        assert!(entry("ed", "acp").is_none());
    }
}
