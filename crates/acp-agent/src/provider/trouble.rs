//! What can go wrong with a question, in words that say what to do, and whether asking again helps.

use std::error::Error;
use std::time::Duration;

use acp_host::retry::{Meaning, Repeatability, Retry, chance};
use acp_model::wire;
use jiff::Timestamp;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::ProviderError;
use super::settings::ModelSettings;

/// So much of a strange answer is shown.
const SHOWN: usize = 200;

/// A question that failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: ProviderError,
    pub(super) again: Again,
}

/// Whether asking again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// It cannot.
    Never,
    /// The provider was not reached.
    Lost,
    /// The provider is busy, and may have said for how long.
    Busy(Option<Duration>),
}

impl Failure {
    pub(super) fn never(error: ProviderError) -> Self {
        Failure { error, again: Again::Never }
    }

    /// The pause before the next try, or nothing when this was the last one.
    pub(super) fn pause(&self, attempt: u32, settings: &ModelSettings) -> Option<Duration> {
        let next = |retry: &Retry, meaning| retry.next(attempt, meaning, Repeatability::Repeatable, chance());
        let (pause, _) = match self.again {
            Again::Never => None,
            Again::Lost => next(&settings.lost, Meaning::ConnectionClosed),
            Again::Busy(_) => next(&settings.busy, Meaning::Timeout),
        }?;
        match self.again {
            Again::Busy(Some(asked)) if asked > settings.longest_pause => None,
            Again::Busy(Some(asked)) => Some(asked),
            _ => Some(pause),
        }
    }
}

impl ModelSettings {
    fn name(&self) -> String {
        self.vendor.name.clone()
    }

