//! Client requests: which there are, and the short ones.

use std::collections::BTreeMap;

use acp_proto::{error_code, method};
use acp_rpc::{Id, RpcError};
use serde_json::{Value, json};

use super::habits::{Habits, LoginGate, SecondPrompt};
use super::offers;
use super::params::{self, Params};
use super::persona::MODE_OPTION;
use super::session::OpenSession;
use super::{Agent, Auth, ClientCaps, invalid_request};

/// The protocol version this agent speaks.
const VERSION: u64 = 1;

/// Whether the agent answers requests of this name.
pub(super) fn is_request(method: &str) -> bool {
    matches!(
        method,
        method::INITIALIZE
            | method::AUTHENTICATE
            | method::LOGOUT
            | method::SESSION_NEW
            | method::SESSION_LOAD
            | method::SESSION_RESUME
            | method::SESSION_LIST
            | method::SESSION_CLOSE
            | method::SESSION_DELETE
            | method::SESSION_SET_MODE
            | method::SESSION_SET_CONFIG_OPTION
            | method::SESSION_PROMPT
    )
}

impl Agent {
    pub(super) fn serve(&mut self, id: &Id, method: &str, params: &Params) -> Result<(), RpcError> {
        if method != method::INITIALIZE {
            self.settled = true;
        }
        if Habits::feature(method).is_some_and(|feature| !self.cx.config.habits.has(feature)) {
            return Err(RpcError::method_not_found(method));
        }
        match method {
            method::INITIALIZE => self.initialize(id, params),
            method::AUTHENTICATE => self.authenticate(id, params),
            method::LOGOUT => self.logout(id),
            method::SESSION_NEW => self.new_session(id, params),
            method::SESSION_LOAD if self.cx.config.load_session => self.load(id, params),
            method::SESSION_RESUME => self.resume(id, params),
            method::SESSION_LIST => self.list(id, params),
            method::SESSION_CLOSE => self.close(id, params),
            method::SESSION_DELETE => self.delete(id, params),
            method::SESSION_SET_MODE => self.set_mode(id, params),
            method::SESSION_SET_CONFIG_OPTION => self.set_config_option(id, params),
            method::SESSION_PROMPT => self.prompt(id, params),
            _ => Err(RpcError::method_not_found(method)),
        }
    }

    fn initialize(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        if self.settled {
            return Err(invalid_request("initialize came a second time, after other requests"));
        }
        let version = match params.value().get("protocolVersion") {
            Some(Value::Number(n)) => n.as_u64().filter(|version| u16::try_from(*version).is_ok()),
            Some(_) => None,
            None => return Err(RpcError::invalid_params("params.protocolVersion is missing")),
        };
        let Some(version) = version else {
            return Err(RpcError::invalid_params(
                "params.protocolVersion must be an integer from 0 to 65535",
            ));
        };
        let caps = ClientCaps::read(params.value().get("clientCapabilities"));
        self.cx.client = Some(caps);
        let mut result = offers::agent(&self.cx.config, caps);
        let agreed = self.cx.config.habits.version(version);
        if agreed != VERSION {
            result = offers::later(&result);
        }
        result["protocolVersion"] = json!(agreed);
        self.cx.respond(id, &result);
        Ok(())
    }

    fn authenticate(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let method = params.text("methodId")?;
        if self.cx.config.habits.login == LoginGate::Absent {
            return Err(RpcError::invalid_params(format!("params.methodId: there is no login {method:?}")));
        }
        let given = given_token(params.value());
        // A client that logs in with a token and nothing else calls the method by that name.
        let by_token = method == "token" && given.is_some();
        if method != self.cx.config.persona.login.id && !by_token {
            return Err(RpcError::invalid_params(format!(
                "params.methodId: {method:?} is not one of authMethods that can be used here"
            )));
        }
        let wrong = match &self.cx.config.auth {
            Auth::Required(Some(token)) => given.is_some_and(|given| given != token),
            Auth::Token(token) => given != Some(token),
            Auth::SignedIn | Auth::Required(None) => false,
        };
        if wrong && !self.admitted {
            return Err(RpcError::new(error_code::AUTH_REQUIRED, "the token is not the expected one"));
        }
        self.signed_in = true;
        self.cx.respond(id, &json!({}));
        Ok(())
    }

