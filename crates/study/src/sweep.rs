//! Runs points on all cores, stores each when it finishes, and returns the results in the order of the sweep.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rampmeter_scenario::{Point, Registries, Run, RunProgress, Scenario, Schema, World, WorldError};
use rampmeter_units::Time;
use serde::{Deserialize, Serialize};

use crate::caught::caught;
use crate::cluster::Carried;
use crate::journal::Key;
use crate::{Cluster, Journal, StudyError};

/// The interval of progress reports while points are running.
const TICK: Duration = Duration::from_millis(200);

/// One point to run: its scenario, its world and its journal.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// One of its points.
    pub point: &'a Point,
    /// The world that runs it.
    pub world: &'a dyn World,
    /// The journal that stores its outcome.
    pub journal: &'a Journal,
    /// Whether it runs even if the journal has it.
    pub fresh: bool,
}

/// The result of a point: the value that is kept of its run, if it has an outcome.
pub type Finished<T> = Result<T, Unfinished>;

/// A point without an outcome: its world cannot run it, or its run failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unfinished {
    /// The point as text: `scheme = "pcp", seed = 1`.
    pub point: String,
    /// The missing feature of the world, or the error, and the remedy.
    pub reason: String,
    /// Whether its run failed: a controller returned a wrong value, or something panicked. Others of the sweep go on.
    #[serde(skip)]
    pub is_failed: bool,
}

/// The progress of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Progress {
    /// Points finished.
    pub done: usize,
    /// The part of them that was found in the journal.
    pub kept: usize,
    /// All points.
    pub total: usize,
    /// The running points.
    pub running_points: RunningPoints,
    /// The user stopped the sweep; running points are being finished.
    pub finishing: bool,
    /// The estimated time of the rest, from the points that ran.
    pub left: Option<Duration>,
}

/// Running points of worlds that report progress.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RunningPoints {
    /// The number of points.
    pub points: usize,
    /// The sum of their completed fractions.
    pub part: f64,
    /// The sum of their elapsed simulated seconds.
    pub seconds: f64,
    /// The sum of their maximum durations in seconds.
    pub of: f64,
}

/// The settings of a sweep.
#[derive(Clone, Copy)]
pub struct Sweep<'a> {
    /// The controllers and routers.
    pub registries: &'a Registries,
    /// The columns of results.
    pub schema: &'a Schema,
    /// The number of points at a time. The default is one per core, and one in total for worlds that need the whole
    /// machine.
    pub jobs: Option<usize>,
    /// Set to stop after the running points.
    pub stop: &'a AtomicBool,
    /// The machines that run the points; `None` for this one.
    pub cluster: Option<&'a dyn Cluster>,
}

