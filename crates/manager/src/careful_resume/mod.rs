//! Careful Resume (RFC 9959): a macroflow starts with half of the window that an earlier one used on the same path.
//!
//! ```text
//! reconnaissance ───► unvalidated ───► validating ───► settling ───► normal                section 3, Figure 1
//!        │                 └────────────────┴───► safe retreat ───► normal
//!        └───► normal
//!
//! observing       saved_cwnd: the maximum, over the last 8 round trips, of the bytes delivered in the minimum one
//! reconnaissance  the controller alone, until its first window is acknowledged. Congestion ends it; so do a round trip
//!                 of half of the saved one or less, or of more than ten of them, and the end of the lifetime
//! unvalidated     jump_cwnd = saved_cwnd / 2, paced over a round trip, until that is in flight, one of its packets is
//!                 acknowledged, or a round trip has passed. PipeSize: the bytes in flight before, and those delivered
//! validating      the bytes in flight, and one more for each that is delivered, until the last unvalidated packet is
//!                 acknowledged
//! settling        that window stays for a round trip; not in the RFC
//! safe retreat    after a loss or a mark: at most PipeSize / 2, until that packet is acknowledged. What was saved is
//!                 removed
//! ```
//!
//! It works around any controller that limits the bytes in flight: the larger window applies, of the controller's own
//! and of this one; in the safe retreat the smaller. The controller grows as always by what is delivered, also if the
//! application has no more data but more is in flight than the controller's own window. One that has ended slow start,
//! as by a delay, gets what has been validated
//! ([`Notice::Validated`](rampmeter_control::Notice::Validated)). After a round trip of validation its
//! own window is the `PipeSize`. One round trip later it is the larger one; until then, or until a loss, the last window
//! applies. A loss reduces the controller's own window, which is at most `PipeSize` then: the threshold of slow start is
//! below it, as section 3.5 requires.
//!
//! *Deviations*: validation adds a packet for each one that arrives also with a controller that is not in slow start;
//! the RFC leaves that to the controller. A jump has no maximum beside half of the saved window. After the safe retreat
//! a controller keeps the threshold that its own rules compute from the `PipeSize`: CUBIC 0.7 of it, as the RFC
//! permits. In the safe retreat a controller with less than half of the `PipeSize` grows up to that; the RFC keeps its
//! window. BBR leaves Startup by its own rules, and the delivery rates that it measures while the jump drains count. What
//! has been validated reaches the window schemes only (`windowed`): with BBR, Copa, Vivace, Prague and `SCReAM` the
//! window of the jump ends with settling, unless the controller's own has grown.
//!
//! A macroflow that the application limits keeps the larger window that was saved before, until its lifetime ends. It
//! never jumps where feedback has no packet numbers, nor with a controller that has a history of its own
//! ([`Controller::keeps_history`](rampmeter_control::Controller::keeps_history)).

use rampmeter_control::LossKind;
use rampmeter_units::{Bytes, Duration, Rate, Time};

/// A window of fewer first windows is not worth saving (section 3.1).
const MIN_SAVED: u64 = 4;

/// The number of round trips of which the best is saved.
const OBSERVED: usize = 8;

/// The minimum window after a congestion (section 3.5), in packets.
const MIN_WINDOW: u64 = 2;

/// The parameters of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Saved {
    /// `saved_cwnd`.
    pub(crate) window: Bytes,
    /// `saved_rtt`.
    pub(crate) rtt: Duration,
    /// When they were measured.
    pub(crate) at: Time,
}

impl Saved {
    /// Whether the round trip has become half of the saved one, or less.
    fn is_too_short(&self, state: &State) -> bool {
        state.min_rtt <= self.rtt / 2
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// `last`: the last packet of the initial data, after its first acknowledgement. `confirmed`: all of it has arrived.
    Reconnaissance {
        last: Option<u64>,
        confirmed: bool,
    },
    /// `first`: its first packet.
    Unvalidated {
        first: u64,
        since: Time,
    },
    /// `last`: the last unvalidated packet.
    Validating {
        last: u64,
    },
    /// The window stays until then.
    Settling {
        until: Time,
    },
    Retreat {
        last: u64,
    },
    Normal,
}

/// The state of a macroflow when something happens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct State {
    /// The controller's own window.
    pub(crate) window: Bytes,
    pub(crate) in_flight: Bytes,
    /// The number of the next packet.
    pub(crate) next_number: u64,
    pub(crate) packet: Bytes,
    pub(crate) rtt: Duration,
    pub(crate) min_rtt: Duration,
}

