//! Controllers that are broken on purpose: NewReno with one fault.

use std::marker::PhantomData;

use rampmeter_control::rules::{AckEvent, Amount, Congestion, Rules, Windowed};
use rampmeter_control::units::{Bytes, Duration, Ecn, Random, Rate, Time};
use rampmeter_control::{Ack, Algorithm, Arrival, Controller, Departure, Loss, LossKind, Path, Sent, newreno};
use rampmeter_scenario::Registries;

/// A fault, described by the events that reach the controller behind it.
trait Fault: std::fmt::Debug + Send + 'static {
    /// The ECN code of its packets.
    const ECN: Option<Ecn> = None;
    /// Whether it reacts to losses.
    const SEES_LOSSES: bool = true;
    /// Whether it reacts to marks.
    const SEES_MARKS: bool = true;
    /// Whether it takes a packet that arrives after a later one for lost.
    const SEES_LOSSES_IN_REORDERING: bool = false;
}

/// Grows whatever happens, up to four times what the path and its buffer hold, and sends without feedback.
#[derive(Debug)]
struct NeverBacksOff;

impl Fault for NeverBacksOff {
    const SEES_LOSSES: bool = false;
}

/// Its packets claim that it reacts to marks.
#[derive(Debug)]
struct IgnoresCe;

impl Fault for IgnoresCe {
    const ECN: Option<Ecn> = Some(Ecn::Ect0);
    const SEES_MARKS: bool = false;
}

/// Takes a packet that arrives after a later one for lost.
#[derive(Debug)]
struct HalvesAtEveryReordering;

impl Fault for HalvesAtEveryReordering {
    const SEES_LOSSES_IN_REORDERING: bool = true;
}

/// Without it, what a controller sends that never backs off would take most of the time of these tests.
const MAX_WINDOW: Bytes = Bytes::new(800_000);

/// NewReno behind a fault.
#[derive(Debug)]
struct Faulty<F: Fault> {
    inner: newreno::NewReno,
    highest: u64,
    fault: PhantomData<F>,
}

impl<F: Fault> Algorithm for Faulty<F> {
    type Config = newreno::Config;

    fn new(config: &newreno::Config, random: Random) -> Self {
        Self { inner: newreno::NewReno::new(config, random), highest: 0, fault: PhantomData }
    }
}

impl<F: Fault> Controller for Faulty<F> {
    fn on_path(&mut self, now: Time, path: &Path) {
        self.inner.on_path(now, path);
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) {
        self.inner.on_sent(now, sent);
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) {
        let unmarked = |arrival: &Arrival| Arrival { ecn: Ecn::Ect0, ..*arrival };
        let unmarked: Vec<Arrival> = ack.arrivals.iter().map(unmarked).collect();
        let arrivals = if F::SEES_MARKS { ack.arrivals } else { &unmarked };
        let recovering = ack.recovering && F::SEES_LOSSES;
        self.inner.on_ack(now, &Ack { arrivals, recovering, ..*ack });
        for arrival in ack.arrivals {
            let (number, bytes) = (arrival.number, arrival.bytes);
            if F::SEES_LOSSES_IN_REORDERING && number < self.highest {
                let (kind, last_sent) = (LossKind::Transient, ack.last_sent);
                let loss = Loss {
                    kind,
                    bytes,
                    flight_size: ack.flight_size,
                    number: last_sent,
                    last_sent,
                    recovering: false,
                    repeated_timeout: false,
                };
                self.inner.on_loss(now, &loss);
            }
            self.highest = self.highest.max(number);
        }
    }

    fn on_loss(&mut self, now: Time, loss: &Loss) {
        if F::SEES_LOSSES {
            self.inner.on_loss(now, loss);
        }
    }

    fn on_idle(&mut self, now: Time, idle: Duration, timeout: Duration) {
        self.inner.on_idle(now, idle, timeout);
    }

    fn window(&self) -> Bytes {
        self.inner.window().min(MAX_WINDOW)
    }

    fn departure(&self) -> Departure {
        self.inner.departure()
    }

    fn rate(&self) -> Option<Rate> {
        self.inner.rate()
    }

    fn ecn(&self) -> Option<Ecn> {
        F::ECN
    }
}

/// Grows and shrinks in proportion to itself. Two such windows keep their quotient, so that a latecomer keeps the small
/// part that its slow start found.
#[derive(Debug, Clone)]
struct StarvesLatecomers;

impl Rules for StarvesLatecomers {
    type Config = newreno::Config;

    fn new(_: &newreno::Config) -> Self {
        Self
    }

    fn first_window(config: &newreno::Config) -> u64 {
        config.initial_window
    }

    fn increase(&mut self, event: &AckEvent<'_>) -> Amount {
        Amount::Packets(0.001 * event.delivered)
    }

    fn decrease(&mut self, congestion: &Congestion) -> Amount {
        Amount::Packets(0.9 * congestion.window)
    }
}

/// The built-in controllers, and those with a fault.
pub(crate) fn registries() -> Registries {
    Registries::default()
        .controller::<Faulty<NeverBacksOff>>("never-backs-off", "NewReno that no loss reaches")
        .controller::<Windowed<StarvesLatecomers>>("starves-latecomers", "a window in proportion to itself")
        .controller::<Faulty<IgnoresCe>>("ignores-ce", "NewReno that no mark reaches, with ECT(0)")
        .controller::<Faulty<HalvesAtEveryReordering>>("halves-at-every-reordering", "NewReno without patience")
}