impl Sweep<'_> {
    /// Runs `tasks`, except those that the journal has finished. `keep` computes the value to keep of a run, on the
    /// thread that ran it. Results are in the order of the tasks.
    pub fn run<T: Send>(
        &self,
        tasks: &[Task<'_>],
        keep: impl Fn(Run) -> T + Sync,
        mut watch: impl FnMut(Progress),
    ) -> Result<Vec<Finished<T>>, StudyError> {
        let carried = match self.cluster {
            Some(cluster) => crate::cluster::run(cluster, tasks, self.stop, &mut watch)?,
            None => Carried::default(),
        };
        let mut watch =
            |progress: Progress| watch(Progress { kept: progress.kept.saturating_sub(carried.stored), ..progress });
        let started_at = Instant::now();
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let mut results: Vec<Option<Finished<T>>> = tasks.iter().map(|_| None).collect();
        let mut first_error: Option<(usize, StudyError)> = None;
        let mut progress = Progress { total: tasks.len(), ..Progress::default() };
        watch(progress);
        let workers: Vec<Worker> = (0..self.threads(tasks)).map(|_| Worker::default()).collect();
        thread::scope(|scope| {
            let (send, receive) = mpsc::channel();
            for worker in &workers {
                let (send, next, failed, keep, carried) = (send.clone(), &next, &failed, &keep, &carried);
                scope.spawn(move || {
                    while !self.stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(task) = tasks.get(index) else { break };
                        // What a cluster has brought is in the journal.
                        let fresh = task.fresh && self.cluster.is_none();
                        let result = match carried.failed.get(&index) {
                            Some(reason) => Ok((Err(task.failed(reason.clone())), false)),
                            None => task.run(self.registries, worker, fresh, keep),
                        };
                        if send.send((index, result)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(send);
            loop {
                match receive.recv_timeout(TICK) {
                    Ok((index, Ok((finished, kept)))) => {
                        results[index] = Some(finished);
                        progress.done += 1;
                        progress.kept += usize::from(kept);
                    }
                    Ok((_, Err(StudyError::World { error: WorldError::Interrupted, .. })))
                    | Err(RecvTimeoutError::Timeout) => {}
                    Ok((index, Err(error))) => {
                        failed.store(true, Ordering::Relaxed);
                        if first_error.as_ref().is_none_or(|(first, _)| index < *first) {
                            first_error = Some((index, error));
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                watch(self.with_running(progress, &workers, tasks, started_at.elapsed()));
            }
        });
        match (first_error, results.into_iter().collect::<Option<Vec<_>>>()) {
            (Some((_, error)), _) => Err(error),
            (None, Some(results)) => Ok(results),
            (None, None) => Err(StudyError::Interrupted { done: progress.done, total: progress.total }),
        }
    }

    fn threads(&self, tasks: &[Task<'_>]) -> usize {
        let whole_machine = tasks.iter().any(|task| task.world.needs_whole_machine());
        let cores = || if whole_machine { 1 } else { thread::available_parallelism().map_or(1, NonZero::get) };
        self.jobs.unwrap_or_else(cores).clamp(1, tasks.len().max(1))
    }

    /// `progress` with the running points and the estimated time.
    fn with_running(&self, progress: Progress, workers: &[Worker], tasks: &[Task<'_>], elapsed: Duration) -> Progress {
        let mut running_points = RunningPoints::default();
        for worker in workers {
            worker.add_to(&mut running_points);
        }
        let must_finish = !tasks.iter().any(|task| task.world.stops_immediately());
        let finishing = must_finish && self.stop.load(Ordering::Relaxed) && progress.done < progress.total;
        let progress = Progress { running_points, finishing, ..progress };
        Progress { left: time_left(elapsed, progress), ..progress }
    }
}

/// The minimum amount of completed work, in points, for an estimate of the time left.
const MIN_WORK: f64 = 0.01;

/// The estimated time of the rest. Points from the journal took no time and are not counted.
fn time_left(elapsed: Duration, progress: Progress) -> Option<Duration> {
    let ran = (progress.done - progress.kept) as f64 + progress.running_points.part;
    let left = (progress.total - progress.done) as f64 - progress.running_points.part;
    (ran >= MIN_WORK).then(|| elapsed.mul_f64(left.max(0.0) / ran))
}

/// The progress of the points of one thread.
#[derive(Debug, Default)]
struct Worker {
    reached: RunProgress,
    /// The end of the running point in nanoseconds; 0 if none is running.
    end: AtomicU64,
}

impl Worker {
    fn add_to(&self, running_points: &mut RunningPoints) {
        let (at, end) = (self.reached.at(), Time::from_nanos(self.end.load(Ordering::Relaxed)));
        if end > Time::ZERO && at > Time::ZERO {
            let [at, end] = [at, end].map(|time| time.since(Time::ZERO).as_secs_f64());
            running_points.points += 1;
            running_points.part += (at / end).min(1.0);
            running_points.seconds += at.min(end);
            running_points.of += end;
        }
    }
}

/// The reason of a point whose run panicked after it had `reached` a time.
pub(crate) fn panicked(panic: &str, reached: &RunProgress) -> String {
    match reached.at() {
        Time::ZERO => panic.to_owned(),
        at => format!("{panic}; at {} of the run", at.since(Time::ZERO)),
    }
}

impl Task<'_> {
    /// What its outcome depends on.
    pub(crate) fn key(&self) -> Result<Key, StudyError> {
        Key::of(self.scenario, self.point, self.world.name())
    }

    /// Its run, if the journal has it.
    pub(crate) fn kept(&self, registries: &Registries) -> Result<Option<Run>, StudyError> {
        let Some(record) = self.journal.load(&self.key()?) else { return Ok(None) };
        let plan = self.scenario.plan(self.point, registries)?;
        Ok(Some(Run { plan, outcome: record.outcome, world: self.world.name(), wall_s: record.wall_s }))
    }

    fn failed(&self, reason: String) -> Unfinished {
        Unfinished { point: self.point.to_string(), reason, is_failed: true }
    }

    /// The result, and whether the journal had it.
    fn run<T>(
        &self,
        registries: &Registries,
        worker: &Worker,
        fresh: bool,
        keep: impl Fn(Run) -> T,
    ) -> Result<(Finished<T>, bool), StudyError> {
        if let Some(run) = if fresh { None } else { self.kept(registries)? } {
            return Ok((Ok(keep(run)), true));
        }
        let (plan, world) = (self.scenario.plan(self.point, registries)?, self.world.name());
        let started_at = Instant::now();
        worker.reached.report(Time::ZERO);
        worker.end.store(plan.end().as_nanos(), Ordering::Relaxed);
        let outcome = caught(|| self.world.run_with_progress(&plan, &worker.reached));
        worker.end.store(0, Ordering::Relaxed);
        let outcome = match outcome {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error @ WorldError::Unsupported { .. })) => {
                let unfinished = Unfinished { is_failed: false, ..self.failed(error.to_string()) };
                return Ok((Err(unfinished), false));
            }
            Ok(Err(error)) if error.is_of_point() => return Ok((Err(self.failed(error.to_string())), false)),
            Ok(Err(error)) => return Err(StudyError::World { point: self.point.to_string(), error }),
            Err(panic) => return Ok((Err(self.failed(panicked(&panic, &worker.reached))), false)),
        };
        let wall_s = started_at.elapsed().as_secs_f64();
        self.journal.store(&self.key()?, &outcome, wall_s)?;
        Ok((Ok(keep(Run { plan, outcome, world, wall_s })), false))
    }
}
