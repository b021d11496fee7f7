//! One exchange with each provider, to see whether it works.

use futures_util::future::LocalBoxFuture;
use tokio::sync::mpsc;

use super::{
    AUTO, Block, ChatRequest, Choice, Message, MessageRole, Piece, Provider, ProviderError, Stop, open_each,
};

/// What is asked.
const QUESTION: &str = "Answer with the word OK.";
/// Room for a model that thinks before it speaks.
const ANSWER: u64 = 1024;
/// So much of the answer is shown.
const SHOWN: usize = 200;

/// What came of one exchange.
#[derive(Debug)]
pub struct Checked {
    /// The provider.
    pub provider: String,
    /// The model that was asked; empty where the server chose it.
    pub model: String,
    /// What it answered, in words, or why it did not.
    pub outcome: Result<String, ProviderError>,
}

/// Asks every provider of a choice once. Nobody is asked where the choice is the scripted one.
pub fn check<'a>(
    choice: &'a Choice,
    env: &'a dyn Fn(&str) -> Option<String>,
) -> LocalBoxFuture<'a, Result<Vec<Checked>, ProviderError>> {
    Box::pin(async move {
        let mut checked = Vec::new();
        for provider in open_each(choice, env, 1)? {
            let model = provider.models().into_iter().next().map(|model| model.id).unwrap_or_default();
            let outcome = exchange(&*provider, &model).await;
            let model = if model == AUTO { String::new() } else { model };
            checked.push(Checked { provider: provider.name().to_owned(), model, outcome });
        }
        Ok(checked)
    })
}

async fn exchange(provider: &dyn Provider, model: &str) -> Result<String, ProviderError> {
    let request = ChatRequest {
        model: model.to_owned(),
        system: String::new(),
        messages: vec![Message { role: MessageRole::User, blocks: vec![Block::Text(QUESTION.to_owned())] }],
        tools: Vec::new(),
        max_tokens: ANSWER,
        effort: None,
    };
    let (pieces, mut arriving) = mpsc::channel(16);
    let listen = async {
        let (mut said, mut used) = (String::new(), (0, 0));
        while let Some(piece) = arriving.recv().await {
            match piece {
                Piece::Text(text) => said.push_str(&text),
                Piece::Usage { input, output } => used = (input, output),
                _ => {}
            }
        }
        (said, used)
    };
    let (stop, (said, (input, output))) = tokio::join!(provider.turn(request, pieces), listen);
    let said: String = said.trim().chars().take(SHOWN).collect();
    let end = match stop? {
        Stop::EndTurn | Stop::ToolCalls => "",
        Stop::MaxTokens => ", cut off by the limit of its length",
        Stop::Refusal => ", and refused",
    };
    Ok(format!("answered {said:?}{end} ({input} tokens read, {output} written)"))
}
