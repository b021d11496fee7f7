//! How much of a model's context window a conversation takes, and what is done when it does not fit.
//!
//! What is too long is decided here at the edge, which knows the model's limits and what its provider counted. The
//! state machine deals with it: it asks for a summary, goes on after a cut, and tells the user.

use acp_script::agent::{Counted, ModelQuestion};
use serde_json::Value;

use crate::chat;
use crate::provider::{Block, ChatRequest, Message, MessageRole, Model};

/// How many bytes one tool result may have.
pub(crate) const RESULT: usize = 8000 * BYTES;
/// A token is about this many bytes.
const BYTES: usize = 4;
/// What a picture takes, in bytes of text.
const PICTURE: usize = 1500 * BYTES;
/// The limit of a first answer. One that is cut off by it is asked for again with more.
const FIRST_ANSWER: u64 = 16_384;
/// The longest summary, in tokens.
const SUMMARY: u64 = 4096;
/// How much of one tool result is told for a summary.
const RESULT_IN_SUMMARY: usize = 2000;
/// What stands for a result that had to go.
const LEFT_OUT: &str = "[left out to save room; call the tool again if it is needed]";
/// What the note about a gap in a text takes at most.
const GAP: usize = 48;

/// What a model is told when it writes a summary.
const SUMMARIZE: &str = "You summarize the conversation between a person and a coding agent, so that the agent can go on \
with the summary alone. Write what the person asked for and decided, in their own words where these matter; what was \
done, with the files, functions, commands and results that will be needed again; what was found out; what failed, and why; \
and what is left to do. Be exact about names, paths and numbers. Write the summary and nothing else.";

/// How long an answer may be: as the person said, or as the model can, in larger steps where it was cut off.
pub(crate) fn answer_limit(model: &Model, said: Option<u64>, cuts: u32) -> u64 {
    said.unwrap_or_else(|| FIRST_ANSWER.checked_shl(cuts).unwrap_or(u64::MAX)).min(model.output).max(1)
}

/// How many tokens a question takes: by the provider's own count as far as that goes, and for the rest by its length.
pub(crate) fn tokens(question: &ModelQuestion, request: &ChatRequest) -> u64 {
    let estimate = |bytes: usize| bytes.div_ceil(BYTES) as u64;
    match question.counted {
        Some(Counted { tokens, entries }) => {
            let later = question.history.iter().skip(entries).map(entry_size).sum();
            tokens + estimate(later)
        }
        None => {
            let tools = request.tools.iter();
            let tools: usize = tools.map(|tool| tool.description.len() + tool.schema.to_string().len()).sum();
            estimate(request.system.len() + tools + size(&request.messages))
        }
    }
}

/// How many tokens a question may take, so that its answer fits beside it.
pub(crate) fn question_limit(model: &Model, answer: u64) -> u64 {
    let context = model.context;
    (context - answer.min(context / 4)).min(context / 10 * 9)
}

/// Makes a request fit into so many tokens, as far as that can be done.
pub(crate) fn fit(request: &mut ChatRequest, tokens: u64) {
    let most = usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(BYTES);
    shorten_results(&mut request.messages, most.saturating_sub(request.system.len()));
}

/// The request for a summary of the conversation in a question.
pub(crate) fn summary(question: &ModelQuestion, model: &Model) -> ChatRequest {
    let mut text = String::new();
    for message in chat::messages(question) {
        for block in &message.blocks {
            tell(message.role, block, &mut text);
        }
    }
    let half = usize::try_from(model.context / 2).unwrap_or(usize::MAX).saturating_mul(BYTES);
    let text =
        format!("<conversation>\n{}</conversation>\n\nSummarize this conversation.", shortened(&text, half));
    ChatRequest {
        model: question.model.clone(),
        system: SUMMARIZE.to_owned(),
        messages: vec![Message { role: MessageRole::User, blocks: vec![Block::Text(text)] }],
        tools: Vec::new(),
        max_tokens: SUMMARY.min(model.output),
        effort: None,
    }
}

