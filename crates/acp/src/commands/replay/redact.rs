//! A recorded conversation without secrets.

use acp_proxy::replay::Recording;
use acp_rpc::Frame;
use acp_text::redact;
use serde_json::Value;

/// Takes secrets out of everything that is shown of a conversation.
pub(super) fn recording(recording: &mut Recording) {
    for words in [&mut recording.agent, &mut recording.outcome].into_iter().flatten() {
        *words = redact::text(words);
    }
    let read = |frame: &Frame| serde_json::from_str(frame.text()?).ok();
    let mut frames: Vec<Option<Value>> = recording.said.iter().map(|said| read(&said.frame)).collect();
    redact::conversation(&mut frames.iter_mut().flatten().collect::<Vec<_>>());
    for (said, frame) in recording.said.iter_mut().zip(frames) {
        said.frame = Frame::parse(match frame {
            Some(frame) => frame.to_string(),
            None => redact::text(said.frame.text().unwrap_or("[redacted: not text]")),
        });
        if let Some(decided) = &mut said.by_proxy {
            for text in [&mut decided.request, &mut decided.answer, &mut decided.reason] {
                *text = json(text);
            }
        }
    }
}

/// The same for a frame that is kept as text, or for words.
fn json(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(mut frame) => {
            redact::value(&mut frame);
            frame.to_string()
        }
        Err(_) => redact::text(text),
    }
}
