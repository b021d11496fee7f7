//! One request, from its method to its answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_policy::{
    PermissionOptionKind, PermissionOutcome, PolicyDecision, PolicyRequest, PolicyVerdict, ToolAction,
    ToolKind, ToolStage, choose_option,
};
use acp_proto::method;
use acp_rpc::RpcError;
use serde_json::{Value, json};

use super::grants::{Deed, Span};
use super::pending::{Ticket, Why};
use super::session::Session;
use super::{ProviderSettings, Shared};
use crate::Elicited;
use crate::command_rules;
use crate::elicitation::{self, ElicitationParams};
use crate::files::{self, ReadParams, WriteParams};
use crate::folders::Folders;
use crate::jail::Roots;
use crate::permission::{self, PermissionParams};
use crate::question::{Ask, UserAnswer, UserQuestion};
use crate::real;
use crate::record::DecisionRecord;
use crate::refusal;
use crate::terminal::{self, CreateParams, TerminalParams};
use crate::tool_call::ToolCall;

/// One request on its way to an answer.
pub(super) struct Call<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) method: &'a str,
    pub(super) log: &'a mut Vec<DecisionRecord>,
    pub(super) ticket: Ticket,
}

impl Call<'_> {
    pub(super) async fn dispatch(&mut self, params: Option<&str>) -> Result<Value, RpcError> {
        let offer = self.shared.settings.offer;
        let unknown = || Err(RpcError::method_not_found(self.method));
        match self.method {
            method::SESSION_REQUEST_PERMISSION => self.permission(params).await,
            method::FS_READ_TEXT_FILE if offer.read_text_file => self.read(params).await,
            method::FS_WRITE_TEXT_FILE if offer.write_text_file => self.write(params).await,
            method::TERMINAL_CREATE if offer.terminal => self.create(params).await,
            method::TERMINAL_OUTPUT if offer.terminal => Ok(terminal::output(&*self.find(params)?)),
            method::TERMINAL_WAIT_FOR_EXIT if offer.terminal => self.wait(params).await,
            method::TERMINAL_KILL if offer.terminal => self.kill(params).await,
            method::TERMINAL_RELEASE if offer.terminal => self.release(params),
            method::ELICITATION_CREATE if offer.elicitation_form || offer.elicitation_url => {
                self.elicit(params).await
            }
            _ => unknown(),
        }
    }

    async fn read(&mut self, params: Option<&str>) -> Result<Value, RpcError> {
        let params: ReadParams = refusal::params(self.method, params)?;
        let roots = self.shared.roots(&params.session_id)?;
        let leave = self.file_access(&params.session_id, &roots, ToolKind::Read, &params.path, None).await?;
        let limits = self.shared.settings.limits.files;
        let content =
            blocking(move || files::read(&roots, limits, &params, &|file| leave.holds(file))).await?;
        Ok(json!({"content": content}))
    }

    async fn write(&mut self, params: Option<&str>) -> Result<Value, RpcError> {
        let params: WriteParams = refusal::params(self.method, params)?;
        let roots = self.shared.roots(&params.session_id)?;
        let content = Some(params.content.as_str());
        let leave =
            self.file_access(&params.session_id, &roots, ToolKind::Edit, &params.path, content).await?;
        let limits = self.shared.settings.limits.files;
        blocking(move || files::write(&roots, limits, &params, &|file| leave.holds(file))).await?;
        Ok(json!({}))
    }

    async fn create(&mut self, params: Option<&str>) -> Result<Value, RpcError> {
        let params: CreateParams = refusal::params(self.method, params)?;
        let roots = self.shared.roots(&params.session_id)?;
        self.command_access(&roots, &params).await?;
        let ProviderSettings { limits, process_guard, .. } = &self.shared.settings;
        self.shared.state().terminals.create(&roots, limits.terminals, process_guard.as_ref(), &params)
    }

    fn find(&self, params: Option<&str>) -> Result<Arc<terminal::Process>, RpcError> {
        let params: TerminalParams = refusal::params(self.method, params)?;
        self.shared.state().terminals.find(&params)
    }

    async fn wait(&mut self, params: Option<&str>) -> Result<Value, RpcError> {
        let process = self.find(params)?;
        tokio::select! {
            status = process.wait() => Ok(terminal::exit_status(status)),
            why = self.ticket.cancelled() => match why {
                Why::Request => Err(refusal::cancelled(self.method)),
                // The turn was cancelled or the session closed: the command's end is still worth telling.
                Why::Session => Ok(terminal::exit_status(process.wait().await)),
            },
        }
    }

    async fn kill(&mut self, params: Option<&str>) -> Result<Value, RpcError> {
        let process = self.find(params)?;
        process.kill(self.shared.settings.limits.terminals.kill_grace).await;
        Ok(json!({}))
    }

    fn release(&mut self, params: Option<&str>) -> Result<Value, RpcError> {
        let params: TerminalParams = refusal::params(self.method, params)?;
        let process = self.shared.state().terminals.take(&params)?;
        process.destroy();
        Ok(json!({}))
    }

    async fn permission(&mut self, params: Option<&str>) -> Result<Value, RpcError> {
        let raw = params.unwrap_or("{}");
        let params: PermissionParams = refusal::params(self.method, params)?;
        let (id, session) = (params.tool_call_id()?, params.session_id.as_str());
        let folders = self.shared.roots(session).map(|roots| roots.folders()).unwrap_or_default();
        let (call, cancelled) = {
            let state = self.shared.state();
            let call = state.calls.facts(session, id, &params.tool_call).read();
            (call, state.sessions.get(session).is_some_and(Session::is_cancelled))
        };
        let subject = call.subject(id);
        if cancelled {
            self.note(session, &subject, PolicyVerdict::Deny, "the turn was cancelled");
            return Ok(permission::result(&PermissionOutcome::Cancelled));
        }
        let PolicyDecision { mut verdict, mut reason } = call.decide(&self.shared.settings.rules, &folders);
        // By their real names as they are now: that is what the person sees and decides about.
        let deeds = deeds(&call, &folders);
        if verdict == PolicyVerdict::Ask && self.is_standing(session, &deeds) {
            verdict = PolicyVerdict::Allow;
            "it was allowed for this session".clone_into(&mut reason);
        }
        self.note(session, &subject, verdict, &reason);
        let choices = params.choices();
        if verdict != PolicyVerdict::Ask {
            return Ok(permission::result(&choose_option(
                verdict,
                &permission::choices_for_policy(&choices),
            )));
        }
        let ask = Ask::Permission {
            title: call.title.clone().unwrap_or_else(|| id.to_owned()),
            kind: call.kind(),
            subjects: call.subjects(),
            options: choices.clone(),
            params: serde_json::from_str(raw).unwrap_or_default(),
        };
        let outcome = match self.ask(session, &subject, ask).await? {
            Some(UserAnswer::Option(id)) => match choices.iter().find(|choice| choice.id == id) {
                Some(choice) => {
                    self.grant(session, deeds, choice.kind);
                    PermissionOutcome::Selected(id)
                }
                None => PermissionOutcome::Cancelled,
            },
            Some(_) => PermissionOutcome::Cancelled,
            None => choose_option(PolicyVerdict::Ask, &permission::choices_for_policy(&choices)),
        };
        Ok(permission::result(&outcome))
    }

    /// What a person allows is allowed in exactly this form, and nothing else is.
    fn grant(
        &self,
        session: &str,
        deeds: impl IntoIterator<Item = Deed>,
        choice: Option<PermissionOptionKind>,
    ) {
        let span = match choice {
            Some(PermissionOptionKind::AllowOnce) => Span::Once,
            Some(PermissionOptionKind::AllowAlways) => Span::Session,
            _ => return,
        };
        let mut state = self.shared.state();
        let grants = &mut state.sessions.entry(session.to_owned()).or_default().grants;
        deeds.into_iter().for_each(|deed| grants.add(deed, span));
    }

    fn is_standing(&self, session: &str, deeds: &[Deed]) -> bool {
        let state = self.shared.state();
        let grants = state.sessions.get(session).map(|session| &session.grants);
        !deeds.is_empty() && grants.is_some_and(|grants| deeds.iter().all(|deed| grants.is_standing(deed)))
    }

    async fn elicit(&mut self, params: Option<&str>) -> Result<Value, RpcError> {
        let params: ElicitationParams = refusal::params(self.method, params)?;
        let ask = elicitation::ask(self.shared.settings.offer, &params)?;
        let session = params.session_id.unwrap_or_default();
        let elicited = match self.ask(&session, "a question to the person", ask).await? {
            Some(UserAnswer::Elicited(elicited)) => elicited,
            Some(_) => Elicited::Cancel,
            None => Elicited::Decline,
        };
        Ok(elicitation::result(&elicited))
    }

    /// Decides whether the client itself may use a file for the agent, by its real name.
    async fn file_access(
        &mut self,
        session: &str,
        roots: &Roots,
        kind: ToolKind,
        path: &Path,
        content: Option<&str>,
    ) -> Result<Leave, RpcError> {
        let subject = path.display().to_string();
        let root = roots.cwd().display().to_string();
        let leave = Leave { shared: Arc::clone(self.shared), kind, file: real::real_path(path), root };
        let wanted = (kind == ToolKind::Edit).then(|| Wanted {
            deed: Deed::Write(leave.file.clone()),
            always: Deed::WriteBelow(real::real_path(roots.cwd())),
            words: format!("every file change below {}", leave.root),
        });
        let decision = leave.decide(&subject, &leave.file);
        self.access(session, &subject, decision, wanted, content).await.map(|()| leave)
    }

    /// Decides whether the client itself may run a command for the agent.
    async fn command_access(&mut self, roots: &Roots, params: &CreateParams) -> Result<(), RpcError> {
        let (rules, session) = (&self.shared.settings.rules, params.session_id.as_str());
        let root = roots.cwd().display().to_string();
        let (line, whole) = (terminal::line(params), terminal::whole_line(params));
        let (stage, kind, action) = (ToolStage::Access, ToolKind::Execute, ToolAction::Command(&whole));
        let request = PolicyRequest { stage, kind, tools: &[], action, root: Some(&root) };
        let cwds: Vec<String> = params.cwd.iter().map(|cwd| cwd.to_string_lossy().into_owned()).collect();
        let decision = real::denial(rules, &request)
            .unwrap_or_else(|| command_rules::decide(rules, &request, &line, &cwds, &roots.folders()));
        let cwd = real::real_path(params.cwd.as_deref().unwrap_or_else(|| roots.cwd()));
        let subject = match &params.cwd {
            Some(folder) if cwd != real::real_path(roots.cwd()) => {
                format!("{line} (in {})", folder.display())
            }
            _ => line.clone(),
        };
        let words = "exactly this command".to_owned();
        let deed = Deed::Run { line, cwd };
        let wanted = Wanted { always: deed.clone(), deed, words };
        self.access(session, &subject, decision, Some(wanted), None).await
    }

    /// Asks where that must be, unless it was granted.
    async fn access(
        &mut self,
        session: &str,
        subject: &str,
        decision: PolicyDecision,
        wanted: Option<Wanted>,
        content: Option<&str>,
    ) -> Result<(), RpcError> {
        let PolicyDecision { mut verdict, mut reason } = decision;
        if verdict == PolicyVerdict::Ask
            && wanted.as_ref().is_some_and(|wanted| self.granted(session, &wanted.deed))
        {
            verdict = PolicyVerdict::Allow;
            "the person allowed exactly this".clone_into(&mut reason);
        }
        self.note(session, subject, verdict, &reason);
        if verdict == PolicyVerdict::Ask {
            let ask = Ask::Access {
                method: self.method.to_owned(),
                subject: subject.to_owned(),
                content: content.map(str::to_owned),
                always: wanted.as_ref().map(|wanted| wanted.words.clone()),
            };
            verdict = match self.ask(session, subject, ask).await? {
                Some(UserAnswer::Yes) => PolicyVerdict::Allow,
                Some(UserAnswer::Always) => {
                    let always = wanted.map(|wanted| wanted.always);
                    self.grant(session, always, Some(PermissionOptionKind::AllowAlways));
                    PolicyVerdict::Allow
                }
                Some(_) => {
                    "the person said no".clone_into(&mut reason);
                    PolicyVerdict::Deny
                }
                None => {
                    "there is nobody to ask".clone_into(&mut reason);
                    PolicyVerdict::Deny
                }
            };
        }
        if verdict == PolicyVerdict::Allow { Ok(()) } else { Err(refusal::denied(subject, &reason)) }
    }

    fn granted(&self, session: &str, deed: &Deed) -> bool {
        let mut state = self.shared.state();
        state.sessions.get_mut(session).is_some_and(|session| session.grants.take(deed))
    }

    /// Asks the person; `None` when there is none. A cancelled turn is [`UserAnswer::Cancelled`], a cancelled request
    /// an error.
    async fn ask(&mut self, session: &str, subject: &str, ask: Ask) -> Result<Option<UserAnswer>, RpcError> {
        let Some(person) = &self.shared.settings.person else {
            self.note(session, subject, PolicyVerdict::Deny, "there is nobody to ask");
            return Ok(None);
        };
        let (question, answer) = UserQuestion::new((!session.is_empty()).then(|| session.to_owned()), ask);
        let put = async {
            person.send(question).await.ok()?;
            answer.await.ok()
        };
        let asked = tokio::select! {
            asked = put => asked,
            why = self.ticket.cancelled() => match why {
                Why::Request => return Err(refusal::cancelled(self.method)),
                Why::Session => Some(UserAnswer::Cancelled),
            },
        };
        let (verdict, words) = match &asked {
            Some(UserAnswer::Option(id)) => (PolicyVerdict::Allow, format!("the person chose {id:?}")),
            Some(UserAnswer::Yes | UserAnswer::Always | UserAnswer::Elicited(Elicited::Accept(_))) => {
                (PolicyVerdict::Allow, "the person said yes".to_owned())
            }
            Some(UserAnswer::No | UserAnswer::Elicited(_)) => {
                (PolicyVerdict::Deny, "the person said no".to_owned())
            }
            Some(UserAnswer::Cancelled) => (PolicyVerdict::Deny, "cancelled".to_owned()),
            None => (PolicyVerdict::Deny, "the person did not answer".to_owned()),
        };
        self.note(session, subject, verdict, &words);
        Ok(Some(asked.unwrap_or(UserAnswer::Cancelled)))
    }

    fn note(&mut self, session: &str, subject: &str, verdict: PolicyVerdict, reason: &str) {
        self.log.push(DecisionRecord {
            method: self.method.to_owned(),
            session: (!session.is_empty()).then(|| session.to_owned()),
            subject: subject.to_owned(),
            verdict,
            reason: reason.to_owned(),
        });
    }
}

