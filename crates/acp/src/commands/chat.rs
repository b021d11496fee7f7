//! `acp chat`

mod editor;

use std::path::Path;
use std::process::ExitCode;

use acp_host::Event;
use agent_client_protocol_schema::v1::ContentBlock;
use anyhow::anyhow;

use crate::exit;
use crate::talk::args::TalkArgs;
use crate::talk::history::History;
use crate::talk::keys::{Interrupts, SaneTerminal, person_present};
use crate::talk::session::{Talk, Trouble};
use crate::talk::turn::{self, Outcome, View};
use crate::talk::{content, json};
use editor::{Editor, Typed};

/// Arguments of `acp chat`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    talk: TalkArgs,
}

const HELP: &str = "\
type a prompt and press Enter; /name runs a command of the agent (Tab completes)
  :file PATH   mention a file in the next prompt     :embed PATH  send its content along
  :image PATH  send an image along                   :audio PATH  send a sound along
  :modes       the session's modes                   :mode ID     set one
  :help        this                                  :quit        end (so does Ctrl-D)
Ctrl-C cancels a turn; twice quits";

/// Talks with an agent until the person has had enough.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let sane = SaneTerminal::remember_for_editing();
    let outcome = runtime.block_on(chat(args));
    drop(sane);
    let code = match outcome {
        Ok(code) => code,
        Err(trouble) => trouble.tell(args.talk.json)?,
    };
    runtime.shutdown_background();
    Ok(ExitCode::from(code))
}

async fn chat(args: &Args) -> Result<u8, Trouble> {
    let attached = content::from_flags(&args.talk).map_err(Trouble::usage)?;
    let mut interrupts = Interrupts::listen().map_err(Trouble::fault)?;
    let mut history = History::default();
    let mut seen = |event| history.push(event);
    let talk = tokio::select! {
        talk = Talk::open(&args.talk, person_present(), &mut seen) => talk?,
        _ = interrupts.next() => return Ok(exit::FAILED),
    };
    let mut chat = Chat {
        talk,
        view: View::new(args.talk.json, args.talk.verbose),
        editor: Editor::new(),
        attached,
        interrupts,
    };
    chat.greet(&history).map_err(Trouble::output)?;
    let outcome = chat.run().await;
    chat.talk.close().await;
    outcome
}

struct Chat {
    talk: Talk,
    view: View,
    editor: Editor,
    /// What goes along with the next prompt.
    attached: Vec<ContentBlock>,
    interrupts: Interrupts,
}

impl Chat {
    fn greet(&mut self, history: &History) -> std::io::Result<()> {
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
        }
        Ok(())
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
                    Some(Event::Closed(how, words)) => {
                        return Err(Trouble::fault(anyhow!("{how} between two turns{words}")));
                    }
                    None => return Err(Trouble::fault(anyhow!("the connection is gone"))),
                    Some(event) => {
                        self.learn(&event);
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
        let editor = &self.editor;
        let mut learn = |commands| editor.complete(commands);
        let outcome =
            turn::run_again(&mut self.talk, &prompt, &mut self.view, &mut self.interrupts, &mut learn).await;
        match outcome? {
            Outcome::Ended(_) => Ok(None),
            Outcome::Quit => Ok(Some(exit::OK)),
            Outcome::Failed(error) => {
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
                for (id, name) in self.talk.mode_names() {
                    self.view.note(&format!("{id}  {name}")).map_err(Trouble::output)?;
                }
                return Ok(false);
            }
            "mode" => {
                if let Err(trouble) = self.talk.set_mode(rest.trim()).await {
                    eprintln!("acp: {:#}", trouble.error);
                }
                return Ok(false);
            }
            "help" => {
                for line in HELP.lines() {
                    self.view.note(line).map_err(Trouble::output)?;
                }
                return Ok(false);
            }
            other => {
                eprintln!("acp: there is no :{other}; :help lists what there is");
                return Ok(false);
            }
        };
        match attach {
            Ok(block) => self.attached.push(block),
            Err(error) => eprintln!("acp: {error:#}"),
        }
        Ok(false)
    }

    fn learn(&self, event: &Event) {
        if let Event::Update(update) = event
            && let Some(commands) = turn::commands_of(update.update.as_deref())
        {
            self.editor.complete(commands);
        }
    }
}
