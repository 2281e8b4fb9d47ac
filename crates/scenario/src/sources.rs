//! What datagram flows send, on one host: as much as they may, or layered audio.

use std::collections::BTreeMap;

use rampmeter_control::Controller;
use rampmeter_manager::{FlowId, Share, Thresholds};
use rampmeter_transport::{Address, Config, Endpoint};
use rampmeter_units::Time;

use crate::audio::LayeredAudio;
use crate::plan::DatagramPlan;

/// Datagrams that wait of a flow which always has more.
const ENDLESS: u64 = 1 << 62;

/// A datagram flow's application.
#[derive(Debug)]
struct Source {
    /// Its place in the plan.
    flow: usize,
    /// None sends as much as it may.
    audio: Option<LayeredAudio>,
}

/// The applications that send datagrams from one host.
#[derive(Debug, Default)]
pub struct Sources {
    by_flow: BTreeMap<FlowId, Source>,
    next: Option<Time>,
}

/// What a source has to say of itself when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SourceOutcome {
    /// Datagrams that it sent.
    pub sent: u64,
    /// Of layered audio: the part of its time in the encoding just below its mean share.
    pub just_below_share: Option<f64>,
}

impl Sources {
    /// Starts the plan's flow number `flow`, from `endpoint` to `peer`.
    #[allow(clippy::too_many_arguments, reason = "a flow has that many sides")]
    pub fn start<C: Controller, A: Address>(
        &mut self,
        now: Time,
        flow: usize,
        plan: &DatagramPlan,
        share: Share,
        peer: A,
        config: &Config,
        endpoint: &mut Endpoint<C, A>,
    ) -> FlowId {
        let id = endpoint.open_datagrams(now, peer, plan.size.as_u64() as u16, config);
        endpoint.share_datagrams(id, share);
        let audio = (!plan.encodings.is_empty()).then(|| {
            endpoint.watch(now, id, Thresholds::default());
            let share = endpoint.manager().query(now, id).map(|status| status.share).unwrap_or_default();
            LayeredAudio::new(now, &plan.encodings, plan.size, share)
        });
        if audio.is_none() {
            endpoint.queue_datagrams(now, id, ENDLESS);
        }
        self.by_flow.insert(id, Source { flow, audio });
        self.serve(now, endpoint);
        id
    }

    /// Ends a flow.
    pub fn stop<C: Controller, A: Address>(
        &mut self,
        now: Time,
        flow: FlowId,
        endpoint: &mut Endpoint<C, A>,
    ) -> SourceOutcome {
        let outcome = self.outcome(now, flow, endpoint);
        self.by_flow.remove(&flow);
        endpoint.close_datagrams(now, flow);
        self.serve(now, endpoint);
        outcome
    }

    /// What a flow has come to.
    pub fn outcome<C: Controller, A: Address>(
        &mut self,
        now: Time,
        flow: FlowId,
        endpoint: &Endpoint<C, A>,
    ) -> SourceOutcome {
        let audio = self.by_flow.get_mut(&flow).and_then(|source| source.audio.as_mut());
        SourceOutcome {
            sent: endpoint.datagrams_sent(flow),
            just_below_share: audio.and_then(|audio| audio.just_below_share(now)),
        }
    }

    /// The flow's place in the plan.
    pub fn flow(&self, flow: FlowId) -> Option<usize> {
        self.by_flow.get(&flow).map(|source| source.flow)
    }

    /// When [`Sources::serve`] is wanted; [`Time::MAX`] for never.
    pub fn deadline(&self) -> Time {
        self.next.unwrap_or(Time::MAX)
    }

    /// Tells flows of changes of their shares, and sends what is due.
    pub fn serve<C: Controller, A: Address>(&mut self, now: Time, endpoint: &mut Endpoint<C, A>) {
        while let Some(change) = endpoint.poll_change() {
            let source = self.by_flow.get_mut(&change.flow);
            if let Some(audio) = source.and_then(|source| source.audio.as_mut()) {
                audio.on_change(now, change.share);
            }
        }
        self.next = None;
        for (&id, source) in &mut self.by_flow {
            let Some(audio) = &mut source.audio else { continue };
            while audio.is_due(now) {
                endpoint.send_datagram_now(now, id);
            }
            self.next = Some(self.next.map_or(audio.next(), |next| next.min(audio.next())));
        }
    }
}
