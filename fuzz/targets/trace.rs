//! Traces of capacity in mahimahi's format, from files that others have recorded.
//!
//! A trace is read or refused with its line. Written from its own opportunities, it is the same trace.
#![no_main]

use std::iter::repeat_with;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use rampmeter_router::Capacity;
use rampmeter_router::capacity::{LinkStreams, Trace};
use rampmeter_units::{Duration, Random, Rate, Time};

fuzz_target!(|text: &str| {
    let trace = match Trace::parse(text) {
        Ok(trace) => Arc::new(trace),
        Err(error) => {
            assert!(error.line <= text.lines().count().max(1) && error.problem.lines().count() == 1, "{error}");
            return;
        }
    };
    assert!(trace.period() > Duration::ZERO && trace.mean() < Rate::MAX);
    let opportunities = || {
        let streams = LinkStreams { shared: Random::from_seed(1), own: Random::from_seed(2) };
        let found = Capacity::Trace(Arc::clone(&trace)).opportunities(streams);
        let mut found = found.expect("a trace has opportunities");
        repeat_with(move || found.next())
    };
    assert!(opportunities().take(5000).is_sorted_by_key(|opportunity| opportunity.at));
    // An opportunity at 0 is repeated in the last millisecond.
    if opportunities().next().is_some_and(|first| first.at > Time::ZERO) {
        let again = Trace::record(opportunities(), trace.period() + Duration::from_millis(1));
        assert_eq!(Trace::parse(&again).as_ref(), Ok(&*trace));
    }
});
