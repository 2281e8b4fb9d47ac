//! The aggregates of islands: one for each pair of borders between which a flow crosses the island.

use std::collections::BTreeSet;

use rampmeter_control::vcp;
use rampmeter_router::{Environment, Registry as Routers};
use rampmeter_units::{Duration, Rate, settings};

use super::{Network, read_router, vcp_codes};
use crate::document::Source;
use crate::error::{Problem, ScenarioError};
use crate::file::{File, IslandSpec};
use crate::{AggregatePlan, FlowPlan, NodeId, Routes};

pub(super) fn aggregates(
    source: Source<'_>,
    file: &File,
    registries: &Routers,
    network: &Network,
    routes: &Routes,
    flows: &[FlowPlan],
) -> Result<Vec<AggregatePlan>, ScenarioError> {
    let mut aggregates = Vec::new();
    for island in &file.islands {
        let settings = aggregate(source, island)?; // checked even where this point does not use it
        let is_border = |node: NodeId| island.borders.contains(&network.nodes[node.0].name);
        let mut crossed = BTreeSet::new();
        let pairs: BTreeSet<_> = flows.iter().filter(|_| island.active).map(|flow| (flow.from, flow.to)).collect();
        for (from, to) in pairs {
            let path = routes.path(from, to).map_err(|no_path| source.error(island.lines.head(), no_path))?;
            let mut passed = path.iter().map(|link| network.links[link.0].to).filter(|node| is_border(*node));
            if let (Some(ingress), Some(egress)) = (passed.next(), passed.next_back()) {
                crossed.insert((ingress, egress));
            }
        }
        for (from, to) in crossed {
            let path = |from, to| routes.path(from, to).map_err(|no_path| source.error(island.lines.head(), no_path));
            let (forward, back) = (path(from, to)?, path(to, from)?);
            let links = || forward.iter().map(|link| network.links[link.0].config);
            let rate = links().map(|link| link.rate).min().unwrap_or(Rate::MAX);
            let delay = links().map(|link| link.delay).fold(Duration::ZERO, |sum, delay| sum + delay);
            let (router, limit_packets) = read_router(source, registries, &island.router, rate, file.packet)?;
            let [ingress, egress] = [from, to].map(|node| &network.nodes[node.0].name);
            let aggregate = AggregatePlan {
                name: format!("{}.{ingress}.{egress}", island.name),
                from,
                to,
                environment: Environment { rate, delay },
                router,
                room: limit_packets,
                measured: island.measured,
                way: forward,
                back,
                settings: settings.clone(),
                propagate_overload: island.propagate_overload,
            };
            vcp_codes::check_aggregate(source, island, network, &aggregate)?;
            aggregates.push(aggregate);
        }
    }
    Ok(aggregates)
}

fn aggregate(source: Source<'_>, island: &IslandSpec) -> Result<vcp::Config, ScenarioError> {
    let refuse = |reason: String| {
        // The reason starts with the name of the setting.
        let line = island.settings.line_of(&format!(": {reason}"));
        source.error(line, Problem::Island(reason))
    };
    settings::checked(&island.settings.table).map_err(refuse)
}
