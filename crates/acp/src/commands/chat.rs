//! `acp chat`

mod earlier;
mod editor;

use std::convert::Infallible;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use acp_host::ClientEvent;
use agent_client_protocol_schema::v1::{ContentBlock, SessionUpdate};
use anyhow::anyhow;

use crate::exit;
use crate::talk::args::TalkArgs;
use crate::talk::history::ChatHistory;
use crate::talk::keys::{Interrupts, SaneTerminal, person_present};
use crate::talk::session::{Talk, Trouble};
use crate::talk::turn::{self, TurnOutcome, TurnView};
use crate::talk::{content, json};
use editor::{Editor, Typed};

/// Arguments of `acp chat`.
#[derive(clap::Args)]
#[command(after_help = crate::help::CHAT)]
pub struct ChatArgs {
    #[command(flatten)]
    talk: TalkArgs,
}

/// After this long, a person is told what is waited for.
const SLOW_START: Duration = Duration::from_secs(3);

const HELP: &str = "\
type a prompt and press Enter; /name runs a command of the agent (Tab completes)
  :file PATH   mention a file in the next prompt     :embed PATH  send its content along
  :image PATH  send an image along                   :audio PATH  send a sound along
  :modes       list the modes (* is the current one) :mode N|ID   set one
  :set         list the options                      :set ID VAL  set one
  :help        this                                  :quit        end (so do :exit, :q and Ctrl-D)
a line that ends in \\ goes on in the next one; so does text between lines of \"\"\"; arrows and Ctrl-R find earlier lines
Ctrl-C cancels a turn; twice quits";

/// Talks with an agent until the person has had enough.
pub fn run(args: &ChatArgs) -> anyhow::Result<ExitCode> {
    if args.talk.target.isolate {
        crate::isolate::enter()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let sane = SaneTerminal::remember_for_editing();
    let outcome = runtime.block_on(chat(args));
    drop(sane);
    let code = match outcome {
        Ok(code) => code,
        Err(trouble) => trouble.tell(args.talk.format.is_json())?,
    };
    runtime.shutdown_background();
    Ok(ExitCode::from(code))
}

async fn chat(args: &ChatArgs) -> Result<u8, Trouble> {
    let attached = content::from_flags(&args.talk).map_err(Trouble::usage)?;
    let mut interrupts = Interrupts::listen().map_err(Trouble::fault)?;
    let mut history = ChatHistory::default();
    let mut seen = |event| history.push(event);
    let talk = tokio::select! {
        talk = Talk::open(&args.talk, person_present(), &mut seen) => talk?,
        _ = interrupts.next() => return Err(Trouble::failed(anyhow!("interrupted before the agent was ready"))),
        never = say_what_is_waited_for() => match never {},
    };
    let mut chat = Chat {
        talk,
        agent: args.talk.target.agent.clone(),
        view: TurnView::new(args.talk.format.is_json(), args.talk.verbose),
        editor: Editor::new(),
        attached,
        interrupts,
        turns: 0,
    };
    chat.greet(&history).map_err(Trouble::output)?;
    let outcome = chat.run().await;
    let back = chat.way_back(args);
    let Chat { talk, mut view, .. } = chat;
    talk.close().await;
    if let (Ok(_), Some(back)) = (&outcome, back) {
        view.note(&back).map_err(Trouble::output)?;
    }
    outcome
}

/// For a person who wonders why nothing happens.
async fn say_what_is_waited_for() -> Infallible {
    tokio::time::sleep(SLOW_START).await;
    if person_present() {
        eprintln!("acp: waiting for the agent to answer initialize and open a session (Ctrl-C gives up) …");
    }
    std::future::pending().await
}

/// What to know about an agent of our own before the first prompt.
fn hint(agent: Option<&str>) -> Option<&'static str> {
    match agent? {
        "reference" => Some(
            "no model is connected; ask \"what can you do?\", or talk to a model: \
             acp chat --command \"acp agent --provider anthropic\"",
        ),
        "mock" => Some("this agent only pretends: it does plain requests, such as Say 'hello'"),
        _ => None,
    }
}

struct Chat {
    talk: Talk,
    /// The agent's name, where it was named so.
    agent: Option<String>,
    view: TurnView,
    editor: Editor,
    /// What goes along with the next prompt.
    attached: Vec<ContentBlock>,
    interrupts: Interrupts,
    /// How many prompts were sent.
    turns: u32,
}

