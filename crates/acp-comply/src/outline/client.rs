//! The steps of client tests in words.

use super::{plain, short};
use crate::json::Json;
use crate::program::{ClientLook, ClientStep, Witness};
use acp_rules::ClaimId;

/// What a step does.
pub(super) fn words(step: &ClientStep) -> String {
    match step {
        ClientStep::Drive { verb, fields, .. } => {
            let with: Vec<String> =
                fields.members().iter().map(|member| value_words(&member.value)).collect();
            let with = if with.is_empty() { String::new() } else { format!(" ({})", with.join(", ")) };
            format!("let the client {verb}{with}")
        }
        ClientStep::Answer { to, all: true, .. } => format!("answer every open {}", plain(to)),
        ClientStep::Answer { to, .. } => format!("answer the open {}", plain(to)),
        ClientStep::Alive { timeout } => {
            format!("expect that the client still answers, within {} ms", timeout.as_millis())
        }
        ClientStep::Stderr { times, .. } => format!("write to standard error, {times} times"),
        ClientStep::Exit { code } => format!("end the agent's process with code {code}"),
        ClientStep::Look(look) => looks(look),
        ClientStep::Process { running: true, .. } => "expect that the process lives".to_owned(),
        ClientStep::Process { .. } => "expect that the process does not live".to_owned(),
        ClientStep::Judged { none } => {
            let ids: Vec<&str> = none.iter().map(ClaimId::as_str).collect();
            format!("expect that the judge found nothing against {}", ids.join(", "))
        }
    }
}

fn looks(look: &ClientLook) -> String {
    let who = match look.at {
        Witness::Agent => "a launch of the agent",
        Witness::Driver => "the driver",
        Witness::Http => "a request at the listener",
    };
    let what = short(&look.pattern.to_value().to_string());
    match look.absent {
        true => format!("expect that there is not {who} with {what}"),
        false => format!("expect {who} with {what}"),
    }
}

fn value_words(value: &Json) -> String {
    value.as_text().map_or_else(|| short(&value.to_value().to_string()), |text| format!("{:?}", short(text)))
}
