//! The seam: what a controller sees and what it says.

use std::fmt::Debug;

use rampmeter_units::{Bytes, Duration, Ecn, Rate, Settings, Stream, Time};
use rampmeter_wire::RouterFeedback;

use crate::History;

/// What is known of a path when the first packet may leave on it.
#[derive(Debug, Clone)]
pub struct Path {
    /// The largest packet, headers included.
    pub packet: Bytes,
    /// Round-trip time of the handshake.
    pub rtt: Duration,
    /// What earlier macroflows to the same destination learnt.
    pub history: Option<History>,
    /// How long nothing of this host was on the path, if this macroflow has all its flows to the destination; none if
    /// that is not known.
    pub idle_for: Option<Duration>,
    /// What routers wrote into the handshake; `None` unless [`Controller::requests_feedback`].
    pub feedback: RouterFeedback,
}

impl Path {
    /// A path whose handshake took `rtt`, without router feedback.
    pub fn new(packet: Bytes, rtt: Duration, history: Option<History>) -> Self {
        Self { packet, rtt, history, idle_for: None, feedback: RouterFeedback::None }
    }
}

/// A packet that left.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// Its number, rising by one with every packet of the macroflow.
    pub number: u64,
    /// Its size, headers included.
    pub bytes: Bytes,
    /// Bytes outstanding, this packet included.
    pub in_flight: Bytes,
}

/// What is known of one packet that arrived and was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrival {
    /// The packet's number.
    pub number: u64,
    /// Its size, headers included.
    pub bytes: Bytes,
    /// When it left, on the sender's clock.
    pub sent_at: Time,
    /// When it arrived, on the receiver's clock.
    pub received_at: Time,
    /// The ECN code it arrived with.
    pub ecn: Ecn,
}

impl Arrival {
    /// One-way delay in nanoseconds plus the unknown offset between the two clocks: only differences of it mean
    /// anything.
    pub fn one_way_delay(&self) -> i64 {
        self.received_at.as_nanos().wrapping_sub(self.sent_at.as_nanos()) as i64
    }
}

/// An acknowledgement.
#[derive(Debug, Clone, Copy)]
pub struct Ack<'a> {
    /// Bytes it newly reports as delivered, cumulatively or selectively.
    pub delivered: Bytes,
    /// Bytes still outstanding after it.
    pub in_flight: Bytes,
    /// The round-trip time it measures: that of the last of `arrivals`, if it names any.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time (RFC 6298).
    pub smoothed_rtt: Duration,
    /// Least round-trip time seen on the path.
    pub min_rtt: Duration,
    /// The packets it answers one by one, in the order of their arrival.
    pub arrivals: &'a [Arrival],
    /// What is known of marks where feedback counts packets; `None` where `arrivals` has the code of each packet. What
    /// `arrivals` then lacks was in acknowledgements that got lost.
    pub counted: Option<Counted>,
    /// What routers wrote into those packets.
    pub feedback: RouterFeedback,
    /// Bytes sent and not cumulatively acknowledged before it (RFC 5681, `FlightSize`).
    pub flight_size: Bytes,
    /// Highest number sent so far.
    pub last_sent: u64,
    /// The connection is still repairing losses it reported earlier.
    pub recovering: bool,
    /// The application, not the controller, bounded what was outstanding.
    pub app_limited: bool,
}

/// Feedback that counts packets instead of naming them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// How many packets arrived with a mark (`Ecn::Ce`).
    pub marks: u64,
    /// Highest number that they may have.
    pub number: u64,
}

impl Ack<'_> {
    /// The number of the last packet that arrived with a mark (`Ecn::Ce`), if one did. To answer marks once a window of
    /// data (RFC 3168 section 6.1.2) is the controller's business, as is to read a code otherwise.
    pub fn last_marked(&self) -> Option<u64> {
        match self.counted {
            None => self.arrivals.iter().rev().find(|arrival| arrival.ecn == Ecn::Ce).map(|arrival| arrival.number),
            Some(counted) => (counted.marks > 0).then_some(counted.number),
        }
    }

    /// When it reached this host, which may read it later: the system's receive timestamp where there is one; else `now`.
    pub fn arrived_at(&self, now: Time) -> Time {
        let stamped = self.arrivals.last().zip(self.rtt).map(|(last, rtt)| last.sent_at + rtt);
        stamped.map_or(now, |stamped| stamped.min(now))
    }
}

/// How a loss showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LossKind {
    /// The retransmission timer ran out: nothing comes back.
    Persistent,
    /// Later packets arrived, this one did not.
    Transient,
}