fn tell(role: MessageRole, block: &Block, into: &mut String) {
    let who = if role == MessageRole::User { "Person" } else { "Agent" };
    match block {
        Block::Text(text) => into.push_str(&format!("{who}: {}\n", text.trim())),
        Block::Image { mime_type, .. } => into.push_str(&format!("{who}: [an image, {mime_type}]\n")),
        Block::ToolCall { name, arguments, .. } => {
            into.push_str(&format!(
                "Call of {name}: {}\n",
                shortened(&arguments.to_string(), RESULT_IN_SUMMARY)
            ));
        }
        Block::ToolResult { name, text, is_error, .. } => {
            let failed = if *is_error { " (failed)" } else { "" };
            into.push_str(&format!("Result of {name}{failed}: {}\n", shortened(text, RESULT_IN_SUMMARY)));
        }
        Block::Seal(_) => {}
    }
}

/// About how many bytes of a request an entry of the history makes.
fn entry_size(entry: &Value) -> usize {
    if entry["toolCallId"].is_string() {
        return entry["content"].to_string().len().min(RESULT) + entry["rawInput"].to_string().len();
    }
    match entry["content"]["type"].as_str() {
        Some("image") => PICTURE,
        Some("resource") => entry["content"]["resource"]["text"].as_str().map_or(0, str::len),
        _ => entry["content"]["text"].as_str().map_or(0, str::len),
    }
}

fn block_size(block: &Block) -> usize {
    match block {
        Block::Text(text) | Block::Seal(text) | Block::ToolResult { text, .. } => text.len(),
        Block::Image { .. } => PICTURE,
        Block::ToolCall { arguments, .. } => arguments.to_string().len(),
    }
}

fn size(messages: &[Message]) -> usize {
    messages.iter().flat_map(|message| &message.blocks).map(block_size).sum()
}

/// Beginning and end of a text that is too long, with the place of the gap.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let floor = |mut at: usize| {
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let (head, tail) = (floor(most / 4 * 3), floor(text.len() - most / 4));
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