impl Chat {
    fn greet(&mut self, history: &ChatHistory) -> std::io::Result<()> {
        self.view.object(&json::session(&self.talk.session))?;
        if let Some(words) = history.gap() {
            self.view.note(&words)?;
        }
        for event in history.iter() {
            self.learn(event);
            self.view.event(event)?;
        }
        if self.editor.is_interactive() {
            self.view
                .note(&format!("{} · session {} · :help for help", self.talk.agent, self.talk.session))?;
            if let Some(hint) = hint(self.agent.as_deref()) {
                self.view.own(hint)?;
            }
        }
        Ok(())
    }

    /// How to go on with this conversation later, for a person whose agent keeps sessions.
    fn way_back(&self, args: &ChatArgs) -> Option<String> {
        // The mock forgets its sessions when it ends.
        let keeps = self.talk.can_reopen() && self.agent.as_deref() != Some("mock");
        (self.editor.is_interactive() && keeps && self.turns > 0).then(|| {
            let mut words = vec!["acp".to_owned(), "chat".to_owned()];
            words.extend(args.talk.target.words());
            words.extend(["--session".to_owned(), self.talk.session.clone()]);
            let words = words.iter().map(String::as_str);
            let line = shlex::try_join(words).unwrap_or_default();
            format!("go on with this conversation: {line}")
        })
    }

    async fn run(&mut self) -> Result<u8, Trouble> {
        let mut warned = false;
        loop {
            let line = match self.next_line().await? {
                Typed::Line(line) => line.trim().to_owned(),
                Typed::Unreadable(number, line) => {
                    return Err(Trouble::usage(anyhow!(
                        "line {number} of the input is not UTF-8 text: {line:?}; what follows was not sent"
                    )));
                }
                Typed::End => return Ok(exit::OK),
                Typed::Interrupted if warned => return Ok(exit::OK),
                Typed::Interrupted => {
                    warned = true;
                    self.view.note("Ctrl-C again quits").map_err(Trouble::output)?;
                    continue;
                }
            };
            warned = false;
            if line.is_empty() {
                continue;
            }
            if self.editor.is_interactive() && ["quit", "exit"].contains(&line.as_str()) {
                return Ok(exit::OK);
            }
            if let Some(command) = line.strip_prefix(':') {
                if self.command(command).await? {
                    return Ok(exit::OK);
                }
                continue;
            }
            if let Some(code) = self.turn(line).await? {
                return Ok(code);
            }
        }
    }

    /// Waits for the person; what the agent says meanwhile is shown above the line being typed.
    async fn next_line(&mut self) -> Result<Typed, Trouble> {
        self.editor.ask();
        loop {
            tokio::select! {
                typed = self.editor.typed() => return Ok(typed),
                _ = self.interrupts.next() => return Ok(Typed::End),
                Some(question) = self.talk.questions.recv() => {
                    drop(question);
                    self.editor.show("the agent asked something outside a turn; it was turned away");
                }
                event = self.talk.events.next() => match event {
                    Some(ClientEvent::Closed(how, words)) => {
                        return Err(Trouble::fault(anyhow!("{how} between two turns{words}")));
                    }
                    None => return Err(Trouble::fault(anyhow!("the connection is gone"))),
                    Some(event) => {
                        let is_known = self.is_known_mode(&event);
                        self.learn(&event);
                        if is_known && !self.view.is_json() {
                            continue;
                        }
                        if self.editor.is_interactive() {
                            self.editor.show_event(&event);
                        } else {
                            self.view.event(&event).map_err(Trouble::output)?;
                        }
                    }
                },
            }
        }
    }

    /// Runs one turn; an exit code when the conversation is over.
    async fn turn(&mut self, line: String) -> Result<Option<u8>, Trouble> {
        let mut prompt = vec![ContentBlock::from(line)];
        prompt.append(&mut self.attached);
        self.turns += 1;
        let editor = &self.editor;
        let mut learn = |commands| editor.complete(commands);
        let outcome =
            turn::run_again(&mut self.talk, &prompt, &mut self.view, &mut self.interrupts, &mut learn).await;
        match outcome? {
            TurnOutcome::Ended(_) => Ok(None),
            TurnOutcome::Quit => Ok(Some(exit::OK)),
            TurnOutcome::Failed(error) => {
                let trouble = Trouble::client(error);
                if trouble.code == exit::FAULT {
                    return Err(trouble);
                }
                // The agent said no to this one; it is still there for the next.
                eprintln!("acp: {:#}", trouble.error);
                Ok(None)
            }
        }
    }

