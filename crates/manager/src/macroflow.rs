//! A macroflow: one controller, the flows that share it, and what they have outstanding together.

use std::collections::VecDeque;

use rampmeter_control::{Ack, Controller, History, Loss, LossKind, Path, Sent};
use rampmeter_units::{Bytes, Duration, Rate, Time};

use crate::manager::{Destination, Share, Update};
use crate::rtt::RttEstimator;
use crate::scheduler::{Scheduler, Scheduling};

/// What a flow may learn of its macroflow (CM section 3.1, `cm_query`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The rate the macroflow is allowed: the controller's or, for a window, `window / smoothed_rtt`.
    pub rate: Rate,
    /// Its window; [`Bytes::MAX`] for a rate-based controller.
    pub window: Bytes,
    /// Bytes outstanding.
    pub outstanding: Bytes,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// Least round-trip time.
    pub min_rtt: Duration,
    /// Flows that share it.
    pub flows: usize,
}

/// What became of an attempt to grant.
pub(crate) enum Attempt {
    /// This flow may send a packet of up to that many bytes.
    Granted { flow: u32, number: u64 },
    /// Nobody asks.
    NothingToSend,
    /// The window is full: an update must come first.
    WindowFull,
    /// The next packet may leave at this time.
    TooEarly(Time),
}

#[derive(Debug)]
pub(crate) struct Macroflow<C> {
    pub(crate) destination: Destination,
    pub(crate) controller: C,
    pub(crate) started: bool,
    pub(crate) flows: usize,
    /// Waiting in the manager's ready queue.
    pub(crate) ready: bool,
    /// Flows that ask for leave.
    scheduler: Scheduler,
    /// The flow that was last given leave by the scheduler and has not said what it made of it.
    granted: Option<u32>,
    /// Flows that ask to repair a loss at once, whatever the window says (RFC 6675 section 5, step 4.3).
    urgent: VecDeque<u32>,
    outstanding: Bytes,
    next_number: u64,
    last_sent: Time,
    packet: Bytes,
    rtt: RttEstimator,
    /// When leave could last be given, nobody asked: the application, not the controller, bounds what is outstanding.
    app_limited: bool,
}

impl<C: Controller> Macroflow<C> {
    pub(crate) fn new(destination: Destination, controller: C, scheduling: Scheduling) -> Self {
        Self {
            destination,
            controller,
            started: false,
            flows: 0,
            ready: false,
            scheduler: Scheduler::new(scheduling),
            granted: None,
            urgent: VecDeque::new(),
            outstanding: Bytes::ZERO,
            next_number: 0,
            last_sent: Time::ZERO,
            packet: Bytes::ZERO,
            rtt: RttEstimator::default(),
            app_limited: false,
        }
    }

    pub(crate) fn start(&mut self, now: Time, path: &Path) {
        self.rtt.sample(path.rtt);
        if !self.started {
            self.started = true;
            self.packet = path.packet;
            self.last_sent = now;
            self.controller.on_path(now, path);
        }
    }

    /// The controller is a new one; it starts if the path is known.
    pub(crate) fn restart(&mut self, now: Time, history: Option<History>) {
        self.app_limited = false;
        if self.started {
            self.controller.on_path(now, &Path::new(self.packet, self.rtt.smoothed(), history));
        }
    }

    pub(crate) fn request(&mut self, now: Time, flow: u32, urgent: bool) {
        let first = self.scheduler.is_empty() && self.urgent.is_empty();
        if first && self.outstanding == Bytes::ZERO && now > self.last_sent && self.next_number > 0 {
            let timeout = self.rtt.timeout(Duration::from_secs(1), Duration::ZERO);
            self.controller.on_idle(now, now.since(self.last_sent), timeout);
        }
        if urgent { self.urgent.push_back(flow) } else { self.scheduler.request(flow) }
    }

