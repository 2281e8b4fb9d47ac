//! Runs the flows of one kind of sender in real time, on one thread.

use std::io;

use rampmeter_run::{Applications, Entry, FlowResults, Flows, Host, Timetable};
use rampmeter_scenario::WorldError;
use rampmeter_units::Time;

use crate::priority::{self, Priority};
use crate::run_state::RunState;

/// All hosts of one kind of sender, on real sockets. They know the address of each flow's receiver.
pub(crate) trait Sockets: Host<Address = ()> {
    /// Waits for packets until `until` in the run's time, but at most for a short time.
    fn wait(&mut self, until: Time) -> io::Result<()>;

    /// What watches their applications.
    fn watch(&self) -> Option<Applications> {
        None
    }
}

/// The output of an application at one end of its flow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outgoing {
    /// Bytes that were not yet written to the socket.
    pub(crate) unsent: u64,
    /// Whether the stream ends after these bytes.
    pub(crate) finish: bool,
}

/// Runs the flows that satisfy `is_ours` until the end of the run. Returns also why the run has no outcome.
pub(crate) fn drive<H: Sockets>(
    run: &RunState<'_>,
    hosts: H,
    is_ours: impl Fn(usize) -> bool,
) -> io::Result<(FlowResults, Option<WorldError>)> {
    let _ = priority::raise(Priority::Hosts);
    let concerns = |entry: Entry| !matches!(entry, Entry::Change(..)) && entry.flow().is_none_or(&is_ours);
    let mut timetable = Timetable::new(run.plan, concerns);
    let watch = hosts.watch();
    let mut flows = Flows::watched(run.plan, vec![hosts], |flow| is_ours(flow).then_some([0, 0]), watch);
    let mut pending = flows.pending();
    while !run.is_over() {
        while let Some((at, entry)) = timetable.due(run.clock.now()) {
            let now = run.clock.now();
            match entry {
                Entry::Start(flow) => flows.start(now, flow, ()),
                Entry::Stop(flow) => flows.stop(now, flow),
                Entry::Sample => flows.run(at, entry),
                _ => flows.run(now, entry),
            }
        }
        let next = timetable.next().min(flows.next_alarm(0));
        flows.sites[0].host.wait(next)?;
        flows.poll(run.clock.now(), 0);
        run.complete(pending - flows.pending());
        pending = flows.pending();
        if flows.failure.is_some() {
            run.end();
        }
    }
    let failure = flows.failure.take();
    Ok((flows.finish(run.clock.now()), failure))
}
