//! `acp client-mock`: the client that shows what a test of clients finds.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use acp_client_mock::{AddressStarter, AgentStarter, ClientNature, CommandStarter, talk};
use acp_comply::did_you_mean;
use acp_link::{Address, LinkSettings, stdio};
use acp_script::client_defects::{self, ClientDefect};
use acp_script::client_variants::{self, ClientVariant};
use acp_script::faults::parse_client_spec;
use anyhow::{Context, bail};

use crate::exit;
use crate::outputs::FormatArgs;

/// Arguments of `acp client-mock`.
#[derive(clap::Args)]
#[command(after_help = crate::help::CLIENT_MOCK)]
pub struct ClientMockArgs {
    /// The folder that it works in
    #[arg(long, value_name = "DIR", default_value = ".")]
    cwd: PathBuf,
    /// Be wrong in this way: a name, a file or JSON (several allowed); --list-defects names them
    #[arg(long, value_name = "DEFECT")]
    defect: Vec<String>,
    /// List the known defects and the requirements that they break; with WORD only those about it
    #[arg(long, value_name = "WORD", num_args = 0..=1, default_missing_value = "")]
    list_defects: Option<String>,
    /// Be unusual in this legal way: a name, a file or JSON (several allowed); --list-variants names them
    #[arg(long, value_name = "VARIANT")]
    variant: Vec<String>,
    /// List the legal variants
    #[arg(long, conflicts_with = "list_defects")]
    list_variants: bool,
    /// With --list-defects or --list-variants: text or json.
    #[command(flatten)]
    format: FormatArgs,
    /// Habits as JSON, as in `client` of a variant
    #[arg(long, value_name = "JSON")]
    habits: Option<String>,
    /// Inject this fault: ACTION[=VALUE][@METHOD][#N] or JSON, as seen from the client
    #[arg(long, value_name = "SPEC")]
    fault: Vec<String>,
    /// Seed for faults that happen by chance
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Connect to an agent at this address instead of starting one: tcp://HOST:PORT or ws://HOST:PORT/acp
    #[arg(long, value_name = "ADDRESS", conflicts_with = "agent")]
    connect: Option<Address>,
    /// The token that the agent at the address asks for
    #[arg(long, value_name = "TOKEN", value_parser = crate::talk::secret, requires = "connect")]
    token: Option<String>,
    /// The command that starts the agent
    #[arg(value_name = "AGENT", last = true)]
    agent: Vec<OsString>,
}