/// The bytes delivered in the last round trips.
#[derive(Debug, Default)]
struct Observed {
    since: Option<Time>,
    delivered: Bytes,
    windows: [Bytes; OBSERVED],
    next: usize,
}

impl Observed {
    fn add(&mut self, now: Time, delivered: Bytes, state: &State) {
        let Some(since) = self.since else {
            self.since = Some(now);
            return;
        };
        self.delivered += delivered;
        let span = now.since(since);
        if span >= state.rtt {
            self.windows[self.next] = Rate::of(self.delivered, span).bytes_in(state.min_rtt.min(span));
            self.next = (self.next + 1) % OBSERVED;
            (self.since, self.delivered) = (Some(now), Bytes::ZERO);
        }
    }

    fn window(&self) -> Bytes {
        self.windows.into_iter().max().unwrap_or_default()
    }
}

/// Careful Resume of one macroflow.
#[derive(Debug)]
pub(crate) struct Resume {
    lifetime: Duration,
    saved: Option<Saved>,
    observed: Observed,
    phase: Phase,
    /// The controller's first window.
    first_window: Bytes,
    /// `PipeSize`.
    pipe: Bytes,
    /// The window of the phase.
    window: Bytes,
    /// When the next unvalidated packet may leave.
    departure: Time,
}

impl Resume {
    /// The parameters that are saved may be used for `lifetime`.
    pub(crate) fn new(lifetime: Duration) -> Self {
        Self {
            lifetime,
            saved: None,
            observed: Observed::default(),
            phase: Phase::Reconnaissance { last: None, confirmed: false },
            first_window: Bytes::ZERO,
            pipe: Bytes::ZERO,
            window: Bytes::ZERO,
            departure: Time::ZERO,
        }
    }

    /// The macroflow starts. Only it uses `saved`.
    pub(crate) fn offer(&mut self, saved: Option<Saved>) {
        self.saved = saved;
    }

    /// A controller starts with `window`.
    pub(crate) fn begin(&mut self, window: Bytes) {
        self.first_window = window;
    }

    /// Whether its packets leave earlier than the controller permits.
    pub(crate) fn is_unvalidated(&self) -> bool {
        matches!(self.phase, Phase::Unvalidated { .. })
    }

    /// What is known to fit the path, while packets beyond the controller's window are validated.
    pub(crate) fn validated(&self) -> Option<Bytes> {
        matches!(self.phase, Phase::Validating { .. } | Phase::Settling { .. }).then_some(self.pipe)
    }

    /// The window that applies, where the controller's own is `own`.
    pub(crate) fn window(&self, own: Bytes) -> Bytes {
        match self.phase {
            Phase::Unvalidated { .. } | Phase::Validating { .. } | Phase::Settling { .. } => own.max(self.window),
            Phase::Retreat { .. } => own.min(self.window),
            Phase::Reconnaissance { .. } | Phase::Normal => own,
        }
    }

    /// Whether the window that applies is larger than the controller's own.
    pub(crate) fn exceeds(&self, own: Bytes) -> bool {
        self.window(own) > own
    }

    /// When the next packet may leave, where the controller permits it `own`.
    pub(crate) fn departure(&self, own: Time) -> Time {
        if self.is_unvalidated() { self.departure } else { own }
    }

    /// A packet waits because the window is full. Returns whether the window is larger now.
    pub(crate) fn on_window_full(&mut self, now: Time, state: &State) -> bool {
        match self.phase {
            Phase::Reconnaissance { confirmed: true, .. } => self.jump(now, state),
            Phase::Unvalidated { .. } => {
                self.end_unvalidated(state);
                false
            }
            _ => false,
        }
    }

