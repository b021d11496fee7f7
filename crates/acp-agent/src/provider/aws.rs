//! Amazon Bedrock: requests signed with Signature Version 4, and answers in Amazon's event streams.
//!
//! The models of Anthropic are spoken to there in their own format (`InvokeModel`), so that everything else is as with
//! Anthropic itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::key::Key;

/// What a request is signed for.
const SERVICE: &str = "bedrock";
/// The format of the body.
const VERSION: &str = "bedrock-2023-05-31";
/// The longest message of a stream.
const LONGEST: usize = 16 * 1024 * 1024;
/// What stands around the headers and the payload of a message.
const AROUND: usize = 16;

/// Who signs, and where the request goes.
#[derive(Clone, Debug)]
pub(super) struct Signer {
    pub(super) access: String,
    pub(super) secret: Key,
    pub(super) session: Option<Key>,
    pub(super) region: String,
}

/// The path of a request for a model.
pub(super) fn path(model: &str) -> String {
    format!("/model/{}/invoke-with-response-stream", encode(model))
}

/// The body as Bedrock wants it: the model is named by the address.
pub(super) fn body(mut body: Value) -> Value {
    if let Some(fields) = body.as_object_mut() {
        fields.shift_remove("model");
        fields.shift_remove("stream");
        fields.insert("anthropic_version".to_owned(), json!(VERSION));
    }
    body
}

impl Signer {
    /// The headers that sign a request.
    pub(super) fn sign(&self, url: &Url, body: &[u8], now: Timestamp) -> Option<HeaderMap> {
        let stamp = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let mut headers = vec![
            ("host", host(url)),
            ("x-amz-content-sha256", hex(&Sha256::digest(body))),
            ("x-amz-date", stamp.clone()),
        ];
        if let Some(session) = &self.session {
            headers.push(("x-amz-security-token", session.reveal().to_owned()));
        }
        let signature = self.signature("POST", url, SERVICE, &headers, body, &stamp);
        let names = names(&headers);
        let scope = format!("{}/{}/{SERVICE}/aws4_request", &stamp[..8], self.region);
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            self.access
        );
        let mut map = HeaderMap::new();
        headers.push(("authorization", authorization));
        // The client writes the host itself.
        for (name, value) in headers.into_iter().filter(|(name, _)| *name != "host") {
            let mut value = HeaderValue::from_str(&value).ok()?;
            value.set_sensitive(name == "authorization" || name == "x-amz-security-token");
            map.insert(HeaderName::from_static(name), value);
        }
        Some(map)
    }

    fn signature(
        &self,
        method: &str,
        url: &Url,
        service: &str,
        headers: &[(&str, String)],
        body: &[u8],
        stamp: &str,
    ) -> String {
        let lines: String =
            headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
        let path: Vec<String> = url.path().split('/').map(encode).collect();
        let canonical = format!(
            "{method}\n{}\n{}\n{lines}\n{}\n{}",
            path.join("/"),
            url.query().unwrap_or_default(),
            names(headers),
            hex(&Sha256::digest(body))
        );
        let (day, region) = (&stamp[..8], &self.region);
        let to_sign = format!(
            "AWS4-HMAC-SHA256\n{stamp}\n{day}/{region}/{service}/aws4_request\n{}",
            hex(&Sha256::digest(canonical.as_bytes()))
        );
        let mut key = hmac(format!("AWS4{}", self.secret.reveal()).as_bytes(), day.as_bytes());
        for part in [region.as_str(), service, "aws4_request", &to_sign] {
            key = hmac(&key, part.as_bytes());
        }
        hex(&key)
    }
}

fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn names(headers: &[(&str, String)]) -> String {
    headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";")
}

/// Everything but letters, digits and `-._~` as percent signs and numbers.
fn encode(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let keyed = |pad: u8, message: &[u8]| {
        Sha256::new().chain_update(block.map(|byte| byte ^ pad)).chain_update(message).finalize()
    };
    keyed(0x5c, &keyed(0x36, message)).into()
}

/// A message of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A piece of the model's answer, in its vendor's format.
    Chunk(String),
    /// The answer ended with an error.
    Failed { kind: String, message: String },
    /// Something of no interest.
    Other,
}

/// Cuts a byte stream into messages.
#[derive(Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, or what is wrong with it.
    pub(super) fn next(&mut self) -> Option<Result<Message, String>> {
        let number =
            |at: usize| Some(u32::from_be_bytes(self.bytes.get(at..at + 4)?.try_into().ok()?) as usize);
        let (length, headers) = (number(0)?, number(4)?);
        if !(AROUND..=LONGEST).contains(&length) || headers > length - AROUND {
            return Some(Err(format!("it has a message of {length} bytes with {headers} bytes of headers")));
        }
        if self.bytes.len() < length {
            return None;
        }
        let message: Vec<u8> = self.bytes.drain(..length).collect();
        let (head, payload) = (&message[12..12 + headers], &message[12 + headers..length - 4]);
        Some(read_message(&read_headers(head), payload))
    }
}

fn read_message(headers: &[(String, String)], payload: &[u8]) -> Result<Message, String> {
    let header = |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let json: Value = serde_json::from_slice(payload).unwrap_or(Value::Null);
    match header(":message-type") {
        Some("exception" | "error") => Ok(Message::Failed {
            kind: header(":exception-type").or(header(":error-code")).unwrap_or_default().to_owned(),
            message: json["message"].as_str().or(header(":error-message")).unwrap_or_default().to_owned(),
        }),
        _ => match json["bytes"].as_str() {
            None => Ok(Message::Other),
            Some(packed) => STANDARD
                .decode(packed)
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .map(Message::Chunk)
                .ok_or_else(|| "a chunk is neither base64 nor text".to_owned()),
        },
    }
}

