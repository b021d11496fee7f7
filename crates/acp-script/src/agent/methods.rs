//! Client requests: which there are, and the short ones.

use acp_rpc::{Id, RpcError};
use serde_json::{Value, json};

use super::habits::{Habits, LoginGate};
use super::offers;
use super::params::Params;
use super::persona::MODE_OPTION;
use super::{Agent, Auth, ClientCaps, invalid_request};
use crate::switch::Switch;

/// The protocol version this agent speaks.
const VERSION: u64 = 1;

/// Whether the agent answers requests of this name.
pub(super) fn is_request(method: &str) -> bool {
    matches!(
        method,
        "initialize"
            | "authenticate"
            | "logout"
            | "session/new"
            | "session/load"
            | "session/resume"
            | "session/list"
            | "session/close"
            | "session/delete"
            | "session/set_mode"
            | "session/set_config_option"
            | "session/prompt"
    )
}

impl Agent {
    pub(super) fn serve(&mut self, id: &Id, method: &str, params: &Params) -> Result<(), RpcError> {
        if method != "initialize" {
            self.settled = true;
        }
        if Habits::feature(method).is_some_and(|feature| !self.config.habits.has(feature)) {
            return Err(RpcError::method_not_found(method));
        }
        match method {
            "initialize" => self.initialize(id, params),
            "authenticate" => self.authenticate(id, params),
            "logout" => self.logout(id),
            "session/new" => self.new_session(id, params),
            "session/load" if self.config.load_session => self.load(id, params),
            "session/resume" => self.resume(id, params),
            "session/list" => self.list(id, params),
            "session/close" => self.close(id, params),
            "session/delete" => self.delete(id, params),
            "session/set_mode" => self.set_mode(id, params),
            "session/set_config_option" => self.set_config_option(id, params),
            "session/prompt" => self.prompt(id, params),
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
        if self.wrong(Switch::StrictCapabilities)
            && let Some(Value::Object(given)) = params.value().get("clientCapabilities")
            && let Some(unknown) =
                given.keys().find(|key| !offers::CLIENT_CAPABILITIES.contains(&key.as_str()))
        {
            return Err(RpcError::invalid_params(format!("params.clientCapabilities.{unknown} is unknown")));
        }
        let caps = ClientCaps::read(params.value().get("clientCapabilities"));
        self.client = Some(caps);
        let mut result = offers::agent(&self.config, caps);
        let agreed = self.config.habits.version(version);
        if agreed != VERSION {
            result = offers::later(&result);
        }
        result["protocolVersion"] = json!(agreed);
        self.respond(id, &result);
        Ok(())
    }

    fn authenticate(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let method = params.text("methodId")?;
        if self.config.habits.login == LoginGate::Absent {
            return Err(RpcError::invalid_params(format!("params.methodId: there is no login {method:?}")));
        }
        let given = given_token(params.value());
        // A client that logs in with a token and nothing else calls the method by that name.
        let by_token = method == "token" && given.is_some();
        if method != self.config.persona.login.id && !by_token {
            return Err(RpcError::invalid_params(format!(
                "params.methodId: {method:?} is not one of authMethods that can be used here"
            )));
        }
        let wrong = match &self.config.auth {
            Auth::Required(Some(token)) => given.is_some_and(|given| given != token),
            Auth::Token(token) => given != Some(token),
            Auth::SignedIn | Auth::Required(None) => false,
        };
        if wrong {
            return Err(RpcError::new(-32000, "the token is not the expected one"));
        }
        self.signed_in = true;
        self.respond(id, &json!({}));
        Ok(())
    }

    fn logout(&mut self, id: &Id) -> Result<(), RpcError> {
        self.signed_in = false;
        self.respond(id, &json!({}));
        Ok(())
    }

    fn set_mode(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let session = params.text("sessionId")?;
        let mode = params.text("modeId")?;
        self.gate()?;
        self.known(session)?;
        let called = self.mode_called(mode).map(str::to_owned);
        let mode = called.map_err(|reason| RpcError::invalid_params(format!("params.modeId: {reason}")))?;
        self.change_mode(session, &mode);
        self.respond(id, &json!({}));
        Ok(())
    }

    fn set_config_option(&mut self, id: &Id, params: &Params) -> Result<(), RpcError> {
        let session = params.text("sessionId")?;
        let option = params.text("configId")?;
        let value =
            params.value().get("value").ok_or_else(|| RpcError::invalid_params("params.value is missing"))?;
        self.gate()?;
        self.known(session)?;
        let offer = offers::find(&self.config.persona, option, self.caps()).ok_or_else(|| {
            RpcError::invalid_params(format!("params.configId: there is no option {option:?}"))
        })?;
        let typed = params.value().get("type").and_then(Value::as_str);
        if !offer.takes(value, typed) {
            if let (MODE_OPTION, Some(mode)) = (option, value.as_str()) {
                self.mode_called(mode)
                    .map_err(|reason| RpcError::invalid_params(format!("params.value: {reason}")))?;
            }
            return Err(RpcError::invalid_params(format!(
                "params.value: {value} is not a value of {option:?}"
            )));
        }
        if option == MODE_OPTION {
            let mode = value.as_str().unwrap_or_default().to_owned();
            self.change_mode_quietly(session, &mode);
            self.update(session, &json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode }));
        } else {
            self.change_option(session, option, value);
        }
        let options = self.options(session);
        self.respond(id, &json!({ "configOptions": options }));
        Ok(())
    }

    /// Changes the mode and tells the client in both forms.
    pub(super) fn change_mode(&mut self, session: &str, mode: &str) {
        self.change_mode_quietly(session, mode);
        self.update(session, &json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode }));
        let options = self.options(session);
        if options.as_array().is_some_and(|options| !options.is_empty()) {
            self.update(
                session,
                &json!({ "sessionUpdate": "config_option_update", "configOptions": options }),
            );
        }
    }

    fn change_mode_quietly(&mut self, session: &str, mode: &str) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.record.mode = mode.to_owned();
        }
        self.touch(session);
    }

    pub(super) fn change_option(&mut self, session: &str, option: &str, value: &Value) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.record.config.insert(option.to_owned(), value.clone());
        }
        self.touch(session);
    }

    /// The complete list of config options of a session.
    pub(super) fn options(&self, session: &str) -> Value {
        self.sessions
            .get(session)
            .map_or(json!([]), |session| offers::options(&self.config.persona, &session.record, self.caps()))
    }

    /// Refuses an id that names no open session.
    pub(super) fn known(&self, session: &str) -> Result<(), RpcError> {
        if self.sessions.contains_key(session) { Ok(()) } else { Err(unknown_session(session)) }
    }
}

/// The token of `authenticate`: in `_meta`, or where a translation from another form put it there.
fn given_token(params: &Value) -> Option<&str> {
    let meta = params.get("_meta")?.as_object()?;
    let places = std::iter::once(meta.get("token")).chain(meta.values().map(|inner| inner.get("token")));
    places.flatten().find_map(Value::as_str)
}

/// -32002, with the session in `data`.
pub(super) fn unknown_session(session: &str) -> RpcError {
    RpcError::new(-32002, format!("session not found: {session}")).with_data(json!({ "sessionId": session }))
}
