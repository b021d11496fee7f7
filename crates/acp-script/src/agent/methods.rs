//! Client requests: which there are, and the short ones.

use acp_proto::{error_code, method, update};
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
        if Habits::feature(method).is_some_and(|feature| !self.config.habits.has(feature)) {
            return Err(RpcError::method_not_found(method));
        }
        match method {
            method::INITIALIZE => self.initialize(id, params),
            method::AUTHENTICATE => self.authenticate(id, params),
            method::LOGOUT => self.logout(id),
            method::SESSION_NEW => self.new_session(id, params),
            method::SESSION_LOAD if self.config.load_session => self.load(id, params),
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
        if wrong && !self.admitted {
            return Err(RpcError::new(error_code::AUTH_REQUIRED, "the token is not the expected one"));
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
            self.update(
                session,
                &json!({ "sessionUpdate": update::CURRENT_MODE_UPDATE, "currentModeId": mode }),
            );
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
        self.update(session, &json!({ "sessionUpdate": update::CURRENT_MODE_UPDATE, "currentModeId": mode }));
        let options = self.options(session);
        if options.as_array().is_some_and(|options| !options.is_empty()) {
            self.update(
                session,
                &json!({ "sessionUpdate": update::CONFIG_OPTION_UPDATE, "configOptions": options }),
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
    RpcError::new(error_code::RESOURCE_NOT_FOUND, format!("session not found: {session}"))
        .with_data(json!({ "sessionId": session }))
}