/// What the client is asked to do for an agent, and what more a person may allow at once.
struct Wanted {
    deed: Deed,
    always: Deed,
    /// `always` in words.
    words: String,
}

/// What a yes to a call allows the client to do for it.
fn deeds(call: &ToolCall, folders: &Folders) -> Vec<Deed> {
    // In which of several folders it would run, nobody knows.
    let cwd = match call.cwds() {
        [] => Some(folders.real(".")),
        [cwd] => Some(folders.real(cwd)),
        _ => None,
    };
    let run = |line: &String| cwd.clone().map(|cwd| Deed::Run { line: line.clone(), cwd });
    let runs = call.commands().iter().filter_map(run);
    let writes = call.kind() == ToolKind::Edit && call.commands().is_empty();
    let files = call.paths().filter(|_| writes).map(|path| Deed::Write(folders.real(path)));
    runs.chain(files).collect()
}

/// Leave to use one file, which may turn out to be another one when it is opened.
struct Leave {
    shared: Arc<Shared>,
    kind: ToolKind,
    file: PathBuf,
    root: String,
}

impl Leave {
    /// What the rules say about a path that leads to this file.
    fn decide(&self, path: &str, file: &Path) -> PolicyDecision {
        let (action, root) = (ToolAction::Path(path), Some(self.root.as_str()));
        let request = PolicyRequest { stage: ToolStage::Access, kind: self.kind, tools: &[], action, root };
        real::decide_file(&self.shared.settings.rules, &request, file)
    }

    /// Whether the file that was opened may be used.
    fn holds(&self, opened: &Path) -> Result<(), RpcError> {
        if opened == self.file {
            return Ok(());
        }
        let name = opened.display().to_string();
        match self.decide(&name, opened) {
            PolicyDecision { verdict: PolicyVerdict::Allow, .. } => Ok(()),
            PolicyDecision { reason, .. } => {
                let subject = self.file.display().to_string();
                Err(refusal::denied(&subject, &format!("it was exchanged for {name}: {reason}")))
            }
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(RpcError::internal(format!("the file operation did not finish: {error}"))),
    }
}
