//! `--cluster tcp://SCHEDULER`: runs points on the workers of a Dask scheduler, by way of the Python package.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rampmeter_study::{Cluster, StudyError};

use crate::failure::Failure;
use crate::python;

/// The interval at which the child process learns that the user interrupted.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The workers of the Dask scheduler at an address.
pub(crate) struct Dask(String);

impl Dask {
    /// The scheduler at `address`, for runs in `world`.
    pub(crate) fn at(address: Option<&String>, world: &str) -> Result<Option<Self>, Failure> {
        match address {
            Some(_) if world != "simulated" => Err(Failure::input(
                "--cluster: only simulated runs can be on other machines; leave --world emulated out",
            )),
            address => Ok(address.cloned().map(Self)),
        }
    }
}

impl Cluster for Dask {
    fn run(
        &self,
        job: &str,
        stop: &AtomicBool,
        deliver: &mut dyn FnMut(&str) -> Result<(), StudyError>,
    ) -> Result<(), StudyError> {
        let failed = |problem: String| StudyError::Cluster { problem };
        let (_, mut command) = python::module("cluster").map_err(|failure| failed(failure.to_string()))?;
        command.arg(&self.0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("its process has no pipes".into()));
        };
        let (ended, is_unwanted) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let (child, ended, is_unwanted) = (&mut child, &ended, &is_unwanted);
            let watched = scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) && !ended.load(Ordering::Relaxed) {
                    thread::sleep(STOP_CHECK_INTERVAL);
                }
                if stop.load(Ordering::Relaxed) || is_unwanted.load(Ordering::Relaxed) {
                    let _ = child.kill();
                }
                child.wait()
            });
            // The child reads the whole job before it writes.
            let sent = input.write_all(job.as_bytes()).and_then(|()| input.write_all(b"\n"));
            drop(input);
            let mut lines = BufReader::new(output).lines();
            let result = lines.try_for_each(|line| deliver(&line.map_err(|error| failed(error.to_string()))?));
            is_unwanted.store(result.is_err(), Ordering::Relaxed);
            ended.store(true, Ordering::Relaxed);
            let status = watched.join().map_err(|_| failed("its process was lost".into()))?;
            result?;
            match status {
                Ok(status) if status.success() => sent.map_err(|error| failed(error.to_string())),
                Ok(_) => Err(failed("points are missing, for the reason above".into())),
                Err(error) => Err(failed(error.to_string())),
            }
        })
    }
}
