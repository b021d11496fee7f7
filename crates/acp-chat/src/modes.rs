//! The modes and config options of a session: what can be set, and what is set now.

use agent_client_protocol_schema::v1::{
    SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory, SessionConfigOptionValue,
    SessionConfigSelect, SessionConfigSelectOptions as Choices, SessionConfigValueId, SessionModeState,
    SessionUpdate,
};

/// Why a mode or an option cannot be set.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ModeError {
    /// No mode of this name.
    #[error("there is no mode {word:?}: the agent has {}", if known.is_empty() { "no modes" } else { known })]
    NoSuchMode {
        /// What was asked for.
        word: String,
        /// What there is.
        known: String,
    },
    /// There are no options at all.
    #[error("the agent has no options to set")]
    NoOptions,
    /// No option of this name.
    #[error("there is no option {option:?}: the agent has {known}")]
    NoSuchOption {
        /// What was asked for.
        option: String,
        /// What there is.
        known: String,
    },
    /// The option has other values.
    #[error("{option} {known}")]
    NoSuchValue {
        /// The option.
        option: String,
        /// What it can be.
        known: String,
    },
    /// The option's kind is not known here.
    #[error("{0} is of a kind that cannot be set here")]
    NotSettable(String),
}

/// What an agent lets its client set.
#[derive(Debug, Default)]
pub struct Modes {
    /// The list of modes.
    pub state: Option<SessionModeState>,
    /// The config options, one of which may stand for the mode.
    pub options: Vec<SessionConfigOption>,
}

/// Something to choose from: id and name of each choice, and the id of the current one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Menu {
    /// Ids and names.
    pub choices: Vec<(String, String)>,
    /// What is set now.
    pub current: String,
}

impl Menu {
    /// The choice that a person means: by its id, its number in the list, or its name.
    pub fn pick(&self, word: &str) -> Option<&str> {
        let by_id = self.choices.iter().find(|(id, _)| id == word);
        let by_number = || self.choices.get(word.parse::<usize>().ok()?.checked_sub(1)?);
        let by_name = || self.choices.iter().find(|(_, name)| name.eq_ignore_ascii_case(word));
        by_id.or_else(by_number).or_else(by_name).map(|(id, _)| id.as_str())
    }

    /// One line for each choice, with its number and a mark at the current one.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.choices.iter().enumerate().map(|(at, (id, name))| {
            let mark = if *id == self.current { '*' } else { ' ' };
            let name = if id == name { "" } else { name };
            format!("{mark} {}  {id}  {name}", at + 1).trim_end().to_owned()
        })
    }
}

impl Modes {
    /// The modes: those of the config option that stands for the mode, or the agent's list.
    pub fn menu(&self) -> Menu {
        if let Some((_, select)) = self.option() {
            return menu_of(select);
        }
        let Some(state) = &self.state else { return Menu::default() };
        let modes = state.available_modes.iter();
        Menu {
            choices: modes.map(|mode| (mode.id.0.to_string(), mode.name.clone())).collect(),
            current: state.current_mode_id.0.to_string(),
        }
    }

    /// The id of the config option that stands for the mode.
    pub fn option_id(&self) -> Option<String> {
        self.option().map(|(option, _)| option.id.0.to_string())
    }

    fn option(&self) -> Option<(&SessionConfigOption, &SessionConfigSelect)> {
        self.options.iter().find_map(|option| match &option.kind {
            SessionConfigKind::Select(select)
                if matches!(option.category, Some(SessionConfigOptionCategory::Mode)) =>
            {
                Some((option, select))
            }
            _ => None,
        })
    }

    /// Takes what an update says about modes and options.
    pub fn learn(&mut self, update: &SessionUpdate) {
        match update {
            SessionUpdate::CurrentModeUpdate(mode) => {
                if let Some(state) = &mut self.state {
                    state.current_mode_id = mode.current_mode_id.clone();
                }
            }
            SessionUpdate::ConfigOptionUpdate(update) => self.options.clone_from(&update.config_options),
            _ => {}
        }
    }

    /// Each config option in a line, with its value and what else it can be.
    pub fn option_lines(&self) -> Vec<String> {
        let line = |option: &SessionConfigOption| {
            let (id, name) = (&option.id.0, &option.name);
            match &option.kind {
                SessionConfigKind::Boolean(flag) => {
                    format!("{id} = {}  {name} (true or false)", flag.current_value)
                }
                SessionConfigKind::Select(select) => {
                    let menu = menu_of(select);
                    let ids: Vec<&str> = menu.choices.iter().map(|(id, _)| id.as_str()).collect();
                    format!("{id} = {}  {name} ({})", menu.current, ids.join(", "))
                }
                _ => format!("{id}  {name} (cannot be set here)"),
            }
        };
        self.options.iter().map(line).collect()
    }

