//! A manager of flows under the Congestion Manager's controller, and what they send and report.

pub(crate) mod recorder;

pub(crate) use self::recorder::{HERE, at};

use rampmeter_control::Algorithm;
use rampmeter_control::cm::{Cm, Config};
use rampmeter_control::newreno::{self, NewReno};
use rampmeter_manager::{FlowId, Grouping, HalfLife, LossMode, Manager, Report, Scheduling, Sharing};
use rampmeter_units::{Bytes, Duration, Random, Time};
use rampmeter_wire::RouterFeedback;

pub(crate) const PACKET: Bytes = Bytes::new(1000);
pub(crate) const RTT: Duration = Duration::from_millis(100);

pub(crate) fn cm() -> Cm {
    Cm::new(&Config { initial_window: 4, ..Config::default() }, Random::from_seed(1))
}

pub(crate) fn newreno() -> NewReno {
    NewReno::new(&newreno::Config::default(), Random::from_seed(1))
}

pub(crate) fn manager() -> Manager<Cm> {
    let (grouping, scheduling) = (Grouping::PerDestination, Scheduling::RoundRobin);
    Manager::new(Sharing { grouping, scheduling, half_life: HalfLife::MinRtt, ..Sharing::default() })
}

pub(crate) fn open(manager: &mut Manager<Cm>) -> FlowId {
    let flow = manager.open(Time::ZERO, HERE, cm);
    manager.on_path(Time::ZERO, flow, PACKET, RTT, RouterFeedback::None);
    flow
}

pub(crate) fn received(packets: u64) -> Report {
    Report { received: PACKET * packets, rtt: Some(RTT), ..Report::default() }
}

pub(crate) fn lost(packets: u64, mode: LossMode) -> Report {
    Report { lost: PACKET * packets, mode: Some(mode), ..Report::default() }
}

/// Sends `packets` without a request, as a synchronous sender does.
pub(crate) fn send(manager: &mut Manager<Cm>, now: Time, flow: FlowId, packets: u64) {
    (0..packets).for_each(|_| manager.notify(now, flow, PACKET));
}

pub(crate) fn window(manager: &Manager<Cm>, flow: FlowId) -> u64 {
    manager.query(Time::ZERO, flow).unwrap().window.as_u64() / PACKET.as_u64()
}
