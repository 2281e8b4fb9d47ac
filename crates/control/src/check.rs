//! What the settings of controllers are refused for; each error names the setting and says what would be right.

/// A first window of more packets is a slip: no path has room for it.
const MAX_FIRST_WINDOW: u64 = 1_000_000;

/// Refuses a first window of nothing, and one that no path has room for.
pub(crate) fn check_first_window(packets: u64) -> Result<(), String> {
    match packets {
        0 => Err("initial_window is 0 packets: nothing could ever leave; 1 or more".into()),
        1..=MAX_FIRST_WINDOW => Ok(()),
        _ => Err(format!("initial_window is {packets} packets: 1 to {MAX_FIRST_WINDOW}; usual is 10")),
    }
}

/// Refuses what is no part of a window that a loss could take or leave.
pub(crate) fn check_share(name: &str, share: f64) -> Result<(), String> {
    if share > 0.0 && share < 1.0 {
        return Ok(());
    }
    Err(format!("{name} is {share}: a part of the window, between 0 and 1"))
}

/// Refuses what is not a positive number.
pub(crate) fn check_positive(name: &str, value: f64, unit: &str) -> Result<(), String> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(format!("{name} is {value}: more than 0 {unit}"))
}