    /// The ids of the config options.
    pub fn option_ids(&self) -> Vec<String> {
        self.options.iter().map(|option| option.id.0.to_string()).collect()
    }

    /// The value that a person means for an option.
    pub fn value_for(&self, option: &str, word: &str) -> Result<SessionConfigOptionValue, ModeError> {
        let name = || option.to_owned();
        let Some(found) = self.options.iter().find(|found| &*found.id.0 == option) else {
            return Err(match self.options.is_empty() {
                true => ModeError::NoOptions,
                false => ModeError::NoSuchOption { option: name(), known: self.option_ids().join(", ") },
            });
        };
        match &found.kind {
            SessionConfigKind::Boolean(_) => match word.to_lowercase().as_str() {
                "true" | "on" | "yes" => Ok(true.into()),
                "false" | "off" | "no" => Ok(false.into()),
                _ => {
                    let known = format!("is true or false, not {word:?}");
                    Err(ModeError::NoSuchValue { option: name(), known })
                }
            },
            SessionConfigKind::Select(select) => {
                let menu = menu_of(select);
                let value = menu.pick(word).ok_or_else(|| {
                    let ids: Vec<&str> = menu.choices.iter().map(|(id, _)| id.as_str()).collect();
                    let known = format!("cannot be {word:?}: it can be {}", ids.join(", "));
                    ModeError::NoSuchValue { option: name(), known }
                })?;
                Ok(SessionConfigValueId::new(value).into())
            }
            _ => Err(ModeError::NotSettable(name())),
        }
    }
}

fn menu_of(select: &SessionConfigSelect) -> Menu {
    let values = match &select.options {
        Choices::Ungrouped(values) => values.iter().collect::<Vec<_>>(),
        Choices::Grouped(groups) => groups.iter().flat_map(|group| &group.options).collect(),
        _ => Vec::new(),
    };
    Menu {
        choices: values.iter().map(|value| (value.value.0.to_string(), value.name.clone())).collect(),
        current: select.current_value.0.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn modes() -> Modes {
        let state = json!({"currentModeId": "ask", "availableModes": [
            {"id": "ask", "name": "Ask"}, {"id": "2", "name": "Two"}, {"id": "code", "name": "Code"}]});
        let options = json!([
            {"id": "model", "name": "Model", "type": "select", "currentValue": "a",
             "options": [{"value": "a", "name": "A"}, {"value": "b", "name": "B"}]},
            {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": false}]);
        Modes {
            state: Some(serde_json::from_value(state).expect("modes")),
            options: serde_json::from_value(options).expect("options"),
        }
    }

    #[test]
    fn a_mode_is_picked_by_id_number_or_name() {
        let menu = modes().menu();
        let picked = |word| menu.pick(word);
        assert_eq!(picked("code"), Some("code"));
        assert_eq!(picked("3"), Some("code"));
        assert_eq!(picked("2"), Some("2"), "an id comes before a number");
        assert_eq!(picked("ASK"), Some("ask"));
        assert_eq!((picked("0"), picked("9"), picked("")), (None, None, None));
        assert_eq!(menu.lines().collect::<Vec<_>>(), ["* 1  ask  Ask", "  2  2  Two", "  3  code  Code"]);
    }

    #[test]
    fn updates_change_what_is_current() {
        let mut modes = modes();
        let update = json!({"sessionUpdate": "current_mode_update", "currentModeId": "code"});
        modes.learn(&serde_json::from_value(update).expect("an update"));
        assert_eq!(modes.menu().current, "code");
    }

    #[test]
    fn options_are_listed_and_values_checked() {
        let modes = modes();
        assert_eq!(modes.option_lines(), ["model = a  Model (a, b)", "fast = false  Fast (true or false)"]);
        assert_eq!(modes.value_for("fast", "on").expect("a value"), true.into());
        assert_eq!(modes.value_for("model", "2").expect("a value"), "b".into());
        for (option, word, words) in
            [("model", "c", "it can be a, b"), ("fast", "maybe", "true or false"), ("x", "y", "model, fast")]
        {
            let error = modes.value_for(option, word).expect_err(word).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
