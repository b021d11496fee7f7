//! Watches a client from within: time, memory, cores.

use std::fs;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::job::{Job, Sample};

/// Collects what a client measures.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    prompts: Vec<Duration>,
    cycles: Vec<Duration>,
    first_answers: Vec<Duration>,
    sample: Sample,
}

impl Probe {
    pub(crate) fn prompt(&mut self, began: Instant) {
        self.prompts.push(began.elapsed());
    }

    pub(crate) fn cycle(&mut self, began: Instant) {
        self.cycles.push(began.elapsed());
    }

    /// The agent has answered `initialize` and now waits.
    pub(crate) fn first_answer(&mut self, began: Instant) {
        self.first_answers.push(began.elapsed());
        self.sample.agent_idle_kib = self.sample.agent_idle_kib.max(children_kib("VmRSS:"));
    }

    /// What the processor spent on the client, from one look at [`cpu`] to the next.
    pub(crate) fn cpu(&mut self, spent: Duration) {
        self.sample.client_cpu_seconds += spent.as_secs_f64();
    }

    pub(crate) fn updates(&mut self, count: usize) {
        self.sample.updates += count;
    }

    /// Looks at both processes; call it while the agent still lives.
    pub(crate) fn memory(&mut self) {
        self.sample.client_kib = self.sample.client_kib.max(kib("self", PEAK));
        self.sample.agent_kib = self.sample.agent_kib.max(children_kib(PEAK));
    }

    pub(crate) fn finish(mut self) -> Sample {
        self.sample.seconds = self.prompts.iter().sum::<Duration>().as_secs_f64();
        self.sample.prompt_seconds = median(&mut self.prompts).as_secs_f64();
        self.sample.cycle_seconds = median(&mut self.cycles).as_secs_f64();
        self.sample.first_answer_seconds = median(&mut self.first_answers).as_secs_f64();
        self.sample
    }
}

/// The processor time that this process has had.
pub(crate) fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Puts this process, and what it starts from now on, on the first core.
pub(crate) fn pin(job: &Job) -> anyhow::Result<()> {
    if job.pinned {
        let mut first = CpuSet::new();
        first.set(0);
        sched_setaffinity(None, &first)?;
    }
    Ok(())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The most memory a process ever had resident.
pub(crate) const PEAK: &str = "VmHWM:";

/// A figure of a process's memory.
pub(crate) fn kib(pid: &str, figure: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(figure));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The largest of our children, whichever thread started it.
fn children_kib(figure: &str) -> u64 {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return 0 };
    let children =
        tasks.filter_map(Result::ok).filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    children
        .flat_map(|list| list.split_whitespace().map(|pid| kib(pid, figure)).collect::<Vec<_>>())
        .max()
        .unwrap_or(0)
}
