//! Flows that something other than their controller limits for most of their time: their results describe that, and not
//! the controller. A flow that has nothing to send does not count: only its busy time does.

use std::collections::BTreeMap;

use rampmeter_units::{Bytes, Duration, Rate};

use crate::{Degraded, FlowOutcome, LinkId, LinkPlan, Outcome, Plan, Sender};

/// A limit of less than half of the busy time leaves most of the result to the controller. Slow start with a full
/// window, or a single outage, takes less.
const MAX_SHARE: f64 = 0.5;

/// The same for a receive window below the bandwidth-delay product, with which no controller can fill the path. A flow
/// fills such a window late in a short run: at 10 Gb/s and 300 ms a window of 16 MB limits BBR for 0.57 of 10 s, and
/// for 0.82 of 40 s.
const MAX_SHARE_OF_SMALL_WINDOW: f64 = 0.1;

/// The largest receive window to advise: that of the transport, rounded.
const MAX_WINDOW: Bytes = Bytes::new(1_000_000_000);

/// The PCP of the paper rejects a train that lacks an arrival time. At 20 Mb/s and 40 ms it has all of its goodput where
/// a tenth of the acknowledgements is lost, 75% where a fifth is, and nothing where half is.
const MAX_WITHOUT_RECEIPT: f64 = 0.1;

/// Shorter flows are not reported: a lost packet at the end of a short transfer takes most of its time, which its
/// completion time shows.
const MIN_BUSY: Duration = Duration::from_secs(5);

/// The flows of `outcome` that something other than their controllers limits, with the reasons.
pub(crate) fn limited(plan: &Plan, outcome: &Outcome) -> Vec<Degraded> {
    let mut products = Products { plan, largest: BTreeMap::new() };
    let of_flow = |flow: &FlowOutcome| {
        let reasons = reasons(plan, flow, &mut products).into_iter().flatten();
        reasons.map(|reason| Degraded { flow: flow.flow, reason }).collect::<Vec<_>>()
    };
    outcome.flows.iter().filter(|flow| flow.limits.busy >= MIN_BUSY).flat_map(of_flow).collect()
}

fn reasons(plan: &Plan, flow: &FlowOutcome, products: &mut Products<'_>) -> [Option<String>; 3] {
    let exceeds = |share: Option<f64>, bound: f64| share.is_some_and(|share| share > bound);
    let limits = &flow.limits;
    let window = limits.receive_window_share().and_then(|share| window_reason(plan, flow, share, products));
    let timeouts = exceeds(limits.timeout_share(), MAX_SHARE).then(|| {
        "it waited for retransmission timeouts for more than half of its time; the path carried nothing, or the window \
         was too small for losses to be detected without a timeout"
            .to_owned()
    });
    let needs = plan.schemes[flow.scheme].ours().and_then(|scheme| scheme.needs_receipts);
    let receipts = needs.filter(|_| exceeds(limits.without_receipt_share(), MAX_WITHOUT_RECEIPT)).map(|needs| {
        format!(
            "more than a tenth of its packets were reported without their arrival times, because acknowledgements were \
             lost; the controller {needs}"
        )
    });
    [window, timeouts, receipts]
}

/// The reason if the receive window limits `flow` for a `share` of its time, and the remedy.
fn window_reason(plan: &Plan, flow: &FlowOutcome, share: f64, products: &mut Products<'_>) -> Option<String> {
    let mostly = share > MAX_SHARE;
    match &plan.schemes[flow.scheme].sender {
        Sender::Ours(scheme) => {
            let window = scheme.config.receive_window;
            let is_small = || products.of_flow(flow.flow).is_none_or(|product| window < product);
            if !(mostly || share > MAX_SHARE_OF_SMALL_WINDOW && is_small()) {
                return None;
            }
            let part = if mostly { "half" } else { "a tenth" };
            let advised = products.largest(flow.scheme).map_or(window, |product| window.max(product)) * 2;
            Some(format!(
                "its receive window of {window} was full for more than {part} of its time, so the window limits it, not \
                 the controller; give the scheme transport = {{ receive_window = \"{}\" }}, or twice the rate times the \
                 round trip",
                rounded_up(advised).min(MAX_WINDOW)
            ))
        }
        Sender::Stack { .. } => None, // the stack does not report it
        Sender::Kernel { .. } => mostly.then(|| {
            let advised = products.largest(flow.scheme).map(|product| rounded_up(product * 4));
            let to = advised.map_or_else(String::new, |bytes| format!(" to four times rate times round trip, {bytes}"));
            format!(
                "the kernel's receive window was full for more than half of its time, so the window limits it, not the \
                 congestion control; raise the third number of net.ipv4.tcp_rmem{to}"
            )
        }),
    }
}

/// `bytes` with two significant digits, rounded up.
fn rounded_up(bytes: Bytes) -> Bytes {
    let unit = 10_u64.pow(bytes.as_u64().max(10).ilog10() - 1);
    Bytes::new(bytes.as_u64().div_ceil(unit) * unit)
}

/// The bandwidth-delay products of paths: the rate of the slowest link times the round trip of empty queues. Of what
/// changes during the run the largest values count. `None` where the rate is unlimited.
struct Products<'a> {
    plan: &'a Plan,
    /// The largest product of the flows of each scheme that was asked for.
    largest: BTreeMap<usize, Option<Bytes>>,
}

impl Products<'_> {
    fn of_flow(&self, flow: usize) -> Option<Bytes> {
        let flow = &self.plan.flows[flow];
        let path = |from, to| self.plan.path(from, to).ok();
        let (there, back) = (path(flow.from, flow.to)?, path(flow.to, flow.from)?);
        let link = |id: &LinkId| &self.plan.links[id.0];
        let rate = there.iter().map(link).map(max_rate).min().filter(|rate| *rate < Rate::MAX)?;
        Some(rate.bytes_in(there.iter().chain(&back).map(link).map(max_delay).sum()))
    }

    fn largest(&mut self, scheme: usize) -> Option<Bytes> {
        if let Some(largest) = self.largest.get(&scheme) {
            return *largest;
        }
        let own = (0..self.plan.flows.len()).filter(|flow| self.plan.flows[*flow].scheme == scheme);
        let largest = own.filter_map(|flow| self.of_flow(flow)).max();
        self.largest.insert(scheme, largest);
        largest
    }
}

fn max_rate(link: &LinkPlan) -> Rate {
    link.changes.iter().filter_map(|change| change.rate).fold(link.config.rate, Rate::max)
}

fn max_delay(link: &LinkPlan) -> Duration {
    link.changes.iter().filter_map(|change| change.delay).fold(link.config.delay, Duration::max)
}