/// The headers of a message that are texts; what follows one of an unknown kind is not read.
fn read_headers(mut bytes: &[u8]) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    while let Some((name, kind, rest)) = header_begins(bytes) {
        let (skipped, text) = match kind {
            0 | 1 => (0, None),
            2 => (1, None),
            3 => (2, None),
            4 => (4, None),
            5 | 8 => (8, None),
            9 => (16, None),
            6 | 7 => {
                let Some(length) = rest.first_chunk::<2>() else { break };
                let length = usize::from(u16::from_be_bytes(*length));
                let Some(value) = rest.get(2..2 + length) else { break };
                (2 + length, (kind == 7).then(|| String::from_utf8_lossy(value).into_owned()))
            }
            _ => break,
        };
        headers.extend(text.map(|text| (name, text)));
        let Some(rest) = rest.get(skipped..) else { break };
        bytes = rest;
    }
    headers
}

fn header_begins(bytes: &[u8]) -> Option<(String, u8, &[u8])> {
    let length = usize::from(*bytes.first()?);
    let name = String::from_utf8_lossy(bytes.get(1..=length)?).into_owned();
    Some((name, *bytes.get(length + 1)?, &bytes[length + 2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer() -> Signer {
        Signer {
            access: "AKIDEXAMPLE".to_owned(),
            secret: Key::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY").expect("a key"),
            session: None,
            region: "us-east-1".to_owned(),
        }
    }

    /// The examples `get-vanilla`, `post-vanilla` and `get-vanilla-query` that Amazon publishes for the signature.
    #[test]
    fn the_published_examples_come_out() {
        let stamp = "20150830T123600Z";
        let headers = [("host", "example.amazonaws.com".to_owned()), ("x-amz-date", stamp.to_owned())];
        for (method, url, signature) in [
            (
                "GET",
                "https://example.amazonaws.com/",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "POST",
                "https://example.amazonaws.com/",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "GET",
                "https://example.amazonaws.com/?Param1=value1&Param2=value2",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
        ] {
            let url = Url::parse(url).expect("an address");
            assert_eq!(signer().signature(method, &url, "service", &headers, b"", stamp), signature, "{url}");
        }
    }

    #[test]
    fn a_model_with_a_colon_is_encoded_once_in_the_address_and_twice_in_what_is_signed() {
        assert_eq!(
            path("eu.anthropic.claude-v1:0"),
            "/model/eu.anthropic.claude-v1%3A0/invoke-with-response-stream"
        );
        assert_eq!(encode("a%3A0"), "a%253A0");
    }

    #[test]
    fn the_key_is_in_no_header_but_signs_it() {
        let url = Url::parse("http://127.0.0.1:80/model/m/invoke").expect("an address");
        let session = Key::new("a-session-token");
        let signer = Signer { session, ..signer() };
        let headers = signer.sign(&url, b"{}", Timestamp::UNIX_EPOCH).expect("headers");
        let authorization = headers["authorization"].to_str().expect("text");
        assert!(authorization.starts_with(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/19700101/us-east-1/bedrock/aws4_request, \
             SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, Signature="
        ));
        assert!(!format!("{headers:?} {signer:?}").contains("wJalr"));
        assert_eq!(headers["x-amz-security-token"], "a-session-token");
    }

    #[test]
    fn a_stream_is_cut_into_messages_wherever_it_is_torn() {
        let stream = [
            message(
                &[(":message-type", "event"), (":event-type", "chunk")],
                r#"{"bytes":"eyJ0eXBlIjoieCJ9","p":"ab"}"#,
            ),
            message(
                &[(":message-type", "exception"), (":exception-type", "throttlingException")],
                r#"{"message":"slow"}"#,
            ),
        ]
        .concat();
        for piece in [1, 7, stream.len()] {
            let mut frames = Frames::default();
            let mut read = Vec::new();
            for bytes in stream.chunks(piece) {
                frames.push(bytes);
                read.extend(std::iter::from_fn(|| frames.next()));
            }
            let failed =
                Message::Failed { kind: "throttlingException".to_owned(), message: "slow".to_owned() };
            assert_eq!(read, [Ok(Message::Chunk(r#"{"type":"x"}"#.to_owned())), Ok(failed)]);
        }
    }

    #[test]
    fn what_is_no_stream_is_said_and_never_panics() {
        let mut frames = Frames::default();
        frames.push(b"<html>Sign in</html>");
        assert!(matches!(frames.next(), Some(Err(_))));
        let whole = message(&[(":event-type", "chunk")], "{}");
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = byte;
                let mut frames = Frames::default();
                frames.push(&damaged);
                let _ = frames.next();
            }
        }
    }

    fn message(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
        let mut head = Vec::new();
        for (name, value) in headers {
            head.push(name.len() as u8);
            head.extend(name.as_bytes());
            head.push(7);
            head.extend((value.len() as u16).to_be_bytes());
            head.extend(value.as_bytes());
        }
        let length = (AROUND + head.len() + payload.len()) as u32;
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend((head.len() as u32).to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(head);
        bytes.extend(payload.as_bytes());
        bytes.extend([0; 4]);
        bytes
    }
}