    pub(crate) fn attempt(&mut self, now: Time) -> Attempt {
        let asks = !self.scheduler.is_empty();
        if self.urgent.is_empty() {
            let window = self.controller.window();
            // An empty pipe always takes one packet: a window below one packet must not stop everything.
            let fits = self.outstanding + self.packet <= window || self.outstanding == Bytes::ZERO;
            if asks && !fits {
                self.app_limited = false;
                return Attempt::WindowFull;
            }
            let departure = self.controller.departure();
            if departure.at > now {
                self.app_limited &= !asks;
                return if asks { Attempt::TooEarly(departure.at) } else { Attempt::NothingToSend };
            }
            if !asks {
                if fits && !std::mem::replace(&mut self.app_limited, true) {
                    self.controller.on_app_limited(now);
                }
                return Attempt::NothingToSend;
            }
        } else {
            let departure = self.controller.departure();
            if departure.at > now {
                return Attempt::TooEarly(departure.at);
            }
        }
        let urgent = self.urgent.pop_front();
        let granted = urgent.or_else(|| {
            self.granted = self.scheduler.next(self.packet);
            self.granted
        });
        granted.map_or(Attempt::NothingToSend, |flow| Attempt::Granted { flow, number: self.next_number })
    }

    /// The flow that was given leave has sent `bytes`, or nothing after all.
    pub(crate) fn sent(&mut self, now: Time, bytes: Bytes) {
        if let Some(flow) = self.granted.take() {
            self.scheduler.sent(flow, self.packet, bytes);
        }
        if bytes == Bytes::ZERO {
            return;
        }
        self.outstanding += bytes;
        self.last_sent = now;
        let sent = Sent { number: self.next_number, bytes, outstanding: self.outstanding };
        self.next_number += 1;
        self.controller.on_sent(now, &sent);
    }

    pub(crate) fn update(&mut self, now: Time, update: &Update<'_>) {
        if let Some(rtt) = update.rtt {
            self.rtt.sample(rtt);
        }
        self.outstanding = self.outstanding.saturating_sub(update.acked + update.lost);
        if let Some(loss) = &update.loss {
            let loss = Loss {
                kind: loss.kind,
                bytes: update.lost,
                flight: update.flight,
                number: loss.number,
                last_sent: self.next_number.saturating_sub(1),
                recovering: loss.recovering,
                repeated: loss.repeated,
            };
            self.controller.on_loss(now, &loss);
            if loss.kind == LossKind::Persistent {
                return;
            }
        }
        let ack = Ack {
            acked: update.delivered,
            outstanding: self.outstanding,
            rtt: update.rtt,
            smoothed_rtt: self.rtt.smoothed(),
            min_rtt: self.rtt.min(),
            arrivals: update.arrivals,
            feedback: update.feedback,
            recovering: update.recovering,
            app_limited: self.app_limited,
        };
        self.controller.on_ack(now, &ack);
    }

    /// A flow joins.
    pub(crate) fn join(&mut self, flow: u32) {
        self.flows += 1;
        self.scheduler.join(flow);
    }

    /// The flow's share of the macroflow.
    pub(crate) fn share(&mut self, flow: u32, share: Share) {
        self.scheduler.weigh(flow, share.weight);
        self.scheduler.classify(flow, share.class);
    }

    /// A flow leaves, with bytes of its own still outstanding.
    pub(crate) fn close(&mut self, flow: u32, outstanding: Bytes) {
        self.flows -= 1;
        self.scheduler.leave(flow);
        self.granted = self.granted.filter(|granted| *granted != flow);
        self.urgent.retain(|&f| f != flow);
        self.outstanding = self.outstanding.saturating_sub(outstanding);
    }

    pub(crate) fn status(&self) -> Status {
        let window = self.controller.window();
        Status {
            rate: self.controller.rate().unwrap_or_else(|| Rate::of(window, self.rtt.smoothed())),
            window,
            outstanding: self.outstanding,
            smoothed_rtt: self.rtt.smoothed(),
            min_rtt: self.rtt.min(),
            flows: self.flows,
        }
    }
}
