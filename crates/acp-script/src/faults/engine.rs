//! Applying faults.

use std::collections::VecDeque;
use std::time::Duration;

use acp_match::{Template, Vars};
use acp_rpc::{Direction, Exchange, Frame, View};
use base64::Engine as _;
use bytes::Bytes;
use serde_json::Value;

use super::chance::Chance;
use super::select::Seen;
use super::{At, Fault, FaultAction, FrameWay, Select, edit, garble};

/// What comes out between the owner of the faults and the other side.
#[derive(Clone, Debug)]
pub enum Passage {
    /// Deliver this frame to the owner.
    Deliver(Frame),
    /// Send this frame to the other side.
    Send(Frame),
    /// Send these bytes to the other side as they are.
    Raw(Bytes),
    /// Write this line to standard error.
    Stderr(Bytes),
    /// End the owner's process.
    Exit(i32),
    /// End the connection.
    Hangup,
    /// Start a child that outlives the owner.
    Child,
    /// Let a grandchild write this line to standard output.
    Grandchild(String),
}

/// Faults at work on one connection.
pub struct Faults {
    rules: Vec<Rule>,
    vars: Vars,
    chance: Chance,
    out: VecDeque<Passage>,
    later: Vec<Later>,
    held: Vec<(Box<Select>, Passage)>,
    swapped: Vec<Passage>,
    coalescing: Option<(usize, Vec<u8>)>,
    stall: Option<Stall>,
    stalled: VecDeque<Passage>,
    /// The methods of open requests.
    asked: Exchange<String>,
    /// Changed ids of the owner's requests, and what they were.
    pub(super) renamed: Vec<(Value, Value)>,
}

struct Rule {
    fault: Fault,
    met: u64,
}

struct Later {
    at: Duration,
    passage: Passage,
}

enum Stall {
    Until(Duration),
    Forever,
}

/// What becomes of the frame itself.
enum Fate {
    Pass,
    Gone,
    Later(Duration),
    Held(Box<Select>),
    Swapped,
}

/// A frame under treatment.
pub(super) struct Patient {
    way: FrameWay,
    pub(super) frame: Frame,
    pub(super) value: Value,
    pub(super) edited: bool,
    /// What is written instead of the frame, if not the frame.
    written: Option<Vec<Passage>>,
    copies: u32,
    before: Vec<Passage>,
    after: Vec<Passage>,
    fate: Fate,
}

impl Faults {
    /// An engine for one connection.
    pub fn new(faults: &[Fault], seed: u64) -> Self {
        let mut rules: Vec<Rule> = faults.iter().map(|fault| Rule { fault: fault.clone(), met: 0 }).collect();
        // What changes a frame comes before what changes how it is written: bytes cannot be changed any more.
        rules.sort_by_key(|rule| rule.fault.r#do.iter().any(FaultAction::is_about_writing));
        Self {
            rules,
            vars: Vars::new(),
            chance: Chance::new(seed),
            out: VecDeque::new(),
            later: Vec::new(),
            held: Vec::new(),
            swapped: Vec::new(),
            coalescing: None,
            stall: None,
            stalled: VecDeque::new(),
            asked: Exchange::default(),
            renamed: Vec::new(),
        }
    }

    /// Whether there is nothing to do, ever.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The connection begins.
    pub fn start(&mut self, now: Duration) {
        self.moment(now, At::Start);
    }

    /// The other side has ended its output.
    pub fn end(&mut self, now: Duration) {
        self.moment(now, At::End);
    }

    /// A frame from the other side.
    pub fn incoming(&mut self, now: Duration, frame: Frame) {
        let frame = self.named_back(frame);
        self.pass(now, FrameWay::In, frame);
    }

    /// A frame from the owner.
    pub fn outgoing(&mut self, now: Duration, frame: Frame) {
        self.pass(now, FrameWay::Out, frame);
    }

    /// Lets the time pass.
    pub fn tick(&mut self, now: Duration) {
        if matches!(self.stall, Some(Stall::Until(at)) if at <= now) {
            self.stall = None;
            self.out.append(&mut self.stalled);
        }
        self.later.sort_by_key(|later| later.at);
        let due = self.later.partition_point(|later| later.at <= now);
        let due: Vec<Later> = self.later.drain(..due).collect();
        for later in due {
            self.emit(later.passage);
        }
    }

    /// When [`Faults::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<Duration> {
        let stall = match self.stall {
            Some(Stall::Until(at)) => Some(at),
            _ => None,
        };
        self.later.iter().map(|later| later.at).chain(stall).min()
    }

