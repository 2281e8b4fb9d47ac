//! Columns of slowdowns: all transfers, and those of pFabric's classes of sizes (SIGCOMM 2013, section 5.4.2).

use rampmeter_units::Bytes;

use super::FlowGroup;
use crate::Column;
use crate::statistics::{mean, quantile};

type Of = Column<FlowGroup>;

/// The largest size of a small transfer, and that of a medium one.
const SMALL: Bytes = Bytes::new(100_000);
const MEDIUM: Bytes = Bytes::new(10_000_000);

pub(super) fn slowdowns() -> Vec<Column<FlowGroup>> {
    vec![
        Of::number(
            "slowdown_mean",
            "mean slowdown: flow completion time divided by the time that the transfer takes alone on the idle path. \
             An unfinished transfer counts with its age at `duration + drain`, which is less than its completion time",
            |_, group| mean(&group.slowdowns_between(Bytes::ZERO, Bytes::MAX)),
        ),
        Of::number("slowdown_p50", "median of these slowdowns", |_, group| {
            quantile(&group.slowdowns_between(Bytes::ZERO, Bytes::MAX), 0.50)
        }),
        Of::number("slowdown_p99", "99th percentile of these slowdowns", |_, group| {
            quantile(&group.slowdowns_between(Bytes::ZERO, Bytes::MAX), 0.99)
        }),
        Of::number("slowdown_small_p50", "the median for transfers of up to 100 kB", |_, group| {
            quantile(&group.slowdowns_between(Bytes::ZERO, SMALL), 0.50)
        }),
        Of::number("slowdown_small_p99", "the 99th percentile for transfers of up to 100 kB", |_, group| {
            quantile(&group.slowdowns_between(Bytes::ZERO, SMALL), 0.99)
        }),
        Of::number("slowdown_medium_p50", "the median for larger transfers of up to 10 MB", |_, group| {
            quantile(&group.slowdowns_between(SMALL, MEDIUM), 0.50)
        }),
        Of::number("slowdown_medium_p99", "the 99th percentile for larger transfers of up to 10 MB", |_, group| {
            quantile(&group.slowdowns_between(SMALL, MEDIUM), 0.99)
        }),
        Of::number("slowdown_large_p50", "the median for transfers of more than 10 MB", |_, group| {
            quantile(&group.slowdowns_between(MEDIUM, Bytes::MAX), 0.50)
        }),
        Of::number("slowdown_large_p99", "the 99th percentile for transfers of more than 10 MB", |_, group| {
            quantile(&group.slowdowns_between(MEDIUM, Bytes::MAX), 0.99)
        }),
    ]
}
