//! Variables that hold secrets, and who must not inherit them.
//!
//! What is set for a process explicitly (a profile's `env`, the `env` of an MCP server or of `terminal/create`) is set all
//! the same: these are only not inherited.

/// Who this program is to others. No process that it starts has them, agents included.
pub const OWN: &[&str] = &[
    "ACP_TOKEN",
    "ACP_AGENT_TOKEN",
    "ACP_CONNECT_TOKEN",
    "ACP_LISTEN_TOKEN",
    "ACP_NATS",
    "ACP_NATS_TOKEN",
    "ACP_NATS_USER",
    "ACP_NATS_PASSWORD",
    "ACP_NATS_CREDS",
    "ACP_NATS_NKEY",
    "ACP_NATS_KEY",
    "ACP_NATS_CERT",
];

/// Keys for models. Agents need them; the commands and MCP servers that run for agents do not.
pub const OF_MODELS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OLLAMA_API_KEY",
    // Those of other vendors, which agents that we start may use.
    "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_OPENAI_API_KEY",
    "CEREBRAS_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CODEX_API_KEY",
    "COHERE_API_KEY",
    "DASHSCOPE_API_KEY",
    "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY",
    "GROQ_API_KEY",
    "KIMI_API_KEY",
    "MISTRAL_API_KEY",
    "MOONSHOT_API_KEY",
    "OPENROUTER_API_KEY",
    "PERPLEXITY_API_KEY",
    "TOGETHER_API_KEY",
    "XAI_API_KEY",
    "ZAI_API_KEY",
];

/// What a command or an MCP server must not inherit.
pub fn all() -> impl Iterator<Item = &'static str> {
    OWN.iter().chain(OF_MODELS).copied()
}