    /// The next thing that comes out.
    pub fn poll(&mut self) -> Option<Passage> {
        self.out.pop_front()
    }

    fn moment(&mut self, now: Duration, at: At) {
        let frame = Frame::parse(Bytes::new());
        let meant: Vec<Vec<FaultAction>> = self
            .rules
            .iter()
            .filter(|rule| rule.fault.select.at == Some(at))
            .map(|rule| rule.fault.r#do.clone())
            .collect();
        for actions in meant {
            let mut patient = Patient::new(FrameWay::Out, frame.clone(), Value::Null);
            patient.fate = Fate::Gone;
            self.treat(now, &mut patient, &actions);
            self.discharge(patient);
        }
    }

    fn pass(&mut self, now: Duration, way: FrameWay, frame: Frame) {
        let answers = self.track(way, &frame);
        let value = serde_json::from_slice(frame.raw()).unwrap_or(Value::Null);
        let mut patient = Patient::new(way, frame, value);
        if way == FrameWay::Out {
            self.rename_cancelled(&mut patient);
        }
        let released = self.release(&patient, answers.as_deref());
        for at in 0..self.rules.len() {
            let original = patient.frame.clone();
            let seen = Seen { way, frame: &original, answers: answers.as_deref(), value: &patient.value };
            if self.concerns(at, &seen) {
                let actions = self.rules[at].fault.r#do.clone();
                self.treat(now, &mut patient, &actions);
                patient.settle();
            }
        }
        let swapped = if matches!(patient.fate, Fate::Swapped) {
            Vec::new()
        } else {
            std::mem::take(&mut self.swapped)
        };
        self.discharge(patient);
        for passage in released.into_iter().chain(swapped) {
            self.emit(passage);
        }
    }

    /// Remembers requests, and finds out what a response answers.
    fn track(&mut self, way: FrameWay, frame: &Frame) -> Option<String> {
        // Which of the two names stands for the owner does not matter here.
        let dir = match way {
            FrameWay::Out => Direction::AgentToClient,
            FrameWay::In => Direction::ClientToAgent,
        };
        match frame.view() {
            View::Request { id, method, .. } => {
                let _ = self.asked.asked(dir, id, method.to_owned());
                None
            }
            View::Response { id, .. } => self.asked.answered(dir, id),
            _ => None,
        }
    }

    fn concerns(&mut self, at: usize, seen: &Seen<'_>) -> bool {
        let rule = &mut self.rules[at];
        let select = &rule.fault.select;
        if !select.means(seen, &self.vars) || !select.chance.is_none_or(|chance| self.chance.hits(chance)) {
            return false;
        }
        rule.met += 1;
        rule.met > select.skip && select.times.is_none_or(|times| rule.met - select.skip <= times)
    }

    /// Frames that waited for this one.
    fn release(&mut self, patient: &Patient, answers: Option<&str>) -> Vec<Passage> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let seen = Seen { way: patient.way, frame: &patient.frame, answers, value: &patient.value };
        let vars = &self.vars;
        let (released, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.held).into_iter().partition(|(select, _)| select.means(&seen, vars));
        self.held = kept;
        released.into_iter().map(|(_, passage)| passage).collect()
    }

    fn treat(&mut self, now: Duration, patient: &mut Patient, actions: &[FaultAction]) {
        for action in actions {
            self.apply(now, patient, action);
        }
    }

