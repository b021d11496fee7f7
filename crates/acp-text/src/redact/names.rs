//! Names that say what they hold.

/// Whether a member, variable or header of this name holds a secret.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let words = words(name);
    let last = words.last().map(String::as_str).unwrap_or_default();
    let before = words.len().checked_sub(2).and_then(|at| words.get(at)).map(String::as_str);
    let has = |word: &str| words.iter().any(|found| found == word);
    SECRET_WORDS.iter().any(|word| has(word))
        || matches!(last, "auth" | "pat")
        || last == "key" && before.is_some_and(|before| KEY_OF.contains(&before))
        || SECRET_ENDINGS.iter().any(|ending| last.ends_with(ending))
}

/// Words that make any name one of a secret.
const SECRET_WORDS: &[&str] = &[
    "token",
    "secret",
    "secrets",
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "authorization",
    "credential",
    "credentials",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "cookie",
    "bearer",
    "jwt",
    "dsn",
];
/// Words before `key`.
const KEY_OF: &[&str] = &[
    "api",
    "access",
    "secret",
    "private",
    "auth",
    "signing",
    "encryption",
    "master",
    "service",
    "account",
    "license",
    "ssh",
    "deploy",
    "webhook",
    "subscription",
    "storage",
    "client",
    "app",
    "admin",
];
/// Endings of names without separators.
const SECRET_ENDINGS: &[&str] = &["apikey", "token", "secret", "password", "passwd", "credential"];

/// Whether a variable or header of this name never holds a secret.
pub(super) fn is_harmless(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    HARMLESS.contains(&name.as_str()) || name.starts_with("lc_")
}

const HARMLESS: &[&str] = &[
    "path",
    "home",
    "lang",
    "language",
    "term",
    "tz",
    "shell",
    "user",
    "logname",
    "pwd",
    "tmpdir",
    "display",
    "editor",
    "node_env",
    "rust_log",
    "rust_backtrace",
    "debug",
    "log_level",
    "loglevel",
    "verbose",
    "no_color",
    "port",
    "host",
    "accept",
    "accept-encoding",
    "accept-language",
    "content-type",
    "content-length",
    "user-agent",
    "cache-control",
    "mcp-protocol-version",
    "connection",
    "name",
];

/// Whether a long random string under this name may be a secret: ids, hashes and addresses are not.
pub(super) fn may_be_random(name: &str) -> bool {
    let words = words(name);
    !words.last().is_some_and(|last| NO_SECRETS.contains(&last.as_str()))
}

const NO_SECRETS: &[&str] = &[
    "id",
    "ids",
    "uuid",
    "hash",
    "sha",
    "sha1",
    "sha256",
    "digest",
    "checksum",
    "etag",
    "path",
    "cwd",
    "uri",
    "version",
    "type",
    "kind",
    "text",
    "title",
    "traceparent",
    "tracestate",
    "commit",
    "revision",
    "name",
    "method",
    "status",
];

/// Whether a command's argument says that the next one is a secret.
pub(super) fn is_secret_flag(word: &str) -> bool {
    let Some(name) = word.strip_prefix('-') else { return false };
    !name.contains(['=', ' ']) && is_secret(name.trim_start_matches('-'))
}

/// The words of a name, in lower case: `clientSecret`, `CLIENT_SECRET` and `client-secret` have the same.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && was_lower {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_they_hold() {
        for name in [
            "token",
            "API_KEY",
            "OPENAI_API_KEY",
            "apiKey",
            "apikey",
            "X-Api-Key",
            "clientSecret",
            "DB_PASSWORD",
            "Authorization",
            "Proxy-Authorization",
            "Cookie",
            "Set-Cookie",
            "GITHUB_TOKEN",
            "token_secret",
            "PGPASSWORD",
            "AWS_SECRET_ACCESS_KEY",
            "SENTRY_DSN",
            "sshKey",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "totalTokens",
            "key",
            "keyboard",
            "author",
            "authMethods",
            "sessionId",
            "tokenizer",
            "monkey",
            "patch",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
