//! How a macroflow uses Careful Resume (`careful_resume/`).

use rampmeter_control::{Controller, Departure, LossKind, Notice};
use rampmeter_units::{Bytes, Ecn, Time};

use super::Macroflow;
use crate::careful_resume::{Resume, Saved, State};
use crate::feedback::Update;

impl<C: Controller> Macroflow<C> {
    /// An earlier macroflow saved this.
    pub(crate) fn offer(&mut self, saved: Option<Saved>) {
        if let Some(resume) = &mut self.resume {
            resume.offer(saved);
        }
    }

    /// What it saves for a later one.
    pub(crate) fn saved(&self, now: Time) -> Option<Saved> {
        self.resume.as_ref().filter(|_| self.started).and_then(|resume| resume.save(now, self.rtt.min()))
    }

    /// Its controller has started.
    pub(super) fn begin_resume(&mut self) {
        if let Some(resume) = &mut self.resume {
            resume.begin(self.controller.window());
        }
    }

    /// The window that applies.
    pub(super) fn window(&self) -> Bytes {
        let own = self.controller.window();
        self.resume.as_ref().map_or(own, |resume| resume.window(own))
    }

    /// Whether the application, and not the controller, limits the bytes in flight, or did so in the last round trip. So
    /// the window does not grow while a few packets are paced that would not have filled it (RFC 9002 section 7.8). With
    /// more in flight than its own window the controller may grow.
    pub(super) fn is_app_limited(&self, now: Time) -> bool {
        let exceeds = self.resume.as_ref().is_some_and(|resume| resume.exceeds(self.controller.window()));
        let was_limited = self.app_limited_at.is_some_and(|at| now < at + self.smoothed_rtt());
        (self.app_limited || was_limited) && !(exceeds && self.in_flight > self.controller.window())
    }

    /// The next packet, and when it may leave.
    pub(super) fn departure(&self) -> Departure {
        let mut departure = self.controller.departure();
        if let Some(resume) = &self.resume {
            departure.at = resume.departure(departure.at);
        }
        departure
    }

    /// Whether the window, which was full, is larger now.
    pub(super) fn try_jump(&mut self, now: Time) -> bool {
        if self.controller.keeps_history() {
            return false;
        }
        self.resuming(now, |resume, state| resume.on_window_full(now, state)).unwrap_or_default()
    }

    /// A packet of `bytes` was sent.
    pub(super) fn resume_sent(&mut self, now: Time, bytes: Bytes) {
        self.resuming(now, |resume, state| resume.on_sent(now, bytes, state));
    }

    /// Feedback has arrived, and the controller knows it.
    pub(super) fn resume_update(&mut self, now: Time, update: &Update<'_>) {
        self.resuming(now, |resume, state| {
            if let Some(loss) = &update.loss {
                resume.on_congestion(loss.kind, state);
            } else if update.arrivals.iter().any(|arrival| arrival.ecn == Ecn::Ce) {
                resume.on_congestion(LossKind::Transient, state);
            }
            if let Some(number) = update.arrivals.iter().map(|arrival| arrival.number).max() {
                resume.on_delivered(now, update.delivered, number, state);
            }
        });
    }

    /// Does `step`, if Careful Resume is on. The controller's own pacing starts again after the unvalidated packets.
    fn resuming<T>(&mut self, now: Time, step: impl FnOnce(&mut Resume, &State) -> T) -> Option<T> {
        let mut resume = self.resume.take()?;
        let was_unvalidated = resume.is_unvalidated();
        let done = step(&mut resume, &self.state());
        if was_unvalidated && !resume.is_unvalidated() {
            self.controller.on_notice(now, Notice::Unpaced);
        }
        if let Some(pipe) = resume.validated() {
            self.controller.on_notice(now, Notice::Validated(pipe));
        }
        self.resume = Some(resume);
        Some(done)
    }

    /// Feedback has no packet numbers.
    pub(super) fn stop_resume(&mut self) {
        self.resume = None;
    }

    fn state(&self) -> State {
        State {
            window: self.controller.window(),
            in_flight: self.in_flight,
            next_number: self.next_number,
            packet: self.packet,
            rtt: self.smoothed_rtt(),
            min_rtt: self.rtt.min(),
        }
    }
}
