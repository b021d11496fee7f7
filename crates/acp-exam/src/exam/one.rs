//! One test against one client, and nothing left behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use acp_campaign::{Driven, Watch};
use acp_comply::{DriverCan, Program, Run, RunAction, Setup};
use acp_link::process_guard::ProcessGuard;
use acp_match::Vars;

use super::{ExamConditions, Known};
use crate::client::ClientUnderTest;
use crate::driver::{AgentForm, ClientDriver};
use crate::driving::ClientHands;
use crate::exam_run::ExamRun;
use crate::http::HttpWitness;
use crate::launches::LaunchDoor;
use crate::place::{AgentAddress, ExamPlace};

/// Runs one test.
pub(crate) async fn examine(
    program: &Arc<Program>,
    client: &ClientUnderTest,
    conditions: &ExamConditions,
    known: &Known,
    watch: Option<&Watch>,
) -> Driven {
    let began = Instant::now();
    match attempt(program, client, conditions, known, watch).await {
        Ok(mut driven) => {
            driven.cost.runner_ms = began.elapsed().as_secs_f64() * 1000.0;
            driven
        }
        Err(reason) => Driven::fault(program, reason),
    }
}

async fn attempt(
    program: &Arc<Program>,
    client: &ClientUnderTest,
    conditions: &ExamConditions,
    known: &Known,
    watch: Option<&Watch>,
) -> Result<Driven, String> {
    let Some(test) = program.client.as_deref() else {
        return Err("the test is for agents; run it with acp comply".to_owned());
    };
    let name = format!("{}.{}", client.name(), program.id);
    let mut place = ExamPlace::make(&name, conditions.keep.as_deref(), client)?;
    let http = HttpWitness::start().await.map_err(|error| format!("cannot listen on loopback: {error}"))?;
    let setup = setup(&place, &http, client, conditions, known);
    if let Some(driven) = hindered(program, &setup) {
        return Ok(driven);
    }
    let mut vars: Vars = setup.variables.clone();
    vars.set("sandbox", setup.sandbox.as_str());
    place.fill(program, &vars)?;
    let door = match client.driver.agent.form {
        AgentForm::Connect => LaunchDoor::tcp().await,
        _ => LaunchDoor::local(place.cell.root(), test.stub.clone()),
    };
    let (door, events) = door.map_err(|error| format!("cannot wait for the client's agent: {error}"))?;
    let address = AgentAddress(door.address.clone());
    let values = place.prepare(program, client, &address, &vars)?;
    let guard = ProcessGuard::new(&client.program);
    let hands = ClientHands::new(client, &place, values, guard, setup.timeout_factor, test.permission);
    let before = place.cell.outside();
    let mut run = ExamRun::new(program, setup, &place, hands, events, Some(http), watch.cloned());
    let outcome = run.run().await;
    let driven = run.conclude(outcome, &before).await;
    drop(door);
    Ok(driven)
}

fn setup(
    place: &ExamPlace,
    http: &HttpWitness,
    client: &ClientUnderTest,
    conditions: &ExamConditions,
    known: &Known,
) -> Setup {
    let mut setup = Setup::new(place.cell.sandbox.to_string_lossy());
    setup.variables.set("outside", place.outside.to_string_lossy().as_ref());
    setup.variables.set("home", place.cell.home.to_string_lossy().as_ref());
    setup.variables.set("http", http.url.as_str());
    setup.driver = Some(client.driver.file.clone());
    setup.can = can(&client.driver);
    setup.client.clone_from(&known.introduction);
    setup.timeout_factor = conditions.timeout_factor;
    setup.found.clone_from(&known.found);
    setup.missing.clone_from(&known.missing);
    setup
}

/// What a driver can make its client do, as tests ask for it.
fn can(driver: &ClientDriver) -> DriverCan {
    let permissions: BTreeSet<String> =
        driver.habits().iter().map(|habit| habit.as_str().to_owned()).collect();
    let mut verbs: BTreeSet<String> = driver.verbs.keys().cloned().collect();
    verbs.extend(["open", "quit"].map(str::to_owned));
    if permissions.len() > 1 {
        verbs.insert("answer".to_owned());
    }
    let prompts = driver.verbs.iter().filter(|(name, verb)| *name != "prompt" && verb.takes_text());
    DriverCan {
        prompts: prompts.map(|(name, _)| name.clone()).collect(),
        verbs,
        own: driver.own.iter().cloned().collect(),
        permissions,
        prepares: driver
            .verbs
            .iter()
            .filter(|(_, verb)| verb.flags.is_some())
            .map(|(name, _)| name.clone())
            .collect(),
        opens_by_prompt: driver.opens_by_prompt(),
        start: driver.limits.start,
        verb: driver.limits.verb,
        quit: driver.limits.quit,
    }
}

/// A test that is known not to apply needs no client.
fn hindered(program: &Arc<Program>, setup: &Setup) -> Option<Driven> {
    let mut run = Run::new(Arc::clone(program), setup.clone());
    if !run.is_hindered() {
        return None;
    }
    let outcome = std::iter::from_fn(|| run.poll()).find_map(|action| match action {
        RunAction::Done(outcome) => Some(*outcome),
        _ => None,
    })?;
    Some(Driven { outcome, ..Driven::fault(program, String::new()) })
}
