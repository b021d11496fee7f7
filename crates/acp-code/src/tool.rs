//! The tools as data: names, descriptions and input schemas, for the callers that offer them to a model.

use serde_json::{Value, json};

/// One tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSchema {
    /// Its name; that of `search`, `query` and `extract` is also its kind.
    pub name: &'static str,
    /// One sentence for the model.
    pub description: &'static str,
    /// JSON Schema of the arguments.
    pub input: Value,
}

/// `search`, `query` and `extract`, always in this order.
pub fn schemas() -> Vec<ToolSchema> {
    vec![
        ToolSchema {
            name: "search",
            description: "Search for code patterns using semantic search",
            input: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "Words, AND/OR/NOT, +/-, \"phrase\", parentheses, file: ext: dir: lang:"},
                    "path": {"type": "string", "description": "A file or folder to search in"},
                    "max_results": {"type": "number", "default": 10, "description": "The most results on one page"},
                    "allow_tests": {"type": "boolean", "default": true, "description": "Whether test code may be among the results"},
                    "exact": {"type": "boolean", "description": "Take the query as one literal"},
                    "session": {"type": "string", "description": "Any name; keeps the ranking for nextPage"},
                    "nextPage": {"type": "boolean", "description": "The next page of this session's search"}
                },
                "required": ["query"]
            }),
        },
        ToolSchema {
            name: "query",
            description: "Perform structural queries using AST patterns",
            input: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "Code with holes: $NAME for one node, $$$NAME for any number"},
                    "path": {"type": "string", "description": "A file or folder to search in"},
                    "language": {"type": "string", "description": "The pattern's language; without it each file's own"},
                    "max_results": {"type": "number", "default": 10, "description": "The most results"},
                    "allow_tests": {"type": "boolean", "default": true, "description": "Whether test code may be among the results"}
                },
                "required": ["pattern"]
            }),
        },
        ToolSchema {
            name: "extract",
            description: "Extract specific code blocks from files",
            input: json!({
                "type": "object",
                "properties": {
                    "files": {"type": "array", "items": {"type": "string"}, "description": "file, file:10, file:10-20, file#Symbol or file#Type.method; #Symbol in any file"},
                    "context_lines": {"type": "number", "description": "This many lines more on both sides"},
                    "allow_tests": {"type": "boolean", "default": true, "description": "Whether test code may be taken"},
                    "format": {"type": "string", "enum": ["plain", "markdown", "json"], "description": "How the answer is written"}
                },
                "required": ["files"]
            }),
        },
    ]
}

/// `list_files` and `glob`, for agents that have no other way to see what files there are.
pub fn listing_schemas() -> Vec<ToolSchema> {
    let path = json!({"type": "string", "description": "A folder; the working folder without it"});
    let all = json!({"type": "boolean", "default": false, "description": "Whether files that ignore rules hide are listed too"});
    let most = json!({"type": "number", "default": 200, "description": "The most entries"});
    vec![
        ToolSchema {
            name: "list_files",
            description: "List the files of a folder as a tree; folders that have no room are shown with their number of files",
            input: json!({
                "type": "object",
                "properties": {
                    "path": path,
                    "depth": {"type": "number", "description": "How many levels to open; without it, as many as have room"},
                    "max_results": most,
                    "all": all
                }
            }),
        },
        ToolSchema {
            name: "glob",
            description: "Find files by their path",
            input: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "* and ? inside a name, ** across folders, {a,b}: **/*.rs, src/**/test_*.py"},
                    "path": path,
                    "max_results": most,
                    "all": all
                },
                "required": ["pattern"]
            }),
        },
    ]
}
