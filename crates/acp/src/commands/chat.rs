//! `acp chat`

use std::process::ExitCode;

use acp_chat::keys::SaneTerminal;
use acp_chat::{ChatOptions, chat};
use acp_proxy::journal;

use crate::exit;
use crate::talk::TalkArgs;
use crate::trouble::Trouble;

/// Arguments of `acp chat`.
#[derive(clap::Args)]
#[command(after_help = crate::help::CHAT)]
pub struct ChatArgs {
    #[command(flatten)]
    talk: TalkArgs,
}

/// Talks with an agent until the person has had enough.
pub fn run(args: &ChatArgs) -> anyhow::Result<ExitCode> {
    if args.talk.target.isolate {
        acp_campaign::isolate::enter()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let sane = SaneTerminal::remember_for_editing();
    let outcome = match options(args) {
        Ok(options) => runtime.block_on(chat(options)).map_err(Trouble::from),
        Err(error) => Err(Trouble::usage(error)),
    };
    drop(sane);
    let code = match outcome {
        Ok(()) => exit::OK,
        Err(trouble) => trouble.tell(args.talk.format.is_json())?,
    };
    runtime.shutdown_background();
    Ok(ExitCode::from(code))
}

fn options(args: &ChatArgs) -> anyhow::Result<ChatOptions> {
    let target = &args.talk.target;
    let agent = target.agent.as_deref();
    // The mock forgets its sessions when it ends.
    let again =
        (agent != Some("mock")).then(|| [vec!["acp".to_owned(), "chat".to_owned()], target.words()].concat());
    Ok(ChatOptions {
        attached: args.talk.attachments().read()?,
        talk: args.talk.options()?,
        json: args.talk.format.is_json(),
        verbose: args.talk.verbose,
        hint: agent.and_then(hint),
        again,
        history: journal::default_folder().and_then(|folder| Some(folder.parent()?.join("chat-history"))),
    })
}

/// What to know about an agent of our own before the first prompt.
fn hint(agent: &str) -> Option<&'static str> {
    match agent {
        "reference" => Some(
            "no model is connected; ask \"what can you do?\", or talk to a model: \
             acp chat --command \"acp agent --provider anthropic\"",
        ),
        "mock" => Some("this agent only pretends: it does plain requests, such as Say 'hello'"),
        _ => None,
    }
}
