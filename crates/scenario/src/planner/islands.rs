//! The aggregates of islands: one for each pair of borders between which a flow crosses the island.

use std::collections::BTreeSet;

use rampmeter_control::vcp;
use rampmeter_router::{Environment, Registry as Routers};
use rampmeter_units::{Duration, Rate, settings};

use super::{Network, path, read_router, vcp_codes};
use crate::error::Result;
use crate::file::File;
use crate::{AggregatePlan, FlowPlan, NodeId, Routes};

pub(super) fn aggregates(
    file: &File,
    registry: &Routers,
    network: &Network,
    routes: &Routes,
    flows: &[FlowPlan],
) -> Result<Vec<AggregatePlan>> {
    let mut aggregates = Vec::new();
    for island in &file.islands {
        // The settings are checked even where this point does not use them. The reason starts with the setting's name.
        let settings: vcp::Config = settings::checked(&island.settings.table).map_err(|reason| {
            island.settings.place_of(&format!(": {reason}")).error(format!("island settings: {reason}"))
        })?;
        let path = |from, to| path(routes, from, to, island.lines.head());
        let is_border = |node: NodeId| island.borders.contains(&network.nodes[node.0].name);
        let mut crossed = BTreeSet::new();
        let pairs: BTreeSet<_> = flows.iter().filter(|_| island.active).map(|flow| (flow.from, flow.to)).collect();
        for (from, to) in pairs {
            let path = path(from, to)?;
            let mut passed = path.iter().map(|link| network.links[link.0].to).filter(|node| is_border(*node));
            if let (Some(ingress), Some(egress)) = (passed.next(), passed.next_back()) {
                crossed.insert((ingress, egress));
            }
        }
        for (from, to) in crossed {
            let (way, back) = (path(from, to)?, path(to, from)?);
            let links = || way.iter().map(|link| network.links[link.0].config);
            let rate = links().map(|link| link.rate).min().unwrap_or(Rate::MAX);
            let delay = links().map(|link| link.delay).fold(Duration::ZERO, |sum, delay| sum + delay);
            let (router, room) = read_router(registry, &island.router, rate, file.packet)?;
            let [ingress, egress] = [from, to].map(|node| &network.nodes[node.0].name);
            let aggregate = AggregatePlan {
                name: format!("{}.{ingress}.{egress}", island.name),
                from,
                to,
                environment: Environment { rate, delay },
                router,
                room,
                measured: island.measured,
                way,
                back,
                settings: settings.clone(),
                propagate_overload: island.propagate_overload,
            };
            vcp_codes::check_aggregate(island, network, &aggregate)?;
            aggregates.push(aggregate);
        }
    }
    Ok(aggregates)
}
