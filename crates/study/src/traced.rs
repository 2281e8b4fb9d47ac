//! Runs that write what happened: a world whose runs have traces, each in a directory of its point.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rampmeter_scenario::{Outcome, Plan, RunProgress, World, WorldError};
use rampmeter_trace::qlog::About;
use rampmeter_trace::{Selection, Trace};
use rampmeter_units::{Bytes, Duration, Known, Time};

use crate::trace_files::TraceFiles;

/// How many flows are traced if none are named.
const MAX_FLOWS: usize = 100;

/// What to trace, and where to.
#[derive(Debug, Clone, Default)]
pub struct TraceOptions {
    /// The directory; each point of a sweep has one in it.
    pub directory: PathBuf,
    /// Flows, by their indices in results or by the names of their traffic; none: the first hundred of measured traffic.
    pub flows: Vec<String>,
    /// Links, by name; none: the measured ones, or all if none is measured.
    pub links: Vec<String>,
    /// The size of all files of a point together.
    pub limit: Bytes,
    /// At most one row in each of these intervals, in a table for each flow; zero: a row for each acknowledgement; `None`:
    /// no tables.
    pub series: Option<Duration>,
}

impl TraceOptions {
    /// A gigabyte of each run, in this directory: the first hundred flows of measured traffic, and the measured links.
    pub fn all(directory: &Path) -> Self {
        let limit = Bytes::new(1_000_000_000);
        Self { directory: directory.to_owned(), flows: Vec::new(), links: Vec::new(), limit, series: None }
    }

    /// Refuses flows and links that `plan` does not have, by the names of the options of `rampmeter run`.
    pub fn check(&self, plan: &Plan) -> Result<(), String> {
        let traffic = || plan.traffic.iter().map(|traffic| traffic.name.as_str());
        let links = || plan.links.iter().map(|link| link.name.as_str());
        let last = plan.flows.len().saturating_sub(1);
        for name in self.flows.iter().filter(|name| !traffic().any(|known| known == *name)) {
            match name.parse::<usize>() {
                Ok(flow) if flow <= last => {}
                Ok(_) => return Err(format!("--trace-flow {name}: the flows at {} are 0 to {last}", plan.point)),
                Err(_) => {
                    let known = Known::near(name, traffic());
                    return Err(format!("--trace-flow {name}: no traffic is called `{name}`; {known}"));
                }
            }
        }
        match self.links.iter().find(|name| !links().any(|known| known == *name)) {
            Some(name) => {
                let known = Known::near(name, links());
                Err(format!("--trace-link {name}: no link is called `{name}`; {known}"))
            }
            None => Ok(()),
        }
    }

    /// What of `plan` is traced, and how many flows are left out.
    fn selection(&self, plan: &Plan) -> Result<(Selection, usize), String> {
        let is_measured = |flow: usize| plan.traffic[plan.flows[flow].traffic].measured;
        let is_named = |flow: usize| {
            let traffic = &plan.traffic[plan.flows[flow].traffic].name;
            self.flows.iter().any(|name| name == traffic || name.parse() == Ok(flow))
        };
        self.check(plan)?;
        let chosen: Vec<usize> = (0..plan.flows.len())
            .filter(|&flow| if self.flows.is_empty() { is_measured(flow) } else { is_named(flow) })
            .collect();
        let kept = if self.flows.is_empty() { chosen.len().min(MAX_FLOWS) } else { chosen.len() };
        let mut flows = vec![None; plan.flows.len()];
        for &flow in &chosen[..kept] {
            let planned = &plan.flows[flow];
            let (traffic, scheme) = (&plan.traffic[planned.traffic].name, &plan.schemes[planned.scheme].name);
            let about = About {
                title: format!("{traffic} {flow}: {}", plan.flow_name(flow)),
                description: format!("scheme {scheme}; {}", plan.point),
            };
            flows[flow] = Some((file_name(&format!("{flow}-{traffic}")), about));
        }
        let some_measured = plan.links.iter().any(|link| link.measured);
        let is_traced = |name: &String, measured: bool| {
            if self.links.is_empty() { measured || !some_measured } else { self.links.contains(name) }
        };
        let links = plan.links.iter().map(|link| is_traced(&link.name, link.measured).then(|| file_name(&link.name)));
        Ok((Selection { flows, links: links.collect() }, chosen.len() - kept))
    }

    /// Calls `run` with a trace of `plan`, and then `remark` with each thing that the user should know of the trace.
    pub fn trace<T>(
        &self,
        plan: &Plan,
        run: impl FnOnce(&Trace) -> Result<T, WorldError>,
        mut remark: impl FnMut(String),
    ) -> Result<T, WorldError> {
        let (selection, left_out) = self.selection(plan).map_err(WorldError::Trace)?;
        let name: Vec<_> = plan.point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        let path = self.directory.join(file_name(&name.join(",").replace('"', "")));
        let failed = |error| WorldError::System { what: format!("cannot write the trace {}", path.display()), error };
        let files = TraceFiles::new(&path, selection, self.limit, self.series);
        let directory = Arc::new(Mutex::new(files.map_err(failed)?));
        let result = run(&Trace::new(&directory));
        let mut remark = |what: String| remark(format!("{}: {what}", path.display()));
        // The run's tables do not depend on its trace; that of a run that failed is wanted most.
        match directory.lock().unwrap_or_else(PoisonError::into_inner).finish() {
            Ok(None) => {}
            Ok(Some(at)) => {
                let (at, limit) = (at.since(Time::ZERO), self.limit);
                remark(format!("cut at {at} of the run: it has reached --trace-limit {limit}"));
            }
            Err(error) => remark(format!("not whole: {error}")),
        }
        if left_out > 0 {
            remark(format!("the first {MAX_FLOWS} flows; {left_out} more are left out (--trace-flow)"));
        }
        result
    }
}

/// `name` without characters that have a meaning in paths, on any system.
pub fn file_name(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.,=+".contains(c);
    name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// A world that writes a trace of every run.
pub struct Traced<'a> {
    world: &'a dyn World,
    options: TraceOptions,
    remarks: Mutex<Vec<String>>,
}

impl<'a> Traced<'a> {
    /// The world whose runs have traces.
    pub fn new(world: &'a dyn World, options: TraceOptions) -> Self {
        Self { world, options, remarks: Mutex::default() }
    }

    /// What the user should know of the traces: those that are not whole.
    pub fn remarks(&self) -> Vec<String> {
        std::mem::take(&mut self.remarks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl World for Traced<'_> {
    fn name(&self) -> &'static str {
        self.world.name()
    }

    fn needs_whole_machine(&self) -> bool {
        self.world.needs_whole_machine()
    }

    fn stops_immediately(&self) -> bool {
        self.world.stops_immediately()
    }

    fn run(&self, plan: &Plan) -> Result<Outcome, WorldError> {
        self.run_with_progress(plan, &RunProgress::default())
    }

    fn run_with_progress(&self, plan: &Plan, progress: &RunProgress) -> Result<Outcome, WorldError> {
        let remark = |text| self.remarks.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        self.options.trace(plan, |trace| self.world.run_traced(plan, progress, trace), remark)
    }
}