    /// Nobody was reached, or the line broke before the first word.
    pub(super) fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let cause = causes(error);
        let distrust = cause.contains("certificate");
        let advice = match error.is_connect() {
            _ if distrust => "; SSL_CERT_FILE names a file with further certificates to trust",
            _ if cause.contains("corrupt message") || cause.contains("InvalidContentType") => {
                "; does the server speak https at all? (http:// where it does not)"
            }
            false => "",
            true if self.vendor.keyless => "; is the server running? (--base-url names another address)",
            true => "; check the network and the address (--base-url)",
        };
        let reason = self.scrub(&format!("{cause} at {}{advice}", self.shown()));
        let again = if distrust { Again::Never } else { Again::Lost };
        Failure { error: ProviderError::Unreachable { provider: self.name(), reason }, again }
    }

    /// The request cannot be signed.
    pub(super) fn unsigned(&self) -> Failure {
        let reason =
            format!("the keys in {} have characters that no key has; copy them again", self.key_source);
        Failure::never(ProviderError::Unusable { provider: self.name(), reason })
    }

    /// Nothing was heard for too long.
    pub(super) fn silent(&self) -> Failure {
        let reason = format!(
            "{} said nothing for {} s; ask again, or allow more with ACP_MODEL_STALL=SECONDS",
            self.shown(),
            self.stall.as_secs_f64()
        );
        Failure::never(ProviderError::Unreachable { provider: self.name(), reason })
    }

    /// The answer stopped before its end.
    pub(super) fn cut(&self, why: &str) -> Failure {
        let reason =
            format!("the connection ended in the middle of the answer{}; ask again", self.scrub(why));
        Failure { error: ProviderError::BrokeOff { provider: self.name(), reason }, again: Again::Lost }
    }

    /// The provider itself broke the answer off.
    pub(super) fn broke_off(&self, kind: &str, message: &str) -> Failure {
        let separator = if kind.is_empty() || message.is_empty() { "" } else { ": " };
        let reason = self.scrub(&format!("{kind}{separator}{message}"));
        if is_too_long(kind, message) {
            return Failure::never(ProviderError::TooLong { provider: self.name(), message: reason });
        }
        let busy = [
            "overloaded",
            "rate_limit",
            "server_error",
            "unavailable",
            "exhausted",
            "internal",
            "api_error",
            "throttl",
        ];
        let passing = busy.iter().any(|word| kind.to_ascii_lowercase().contains(word));
        let again = if passing { Again::Busy(None) } else { Again::Never };
        Failure { error: ProviderError::BrokeOff { provider: self.name(), reason }, again }
    }

    /// The answer is none.
    pub(super) fn nonsense(&self, reason: &str) -> Failure {
        let reason = self.scrub(reason);
        Failure::never(ProviderError::Nonsense { provider: self.name(), reason })
    }

    /// The answer is of another kind than asked for; `head` is its beginning.
    pub(super) fn not_a_stream(&self, kind: &str, head: &[u8]) -> Failure {
        let what = if kind.contains("html") || looks_like_a_page(head) {
            "a web page".to_owned()
        } else if kind.is_empty() {
            "neither events nor JSON".to_owned()
        } else {
            format!("{kind:?} instead of events")
        };
        self.nonsense(&format!(
            "{} answered with {what}: {}; does the address (--base-url) name the model's API?",
            self.shown(),
            excerpt(head)
        ))
    }

    /// The provider said no, with this status.
    pub(super) fn refused(&self, status: u16, headers: &HeaderMap, body: &[u8], model: &str) -> Failure {
        let json: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let (kind, said) = wire::read_error(&json).unwrap_or_else(|| plain_error(&json, headers));
        let said = match said.trim() {
            "" if looks_like_a_page(body) => "a web page".to_owned(),
            "" => excerpt(body),
            said => said.to_owned(),
        };
        let said = self.scrub(said.trim_end_matches('.'));
        if status == 413 || (status < 500 && is_too_long(&kind, &said)) {
            let error = ProviderError::TooLong { provider: self.name(), message: said };
            return Failure::never(error);
        }
        let spent = status == 402 || kind.contains("insufficient_quota") || kind.contains("billing");
        let filtered = ["content_filter", "content_policy", "content management policy", "content filter"]
            .iter()
            .any(|words| kind.contains(words) || said.to_ascii_lowercase().contains(words));
        let asked = wait(headers, &json);
        let again = match status {
            408 | 409 | 429 | 500 | 502.. if !spent && status != 505 => Again::Busy(asked),
            _ => Again::Never,
        };
        let advice = match filtered && status < 500 {
            true => "the vendor's content filter does not take this: ask in other words".to_owned(),
            false => self.advice(status, spent, asked, headers, model),
        };
        let message = if advice.is_empty() { said } else { format!("{said}; {advice}") };
        Failure { error: ProviderError::Refused { provider: self.name(), status, message }, again }
    }

    fn advice(
        &self,
        status: u16,
        spent: bool,
        asked: Option<Duration>,
        headers: &HeaderMap,
        model: &str,
    ) -> String {
        match status {
            401 | 403 if self.key.is_none() && self.signer.is_none() => {
                format!("it wants a key: put one into {}", self.key_source)
            }
            401 => format!("check the key in {}", self.key_source),
            403 => {
                format!("check the key in {}, and whether it may use the model {model:?}", self.key_source)
            }
            404 => format!(
                "is there a model {model:?} at {}? choose another with --model, or another address with --base-url",
                self.shown()
            ),
            _ if spent => "the account has nothing left: look at its billing".to_owned(),
            429 => match asked.filter(|asked| *asked > self.longest_pause) {
                Some(asked) => format!("it asks to come back in {} s", asked.as_secs()),
                None => "too much was asked in too short a time: wait, then ask again".to_owned(),
            },
            300..=399 => {
                let to = headers.get("location").and_then(|to| to.to_str().ok()).unwrap_or("elsewhere");
                format!("the address points to {to:?}: give the right one with --base-url")
            }
            408 | 504 => "the provider took too long: ask again, or for less".to_owned(),
            503 | 529 => {
                "the provider is overloaded: ask again later, or name another one with --fallback".to_owned()
            }
            500.. => {
                "the provider has trouble: ask again later, or name another one with --fallback".to_owned()
            }
            _ => String::new(),
        }
    }
}

