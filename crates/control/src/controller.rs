//! The interface of a controller: the events that it receives and the permissions that it returns.

use std::fmt::Debug;

use rampmeter_units::{Bytes, Duration, Ecn, Random, Rate, Settings, Time};
use rampmeter_wire::RouterFeedback;

use crate::{History, Record};

/// The state of a path at the end of the handshake, before the first packet is sent.
#[derive(Debug, Clone)]
pub struct Path {
    /// The largest packet, headers included.
    pub packet: Bytes,
    /// Round-trip time of the handshake.
    pub rtt: Duration,
    /// Measurements of earlier macroflows to the same destination.
    pub history: Option<History>,
    /// The router feedback in the handshake; `None` unless [`Controller::requests_feedback`].
    pub feedback: RouterFeedback,
    /// As many packets as the sending rate carries in this time may leave together, as a *bunch*: where that is one, or
    /// where this is zero, every packet leaves at its own time. Waits of up to this time may be those of hosts.
    pub bunch: Duration,
}

impl Path {
    /// A path whose handshake took `rtt`, without router feedback.
    pub fn new(packet: Bytes, rtt: Duration, history: Option<History>) -> Self {
        Self { packet, rtt, history, feedback: RouterFeedback::None, bunch: Duration::ZERO }
    }
}

/// A packet that was sent.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// Its number, which increases by one with every packet of the macroflow.
    pub number: u64,
    /// Its size, headers included.
    pub bytes: Bytes,
    /// Bytes in flight, this packet included.
    pub in_flight: Bytes,
}

/// The receiver's report on one packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrival {
    /// The packet's number.
    pub number: u64,
    /// Its size, headers included.
    pub bytes: Bytes,
    /// When it was sent, on the sender's clock.
    pub sent_at: Time,
    /// When it arrived, on the receiver's clock.
    pub received_at: Time,
    /// The ECN code it arrived with.
    pub ecn: Ecn,
}

impl Arrival {
    /// One-way delay in nanoseconds plus the unknown offset between the two clocks. Only differences between two values
    /// are meaningful.
    pub fn one_way_delay(&self) -> i64 {
        self.received_at.as_nanos().wrapping_sub(self.sent_at.as_nanos()) as i64
    }
}

/// Where receivers do not say when packets arrived, a packet counts as arrived when its acknowledgement did. Of those that
/// one acknowledgement reports together, the last arrived then, and the others evenly since the acknowledgement `before`, as
/// far as none was faster than the minimum round trip. Else a pair of packets that is acknowledged as one would show no time
/// between them, and every second packet a wait.
pub fn spread<'a>(arrivals: impl ExactSizeIterator<Item = &'a mut Arrival>, before: Time, min_rtt: Duration) {
    let count = arrivals.len() as u64;
    for (index, arrival) in (1_u64..).zip(arrivals) {
        let since = arrival.received_at.since(before).as_nanos();
        let even = before + Duration::from_nanos((u128::from(since) * u128::from(index) / u128::from(count)) as u64);
        arrival.received_at = even.max(arrival.sent_at + min_rtt).min(arrival.received_at);
    }
}

/// An acknowledgement.
#[derive(Debug, Clone, Copy)]
pub struct Ack<'a> {
    /// Bytes that it newly reports as delivered, cumulatively or selectively.
    pub delivered: Bytes,
    /// Bytes in flight after it.
    pub in_flight: Bytes,
    /// The round-trip time that it measures: that of the last packet in `arrivals`, if there is one.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time (RFC 6298).
    pub smoothed_rtt: Duration,
    /// Minimum round-trip time measured on the path.
    pub min_rtt: Duration,
    /// The packets that it reports one by one, in the order of their arrival.
    pub arrivals: &'a [Arrival],
    /// The number of marks, where feedback counts packets. `None` where `arrivals` has the code of each packet; packets
    /// missing from `arrivals` were then reported in acknowledgements that were lost, or had counted as lost.
    pub mark_count: Option<MarkCount>,
    /// The router feedback in those packets.
    pub feedback: RouterFeedback,
    /// Bytes that were sent and not cumulatively acknowledged before it (RFC 5681, `FlightSize`).
    pub flight_size: Bytes,
    /// Highest number sent so far.
    pub last_sent: u64,
    /// The connection is still retransmitting losses that it reported earlier.
    pub recovering: bool,
    /// The application, not the controller, limits the bytes in flight, or did so within the last round trip: the window
    /// must not grow (RFC 9002 section 7.8).
    pub app_limited: bool,
    /// The application limits the bytes in flight at this moment: the window has space, and no flow waits to send.
    pub nothing_to_send: bool,
}

/// Feedback that counts marked packets instead of listing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkCount {
    /// The number of packets that arrived with a mark (`Ecn::Ce`).
    pub marks: u64,
    /// The highest number that one of them may have.
    pub number: u64,
}