    fn logout(&mut self, id: &Id) -> Result<(), RpcError> {
        self.signed_in = false;
        self.cx.respond(id, &json!({}));
        Ok(())
    }

    fn set_mode(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let session = params.text("sessionId")?;
        let mode = params.text("modeId")?;
        self.gate()?;
        let open = known(&mut self.sessions, session)?;
        let called = self.cx.mode_called(mode).map(str::to_owned);
        let mode = called.map_err(|reason| RpcError::invalid_params(format!("params.modeId: {reason}")))?;
        open.session.change_mode(&mut self.cx, &mode);
        self.cx.respond(id, &json!({}));
        Ok(())
    }

    fn set_config_option(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let session = params.text("sessionId")?;
        let option = params.text("configId")?;
        let value =
            params.value().get("value").ok_or_else(|| RpcError::invalid_params("params.value is missing"))?;
        self.gate()?;
        let OpenSession { session, .. } = known(&mut self.sessions, session)?;
        let offer = offers::find(&self.cx.config.persona, option, self.cx.caps()).ok_or_else(|| {
            RpcError::invalid_params(format!("params.configId: there is no option {option:?}"))
        })?;
        let typed = params.value().get("type").and_then(Value::as_str);
        if !offer.takes(value, typed) {
            if let (MODE_OPTION, Some(mode)) = (option, value.as_str()) {
                self.cx
                    .mode_called(mode)
                    .map_err(|reason| RpcError::invalid_params(format!("params.value: {reason}")))?;
            }
            return Err(RpcError::invalid_params(format!(
                "params.value: {value} is not a value of {option:?}"
            )));
        }
        if option == MODE_OPTION {
            session.set_mode(&mut self.cx, value.as_str().unwrap_or_default());
        } else {
            session.set_option(&mut self.cx, option, value);
        }
        let options = session.options(&self.cx);
        self.cx.respond(id, &json!({ "configOptions": options }));
        Ok(())
    }

    fn prompt(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let session = params.text("sessionId")?;
        let blocks = params.list("prompt")?;
        params::content_blocks(blocks)?;
        self.gate()?;
        let open = known(&mut self.sessions, session)?;
        if open.turn.is_some() && self.cx.config.habits.second_prompt == SecondPrompt::Queue {
            open.session.queue.push_back((id.clone(), blocks.to_vec()));
            return Ok(());
        }
        open.idle()?;
        if let Some(failure) = &self.cx.config.prompt_error {
            let error = RpcError::new(failure.code, "this agent was started to fail on every prompt");
            return Err(match &failure.reason {
                Some(reason) => error.with_data(json!({ "reason": reason })),
                None => error,
            });
        }
        open.prompt(&mut self.cx, id, blocks);
        Ok(())
    }
}

/// The open session of this id.
pub(super) fn known<'a>(
    sessions: &'a mut BTreeMap<String, OpenSession>,
    session: &str,
) -> Result<&'a mut OpenSession, RpcError> {
    sessions.get_mut(session).ok_or_else(|| unknown_session(session))
}

/// The token of `authenticate`: in `_meta`, or where a translation from another form put it there.
fn given_token(params: &Value) -> Option<&str> {
    let meta = params.get("_meta")?.as_object()?;
    let places = std::iter::once(meta.get("token")).chain(meta.values().map(|inner| inner.get("token")));
    places.flatten().find_map(Value::as_str)
}

/// -32002, with the session in `data`.
pub(crate) fn unknown_session(session: &str) -> RpcError {
    RpcError::new(error_code::RESOURCE_NOT_FOUND, format!("session not found: {session}"))
        .with_data(json!({ "sessionId": session }))
}
