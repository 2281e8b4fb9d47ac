//! Points run on all cores, kept as they finish, and given in the order of the sweep.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rampmeter_scenario::{Point, Reached, Registries, Run, Scenario, Schema, World, WorldError};
use rampmeter_units::Time;

use crate::{Journal, StudyError};

/// How often is told how far points are that are under way.
const TICK: Duration = Duration::from_millis(200);

/// One point to run: of which scenario, in which world, and where its result is kept.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// One of its points.
    pub point: &'a Point,
    /// Where it runs.
    pub world: &'a dyn World,
    /// Where its result is kept.
    pub journal: &'a Journal,
}

/// What became of a point.
#[derive(Debug, Clone, PartialEq)]
pub enum Finished<T> {
    /// It ran; what is kept of the run.
    Run(T),
    /// It asks for what its world does not have.
    Skipped(Skipped),
}

impl<T> Finished<T> {
    /// What is kept of its run, if it ran.
    pub fn run(&self) -> Option<&T> {
        match self {
            Self::Run(kept) => Some(kept),
            Self::Skipped(_) => None,
        }
    }
}

/// A point that its world cannot run.
#[derive(Debug, Clone, PartialEq)]
pub struct Skipped {
    /// The point.
    pub point: Point,
    /// What the world lacks, and what would be right.
    pub reason: String,
}

/// How far a sweep is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Progress {
    /// Points finished.
    pub done: usize,
    /// Of these, found in the journal.
    pub kept: usize,
    /// All points.
    pub total: usize,
    /// What is running.
    pub under_way: UnderWay,
    /// The user stopped it, and what is under way is being finished.
    pub finishing: bool,
    /// How long the rest will take, going by what ran.
    pub left: Option<Duration>,
}

/// Points that are running in a world that tells how far they are.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct UnderWay {
    /// How many.
    pub points: usize,
    /// How far they are, added up: 1 is a whole point.
    pub part: f64,
    /// How many seconds of their time they have behind them, together.
    pub seconds: f64,
    /// How many they have at most.
    pub of: f64,
}

/// How to run points.
#[derive(Debug, Clone, Copy)]
pub struct Sweep<'a> {
    /// The controllers.
    pub registries: &'a Registries,
    /// The columns of results.
    pub schema: &'a Schema,
    /// Points at once. By default one for every core; in worlds whose runs disturb each other, one.
    pub jobs: Option<usize>,
    /// Set to stop after the points under way.
    pub stop: &'a AtomicBool,
}

