//! One request, from its method to its answer.

use std::sync::Arc;

use acp_policy::{Action, Class, Decision, Outcome, Request, Stage, ToolKind, Verdict, choose_option};
use acp_rpc::RpcError;
use serde_json::{Value, json};

use super::pending::{Ticket, Why};
use super::session::Session;
use super::{Settings, Shared};
use crate::Elicited;
use crate::elicitation::{self, ElicitationParams};
use crate::files::{self, ReadParams, WriteParams};
use crate::jail::Roots;
use crate::permission::{self, PermissionParams, ToolCalls};
use crate::question::{Ask, Asked, Question};
use crate::real;
use crate::record::Record;
use crate::refusal;
use crate::terminal::{self, CreateParams, TerminalParams};

/// One request on its way to an answer.
pub(super) struct Call<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) method: &'a str,
    pub(super) log: &'a mut Vec<Record>,
    pub(super) ticket: Ticket,
}

impl Call<'_> {
    pub(super) async fn dispatch(&mut self, params: Option<&str>) -> Result<Value, RpcError> {
        let offer = self.shared.settings.offer;
        let unknown = || Err(RpcError::method_not_found(self.method));
        match self.method {
            "session/request_permission" => self.permission(params).await,
            "fs/read_text_file" if offer.read_text_file => self.read(params).await,
            "fs/write_text_file" if offer.write_text_file => self.write(params).await,
            "terminal/create" if offer.terminal => self.create(params).await,
            "terminal/output" if offer.terminal => Ok(terminal::output(&*self.find(params)?)),
            "terminal/wait_for_exit" if offer.terminal => self.wait(params).await,
            "terminal/kill" if offer.terminal => self.kill(params).await,
            "terminal/release" if offer.terminal => self.release(params),
            "elicitation/create" if offer.elicitation_form || offer.elicitation_url => {
                self.elicit(params).await
            }
            _ => unknown(),
        }
    }

    async fn read(&mut self, params: Option<&str>) -> Result<Value, RpcError> {
        let params: ReadParams = refusal::params(self.method, params)?;
        let roots = self.shared.roots(&params.session_id)?;
        let subject = params.path.display().to_string();
        self.access(&params.session_id, &roots, ToolKind::Read, Action::Path(&subject)).await?;
        let limits = self.shared.settings.limits.files;
        let content = blocking(move || files::read(&roots, limits, &params)).await?;
        Ok(json!({"content": content}))
    }

    async fn write(&mut self, params: Option<&str>) -> Result<Value, RpcError> {
        let params: WriteParams = refusal::params(self.method, params)?;
        let roots = self.shared.roots(&params.session_id)?;
        let subject = params.path.display().to_string();
        self.access(&params.session_id, &roots, ToolKind::Edit, Action::Path(&subject)).await?;
        let limits = self.shared.settings.limits.files;
        blocking(move || files::write(&roots, limits, &params)).await?;
        Ok(json!({}))
    }

    async fn create(&mut self, params: Option<&str>) -> Result<Value, RpcError> {
        let params: CreateParams = refusal::params(self.method, params)?;
        let roots = self.shared.roots(&params.session_id)?;
        let line = terminal::line(&params);
        self.access(&params.session_id, &roots, ToolKind::Execute, Action::Command(&line)).await?;
        let Settings { limits, leash, .. } = &self.shared.settings;
        self.shared.state().terminals.create(&roots, limits.terminals, leash.as_ref(), &params)
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
        let call = params.tool_call_id()?;
        let (facts, root, cancelled) = {
            let state = self.shared.state();
            let session = state.sessions.get(&params.session_id);
            let facts = session.map_or_else(
                || ToolCalls::default().facts(call, &params.tool_call),
                |session| session.calls.facts(call, &params.tool_call),
            );
            let root = session.and_then(|s| s.roots.as_ref()).map(|r| r.cwd().display().to_string());
            (facts, root, session.is_some_and(Session::is_cancelled))
        };
        let subject = facts.subject(call);
        if cancelled {
            self.note(&params.session_id, &subject, Verdict::Deny, "the turn was cancelled");
            return Ok(permission::result(&Outcome::Cancelled));
        }
        let rules = &self.shared.settings.rules;
        let decision = facts.decide(rules, root.as_deref());
        self.note(&params.session_id, &subject, decision.verdict, &decision.reason);
        let choices = params.choices();
        let outcome = if decision.verdict == Verdict::Ask {
            let ask = Ask::Permission {
                title: facts.title.clone().unwrap_or_else(|| call.to_owned()),
                kind: facts.kind(),
                options: choices.clone(),
                params: serde_json::from_str(raw).unwrap_or_default(),
            };
            match self.ask(&params.session_id, &subject, ask).await? {
                Some(Asked::Option(id)) if choices.iter().any(|choice| choice.id == id) => {
                    Outcome::Selected(id)
                }
                Some(_) => Outcome::Cancelled,
                None => choose_option(Verdict::Ask, &permission::choices_for_policy(&choices)),
            }
        } else {
            choose_option(decision.verdict, &permission::choices_for_policy(&choices))
        };
        if let Outcome::Selected(id) = &outcome
            && choices.iter().any(|choice| choice.id == *id && choice.kind.allows())
        {
            let mut state = self.shared.state();
            state.sessions.entry(params.session_id.clone()).or_default().grant(facts.kind().class());
        }
        Ok(permission::result(&outcome))
    }

    async fn elicit(&mut self, params: Option<&str>) -> Result<Value, RpcError> {
        let params: ElicitationParams = refusal::params(self.method, params)?;
        let ask = elicitation::ask(self.shared.settings.offer, &params)?;
        let session = params.session_id.unwrap_or_default();
        let elicited = match self.ask(&session, "a question to the person", ask).await? {
            Some(Asked::Elicited(elicited)) => elicited,
            Some(_) => Elicited::Cancel,
            None => Elicited::Decline,
        };
        Ok(elicitation::result(&elicited))
    }

    /// Decides whether the client itself may do something for the agent.
    async fn access(
        &mut self,
        session: &str,
        roots: &Roots,
        kind: ToolKind,
        action: Action<'_>,
    ) -> Result<(), RpcError> {
        let (Action::Path(subject) | Action::Command(subject)) = action else { return Ok(()) };
        let root = roots.cwd().display().to_string();
        let request = Request { stage: Stage::Access, kind, tools: &[], action, root: Some(&root) };
        let Decision { mut verdict, mut reason } = real::decide(&self.shared.settings.rules, &request);
        if verdict == Verdict::Ask && self.granted(session, kind.class()) {
            verdict = Verdict::Allow;
            reason = "permission for a tool call of this turn was given".to_owned();
        }
        self.note(session, subject, verdict, &reason);
        if verdict == Verdict::Ask {
            let ask = Ask::Access { method: self.method.to_owned(), subject: subject.to_owned() };
            verdict = match self.ask(session, subject, ask).await? {
                Some(Asked::Yes) => Verdict::Allow,
                Some(_) => {
                    "the person said no".clone_into(&mut reason);
                    Verdict::Deny
                }
                None => {
                    "there is nobody to ask".clone_into(&mut reason);
                    Verdict::Deny
                }
            };
        }
        if verdict == Verdict::Allow { Ok(()) } else { Err(refusal::denied(subject, &reason)) }
    }

    fn granted(&self, session: &str, class: Class) -> bool {
        self.shared.state().sessions.get(session).is_some_and(|s| s.granted(class))
    }

    /// Asks the person; `None` when there is none. A cancelled turn is [`Asked::Cancelled`], a cancelled request
    /// an error.
    async fn ask(&mut self, session: &str, subject: &str, ask: Ask) -> Result<Option<Asked>, RpcError> {
        let Some(person) = &self.shared.settings.person else {
            self.note(session, subject, Verdict::Deny, "there is nobody to ask");
            return Ok(None);
        };
        let (question, answer) = Question::new((!session.is_empty()).then(|| session.to_owned()), ask);
        let put = async {
            person.send(question).await.ok()?;
            answer.await.ok()
        };
        let asked = tokio::select! {
            asked = put => asked,
            why = self.ticket.cancelled() => match why {
                Why::Request => return Err(refusal::cancelled(self.method)),
                Why::Session => Some(Asked::Cancelled),
            },
        };
        let (verdict, words) = match &asked {
            Some(Asked::Option(id)) => (Verdict::Allow, format!("the person chose {id:?}")),
            Some(Asked::Yes | Asked::Elicited(Elicited::Accept(_))) => {
                (Verdict::Allow, "the person said yes".to_owned())
            }
            Some(Asked::No | Asked::Elicited(_)) => (Verdict::Deny, "the person said no".to_owned()),
            Some(Asked::Cancelled) => (Verdict::Deny, "cancelled".to_owned()),
            None => (Verdict::Deny, "the person did not answer".to_owned()),
        };
        self.note(session, subject, verdict, &words);
        Ok(Some(asked.unwrap_or(Asked::Cancelled)))
    }

    fn note(&mut self, session: &str, subject: &str, verdict: Verdict, reason: &str) {
        self.log.push(Record {
            method: self.method.to_owned(),
            session: (!session.is_empty()).then(|| session.to_owned()),
            subject: subject.to_owned(),
            verdict,
            reason: reason.to_owned(),
        });
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
