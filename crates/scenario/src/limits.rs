//! Flows that something other than their controller limits for most of their time: their results describe that, and not
//! the controller. A flow that has nothing to send does not count: only its busy time does.

use rampmeter_units::{Bytes, Duration};

use crate::{Degraded, FlowOutcome, Outcome, Plan, Sender};

/// A limit of less than half of the busy time leaves most of the result to the controller. Slow start with a full
/// window, or a single outage, takes less.
const MAX_SHARE: f64 = 0.5;

/// The PCP of the paper rejects a train that lacks an arrival time. At 20 Mb/s and 40 ms it has all of its goodput where
/// a tenth of the acknowledgements is lost, 75% where a fifth is, and nothing where half is.
const MAX_WITHOUT_RECEIPT: f64 = 0.1;

/// Shorter flows are not reported: a lost packet at the end of a short transfer takes most of its time, which its
/// completion time shows.
const MIN_BUSY: Duration = Duration::from_secs(5);

/// The flows of `outcome` that something other than their controllers limits, with the reasons.
pub(crate) fn limited(plan: &Plan, outcome: &Outcome) -> Vec<Degraded> {
    let of_flow = |flow: &FlowOutcome| {
        reasons(plan, flow).into_iter().flatten().map(|reason| Degraded { flow: flow.flow, reason }).collect::<Vec<_>>()
    };
    outcome.flows.iter().filter(|flow| flow.limits.busy >= MIN_BUSY).flat_map(of_flow).collect()
}

fn reasons(plan: &Plan, flow: &FlowOutcome) -> [Option<String>; 3] {
    let exceeds = |share: Option<f64>, bound: f64| share.is_some_and(|share| share > bound);
    let limits = &flow.limits;
    let sender = &plan.schemes[flow.scheme].sender;
    let window = exceeds(limits.receive_window_share(), MAX_SHARE).then(|| window_reason(sender));
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

fn window_reason(sender: &Sender) -> String {
    match sender {
        Sender::Ours(scheme) => {
            let window = scheme.config.receive_window;
            format!(
                "its receive window of {window} was full for more than half of its time, so the window limits it, not the \
                 controller; give the scheme transport = {{ receive_window = \"{}\" }}, or as much as rate times round \
                 trip",
                Bytes::new(window.as_u64().saturating_mul(2).min(1 << 30))
            )
        }
        Sender::Kernel { .. } => "the kernel's receive window was full for more than half of its time, so the window \
                                  limits it, not the congestion control; raise the third number of net.ipv4.tcp_rmem"
            .to_owned(),
    }
}
