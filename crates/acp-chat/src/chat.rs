//! Turn after turn, until the person has had enough: what is typed, and the commands of the chat itself.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use acp_host::ClientEvent;
use agent_client_protocol_schema::v1::{ContentBlock, SessionUpdate};

use crate::editor::{Editor, Typed};
use crate::error::ErrorFamily;
use crate::history::ChatHistory;
use crate::keys::{Interrupts, person_present};
use crate::turn::{self, TurnOutcome, TurnView};
use crate::{ChatError, Talk, TalkOptions, content, json};

/// A conversation, and how it is shown.
#[derive(Debug)]
pub struct ChatOptions {
    /// The session.
    pub talk: TalkOptions,
    /// What goes along with the first prompt.
    pub attached: Vec<ContentBlock>,
    /// Show objects to a program instead of text to a person.
    pub json: bool,
    /// Also show what is usually left out.
    pub verbose: bool,
    /// What to know about this agent before the first prompt.
    pub hint: Option<&'static str>,
    /// The command line that talks with this agent again, without its session; nothing for one that forgets its sessions.
    pub again: Option<Vec<String>>,
    /// Where the lines that are typed are kept.
    pub history: Option<PathBuf>,
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
pub async fn chat(options: ChatOptions) -> Result<(), ChatError> {
    let mut interrupts = Interrupts::listen().map_err(ChatError::Signals)?;
    let mut history = ChatHistory::default();
    let mut seen = |event| history.push(event);
    let talk = tokio::select! {
        talk = Talk::open(&options.talk, &mut seen) => talk?,
        _ = interrupts.next() => return Err(ChatError::Interrupted),
        never = say_what_is_waited_for() => match never {},
    };
    let mut chat = Chat {
        talk,
        view: TurnView::new(options.json, options.verbose),
        editor: Editor::new(options.history),
        attached: options.attached,
        interrupts,
        turns: 0,
    };
    chat.greet(&history, options.hint).map_err(ChatError::Output)?;
    let outcome = chat.run().await;
    let back = options.again.and_then(|again| chat.way_back(again));
    let Chat { talk, mut view, .. } = chat;
    talk.close().await;
    if let (Ok(()), Some(back)) = (&outcome, back) {
        view.note(&back).map_err(ChatError::Output)?;
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

struct Chat {
    talk: Talk,
    view: TurnView,
    editor: Editor,
    /// What goes along with the next prompt.
    attached: Vec<ContentBlock>,
    interrupts: Interrupts,
    /// How many prompts were sent.
    turns: u32,
}

impl Chat {
    fn greet(&mut self, history: &ChatHistory, hint: Option<&str>) -> std::io::Result<()> {
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
            if let Some(hint) = hint {
                self.view.own(hint)?;
            }
        }
        Ok(())
    }

    /// How to go on with this conversation later, for a person whose agent keeps sessions.
    fn way_back(&self, mut again: Vec<String>) -> Option<String> {
        (self.editor.is_interactive() && self.talk.can_reopen() && self.turns > 0).then(|| {
            again.extend(["--session".to_owned(), self.talk.session.clone()]);
            let line = shlex::try_join(again.iter().map(String::as_str)).unwrap_or_default();
            format!("go on with this conversation: {line}")
        })
    }

    async fn run(&mut self) -> Result<(), ChatError> {
        let mut warned = false;
        loop {
            let line = match self.next_line().await? {
                Typed::Line(line) => line.trim().to_owned(),
                Typed::Unreadable(number, line) => {
                    return Err(ChatError::Unreadable { number, line });
                }
                Typed::End => return Ok(()),
                Typed::Interrupted if warned => return Ok(()),
                Typed::Interrupted => {
                    warned = true;
                    self.view.note("Ctrl-C again quits").map_err(ChatError::Output)?;
                    continue;
                }
            };
            warned = false;
            if line.is_empty() {
                continue;
            }
            if self.editor.is_interactive() && ["quit", "exit"].contains(&line.as_str()) {
                return Ok(());
            }
            if let Some(command) = line.strip_prefix(':') {
                if self.command(command).await? {
                    return Ok(());
                }
                continue;
            }
            if self.turn(line).await? {
                return Ok(());
            }
        }
    }

    /// Waits for the person; what the agent says meanwhile is shown above the line being typed.
    async fn next_line(&mut self) -> Result<Typed, ChatError> {
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
                        return Err(ChatError::Gone(format!("{how} between two turns{words}")));
                    }
                    None => return Err(ChatError::Gone("the connection is gone".to_owned())),
                    Some(event) => {
                        let is_known = self.is_known_mode(&event);
                        self.learn(&event);
                        if is_known && !self.view.is_json() {
                            continue;
                        }
                        if self.editor.is_interactive() {
                            self.editor.show_event(&event);
                        } else {
                            self.view.event(&event).map_err(ChatError::Output)?;
                        }
                    }
                },
            }
        }
    }

    /// Runs one turn; true when the conversation is over.
    async fn turn(&mut self, line: String) -> Result<bool, ChatError> {
        let mut prompt = vec![ContentBlock::from(line)];
        prompt.append(&mut self.attached);
        self.turns += 1;
        let editor = &self.editor;
        let mut learn = |commands| editor.complete(commands);
        let outcome =
            turn::run_again(&mut self.talk, &prompt, &mut self.view, &mut self.interrupts, &mut learn).await;
        match outcome? {
            TurnOutcome::Ended(_) => Ok(false),
            TurnOutcome::Quit => Ok(true),
            TurnOutcome::Failed(error) => {
                let error = ChatError::from(error);
                if error.family() == ErrorFamily::Fault {
                    return Err(error);
                }
                // The agent said no to this one; it is still there for the next.
                eprintln!("acp: {error}");
                Ok(false)
            }
        }
    }

    /// A command of the chat itself; true to quit.
    async fn command(&mut self, command: &str) -> Result<bool, ChatError> {
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
                    Err(error) => eprintln!("acp: {error}"),
                }
                return Ok(false);
            }
            "set" => {
                self.set(rest.trim()).await?;
                return Ok(false);
            }
            "help" => {
                HELP.lines().try_for_each(|line| self.view.own(line)).map_err(ChatError::Output)?;
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
            Err(error) => eprintln!("acp: {error}"),
        }
        Ok(false)
    }

    /// `:set` alone lists the options, `:set ID VALUE` sets one.
    async fn set(&mut self, words: &str) -> Result<(), ChatError> {
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
            Err(error) => {
                eprintln!("acp: {error}");
                Ok(())
            }
        }
    }

    fn notes(&mut self, lines: impl IntoIterator<Item = String>) -> Result<(), ChatError> {
        lines.into_iter().try_for_each(|line| self.view.note(&line)).map_err(ChatError::Output)
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
