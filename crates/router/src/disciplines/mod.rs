//! The queue disciplines, a file or folder each, and what they are made of.

pub(crate) mod active_flows;
pub(crate) mod buffer;
pub(crate) mod exponential_marking;
pub(crate) mod flow_table;
pub(crate) mod fluid;
pub(crate) mod indexed_heap;
pub(crate) mod isolation;
pub(crate) mod timed_queue;
pub(crate) mod virtual_backlog;

pub mod avq;
pub mod codel;
pub mod docsis_pie;
pub mod drop_tail;
pub mod dualpi2;
pub mod fair_queueing;
pub mod fair_share;
pub mod fq_codel;
pub mod pie;
pub mod policer;
pub mod red;
pub mod step_marking;
pub mod vcp;
pub mod vcp_plus;
pub mod virtual_queue;
pub mod xcp;