    /// A command of the chat itself; true to quit.
    async fn command(&mut self, command: &str) -> Result<bool, Trouble> {
        let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
        let path = Path::new(rest.trim());
        let attach = match word {
            "q" | "quit" | "exit" => return Ok(true),
            "file" => content::link(path),
            "embed" => content::embedded(path),
            "image" => content::image(path),
            "audio" => content::audio(path),
            "modes" => {
                let menu = self.talk.modes.menu();
                let none = menu.choices.is_empty().then(|| "the agent has no modes".to_owned());
                self.notes(menu.lines().chain(none))?;
                return Ok(false);
            }
            "mode" if rest.trim().is_empty() => {
                let current = self.talk.modes.menu().current;
                let words = if current.is_empty() {
                    "the agent has no modes".to_owned()
                } else {
                    format!("mode: {current}")
                };
                self.notes([words])?;
                return Ok(false);
            }
            "mode" => {
                match self.talk.set_mode(rest.trim()).await {
                    Ok(mode) => self.notes([format!("mode: {mode}")])?,
                    Err(trouble) => eprintln!("acp: {:#}", trouble.error),
                }
                return Ok(false);
            }
            "set" => {
                self.set(rest.trim()).await?;
                return Ok(false);
            }
            "help" => {
                HELP.lines().try_for_each(|line| self.view.own(line)).map_err(Trouble::output)?;
                return Ok(false);
            }
            other => {
                eprintln!("acp: there is no :{other}; :help lists what there is");
                return Ok(false);
            }
        };
        match attach {
            Ok(block) => {
                self.attached.push(block);
                self.notes([format!("{} goes along with the next prompt", path.display())])?;
            }
            Err(error) => eprintln!("acp: {error:#}"),
        }
        Ok(false)
    }

    /// `:set` alone lists the options, `:set ID VALUE` sets one.
    async fn set(&mut self, words: &str) -> Result<(), Trouble> {
        let Some((option, value)) = words.split_once(char::is_whitespace) else {
            let mut lines = self.talk.modes.option_lines();
            if !words.is_empty() {
                lines.retain(|line| line.starts_with(&format!("{words} =")));
                if lines.is_empty() {
                    let known = self.talk.modes.option_ids().join(", ");
                    let known = if known.is_empty() { "none".to_owned() } else { known };
                    eprintln!("acp: there is no option {words:?}: the agent has {known}");
                    return Ok(());
                }
                lines.push(format!("to set it: :set {words} VALUE"));
            }
            let none = lines.is_empty().then(|| "the agent has no options to set".to_owned());
            return self.notes(lines.into_iter().chain(none));
        };
        match self.talk.set_option(option, value.trim()).await {
            Ok(()) => {
                let is_it = |line: &String| line.starts_with(&format!("{option} ="));
                let line = self.talk.modes.option_lines().into_iter().find(is_it);
                self.notes(line)
            }
            Err(trouble) => {
                eprintln!("acp: {:#}", trouble.error);
                Ok(())
            }
        }
    }

    fn notes(&mut self, lines: impl IntoIterator<Item = String>) -> Result<(), Trouble> {
        lines.into_iter().try_for_each(|line| self.view.note(&line)).map_err(Trouble::output)
    }

    /// Whether an event only says which mode is set, and chat has said so already.
    fn is_known_mode(&self, event: &ClientEvent) -> bool {
        let ClientEvent::Update(update) = event else { return false };
        match update.update.as_deref() {
            Some(SessionUpdate::CurrentModeUpdate(mode)) => {
                *mode.current_mode_id.0 == *self.talk.modes.menu().current
            }
            _ => false,
        }
    }

    fn learn(&mut self, event: &ClientEvent) {
        let ClientEvent::Update(update) = event else { return };
        if let Some(update) = update.update.as_deref() {
            self.talk.modes.learn(update);
        }
        if let Some(commands) = turn::commands_of(update.update.as_deref()) {
            self.editor.complete(commands);
        }
    }
}
