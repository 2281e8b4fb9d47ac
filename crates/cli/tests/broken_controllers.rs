//! Controllers that are broken on purpose fail the questions of RFC 9743 that ask for their fault, and no others.
//!
//! Each is NewReno with one fault. Where a fault must show in more than one question, the table of expectations says so.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use rampmeter_control::rules::{AckEvent, Amount, Congestion, Rules, Windowed};
use rampmeter_control::units::{Bytes, Duration, Ecn, Rate, Stream, Time};
use rampmeter_control::{
    Ack, Algorithm, Arrival, Controller, Departure, Loss, LossKind, Path as NetworkPath, Sent, newreno,
};
use rampmeter_scenario::{Registries, Schema, World};
use rampmeter_sim::Simulated;
use rampmeter_study::evaluation::{Evaluation, Evaluator, Questionnaire, Schemes, Verdict};
use rampmeter_study::{Program, Sweep, claims::Judge};

/// A fault, in the events that a controller with it gets.
trait Fault: std::fmt::Debug + Send + 'static {
    /// The ECN code of its packets.
    const ECN: Option<Ecn> = None;
    /// Whether it learns of losses.
    const SEES_LOSSES: bool = true;
    /// Whether it learns of marks.
    const SEES_MARKS: bool = true;
    /// Whether packets that arrive out of order are losses to it.
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
    fault: std::marker::PhantomData<F>,
}

impl<F: Fault> Algorithm for Faulty<F> {
    type Config = newreno::Config;

    fn new(config: &newreno::Config, random: Stream) -> Self {
        Self { inner: newreno::NewReno::new(config, random), highest: 0, fault: std::marker::PhantomData }
    }
}

impl<F: Fault> Controller for Faulty<F> {
    fn on_path(&mut self, now: Time, path: &NetworkPath) {
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

/// Grows and shrinks in proportion to itself, by little, so that a flow with the link keeps it.
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

/// The questions with the values of their axes here, and the schemes that must fail each of them. NewReno passes all.
const EXPECTED: &[(&str, &str, &[&str])] = &[
    ("outage", "path = 'outage'", &["never-backs-off"]),
    ("no-feedback", "path = 'no-feedback'", &["never-backs-off"]),
    ("circuit-breaker", "loss = 0.1", &["never-backs-off"]),
    ("latecomer", "path = 'latecomer'", &["starves-latecomers"]),
    ("aqm-delay", "flows = 4\npath = 'codel'", &["ignores-ce", "never-backs-off"]),
    ("reordering", "path = ['in-order', 'jitter']", &["halves-at-every-reordering"]),
];

fn registries() -> Registries {
    Registries::default()
        .controller::<Faulty<NeverBacksOff>>("never-backs-off", "NewReno that is not told of losses")
        .controller::<Windowed<StarvesLatecomers>>("starves-latecomers", "a window in proportion to itself")
        .controller::<Faulty<IgnoresCe>>("ignores-ce", "NewReno that is not told of marks, with ECT(0)")
        .controller::<Faulty<HalvesAtEveryReordering>>("halves-at-every-reordering", "NewReno without patience")
}

/// Asks the questions of [`EXPECTED`] with one seed.
fn evaluate(directory: &Path) -> Evaluation {
    let registries = registries();
    let questions = rampmeter_study::evaluation::write_builtin(directory).unwrap();
    let mut questionnaire = Questionnaire::read(&questions).unwrap();
    questionnaire.questions.retain_mut(|question| {
        let expected = EXPECTED.iter().find(|(id, ..)| *id == question.id);
        expected.is_some_and(|(_, values, _)| {
            question.set = values.parse().unwrap();
            true
        })
    });
    assert_eq!(questionnaire.questions.len(), EXPECTED.len());
    let file = directory.join("schemes.toml");
    let mut schemes = Schemes::default();
    schemes.read(&file).unwrap();
    let rivals =
        ["newreno", "starves-latecomers", "ignores-ce", "halves-at-every-reordering"].map(str::to_owned).to_vec();
    for name in rivals.iter().map(String::as_str).chain(["never-backs-off"]) {
        schemes.need(name, &registries).unwrap();
    }
    std::fs::write(file, schemes.text()).unwrap();
    let (schema, stop, program) = (Schema::default(), AtomicBool::new(false), Program::this().unwrap());
    let worlds: [&dyn World; 1] = [&Simulated];
    let sweep = Sweep { registries: &registries, schema: &schema, jobs: None, stop: &stop, cluster: None };
    let judge = Judge { sweep, worlds: &worlds, directory: &directory.join("points"), program: &program };
    let (questionnaire, schemes, rivals) = (&questionnaire, &schemes, &rivals[..]);
    Evaluator { judge, questionnaire, schemes, scheme: "never-backs-off", rivals, quick: false, seeds: &[1] }
        .run(|_| {})
        .unwrap()
}

#[test]
fn a_broken_controller_fails_exactly_where_it_should() {
    let directory = std::env::temp_dir().join(format!("rampmeter-broken-{}", std::process::id()));
    let evaluation = evaluate(&directory);
    std::fs::remove_dir_all(&directory).unwrap();
    for (id, _, expected) in EXPECTED {
        let question = evaluation.questions().find(|question| question.id == *id).unwrap();
        let failing = question.answers.iter().filter(|answer| answer.verdict == Verdict::Fails);
        let mut failing: Vec<&str> = failing.map(|answer| answer.scheme.as_str()).collect();
        failing.sort_unstable();
        assert_eq!(failing, *expected, "{id}: {:?}", question.answers);
        assert!(question.answers.iter().all(|answer| answer.verdict != Verdict::Skipped), "{id}");
    }
}
