//! One test of a client in progress: the interpreter of `acp-comply` on one side, the driver and the agents that the client
//! starts on the other.

mod acting;
mod ending;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_campaign::Watch;
use acp_comply::{FileState, Program, Run, RunEvent, Setup, TestOutcome};
use acp_rpc::Frame;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::driving::{ClientHands, HandsNews, ProcessNews};
use crate::http::HttpWitness;
use crate::launches::LaunchEvent;
use crate::place::ExamPlace;
use crate::process::ProcessWitness;
use crate::wire::LaunchWire;

/// A test in progress.
pub(crate) struct ExamRun<'a> {
    program: &'a Arc<Program>,
    place: &'a ExamPlace,
    run: Run,
    hands: ClientHands<'a>,
    events: mpsc::Receiver<LaunchEvent>,
    http: Option<HttpWitness>,
    processes: ProcessWitness,
    launches: BTreeMap<u32, LaunchWire>,
    watch: Option<Watch>,
    began: Instant,
    /// When the client's first line came.
    first_line: Option<Duration>,
    /// Nothing is read from the client until then.
    read_from: Instant,
    outcome: Option<Box<TestOutcome>>,
}

/// What happens beside the clock.
enum Happening {
    Launch(LaunchEvent),
    Process(ProcessNews),
    Http,
    Clock,
}

impl<'a> ExamRun<'a> {
    pub fn new(
        program: &'a Arc<Program>,
        setup: Setup,
        place: &'a ExamPlace,
        hands: ClientHands<'a>,
        events: mpsc::Receiver<LaunchEvent>,
        http: Option<HttpWitness>,
        watch: Option<Watch>,
    ) -> ExamRun<'a> {
        ExamRun {
            program,
            place,
            run: Run::new(Arc::clone(program), setup),
            hands,
            events,
            http,
            processes: ProcessWitness::default(),
            launches: BTreeMap::new(),
            watch,
            began: Instant::now(),
            first_line: None,
            read_from: Instant::now(),
            outcome: None,
        }
    }

    /// Runs the steps.
    pub async fn run(&mut self) -> TestOutcome {
        self.tell(RunEvent::Started);
        loop {
            self.act();
            if let Some(outcome) = self.outcome.take() {
                return *outcome;
            }
            let happening = self.wait().await;
            self.happened(happening);
        }
    }

    async fn wait(&mut self) -> Happening {
        let is_paused = self.read_from > Instant::now();
        let deadline = self.next_deadline();
        let clock = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        let http = async {
            match &self.http {
                Some(http) => http.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(event) = self.events.recv(), if !is_paused => Happening::Launch(event),
            Some(news) = self.hands.event() => Happening::Process(news),
            () = http => Happening::Http,
            () = clock => Happening::Clock,
        }
    }

    fn happened(&mut self, happening: Happening) {
        match happening {
            Happening::Launch(event) => self.launch_event(event),
            Happening::Process(news) => self.hands.happened(news),
            Happening::Http => {
                let requests = self.http.as_ref().map(HttpWitness::requests).unwrap_or_default();
                self.tell(RunEvent::Http(requests));
            }
            Happening::Clock => {}
        }
        self.hands.look();
        self.pass_on_hands();
        if self.run.next_deadline().is_some_and(|at| at <= self.began.elapsed()) {
            self.tell(RunEvent::Tick);
        }
    }

    fn pass_on_hands(&mut self) {
        while let Some(news) = self.hands.next() {
            self.tell(match news {
                HandsNews::Driven { drive, outcome } => RunEvent::Driven { drive, outcome },
                HandsNews::Record(record) => RunEvent::DriverRecord(record),
            });
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let own = self.run.next_deadline().map(|at| self.began + at);
        let pause = Some(self.read_from).filter(|at| *at > Instant::now());
        own.into_iter().chain(pause).chain(self.hands.next_deadline()).min()
    }

    fn launch_event(&mut self, event: LaunchEvent) {
        match event {
            LaunchEvent::Began { launch, record, orders } => {
                // What a number means is settled as long as the process is known to live.
                for member in ["pid", "child"] {
                    let pid =
                        record.get(member).and_then(Value::as_u64).and_then(|pid| u32::try_from(pid).ok());
                    let _ = pid.map(|pid| self.processes.is_running(pid));
                }
                let history =
                    self.launches.values_mut().next_back().map(LaunchWire::take_history).unwrap_or_default();
                let keeps = self.place.cell.is_kept();
                let wire = LaunchWire::new(record.clone(), orders, self.began, history, keeps);
                self.launches.insert(launch, wire);
                self.hands.launched();
                self.tell(RunEvent::Launched { launch, record });
            }
            LaunchEvent::Input { launch, bytes } => {
                let frames =
                    self.launches.get_mut(&launch).map(|wire| wire.hears(&bytes)).unwrap_or_default();
                frames.into_iter().for_each(|frame| self.heard(launch, frame));
            }
            LaunchEvent::InputEnded { launch } => {
                let last = self.launches.get_mut(&launch).and_then(LaunchWire::input_ended);
                if let Some(frame) = last {
                    self.heard(launch, frame);
                }
                self.changed(launch);
            }
            LaunchEvent::Signal { launch, name } => {
                if let Some(wire) = self.launches.get_mut(&launch) {
                    wire.signalled(&name);
                }
                self.changed(launch);
            }
            LaunchEvent::ErrorsTaken { launch } => self.tell(RunEvent::StderrTaken { launch }),
            LaunchEvent::Gone { launch } => {
                if let Some(wire) = self.launches.get_mut(&launch) {
                    wire.vanished();
                }
                self.changed(launch);
            }
        }
    }

    fn heard(&mut self, launch: u32, frame: Frame) {
        self.show("←", frame.raw());
        self.first_line.get_or_insert(self.began.elapsed());
        self.tell(RunEvent::HeardFrom { launch, frame });
    }

    fn changed(&mut self, launch: u32) {
        if let Some(wire) = self.launches.get(&launch) {
            let record = wire.record.clone();
            self.tell(RunEvent::LaunchChanged { launch, record });
        }
    }

    fn tell(&mut self, event: RunEvent) {
        self.run.handle(self.began.elapsed(), event);
    }

    fn show(&self, arrow: &str, bytes: &[u8]) {
        if let Some(watch) = &self.watch {
            watch(&self.program.id, arrow, bytes);
        }
    }
}

/// What stands under this path: in the workspace, or anywhere if it is absolute.
fn look(place: &ExamPlace, path: &str) -> FileState {
    match std::fs::read(place.cell.sandbox.join(path)) {
        Ok(bytes) => FileState::Present(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => FileState::Absent,
        Err(error) => FileState::Unreadable(error.to_string()),
    }
}