/// The kind and message of an error that stands in the body by itself, as Amazon and many small servers write it.
fn plain_error(body: &Value, headers: &HeaderMap) -> (String, String) {
    let kind = headers.get("x-amzn-errortype").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(':').next().unwrap_or_default().to_owned();
    let message = ["message", "Message", "detail"].iter().find_map(|name| body[*name].as_str());
    (kind, message.unwrap_or_default().to_owned())
}

/// Whether a vendor says that the conversation does not fit into the model, in any of their words.
fn is_too_long(kind: &str, said: &str) -> bool {
    const WORDS: [&str; 12] = [
        "context length",
        "context_length",
        "context window",
        "context size",
        "prompt is too long",
        "input is too long",
        "too many tokens",
        "too many input tokens",
        "maximum number of tokens",
        "exceeds the maximum number of",
        "reduce the length of the messages",
        "request_too_large",
    ];
    let (kind, said) = (kind.to_ascii_lowercase(), said.to_ascii_lowercase());
    WORDS.iter().any(|words| kind.contains(words) || said.contains(words))
}

/// The beginning of a strange answer, on one line.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN)]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() {
        return "nothing at all".to_owned();
    }
    let shown: String = words.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    format!("{shown:?}")
}

fn looks_like_a_page(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&head[..head.len().min(SHOWN)]).trim_start().to_ascii_lowercase();
    head.starts_with("<!doctype html") || head.starts_with("<html")
}

/// What lies behind an error; the outermost layer rarely says what happened.
pub(super) fn causes(error: &reqwest::Error) -> String {
    let mut innermost: &dyn Error = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    if error.is_timeout() {
        return "nobody answered in time".to_owned();
    }
    innermost.to_string()
}

/// How long the provider asks to wait: in a header, or in Google's words in the body.
fn wait(headers: &HeaderMap, body: &Value) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok().and_then(|n| Duration::try_from_secs_f64(n).ok());
    if let Some(pause) = text("retry-after-ms").and_then(number) {
        return Some(pause / 1000);
    }
    if let Some(text) = text("retry-after") {
        return number(text).or_else(|| until(text));
    }
    let details = body["error"]["details"].as_array()?;
    let delay = details.iter().find_map(|detail| detail["retryDelay"].as_str())?;
    number(delay.strip_suffix('s')?)
}

/// The time until a date as HTTP writes it; a date that is over means now.
fn until(text: &str) -> Option<Duration> {
    let then = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(Duration::try_from(then.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;
    use serde_json::json;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let value = HeaderValue::from_str(value).expect("a header's value");
        [(reqwest::header::HeaderName::from_static(name), value)].into_iter().collect()
    }

    #[test]
    fn a_provider_says_in_four_ways_how_long_to_wait() {
        let none = json!(null);
        let secs = |n| Some(Duration::from_secs(n));
        assert_eq!(wait(&headers("retry-after", "7"), &none), secs(7));
        assert_eq!(wait(&headers("retry-after-ms", "250"), &none), Some(Duration::from_millis(250)));
        assert_eq!(wait(&headers("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), &none), secs(0));
        let far = wait(&headers("retry-after", "Wed, 01 Jan 2200 00:00:00 GMT"), &none);
        assert!(far > secs(1_000_000), "{far:?}");
        let google = json!({"error": {"details": [{"@type": "x"}, {"retryDelay": "34s"}]}});
        assert_eq!(wait(&HeaderMap::new(), &google), secs(34));
        for odd in ["soon", "-1", "", "NaN", "1e300"] {
            assert_eq!(wait(&headers("retry-after", odd), &none), None, "{odd:?}");
        }
    }

    #[test]
    fn an_excerpt_is_short_and_on_one_line() {
        assert_eq!(excerpt(b" \n"), "nothing at all");
        assert_eq!(excerpt(b"a\n\tb\x07"), "\"a b\"");
        assert!(excerpt(&[0xff; 5000]).chars().count() < SHOWN + 5);
    }
}