    fn apply(&mut self, now: Duration, patient: &mut Patient, action: &FaultAction) {
        match action {
            FaultAction::Set(values) => {
                for (pointer, value) in values {
                    edit::set(&mut patient.value, pointer, &self.fill(value));
                }
                patient.edited = true;
            }
            FaultAction::Remove(pointers) => {
                for pointer in pointers {
                    edit::remove(&mut patient.value, pointer);
                }
                patient.edited = true;
            }
            FaultAction::Fill(lists) => {
                for (pointer, filling) in lists {
                    for number in 1..=filling.count {
                        self.vars.set("n".to_owned(), Value::from(number));
                        let item = self.fill(&filling.with);
                        edit::set(&mut patient.value, &format!("{pointer}/-"), &item);
                    }
                }
                patient.edited = true;
            }
            FaultAction::Reverse => {
                edit::reverse(&mut patient.value);
                patient.edited = true;
            }
            FaultAction::Drop => patient.fate = Fate::Gone,
            FaultAction::Duplicate(copies) => patient.copies += copies,
            FaultAction::Delay(time) => patient.fate = Fate::Later(now + time.0),
            FaultAction::Hold(select) => patient.fate = Fate::Held(select.clone()),
            FaultAction::Swap => patient.fate = Fate::Swapped,
            FaultAction::Stall(time) => self.stall = Some(Stall::Until(now + time.0)),
            FaultAction::Hang => self.stall = Some(Stall::Forever),
            FaultAction::Before(items) => {
                let made = self.make(patient.way, items);
                patient.before.extend(made);
            }
            FaultAction::After(items) => {
                let made = self.make(patient.way, items);
                patient.after.extend(made);
            }
            FaultAction::Capture(places) => {
                for (name, pointer) in places {
                    if let Some(found) = patient.value.pointer(pointer) {
                        self.vars.set(name.clone(), found.clone());
                    }
                }
            }
            FaultAction::Let(values) => {
                for (name, value) in values {
                    let value = self.fill(value);
                    self.vars.set(name.clone(), value);
                }
            }
            FaultAction::Forget(names) => {
                names.iter().for_each(|name| self.vars.set(name.clone(), Value::Null));
            }
            FaultAction::Answer(reply) => {
                patient.before.extend(self.reply(patient, reply));
                patient.fate = Fate::Gone;
            }
            FaultAction::Presume(reply) => patient.after.extend(self.reply(patient, reply)),
            FaultAction::Ids(style) => self.rename(patient, *style),
            FaultAction::Exit(code) => patient.become_one(Passage::Exit(i32::from(*code))),
            FaultAction::Hangup => patient.become_one(Passage::Hangup),
            FaultAction::Log(text) => patient.before.push(Passage::Stderr(Bytes::from(text.clone()))),
            FaultAction::Child => patient.before.push(Passage::Child),
            FaultAction::Grandchild(text) => patient.before.push(Passage::Grandchild(text.clone())),
            _ => self.garble(patient, action),
        }
    }