/// Packets found lost.
#[derive(Debug, Clone, Copy)]
pub struct Loss {
    /// How it showed.
    pub kind: LossKind,
    /// Bytes lost.
    pub bytes: Bytes,
    /// Bytes sent and not yet cumulatively acknowledged when the loss was found (RFC 5681, `FlightSize`).
    pub flight_size: Bytes,
    /// Highest number among the lost packets.
    pub number: u64,
    /// Highest number sent so far.
    pub last_sent: u64,
    /// The connection was already repairing an earlier loss.
    pub recovering: bool,
    /// `Persistent` only: the timer has run out before without anything having arrived since.
    pub repeated: bool,
}

/// Leave for one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// The earliest time it may leave; [`Time::ZERO`] means at any time, [`Time::MAX`] not until something happens.
    pub at: Time,
    /// The largest it may be, headers included.
    pub bytes: Bytes,
    /// What to write into it for routers to answer; `None` asks nothing.
    pub feedback: RouterFeedback,
}

/// A congestion controller. All times are the sender's clock.
pub trait Controller: Debug {
    /// The handshake is done: packets may leave from now on.
    fn on_path(&mut self, now: Time, path: &Path);

    /// So many flows share the macroflow from now on.
    fn on_flows(&mut self, _flows: usize) {}

    /// A packet left.
    fn on_sent(&mut self, now: Time, sent: &Sent);

    /// Of a packet that was told as sent in full, `bytes` never left.
    fn on_unsent(&mut self, _now: Time, _bytes: Bytes) {}

    /// Packets that had been told as sent are nobody's here any more: their flow has ended, goes on in another
    /// macroflow, or never said what became of them.
    fn on_discarded(&mut self, _now: Time) {}

    /// An acknowledgement arrived.
    fn on_ack(&mut self, now: Time, ack: &Ack<'_>);

    /// Packets were lost.
    fn on_loss(&mut self, now: Time, loss: &Loss);

    /// Nothing was outstanding for `idle` and now there is something to send again; `timeout` is the retransmission
    /// timer, the usual measure of a long silence.
    fn on_idle(&mut self, _now: Time, _idle: Duration, _timeout: Duration) {}

    /// A packet could have left, but no flow had anything to send.
    fn on_app_limited(&mut self, _now: Time) {}

    /// The last loss that was told had not happened: packets had overtaken each other (CM section 4.2.2).
    fn on_spurious_loss(&mut self, _now: Time) {}

    /// This host stood still from `since` until now although it had something to do: its thread, or all of a virtual
    /// machine, got no processor. `Sent` and receive timestamps are as true as ever where it was the thread. Where it was the
    /// machine, what arrived in this time was stamped late, and what else runs on the machine was late, too.
    fn on_stall(&mut self, _now: Time, _since: Time) {}

    /// The time given by [`Controller::deadline`] has come.
    fn on_deadline(&mut self, _now: Time) {}

    /// When [`Controller::on_deadline`] wants to be called; [`Time::MAX`] for never.
    fn deadline(&self) -> Time {
        Time::MAX
    }

    /// How much may be outstanding; [`Bytes::MAX`] leaves it open.
    fn window(&self) -> Bytes;

    /// The next packet's leave.
    fn departure(&self) -> Departure;

    /// The rate packets leave at; `None` where the window alone decides.
    fn rate(&self) -> Option<Rate>;

    /// The ECN code that its packets leave with, where the scheme gives codes a meaning of its own; `None` leaves it to
    /// the flow's settings.
    fn ecn(&self) -> Option<Ecn> {
        None
    }

    /// What on the path keeps the scheme from working as it should, in words for its user, with what it does about it;
    /// `None` while nothing does. Asked after every acknowledgement.
    fn degraded_reason(&self) -> Option<&'static str> {
        None
    }

    /// Whether the handshake should ask routers for feedback; their answer comes with [`Path::feedback`].
    fn requests_feedback(&self) -> bool {
        false
    }

    /// Writes what the next macroflow to the same destination should know.
    fn remember(&self, _now: Time, _history: &mut Option<History>) {}
}

/// A controller that can be made from its settings.
pub trait Algorithm: Controller + Sized + Send + 'static {
    /// Its tunables; their `Default` is the paper's table.
    type Config: Settings + Default;

    /// Whether it sends less when others need the path, by what it sees itself. Only such controllers are lent to
    /// strangers, who could otherwise have a server flood a path.
    const REACTS_TO_CONGESTION: bool = true;

    /// What it works with beyond what programs tell a host's Congestion Manager (bytes, losses, a round trip), and how it
    /// does without; in words for its user.
    const NEEDS: Option<&'static str> = None;

    /// A controller before its first path, with a random stream of its own.
    fn new(config: &Self::Config, random: Stream) -> Self;
}
