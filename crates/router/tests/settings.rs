//! Settings with which a router could not work are refused, and the error has a remedy.

use rampmeter_router::Registry;

#[test]
fn impossible_settings_are_refused_with_a_remedy() {
    for (name, settings, remedy) in [
        ("avq", "gamma = 0", "0.98"),
        ("avq", "gamma = 1.1", "0.98"),
        ("avq", "alpha = 0", "0.15"),
        ("avq", "phi = 0.9", "1.1"),
        ("avq", "bound = 0", "50 packets"),
        ("codel", "target = '0 s'", "\"5 ms\" of \"100 ms\""),
        ("codel", "target = '100 ms'", "\"5 ms\" of \"100 ms\""),
        ("docsis-pie", "target = '0 s'", "10 ms"),
        ("docsis-pie", "bytes = '0 B'", "1500 B"),
        ("dualpi2", "target = '0 s'", "15 ms"),
        ("dualpi2", "update = '0 s'", "16 ms"),
        ("dualpi2", "alpha = nan", "0.16 is recommended"),
        ("dualpi2", "beta = -1.0", "3.2 is recommended"),
        ("dualpi2", "classic_share = 0", "0.1"),
        ("dualpi2", "coupling = 0.5", "2 is"),
        ("fair-share", "flow_timeout = '0 s'", "50 ms"),
        ("fq-codel", "flows = 0", "1024"),
        ("fq-codel", "quantum = '0 B'", "1514 B"),
        ("fq-codel", "batch = 0", "1514 B"),
        ("fq-codel", "interval = '0 s'", "100 ms"),
        ("pie", "update = '0 s'", "15 ms"),
        ("pie", "alpha = 1e300", "0.0001 to 1000"),
        ("pie", "beta = 0", "1.25 is recommended"),
        ("pie", "mark_up_to = 2", "0.1"),
        ("policer", "", "rate"),
        ("policer", "rate = '1 b/s'\nburst = '1499 B'", "1500 B"),
        ("red", "max_th = 15", "needs a `min_th`"),
        ("red", "min_th = 5\nmax_th = 5", "three times"),
        ("red", "min_th = 0", "three times"),
        ("red", "weight = 2", "omit it"),
        ("red", "max_p = 0", "omit it"),
        ("red", "interval = '0 s'", "500 ms"),
        ("red", "mean_packet = '0 B'", "1000 B"),
        ("step-marking", "packets = 6\nthreshold = 5", "in a buffer of 6: write at most half"),
        ("step-marking", "packets = 21", "write at most half"),
        ("vcp", "target = 0", "0.98"),
        ("vcp", "transition = 1.5", "0.8"),
        ("vcp", "queue_weight = nan", "0.5"),
        ("vcp", "load_interval = '0 s'", "200 ms"),
        ("vcp", "goal = 0.9\ngoal_interval = '1 ms'", "10 s"),
        ("vcp", "goal_interval = '1 ms'", "without a goal"),
        ("vcp", "goal_step = 0.02", "without a goal"),
        ("vcp", "goal = 0.3", "goal = 0.3: write a number from 0.5 to 1"),
        ("vcp", "goal = 0.9\ntarget = 0.4", "target = 0.4: write a number"),
        ("vcp-plus", "transition = 0.9", "cannot be set in vcp-plus"),
        ("vcp-plus", "probabilistic_marking = true", "cannot be set in vcp-plus"),
        ("vcp-plus", "target = 0.1", "first value"),
        ("virtual-queue", "theta = 0", "0.95"),
        ("virtual-queue", "phi = 1", "1.1"),
        ("virtual-queue", "bound = 0", "50 packets"),
        ("virtual-queue", "packet = '0 B'", "1000 B"),
        ("virtual-queue", "packets = 0", "packets = 1 or more"),
        ("xcp", "alpha = nan", "0.4"),
        ("xcp", "beta = -0.1", "0.226"),
        ("xcp", "gamma = 1.5", "0.1"),
    ] {
        let error = Registry::default().config(name, &settings.parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains(remedy), "{name}, {settings}: {error}");
    }
}

#[test]
fn defaults_and_settings_at_their_bounds_are_permitted() {
    let registry = Registry::default();
    let defaults = registry.list().map(|(name, _)| (name, "")).filter(|(name, _)| *name != "policer");
    let at_bounds = [
        ("policer", "rate = '1 b/s'\nburst = '1500 B'"),
        ("red", "min_th = 5\nmax_th = 15"),
        ("step-marking", "packets = 7\nthreshold = 5"),
        ("step-marking", "packets = 22"),
        ("vcp", "goal = 0.95\ntarget = 0.6"),
    ];
    for (name, settings) in defaults.chain(at_bounds) {
        registry.config(name, &settings.parse().unwrap()).unwrap();
    }
}