impl Ack<'_> {
    /// The number of the last packet that arrived with a mark (`Ecn::Ce`), if one did. The controller itself limits its
    /// reaction to one a window of data (RFC 3168 section 6.1.2), and may interpret codes differently.
    pub fn last_marked(&self) -> Option<u64> {
        match self.mark_count {
            None => self.arrivals.iter().rev().find(|arrival| arrival.ecn == Ecn::Ce).map(|arrival| arrival.number),
            Some(mark_count) => (mark_count.marks > 0).then_some(mark_count.number),
        }
    }

    /// When it reached this host, which may process it later: the operating system's receive timestamp if there is one,
    /// else `now`.
    pub fn arrived_at(&self, now: Time) -> Time {
        let stamped = self.arrivals.last().zip(self.rtt).map(|(last, rtt)| last.sent_at + rtt);
        stamped.map_or(now, |stamped| stamped.min(now))
    }
}

/// How a loss was detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LossKind {
    /// The retransmission timer expired: no feedback arrives.
    Persistent,
    /// Later packets arrived, but this one did not.
    Transient,
}

/// Packets that were detected as lost.
#[derive(Debug, Clone, Copy)]
pub struct Loss {
    /// How the loss was detected.
    pub kind: LossKind,
    /// Bytes lost.
    pub bytes: Bytes,
    /// Bytes sent and not cumulatively acknowledged when the loss was detected (RFC 5681, `FlightSize`).
    pub flight_size: Bytes,
    /// Highest number among the lost packets.
    pub number: u64,
    /// Highest number sent so far.
    pub last_sent: u64,
    /// The connection was already retransmitting after an earlier loss.
    pub recovering: bool,
    /// `Persistent` only: the timer has expired before, and no feedback has arrived since.
    pub repeated_timeout: bool,
}

/// Permission to send one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// The earliest time at which it may be sent. [`Time::ZERO`] means at any time, [`Time::MAX`] means not before
    /// another event.
    pub at: Time,
    /// Its maximum size, headers included.
    pub bytes: Bytes,
    /// The request to routers that it carries; `None` requests nothing.
    pub feedback: RouterFeedback,
}

/// What concerns few controllers ([`Controller::on_notice`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// So many flows are active, more than ever since the start or since the last idle time, and nothing has been lost
    /// since. Each of them may have a first window of its own. Only where the macroflow gives flows first windows.
    FirstWindows(usize),
    /// So many bytes of a packet that was reported as sent in full were not sent.
    Unsent(Bytes),
    /// Packets that were reported as sent will get no feedback in this macroflow: their flow has ended, has moved to
    /// another macroflow, or never reported on them.
    Discarded,
    /// The last packets were sent earlier than [`Controller::departure`] permitted. They do not delay the next one.
    Unpaced,
    /// Packets beyond its window were sent ([`Notice::Unpaced`]) and arrive without congestion. A controller with a
    /// smaller window than this `PipeSize` (RFC 9959) may use it: the bytes in flight before them, and all that have
    /// arrived since.
    Validated(Bytes),
    /// A packet could have been sent, but no flow had data to send.
    AppLimited,
    /// The last reported loss was spurious: packets were reordered (CM section 4.2.2), or the path became longer than the
    /// retransmission timeout, or was blocked (RFC 3522). Of repeated timeouts all were spurious.
    SpuriousLoss,
    /// This host stalled until now although it had work to do: its thread, or a whole virtual machine, got
    /// no processor. If only the thread stalled, send and receive timestamps remain valid. If the machine stalled,
    /// packets that arrived in this time were stamped late, and everything else on the machine was late, too.
    Stall {
        /// When it began.
        since: Time,
    },
}

/// A congestion controller. All times are read from the sender's clock.
pub trait Controller: Debug {
    /// The handshake is complete: packets may be sent from now on.
    fn on_path(&mut self, now: Time, path: &Path);

    /// Packets have up to `packet` bytes from now on, headers included: the path carries more, or less, than before.
    /// Without this method packets have at most the size of [`Path::packet`].
    fn on_packet_size(&mut self, _now: Time, _packet: Bytes) {}

    /// A packet was sent.
    fn on_sent(&mut self, now: Time, sent: &Sent);

