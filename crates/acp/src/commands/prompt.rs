//! `acp prompt TEXT`

use std::io::{IsTerminal, Read};
use std::process::ExitCode;

use acp_chat::history::ChatHistory;
use acp_chat::keys::{Interrupts, SaneTerminal};
use acp_chat::turn::{self, TurnOutcome, TurnView};
use acp_chat::{ChatError, Talk, json};
use acp_host::ClientError;
use agent_client_protocol_schema::v1::{ContentBlock, StopReason};

use crate::exit;
use crate::talk::TalkArgs;
use crate::trouble::Trouble;

/// Arguments of `acp prompt`.
#[derive(clap::Args)]
#[command(after_help = crate::help::PROMPT)]
pub struct PromptArgs {
    /// What to ask; `-` reads it from standard input
    text: String,
    #[command(flatten)]
    talk: TalkArgs,
}

/// Asks one thing, shows the answer, and ends.
pub fn run(args: &PromptArgs) -> anyhow::Result<ExitCode> {
    if args.talk.target.isolate {
        acp_campaign::isolate::enter()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let sane = SaneTerminal::remember();
    let code = match runtime.block_on(talk(args)) {
        Ok(code) => code,
        Err(trouble) => trouble.tell(args.talk.format.is_json())?,
    };
    drop(sane);
    runtime.shutdown_background();
    Ok(ExitCode::from(code))
}

async fn talk(args: &PromptArgs) -> Result<u8, Trouble> {
    let mut prompt = vec![ContentBlock::from(text(&args.text).map_err(Trouble::usage)?)];
    prompt.extend(args.talk.attachments().read().map_err(ChatError::from)?);
    let mut interrupts = Interrupts::listen().map_err(ChatError::Signals)?;
    let options = args.talk.options().map_err(Trouble::usage)?;
    let mut view = TurnView::new(args.talk.format.is_json(), args.talk.verbose);
    let mut history = ChatHistory::default();
    let mut seen = |event| history.push(event);
    let mut talk = tokio::select! {
        talk = Talk::open(&options, &mut seen) => talk?,
        _ = interrupts.next() => return Ok(exit::FAILED),
    };
    view.object(&json::session(&talk.session)).map_err(Trouble::output)?;
    if let Some(words) = history.gap() {
        view.note(&words).map_err(Trouble::output)?;
    }
    for event in history.iter() {
        view.event(event).map_err(Trouble::output)?;
    }
    let outcome = turn::run_again(&mut talk, &prompt, &mut view, &mut interrupts, &mut |_| {}).await;
    talk.close().await;
    match outcome? {
        TurnOutcome::Ended(StopReason::EndTurn) => Ok(exit::OK),
        TurnOutcome::Ended(_) | TurnOutcome::Quit => Ok(exit::FAILED),
        TurnOutcome::Failed(error @ ClientError::NotOffered { .. }) => Err(Trouble::usage(error)),
        TurnOutcome::Failed(error) => {
            let trouble = Trouble::from(error);
            if args.talk.format.is_json() {
                // The view has already told the program.
                eprintln!("acp: {:#}", trouble.error);
                return Ok(trouble.code);
            }
            Err(trouble)
        }
    }
}

/// The text of a prompt: the argument, or standard input for `-`.
pub(crate) fn text(argument: &str) -> anyhow::Result<String> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    anyhow::ensure!(!std::io::stdin().is_terminal(), "standard input is a terminal; pipe the prompt into it");
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}