impl Sweep<'_> {
    /// Runs `tasks`; a task that its journal has is taken from there. `keep` makes of each run what is kept of it, on the
    /// thread that ran it. Results are in the tasks' order.
    pub fn run<T: Send>(
        &self,
        tasks: &[Task<'_>],
        keep: impl Fn(Run) -> T + Sync,
        mut watch: impl FnMut(Progress),
    ) -> Result<Vec<Finished<T>>, StudyError> {
        let begun = Instant::now();
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let mut results: Vec<Option<Finished<T>>> = tasks.iter().map(|_| None).collect();
        let mut first_error: Option<(usize, StudyError)> = None;
        let mut progress = Progress { total: tasks.len(), ..Progress::default() };
        watch(progress);
        let desks: Vec<Desk> = (0..self.threads(tasks)).map(|_| Desk::default()).collect();
        thread::scope(|scope| {
            let (send, receive) = mpsc::channel();
            for desk in &desks {
                let (send, next, failed, keep) = (send.clone(), &next, &failed, &keep);
                scope.spawn(move || {
                    while !self.stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
                        let place = next.fetch_add(1, Ordering::Relaxed);
                        let Some(task) = tasks.get(place) else { break };
                        if send.send((place, task.run(self.registries, desk, keep))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(send);
            loop {
                let (place, result) = match receive.recv_timeout(TICK) {
                    Ok(result) => result,
                    Err(RecvTimeoutError::Timeout) => {
                        watch(self.look(progress, &desks, tasks, begun.elapsed()));
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                match result {
                    Ok((finished, kept)) => {
                        results[place] = Some(finished);
                        progress.done += 1;
                        progress.kept += usize::from(kept);
                        watch(self.look(progress, &desks, tasks, begun.elapsed()));
                    }
                    Err(StudyError::World { error: WorldError::Interrupted, .. }) => {}
                    Err(error) => {
                        failed.store(true, Ordering::Relaxed);
                        if first_error.as_ref().is_none_or(|(first, _)| place < *first) {
                            first_error = Some((place, error));
                        }
                    }
                }
            }
        });
        match (first_error, results.into_iter().collect::<Option<Vec<_>>>()) {
            (Some((_, error)), _) => Err(error),
            (None, Some(results)) => Ok(results),
            (None, None) => Err(StudyError::Interrupted { done: progress.done, total: progress.total }),
        }
    }
}

impl Sweep<'_> {
    fn threads(&self, tasks: &[Task<'_>]) -> usize {
        let alone = tasks.iter().any(|task| task.world.runs_alone());
        let cores = || if alone { 1 } else { thread::available_parallelism().map_or(1, NonZero::get) };
        self.jobs.unwrap_or_else(cores).clamp(1, tasks.len().max(1))
    }

    /// How far it is, with what is under way.
    fn look(&self, progress: Progress, desks: &[Desk], tasks: &[Task<'_>], elapsed: Duration) -> Progress {
        let mut under_way = UnderWay::default();
        for desk in desks {
            desk.add_to(&mut under_way);
        }
        let finishes = !tasks.iter().any(|task| task.world.breaks_off());
        let finishing = finishes && self.stop.load(Ordering::Relaxed) && progress.done < progress.total;
        let progress = Progress { under_way, finishing, ..progress };
        Progress { left: time_left(elapsed, progress), ..progress }
    }
}

/// What less of a point says nothing of how long it will take.
const MIN_PART: f64 = 0.01;

/// Points that were kept took no time and say nothing about the others.
fn time_left(elapsed: Duration, progress: Progress) -> Option<Duration> {
    let ran = (progress.done - progress.kept) as f64 + progress.under_way.part;
    let left = (progress.total - progress.done) as f64 - progress.under_way.part;
    (ran >= MIN_PART).then(|| elapsed.mul_f64(left.max(0.0) / ran))
}

/// Where one thread's points run, one after the other.
#[derive(Debug, Default)]
struct Desk {
    reached: Reached,
    /// When the one that is running ends, in nanoseconds; 0 if none is.
    end: AtomicU64,
}

impl Desk {
    fn begin(&self, end: Time) {
        self.reached.tell(Time::ZERO);
        self.end.store(end.as_nanos(), Ordering::Relaxed);
    }

    fn clear(&self) {
        self.end.store(0, Ordering::Relaxed);
    }

    fn add_to(&self, under_way: &mut UnderWay) {
        let (at, end) = (self.reached.at(), Time::from_nanos(self.end.load(Ordering::Relaxed)));
        if end > Time::ZERO && at > Time::ZERO {
            let [at, end] = [at, end].map(|time| time.since(Time::ZERO).as_secs_f64());
            under_way.points += 1;
            under_way.part += (at / end).min(1.0);
            under_way.seconds += at.min(end);
            under_way.of += end;
        }
    }
}

impl Task<'_> {
    /// Its result, and whether the journal had it.
    fn run<T>(
        &self,
        registries: &Registries,
        desk: &Desk,
        keep: impl Fn(Run) -> T,
    ) -> Result<(Finished<T>, bool), StudyError> {
        let plan = self.scenario.plan(self.point, registries)?;
        let world = self.world.name();
        if let Some(record) = self.journal.load(self.point) {
            let run = Run { plan, outcome: record.outcome, world, wall_s: record.wall_s };
            return Ok((Finished::Run(keep(run)), true));
        }
        let begun = Instant::now();
        desk.begin(plan.end());
        let outcome = self.world.run_telling(&plan, &desk.reached);
        desk.clear();
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error @ WorldError::Lacks { .. }) => {
                let skipped = Skipped { point: self.point.clone(), reason: error.to_string() };
                return Ok((Finished::Skipped(skipped), false));
            }
            Err(error) => return Err(StudyError::World { point: self.point.to_string(), error }),
        };
        let wall_s = begun.elapsed().as_secs_f64();
        self.journal.store(self.point, &outcome, wall_s)?;
        Ok((Finished::Run(keep(Run { plan, outcome, world, wall_s })), false))
    }
}