/// Leaves out the oldest tool results until the conversation fits. The newest stay, but are cut where even they are too
/// much, the longest first.
fn shorten_results(messages: &mut [Message], most: usize) {
    let mut whole = size(messages);
    let last = messages.len().saturating_sub(1);
    for block in messages[..last].iter_mut().flat_map(|message| &mut message.blocks) {
        if whole <= most {
            return;
        }
        if let Block::ToolResult { text, .. } = block
            && text.len() > LEFT_OUT.len()
        {
            whole -= text.len() - LEFT_OUT.len();
            LEFT_OUT.clone_into(text);
        }
    }
    if whole <= most {
        return;
    }
    let newest = messages[last..].iter_mut().flat_map(|message| &mut message.blocks);
    let mut results: Vec<&mut String> = newest
        .filter_map(|block| match block {
            Block::ToolResult { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    let others = whole - results.iter().map(|text| text.len()).sum::<usize>();
    let mut left = most.saturating_sub(others);
    results.sort_by_key(|text| text.len());
    let mut open = results.len();
    for text in results {
        let share = left / open;
        if text.len() > share {
            *text = shortened(text, share.saturating_sub(GAP));
        }
        left = left.saturating_sub(text.len());
        open -= 1;
    }
}

#[cfg(test)]
mod tests {
    use acp_script::agent::QuestionKind;
    use serde_json::json;

    use super::*;

    fn model(context: u64, output: u64) -> Model {
        Model { id: "m".to_owned(), name: "m".to_owned(), context, output }
    }

    fn results(texts: &[String]) -> Vec<Message> {
        let result = |(n, text): (usize, &String)| Block::ToolResult {
            id: n.to_string(),
            name: "read_file".to_owned(),
            text: text.clone(),
            is_error: false,
        };
        let message = |block| Message { role: MessageRole::User, blocks: vec![block] };
        texts.iter().enumerate().map(result).map(message).collect()
    }

    fn texts(messages: &[Message]) -> Vec<&str> {
        let blocks = messages.iter().flat_map(|message| &message.blocks);
        blocks
            .filter_map(|block| match block {
                Block::ToolResult { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn old_results_go_first_when_there_is_no_room_and_the_newest_stays() {
        let mut messages = results(&vec!["x".repeat(4000); 6]);
        shorten_results(&mut messages, 11_200);
        let gone: Vec<bool> = texts(&messages).into_iter().map(|text| text == LEFT_OUT).collect();
        assert_eq!(gone, [true, true, true, true, false, false]);
    }

    #[test]
    fn the_newest_results_are_cut_when_they_alone_are_too_much_the_longest_first() {
        let mut messages = results(&["x".repeat(4000)]);
        let newest = [300, 20_000, 30_000, 25_000].map(|length| format!("begin {} end", "x".repeat(length)));
        let newest = results(&newest).into_iter().flat_map(|message| message.blocks).collect();
        messages.push(Message { role: MessageRole::User, blocks: newest });
        shorten_results(&mut messages, 28_000);
        let whole = size(&messages);
        assert!(whole <= 28_000 && whole > 25_000, "{whole}");
        let texts = texts(&messages);
        assert_eq!((texts[0], texts[1].len()), (LEFT_OUT, 310));
        for text in &texts[2..] {
            assert!(text.starts_with("begin x") && text.ends_with("x end") && text.contains("left out"));
            assert!(text.len() > 9000, "{}", text.len());
        }
    }

    #[test]
    fn an_answer_gets_more_room_when_it_was_cut_off_but_never_more_than_the_model_or_the_person_allows() {
        let large = model(200_000, 64_000);
        let limits: Vec<u64> = (0..4).map(|cuts| answer_limit(&large, None, cuts)).collect();
        assert_eq!(limits, [16_384, 32_768, 64_000, 64_000]);
        assert_eq!(answer_limit(&large, Some(1000), 3), 1000);
        assert_eq!(answer_limit(&model(8192, 4096), None, 0), 4096);
    }

    #[test]
    fn a_question_leaves_room_for_its_answer() {
        assert_eq!(question_limit(&model(200_000, 64_000), 16_384), 180_000);
        assert_eq!(question_limit(&model(200_000, 64_000), 64_000), 150_000);
        assert_eq!(question_limit(&model(8192, 8192), 8192), 6144);
    }

    #[test]
    fn the_providers_own_count_is_used_as_far_as_it_goes() {
        let said = |text: &str| json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": text } });
        let mut question = question(vec![said(&"x".repeat(4000)), said(&"y".repeat(400))]);
        let request = summary(&question, &model(100_000, 100));
        let estimated = tokens(&question, &request);
        assert!(estimated >= 1100, "{estimated}");
        question.counted = Some(Counted { tokens: 77, entries: 1 });
        assert_eq!(tokens(&question, &request), 177);
    }

    #[test]
    fn a_summary_is_asked_for_with_the_calls_in_short() {
        let call = json!({
            "sessionUpdate": "tool_call", "toolCallId": "c", "name": "read_file", "status": "completed",
            "rawInput": { "path": "a.rs" },
            "content": [{ "type": "content", "content": { "type": "text", "text": "z".repeat(9000) } }],
        });
        let person =
            json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": "look" } });
        let request = summary(&question(vec![person, call]), &model(100_000, 100));
        let Block::Text(text) = &request.messages[0].blocks[0] else { panic!("no text") };
        assert!(
            text.contains("Person: look\nCall of read_file: {\"path\":\"a.rs\"}\nResult of read_file: zzz"),
            "{text}"
        );
        assert!(text.len() < 3000 && text.ends_with("Summarize this conversation."), "{}", text.len());
        assert_eq!((request.max_tokens, request.tools.len()), (100, 0));
    }

    fn question(history: Vec<Value>) -> ModelQuestion {
        ModelQuestion {
            wanted: QuestionKind::Summary,
            model: "m".to_owned(),
            history,
            ..ModelQuestion::default()
        }
    }
}
