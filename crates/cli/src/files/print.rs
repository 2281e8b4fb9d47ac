//! Amounts, rates and reports as text.

use std::path::Path;

use rampmeter_files::{FileReport, Report};
use rampmeter_units::{Bytes, Rate};

/// Formats an amount of data, its time and its rate.
pub(super) fn amount(bytes: u64, seconds: f64, bps: f64) -> String {
    format!("{} in {} s, {}", size(bytes), rounded(seconds), rate(bps))
}

fn size(bytes: u64) -> Bytes {
    Bytes::new(rounded(bytes as f64) as u64)
}

/// Formats a rate with four significant digits.
pub(crate) fn rate(bps: f64) -> String {
    Rate::from_bps_f64(rounded(bps)).to_string()
}

/// Rounds to four significant digits.
fn rounded(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}

/// The line about one file.
pub(super) fn one_file(report: &Report, file: &FileReport) -> String {
    let earlier = match report.resumed_from {
        0 => String::new(),
        some => format!(" ({} resumed from an earlier transfer)", size(some)),
    };
    let moved = amount(file.bytes - file.resumed_from, report.seconds, report.goodput_bps);
    let (loss, controller) = (rounded(report.loss * 100.0), &report.controller);
    format!("{}: {moved}{earlier}, loss {loss}%, {controller}, blake3 {}", file.path.display(), file.blake3)
}

/// The line about many files at `place`.
pub(super) fn many_files(report: &Report, place: &Path) -> String {
    let mut parts = Vec::new();
    if report.complete > 0 {
        let plural = if report.complete == 1 { "" } else { "s" };
        let moved = amount(report.bytes - report.resumed_from, report.seconds, report.goodput_bps);
        parts.push(format!("{} file{plural}, {moved}", report.complete));
    }
    if report.failed > 0 {
        parts.push(format!("{} failed", report.failed));
    }
    if report.resumed_from > 0 {
        parts.push(format!("{} resumed from an earlier transfer", size(report.resumed_from)));
    }
    if report.complete > 0 {
        parts.push(format!("loss {}%, {}", rounded(report.loss * 100.0), report.controller));
    }
    format!("{}: {}", place.display(), parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_four_digits() {
        assert_eq!(amount(250_000, 0.2, 10_000_000.4), "250 kB in 0.2 s, 10 Mb/s");
        assert_eq!(amount(123_456_789, 10.004, 98_726_123.0), "123.5 MB in 10 s, 98.73 Mb/s");
        assert_eq!(amount(0, 0.0, 0.0), "0 B in 0 s, 0 b/s");
    }
}
