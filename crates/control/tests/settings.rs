//! Settings with which a controller could not work are refused, with the name of the setting. The bounds are permitted.

use rampmeter_control::Registry;

/// What a controller says about `settings`.
fn refusal(name: &str, settings: &str) -> Option<String> {
    Registry::default().factory(name, &settings.parse().unwrap()).err().map(|error| error.to_string())
}

#[test]
fn empty_and_impossible_first_windows_are_refused() {
    let names = "bbr bbr1 bic cm copa cubic cubic-2005 dctcp fast hstcp htcp ledbat newreno \
                 prague reno scalable vcp vcp-end-to-end vcp-plus vegas vivace xcp";
    for name in names.split(' ') {
        for (packets, is_refused) in [(0, true), (1, false), (1_000_000, false), (1_000_001, true)] {
            let refusal = refusal(name, &format!("initial_window = {packets}"));
            assert_eq!(refusal.is_some(), is_refused, "{name} with {packets}");
            assert!(refusal.is_none_or(|error| error.contains("initial_window") && error.contains("write 1")));
        }
    }
}

#[test]
fn settings_beyond_their_bounds_are_refused_by_name() {
    for (name, key, refused, permitted) in [
        ("bic", "beta", ["0.009", "1.0"], ["0.01", "0.9"]),
        ("bic", "search", ["0.009", "1.0"], ["0.01", "0.99"]),
        ("bic", "min_step", ["0.00009", "32.1"], ["0.0001", "32.0"]),
        ("bic", "max_step", ["0.0", "1.1e6"], ["0.01", "1e6"]),
        ("copa", "delta", ["0.0", "1.1"], ["0.001", "1.0"]),
        ("cubic", "beta", ["0.000001", "1.0"], ["0.1", "0.99"]),
        ("cubic", "c", ["0.0009", "1e300"], ["0.001", "1000.0"]),
        ("cubic-2005", "beta", ["0.009", "1.0"], ["0.01", "0.9"]),
        ("cubic-2005", "c", ["0.0009", "1001.0"], ["0.001", "1000.0"]),
        ("dctcp", "gain", ["0.00009", "1.0"], ["0.0001", "0.99"]),
        ("fast", "alpha", ["0.09", "1.1e6"], ["0.1", "1e6"]),
        ("fast", "gamma", ["0.0009", "1.1"], ["0.001", "1.0"]),
        ("fixed-rate", "rate", ["'0 b/s'", "'-1 b/s'"], ["'1 b/s'", "'1 Gb/s'"]),
        ("hstcp", "max_ssthresh", ["0", "1"], ["2", "100"]),
        ("ledbat", "target", ["'0.9 ms'", "'101 ms'"], ["'1 ms'", "'100 ms'"]),
        ("pcp", "first_window", ["0.9", "1001.0"], ["1.0", "1000.0"]),
        ("pcp", "drain_every", ["'99 ms'", "'3601 s'"], ["'100 ms'", "'3600 s'"]),
        ("pcp", "rigged", ["'0 b/s'", "'-1 b/s'"], ["'1 b/s'", "'1 Gb/s'"]),
        ("pcp-paper", "k", ["2", "65"], ["3", "64"]),
        ("pcp-paper", "rigged", ["'0 b/s'", "'-1 b/s'"], ["'1 b/s'", "'1 Gb/s'"]),
        ("prague", "gain", ["0.00009", "1.0"], ["0.0001", "0.99"]),
        ("prague", "max_intervals", ["0.9", "10.1"], ["1.0", "10.0"]),
        ("scalable", "increase", ["0.00009", "1.1"], ["0.0001", "1.0"]),
        ("scream", "target", ["'0.9 ms'", "'1.1 s'"], ["'1 ms'", "'1 s'"]),
        ("stable", "gain", ["0.0", "1.0"], ["1e-9", "0.999"]),
        ("stable", "max_decrease", ["0.0009", "1.0"], ["0.001", "0.99"]),
        ("stable", "sharing", ["0.0009", "1.1e9"], ["0.001", "1e9"]),
        ("vcp", "load_interval", ["'0.9 ms'", "'11 s'"], ["'1 ms'", "'10 s'"]),
        ("vcp", "md", ["0.09", "1.0"], ["0.1", "0.999"]),
        ("vcp", "mi", ["0.00009", "1000.1"], ["0.0001", "1000.0"]),
        ("vcp", "ai", ["0.0009", "1000.1"], ["0.001", "1000.0"]),
        ("vcp", "min_window", ["0.0009", "1.1"], ["0.001", "1.0"]),
        ("vcp-plus", "weight", ["0.0009", "1000.1"], ["0.001", "1000.0"]),
        ("vegas", "alpha", ["0.09", "4.1"], ["0.1", "4.0"]),
        ("stable", "allowance", ["-0.1", "100.1"], ["0.0", "100.0"]),
        ("stable", "initial_window", ["0.1", "1.1e6"], ["0.25", "1e6"]),
        ("stable", "min_window", ["0.0", "1.1"], ["0.001", "1.0"]),
        ("vegas", "beta", ["1.9", "1.1e5"], ["2.0", "1e5"]),
        ("vegas", "gamma", ["0.09", "1.1e5"], ["0.1", "1e5"]),
    ] {
        for value in refused {
            let error = refusal(name, &format!("{key} = {value}"));
            assert!(error.is_some_and(|error| error.contains(key) && error.contains(name)), "{name}: {key} = {value}");
        }
        for value in permitted {
            assert_eq!(refusal(name, &format!("{key} = {value}")), None, "{name}: {key} = {value}");
        }
    }
}

#[test]
fn settings_that_vcp_plus_fixes_are_refused() {
    let settings = "mi = 0.1; md = 0.5; ai_limit = 5.0; round_trip = 'smoothed'; fairness = 'tcp'; \
                    pacing = 'never'; rounding = 'down'; tcp_friendly = true";
    for setting in settings.split("; ") {
        let key = setting.split(' ').next().unwrap();
        assert!(refusal("vcp-plus", setting).unwrap().contains(key), "{setting}");
    }
    assert_eq!(refusal("vcp-plus", "ai = 2.0"), None, "the gain of its additive term");
}
