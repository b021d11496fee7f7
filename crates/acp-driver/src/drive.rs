//! The loop.

use std::time::Instant;

use acp_link::{Link, Sender};
use futures_util::FutureExt;
use tokio::task::yield_now;

use crate::machine::Machine;
use crate::writer::{BURST, Progress, Writer};

/// Drives a machine over a link until one of its methods says that the conversation is over. Call it again with the same
/// machine and another link, or the same one, to go on.
pub async fn drive<M: Machine>(link: &mut Link, machine: &mut M) -> M::Ending {
    let mut writer = Writer::new();
    let (mut has_input, mut received) = (true, 0);
    loop {
        let progress = writer.advance(machine, &link.tx);
        let is_free = matches!(progress, Progress::Idle | Progress::More);
        let is_writing = matches!(progress, Progress::Writing);
        let has_more = matches!(progress, Progress::More);
        if let Progress::Over(ending) = progress {
            return ending;
        }
        if let Some(ending) = machine.ended() {
            return ending;
        }
        let reads = has_input && machine.reads();
        // What was read already needs no waiting.
        if reads
            && received < BURST
            && let Some(arrival) = link.rx.try_recv()
        {
            received += 1;
            machine.receive(arrival, &link.rx);
            continue;
        }
        if std::mem::take(&mut received) >= BURST {
            others(machine, is_free).await;
            continue;
        }
        let deadline = machine.next_deadline(is_free);
        let Link { tx, rx } = &mut *link;
        tokio::select! {
            biased;
            arrival = rx.recv(), if reads => match arrival {
                Some(arrival) => machine.receive(arrival, rx),
                None => match machine.input_ended(rx) {
                    Some(ending) => return finish(machine, writer, tx, ending).await,
                    None => has_input = false,
                },
            },
            event = machine.event(is_free) => machine.happened(event),
            () = sleep_until(deadline), if deadline.is_some() => machine.tick(),
            () = writer.writable(tx), if is_writing => {}
            () = yield_now(), if has_more => {}
        }
    }
}

/// A peer that never stops talking must not keep events and the clock from their turn.
async fn others<M: Machine>(machine: &mut M, is_free: bool) {
    if let Some(event) = machine.event(is_free).now_or_never() {
        machine.happened(event);
    }
    if machine.next_deadline(is_free).is_some_and(|deadline| deadline <= now()) {
        machine.tick();
    }
    yield_now().await;
}

/// The input has ended: what can be said at once still is.
async fn finish<M: Machine>(
    machine: &mut M,
    mut writer: Writer,
    tx: &Sender,
    ending: M::Ending,
) -> M::Ending {
    writer.input_ended();
    loop {
        match writer.advance(machine, tx) {
            Progress::Idle => return ending,
            Progress::Over(sooner) => return sooner,
            Progress::More => {}
            Progress::Blocked => {
                let event = machine.event(false).await;
                machine.happened(event);
            }
            Progress::Writing => writer.writable(tx).await,
        }
    }
}

/// By the runtime's clock, which tests may stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

async fn sleep_until(deadline: Option<Instant>) {
    if let Some(deadline) = deadline {
        tokio::time::sleep_until(deadline.into()).await;
    }
}