    /// Actions on bytes; they concern what goes to the other side.
    fn garble(&mut self, patient: &mut Patient, action: &FaultAction) {
        patient.settle();
        if patient.written.iter().flatten().any(|passage| matches!(passage, Passage::Stderr(_))) {
            // It is not on the wire any more.
            return;
        }
        let line = patient.line_for(action);
        let written = match action {
            FaultAction::Raw(text) => vec![Passage::Raw(garble::with_newline(text.as_bytes()))],
            FaultAction::Bytes(text) => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
                vec![Passage::Raw(bytes.into())]
            }
            FaultAction::Garbage(len) => {
                let noise = garble::garbage(*len, &mut self.chance);
                patient.before.push(Passage::Raw(garble::with_newline(&noise)));
                return;
            }
            FaultAction::Split(pieces) => {
                garble::split(&line, *pieces).into_iter().map(Passage::Raw).collect()
            }
            FaultAction::Coalesce(frames) => {
                if self.coalescing.is_none() {
                    self.coalescing = Some((*frames, Vec::new()));
                }
                return;
            }
            FaultAction::Truncate(len) => {
                vec![Passage::Raw(garble::with_newline(&line[..line.len().min(*len)]))]
            }
            FaultAction::Latin1 if line.is_ascii() => return,
            FaultAction::Latin1 => vec![Passage::Raw(garble::with_newline(&garble::latin1(&line)))],
            FaultAction::BadUtf8 => vec![Passage::Raw(garble::with_newline(&garble::bad_utf8(&line)))],
            FaultAction::Huge(len) => vec![Passage::Raw(garble::with_newline(&garble::huge(&line, *len)))],
            FaultAction::Prefix(text) => {
                let line = [text.as_bytes(), &line].concat();
                vec![Passage::Raw(garble::with_newline(&line))]
            }
            // Bytes that are not UTF-8 have no escapes.
            FaultAction::Ascii if std::str::from_utf8(&line).is_err() => return,
            FaultAction::Ascii => vec![Passage::Raw(garble::with_newline(garble::ascii(&line).as_bytes()))],
            FaultAction::Crlf => {
                let mut ended = line.to_vec();
                ended.push(b'\r');
                vec![Passage::Raw(garble::with_newline(&ended))]
            }
            FaultAction::Pretty => {
                let pretty = serde_json::to_string_pretty(&patient.value).unwrap_or_default();
                vec![Passage::Raw(garble::with_newline(pretty.as_bytes()))]
            }
            FaultAction::Batch => {
                let batch = Value::Array(vec![patient.value.clone()]).to_string();
                vec![Passage::Raw(garble::with_newline(batch.as_bytes()))]
            }
            FaultAction::Glue => vec![Passage::Raw(line)],
            FaultAction::Stderr => vec![Passage::Stderr(line)],
            _ => return,
        };
        patient.written = Some(written);
    }

    /// Fills the variables into a value; a variable that is not there leaves the text as it is.
    fn fill(&self, value: &Value) -> Value {
        let mut filled = value.clone();
        match Template::render_value(&mut filled, &self.vars) {
            Ok(()) => filled,
            Err(_) => value.clone(),
        }
    }

    /// Frames and raw lines out of nothing, towards where `way` goes.
    fn make(&self, way: FrameWay, items: &[Value]) -> Vec<Passage> {
        items
            .iter()
            .map(|item| match (way, self.fill(item)) {
                (FrameWay::Out, Value::String(line)) => Passage::Raw(garble::with_newline(line.as_bytes())),
                (FrameWay::Out, frame) => Passage::Send(made(frame)),
                (FrameWay::In, Value::String(line)) => Passage::Deliver(Frame::parse(line)),
                (FrameWay::In, frame) => Passage::Deliver(made(frame)),
            })
            .collect()
    }

    /// An answer to the request, sent back to where it came from.
    fn reply(&self, patient: &Patient, reply: &Value) -> Option<Passage> {
        let id = patient.value.get("id")?.clone();
        let mut frame = self.fill(reply);
        frame["id"] = id;
        let frame = made(frame);
        Some(match patient.way {
            FrameWay::In => Passage::Send(frame),
            FrameWay::Out => Passage::Deliver(frame),
        })
    }

    fn discharge(&mut self, mut patient: Patient) {
        patient.settle();
        for passage in patient.before {
            self.emit(passage);
        }
        let whole = match patient.way {
            FrameWay::Out => Passage::Send(patient.frame),
            FrameWay::In => Passage::Deliver(patient.frame),
        };
        let written = patient.written.unwrap_or_else(|| vec![whole]);
        // What comes after a frame waits as long as the frame does.
        match patient.fate {
            Fate::Gone => patient.after.into_iter().for_each(|passage| self.emit(passage)),
            Fate::Pass => {
                for passage in std::iter::repeat_n(&written, patient.copies as usize + 1).flatten() {
                    self.emit(passage.clone());
                }
                patient.after.into_iter().for_each(|passage| self.emit(passage));
            }
            Fate::Later(at) => {
                let all = written.into_iter().chain(patient.after);
                self.later.extend(all.map(|passage| Later { at, passage }));
            }
            Fate::Held(select) => {
                let all = written.into_iter().chain(patient.after);
                self.held.extend(all.map(|passage| (select.clone(), passage)));
            }
            Fate::Swapped => self.swapped.extend(written.into_iter().chain(patient.after)),
        }
    }

    /// Lets something out, unless nothing may come out now.
    fn emit(&mut self, passage: Passage) {
        let passage = match (passage, &mut self.coalescing) {
            (Passage::Send(frame), Some((left, gathered))) => {
                gathered.extend_from_slice(frame.raw());
                gathered.push(b'\n');
                *left = left.saturating_sub(1);
                if *left > 0 {
                    return;
                }
                let gathered = std::mem::take(gathered);
                self.coalescing = None;
                Passage::Raw(gathered.into())
            }
            (other, _) => other,
        };
        match passage {
            Passage::Deliver(_) | Passage::Exit(_) => self.out.push_back(passage),
            passage if self.stall.is_some() => self.stalled.push_back(passage),
            passage => self.out.push_back(passage),
        }
    }
}

impl Patient {
    fn new(way: FrameWay, frame: Frame, value: Value) -> Self {
        Self {
            way,
            frame,
            value,
            edited: false,
            written: None,
            copies: 0,
            before: Vec::new(),
            after: Vec::new(),
            fate: Fate::Pass,
        }
    }

    /// The line that an action on bytes changes: what another action has written already, if this one only changes how a line is
    /// written, and the frame otherwise.
    fn line_for(&self, action: &FaultAction) -> Bytes {
        if action.is_about_writing()
            && let Some([Passage::Raw(bytes)]) = self.written.as_deref()
            && let Some(line) = bytes.strip_suffix(b"\n")
        {
            return Bytes::copy_from_slice(line);
        }
        self.frame.raw().clone()
    }

    /// Makes the frame what the value says.
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.edited) {
            self.frame = Frame::parse(self.value.to_string());
        }
    }

    fn become_one(&mut self, passage: Passage) {
        self.before.push(passage);
        self.fate = Fate::Gone;
    }
}

/// A frame out of its members; the version is added if it is not there.
fn made(mut frame: Value) -> Frame {
    if let Value::Object(members) = &mut frame
        && !members.contains_key("jsonrpc")
    {
        members.shift_insert(0, "jsonrpc".to_owned(), "2.0".into());
    }
    Frame::parse(frame.to_string())
}