/// Reads verbs on standard input and writes events on standard output until the client has ended.
pub fn run(args: &ClientMockArgs) -> anyhow::Result<ExitCode> {
    if let Some(word) = &args.list_defects {
        return list_defects(word, args.format.is_json());
    }
    if args.list_variants {
        return list_variants(args.format.is_json());
    }
    let set_up = nature(args).and_then(|nature| Ok((nature, starter(args)?)));
    let (nature, agents) = match set_up {
        Ok(set_up) => set_up,
        Err(error) => {
            eprintln!("acp client-mock: {error:#}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    let folder = std::path::absolute(&args.cwd).and_then(|folder| folder.canonicalize());
    let folder = folder.with_context(|| format!("cannot work in {}", args.cwd.display()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let code = runtime.block_on(async {
        let lines = stdio::own(&LinkSettings::default())?;
        anyhow::Ok(talk(nature, folder, agents, lines).await?)
    });
    // Its input may still be open, and a client that has crashed ends nothing.
    runtime.shutdown_background();
    Ok(ExitCode::from(u8::try_from(code?).unwrap_or(exit::FAULT)))
}

fn starter(args: &ClientMockArgs) -> anyhow::Result<Arc<dyn AgentStarter>> {
    if let Some(address) = &args.connect {
        return Ok(Arc::new(AddressStarter::new(address.clone(), args.token.clone())));
    }
    match args.agent.split_first() {
        Some((program, words)) => Ok(Arc::new(CommandStarter::new(program, words))),
        None => bail!("say which agent to start, as in: acp client-mock -- my-agent --acp; or use --connect"),
    }
}

/// What the client is like, by all of the arguments.
fn nature(args: &ClientMockArgs) -> anyhow::Result<ClientNature> {
    let mut variants = Vec::new();
    for given in &args.variant {
        variants.push(variant(given)?);
    }
    if let Some(habits) = &args.habits {
        let client = serde_json::from_str(habits).context("--habits is no JSON object")?;
        variants.push(ClientVariant {
            id: "habits".to_owned(),
            title: String::new(),
            allowed_by: Vec::new(),
            warns: Vec::new(),
            client,
            faults: Vec::new(),
        });
    }
    let mut nature = ClientNature::variants(&variants).map_err(anyhow::Error::msg)?;
    for given in &args.defect {
        nature = nature.with(&defect(given)?);
    }
    for spec in &args.fault {
        nature.faults.push(parse_client_spec(spec)?);
    }
    nature.seed = args.seed;
    Ok(nature)
}

/// A text that is JSON itself, or that of a file; with the name that its id must be.
fn text_of(given: &str) -> anyhow::Result<Option<(String, String)>> {
    let text = match given.trim_start().starts_with('{') {
        true => given.to_owned(),
        false if given.contains('/') || given.ends_with(".json") => {
            std::fs::read_to_string(given).with_context(|| format!("cannot read {given}"))?
        }
        false => return Ok(None),
    };
    let value: serde_json::Value =
        serde_json::from_str(&text).with_context(|| format!("{given} is no JSON"))?;
    let id = value["id"].as_str().unwrap_or_default().to_owned();
    Ok(Some((id, text)))
}

fn defect(given: &str) -> anyhow::Result<ClientDefect> {
    if let Some((id, text)) = text_of(given)? {
        return Ok(ClientDefect::parse(&id, &text)?);
    }
    let known = || client_defects::catalogue().iter().map(|defect| defect.id.as_str());
    client_defects::find(given).cloned().with_context(|| {
        format!(
            "no defect of clients is called {given:?}{}; --list-defects names them",
            did_you_mean(given, known())
        )
    })
}

fn variant(given: &str) -> anyhow::Result<ClientVariant> {
    if let Some((id, text)) = text_of(given)? {
        return Ok(ClientVariant::parse(&id, &text)?);
    }
    let known = || client_variants::catalogue().iter().map(|variant| variant.id.as_str());
    client_variants::find(given).cloned().with_context(|| {
        format!(
            "no variant of clients is called {given:?}{}; --list-variants names them",
            did_you_mean(given, known())
        )
    })
}

fn list_defects(word: &str, json: bool) -> anyhow::Result<ExitCode> {
    let found: Vec<&ClientDefect> =
        client_defects::catalogue().iter().filter(|defect| is_about(defect, word)).collect();
    if found.is_empty() {
        eprintln!(
            "acp client-mock: no defect is about {word:?}; without a word, --list-defects names them all"
        );
        return Ok(ExitCode::from(exit::USAGE));
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&found)?);
        return Ok(ExitCode::SUCCESS);
    }
    let width = found.iter().map(|defect| defect.id.len()).max().unwrap_or(0);
    for defect in found {
        let breaks = if defect.advice { "advice".to_owned() } else { defect.requirements.join(",") };
        println!("{:width$}  {breaks:20}  {}", defect.id, defect.title);
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a defect is about a word: in its own words, or by a requirement or the area of one.
fn is_about(defect: &ClientDefect, word: &str) -> bool {
    let (lower, upper) = (word.to_lowercase(), word.to_uppercase());
    let by_requirement = |id: &String| {
        let area = id.rsplit_once('-').map_or("", |(area, _)| area);
        *id == upper || area == upper || area.strip_prefix("C-") == Some(&*upper)
    };
    [&defect.id, &defect.title, &defect.effect].iter().any(|text| text.to_lowercase().contains(&lower))
        || defect.requirements.iter().any(by_requirement)
}

fn list_variants(json: bool) -> anyhow::Result<ExitCode> {
    let catalogue = client_variants::catalogue();
    if json {
        println!("{}", serde_json::to_string_pretty(catalogue)?);
        return Ok(ExitCode::SUCCESS);
    }
    let width = catalogue.iter().map(|variant| variant.id.len()).max().unwrap_or(0);
    for variant in catalogue {
        println!("{:width$}  {}", variant.id, variant.title);
    }
    Ok(ExitCode::SUCCESS)
}
