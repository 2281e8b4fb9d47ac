//! Checks of controller settings, beside [`rampmeter_units::check_range`]. Each error names the setting and the values that are permitted.

/// The maximum first window. A larger one is an error: no path can carry it.
const MAX_FIRST_WINDOW: u64 = 1_000_000;

/// Refuses settings that do not satisfy a condition.
pub(crate) fn require(is_valid: bool, error: impl FnOnce() -> String) -> Result<(), String> {
    if is_valid { Ok(()) } else { Err(error()) }
}

/// Refuses an empty first window, and one that no path can carry.
pub(crate) fn check_first_window(packets: u64) -> Result<(), String> {
    match packets {
        0 => Err("initial_window is 0 packets, so no packet could ever be sent: write 1 or more".into()),
        1..=MAX_FIRST_WINDOW => Ok(()),
        _ => Err(format!("initial_window is {packets} packets: write 1 to {MAX_FIRST_WINDOW}; 10 is usual")),
    }
}

/// Refuses bounds in the wrong order.
pub(crate) fn check_order(min_name: &str, min: f64, max_name: &str, max: f64) -> Result<(), String> {
    let error = || format!("{min_name} is {min} and {max_name} is {max}: write a {max_name} of at least {min_name}");
    require(min <= max, error)
}