    /// Section 3.2, the conditions, and section 3.3, the jump.
    fn jump(&mut self, now: Time, state: &State) -> bool {
        self.phase = Phase::Normal;
        let Some(saved) = self.saved else { return false };
        if now.since(saved.at) > self.lifetime {
            self.saved = None;
            return false;
        }
        let window = saved.window / 2;
        let is_too_long = state.min_rtt > saved.rtt * 10;
        if saved.is_too_short(state) || is_too_long || window <= state.window {
            return false;
        }
        (self.window, self.pipe, self.departure) = (window, state.in_flight, now);
        self.phase = Phase::Unvalidated { first: state.next_number, since: now };
        true
    }

    /// A packet of `bytes` was sent; `state` is the one after it.
    pub(crate) fn on_sent(&mut self, now: Time, bytes: Bytes, state: &State) {
        if let Phase::Unvalidated { since, .. } = self.phase {
            let rate = Rate::of(self.window, state.rtt.max(Duration::from_micros(1)));
            // A host that is late catches up with at most a first window (section 4.5).
            let earliest = now - rate.time_to_send(self.first_window);
            self.departure = self.departure.max(earliest) + rate.time_to_send(bytes);
            if state.in_flight + state.packet > self.window || now.since(since) > state.rtt {
                self.end_unvalidated(state);
            }
        }
    }

    /// Section 3.3: a window that was not used is not validated.
    fn end_unvalidated(&mut self, state: &State) {
        self.phase = if state.in_flight <= self.pipe || state.in_flight < self.first_window {
            Phase::Normal
        } else {
            self.window = state.in_flight;
            Phase::Validating { last: state.next_number.saturating_sub(1) }
        };
    }

    /// `delivered` bytes have arrived, `number` the highest of their packets; `state` is the one after them.
    pub(crate) fn on_delivered(&mut self, now: Time, delivered: Bytes, number: u64, state: &State) {
        self.observed.add(now, delivered, state);
        self.pipe += delivered;
        match self.phase {
            Phase::Reconnaissance { last, .. } => {
                let last = last.unwrap_or(state.next_number.saturating_sub(1));
                self.phase = Phase::Reconnaissance { last: Some(last), confirmed: number >= last };
            }
            // Section 3.3: a path with a much shorter round trip is another one.
            Phase::Unvalidated { .. } if self.saved.is_some_and(|saved| saved.is_too_short(state)) => {
                self.on_congestion(LossKind::Transient, state);
            }
            Phase::Unvalidated { first, since } if number >= first || now.since(since) > state.rtt => {
                self.end_unvalidated(state);
            }
            Phase::Validating { last } => {
                self.window += delivered;
                if number >= last {
                    self.phase = Phase::Settling { until: now + state.rtt };
                }
            }
            Phase::Settling { until } if now > until || state.window >= self.window => self.phase = Phase::Normal,
            Phase::Retreat { last } if number >= last => self.phase = Phase::Normal,
            _ => {}
        }
    }

    /// A packet was lost or marked.
    pub(crate) fn on_congestion(&mut self, kind: LossKind, state: &State) {
        let last = match self.phase {
            Phase::Unvalidated { .. } => state.next_number.saturating_sub(1),
            Phase::Validating { last } => last,
            Phase::Retreat { .. } if kind == LossKind::Transient => return,
            _ => {
                self.phase = Phase::Normal;
                return;
            }
        };
        self.saved = None;
        self.window = (self.pipe / 2).max(state.packet * MIN_WINDOW); // section 3.5
        // After a timeout the controller's own rules suffice (section 3.6).
        self.phase = if kind == LossKind::Transient { Phase::Retreat { last } } else { Phase::Normal };
    }

    /// What the next macroflow starts with. Of what was measured and what was saved before, the larger window counts: the
    /// application may have limited this macroflow.
    pub(crate) fn save(&self, now: Time, min_rtt: Duration) -> Option<Saved> {
        let window = self.observed.window();
        let measured = (window >= self.first_window * MIN_SAVED).then_some(Saved { window, rtt: min_rtt, at: now });
        let before = self.saved.filter(|saved| now.since(saved.at) <= self.lifetime && saved.window > window);
        before.or(measured)
    }
}

#[cfg(test)]
mod tests;
