//! `acp tasks approve`

use std::collections::HashSet;
use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

use acp_nats::TaskClient;
use acp_nats::payload::{AskOption, PermissionAsk};
use acp_proto::PermissionOptionKind;

use super::show::line;
use super::trouble;
use crate::exit;
use crate::trouble::Trouble;
use acp_text::line as clean;

/// How long proxies may take to say which requests are open.
const GATHER: Duration = Duration::from_millis(700);

#[derive(clap::Args)]
pub(super) struct Approve {
    /// An open request: its id or the beginning of it, or the id of its task. Without it, all open requests are
    /// answered, then new ones as they arrive
    id: Option<String>,
    /// List the open requests and stop
    #[arg(long, conflicts_with_all = ["id", "option", "allow", "reject"])]
    list: bool,
    /// Answer with this option of the agent
    #[arg(long, value_name = "OPTION", requires = "id", conflicts_with_all = ["allow", "reject"])]
    option: Option<String>,
    /// Allow the one request, or every request
    #[arg(long, conflicts_with = "reject")]
    allow: bool,
    /// Reject the one request, or every request
    #[arg(long)]
    reject: bool,
    /// Stop after this many requests
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["id", "list"])]
    count: Option<usize>,
}

impl Approve {
    pub(super) async fn run(&self, client: &TaskClient, json: bool) -> Result<u8, Trouble> {
        match &self.id {
            _ if self.list => list(client, json).await,
            Some(id) => self.one(client, id).await,
            None => self.as_they_come(client, json).await,
        }
    }

    async fn one(&self, client: &TaskClient, id: &str) -> Result<u8, Trouble> {
        let open = client.open_requests(GATHER).await.map_err(trouble)?;
        let ask = find(&open, id).map_err(|words| Trouble::usage(anyhow::anyhow!(words)))?;
        let option = match (&self.option, self.preset(ask)) {
            (Some(option), _) => Some(option.clone()),
            (None, Some(option)) => option,
            (None, None) => ask_person(ask)?,
        };
        client.answer(ask, option).await.map_err(trouble)?;
        Ok(exit::OK)
    }

    async fn as_they_come(&self, client: &TaskClient, json: bool) -> Result<u8, Trouble> {
        if !self.allow && !self.reject && !std::io::stdin().is_terminal() {
            return Err(Trouble::usage(anyhow::anyhow!(
                "there is nobody at a terminal to ask; use --allow or --reject for everything, or --list and an id"
            )));
        }
        let mut requests = client.requests().await.map_err(trouble)?;
        eprintln!("acp tasks: waiting for permission requests (Ctrl-C ends)");
        let mut left = self.count.unwrap_or(usize::MAX);
        // Those that came before us; one that comes at this moment may be in both lists.
        let open = client.open_requests(GATHER).await.map_err(trouble)?;
        let mut answered = HashSet::new();
        for ask in open.iter().take(left) {
            let option = self.decide(ask, json)?;
            client.answer(ask, option).await.map_err(trouble)?;
            answered.insert(ask.id.clone());
            left -= 1;
        }
        while left > 0 {
            let Some(asked) = requests.next().await else {
                return Err(Trouble::fault(anyhow::anyhow!("the connection to NATS ended")));
            };
            if answered.remove(&asked.ask.id) {
                continue;
            }
            let option = self.decide(&asked.ask, json)?;
            asked.answer(option).await.map_err(trouble)?;
            left -= 1;
        }
        Ok(exit::OK)
    }

    /// Shows a request, and finds the answer to it.
    fn decide(&self, ask: &PermissionAsk, json: bool) -> Result<Option<String>, Trouble> {
        if json {
            line(ask).map_err(Trouble::fault)?;
        } else {
            show(ask);
        }
        self.preset(ask).map_or_else(|| ask_person(ask), Ok)
    }

    /// The answer that the flags give: an option, or none of them.
    fn preset(&self, ask: &PermissionAsk) -> Option<Option<String>> {
        let wanted = match (self.allow, self.reject) {
            (true, _) => [PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways],
            (_, true) => [PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways],
            _ => return None,
        };
        let option =
            |kind: &PermissionOptionKind| ask.options.iter().find(|option| option.kind == kind.as_str());
        Some(wanted.iter().find_map(option).map(|option| option.id.clone()))
    }
}

/// The one open request that is meant.
fn find<'a>(open: &'a [PermissionAsk], id: &str) -> Result<&'a PermissionAsk, String> {
    let by_task = |ask: &&PermissionAsk| ask.task.as_deref() == Some(id);
    let mut found: Vec<_> = open.iter().filter(|ask| ask.id.starts_with(id)).collect();
    if found.is_empty() {
        found = open.iter().filter(by_task).collect();
    }
    let ids = |asks: &[&PermissionAsk]| asks.iter().map(|ask| clean(&ask.id)).collect::<Vec<_>>().join(", ");
    match found.as_slice() {
        [ask] => Ok(ask),
        [] if open.is_empty() => {
            Err(format!("there is no request or task {id:?}: no permission request is open"))
        }
        [] => Err(format!(
            "there is no request or task {id:?}; open: {}",
            ids(&open.iter().collect::<Vec<_>>())
        )),
        several => Err(format!("{id:?} is not clear: {} requests match it: {}", several.len(), ids(several))),
    }
}

async fn list(client: &TaskClient, json: bool) -> Result<u8, Trouble> {
    let open = client.open_requests(GATHER).await.map_err(trouble)?;
    for ask in &open {
        if json {
            line(ask).map_err(Trouble::fault)?;
        } else {
            show(ask);
        }
    }
    if open.is_empty() && !json {
        eprintln!("no permission request is open");
    }
    Ok(exit::OK)
}

fn show(ask: &PermissionAsk) {
    println!("{}  {}", ask.id, clean(&ask.title));
    let task = ask.task.as_deref().map_or_else(String::new, |task| format!("task {}, ", clean(task)));
    println!("  {task}session {}, {}", clean(&ask.session), clean(&ask.kind));
    for subject in &ask.subjects {
        println!("  about: {}", clean(subject));
    }
    for AskOption { id, name, kind } in &ask.options {
        println!("  {}  {} ({})", clean(id), clean(name), clean(kind));
    }
}

/// Asks whoever sits at the terminal.
fn ask_person(ask: &PermissionAsk) -> Result<Option<String>, Trouble> {
    if !std::io::stdin().is_terminal() {
        return Err(Trouble::usage(anyhow::anyhow!("how? use --allow, --reject or --option ID")));
    }
    for (number, option) in (1..).zip(&ask.options) {
        eprintln!("  [{number}] {}", clean(&option.name));
    }
    loop {
        eprint!("answer (1-{}, or nothing to turn it away): ", ask.options.len());
        let _ = std::io::stderr().flush();
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer).map_err(Trouble::fault)?;
        match answer.trim() {
            "" => return Ok(None),
            _ if read == 0 => return Ok(None),
            number => {
                let number = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                if let Some(option) = number.and_then(|number| ask.options.get(number)) {
                    return Ok(Some(option.id.clone()));
                }
            }
        }
    }
}