    /// An acknowledgement arrived.
    fn on_ack(&mut self, now: Time, ack: &Ack<'_>);

    /// Packets were lost.
    fn on_loss(&mut self, now: Time, loss: &Loss);

    /// No bytes were in flight for `idle`, and now there is data to send again. `timeout` is the retransmission
    /// timeout, the usual threshold for a long idle time.
    fn on_idle(&mut self, _now: Time, _idle: Duration, _timeout: Duration) {}

    /// Something happened that concerns few controllers.
    fn on_notice(&mut self, _now: Time, _notice: Notice) {}

    /// The time that [`Controller::deadline`] returned has come.
    fn on_deadline(&mut self, _now: Time) {}

    /// When [`Controller::on_deadline`] is to be called; [`Time::MAX`] for never.
    fn deadline(&self) -> Time {
        Time::MAX
    }

    /// The maximum number of bytes in flight, at least one packet; [`Bytes::MAX`] for no limit. A smaller one is an error
    /// in the controller ([`Fault`](crate::Fault)).
    fn window(&self) -> Bytes;

    /// The permission to send the next packet.
    fn departure(&self) -> Departure;

    /// The sending rate, above zero; `None` where only the window limits sending.
    fn rate(&self) -> Option<Rate>;

    /// The ECN code of its packets, where the scheme defines its own meaning of codes. `None`: the flow's settings
    /// decide.
    fn ecn(&self) -> Option<Ecn> {
        None
    }

    /// Whether the code of its packets is the scheme's own, which routers rewrite: then no code with which packets arrive
    /// is a fault of the path, and ECN is not validated (RFC 9000 section 13.4.2).
    fn has_own_codes(&self) -> bool {
        false
    }

    /// Why the scheme cannot work as designed on this path and what it does instead, as a message for the user. `None`
    /// while it works as designed. Called after every acknowledgement.
    fn degraded_reason(&self) -> Option<&'static str> {
        None
    }

    /// The name of its state, for operators: lower-case words with underscores, such as `slow_start`. Metrics have a
    /// series for each name. The repair of losses is not a state: each flow of a macroflow repairs its own. Controllers
    /// with only one state keep this default.
    fn state(&self) -> &'static str {
        "running"
    }

    /// Adds the values that it calculates with, for traces. Called after every event while a trace is written.
    fn record(&self, _out: &mut Record) {}

    /// Whether the handshake requests feedback from routers; [`Path::feedback`] has their answer.
    fn requests_feedback(&self) -> bool {
        false
    }

    /// Whether it starts with a history of its own ([`Controller::remember`]), so that nothing else may set its first
    /// window.
    fn keeps_history(&self) -> bool {
        false
    }

    /// Stores the measurements that the next macroflow to the same destination starts with.
    fn remember(&self, _now: Time, _history: &mut Option<History>) {}
}

/// A controller that can be created from its settings.
pub trait Algorithm: Controller + Sized + Send + 'static {
    /// Its settings; their `Default` has the values of the paper.
    type Config: Settings + Default;

    /// The information that it needs beyond what programs report to a host's Congestion Manager (bytes, losses, a
    /// round-trip time), and how it behaves without that information, as a message for the user.
    const NEEDS: Option<&'static str> = None;

    /// What it does where packets arrive without a receipt (arrival time and code), because acknowledgements are lost, if
    /// that costs it much of its rate. A message for the user.
    const NEEDS_RECEIPTS: Option<&'static str> = None;

    /// A controller before [`Controller::on_path`], with its own random stream.
    fn new(config: &Self::Config, random: Random) -> Self;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{PACKET, RTT, ack, arrived};

    #[test]
    fn packets_of_one_acknowledgement_arrived_since_the_last_one() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        // Sent at these times, acknowledged together at 140 ms, 8 ms after the acknowledgement before.
        let mut arrivals =
            [30, 30, 36, 39].map(|sent| Arrival { sent_at: at(sent), received_at: at(140), ..Arrival::default() });
        spread(arrivals.iter_mut(), at(132), Duration::from_millis(100));
        assert_eq!(arrivals.map(|arrival| arrival.received_at), [at(134), at(136), at(138), at(140)]);
        spread(arrivals.iter_mut(), at(0), Duration::from_millis(100));
        assert_eq!(arrivals[0].received_at, at(130), "not before a minimum round trip");
        let mut one = [Arrival { received_at: at(7), ..Arrival::default() }];
        spread(one.iter_mut(), at(9), Duration::from_millis(1));
        assert_eq!(one[0].received_at, at(7));
    }

    #[test]
    fn the_last_marked_packet_is_that_of_the_list_or_of_the_count() {
        let arrivals = [(1, Ecn::Ce), (2, Ecn::Ce), (3, Ecn::Ect0)].map(|(number, ecn)| Arrival {
            number,
            bytes: PACKET,
            ecn,
            ..Arrival::default()
        });
        assert_eq!(arrived(&arrivals, RTT).last_marked(), Some(2));
        for (marks, last) in [(0, None), (1, Some(9))] {
            let mark_count = Some(MarkCount { marks, number: 9 });
            assert_eq!(Ack { mark_count, ..ack(3) }.last_marked(), last);
        }
    }
}
