//! Whether VCP's senders and the routers on their way speak the same language: nothing in a packet says which codes it has and
//! over what time load was measured, so who differs takes one thing for another and nobody notices in a run.

use rampmeter_control::vcp;
use rampmeter_router::AnyConfig;
use rampmeter_units::{Rate, settings};

use super::Network;
use crate::document::Source;
use crate::error::{Problem, ScenarioError};
use crate::file::{IslandSpec, SchemeSpec, SenderSpec};
use crate::{AggregatePlan, FlowPlan, LinkId, LinkPlan, Routes};

/// Refuses VCP schemes that a VCP router on their flows' way does not understand.
pub(super) fn check_flows(
    source: Source<'_>,
    schemes: &[&SchemeSpec],
    network: &Network,
    routes: &Routes,
    flows: &[FlowPlan],
) -> Result<(), ScenarioError> {
    for (scheme, spec) in schemes.iter().enumerate() {
        let SenderSpec::Ours { controller, settings, .. } = &spec.sender else { continue };
        if controller != "vcp" {
            continue;
        }
        let Ok(config) = settings::read::<vcp::Config>(&settings.table) else { continue }; // refused elsewhere
        let mut asked: Vec<usize> = Vec::new();
        for flow in flows.iter().filter(|flow| flow.scheme == scheme) {
            // One pair speaks for all: the hosts of a group stand at one router.
            if asked.contains(&flow.traffic) {
                continue;
            }
            asked.push(flow.traffic);
            let Ok(way) = routes.path(flow.from, flow.to) else { continue }; // likewise
            let who = format!("scheme `{}`", spec.name);
            if let Some((key, problem)) = disagreement(&who, &config, network.along(&way)) {
                return Err(source.error(settings.line_of(&format!("`{key}`")), problem));
            }
        }
    }
    Ok(())
}

/// Refuses an aggregate that crosses anything but VCP routers, or such as do not understand it.
pub(super) fn check_aggregate(
    source: Source<'_>,
    island: &IslandSpec,
    network: &Network,
    aggregate: &AggregatePlan,
) -> Result<(), ScenarioError> {
    let way = || network.along(&aggregate.way);
    let slowest = way().filter(|link| is_vcp(link)).map(|link| link.config.rate).min().unwrap_or(Rate::ZERO);
    // What never drops, before a link that is never full, is as good as wire.
    let is_wire = |link: &LinkPlan| link.router.is_endless() && slowest > Rate::ZERO && link.config.rate > slowest;
    if let Some(link) = way().find(|link| !is_vcp(link) && !is_wire(link)) {
        let what = format!(
            "island `{}` has the link `{}` between its borders, whose router is not of kind `vcp`: nobody would tell of its load",
            island.name, link.name
        );
        let advice = "give it router = { kind = \"vcp\", packets = 100 }, or name borders with VCP routers alone between \
                      them, or say active = false";
        return Err(source.error(island.lines.of("borders"), Problem::impossible(what, advice)));
    }
    let who = format!("island `{}`", island.name);
    match disagreement(&who, &aggregate.settings, way()) {
        Some((key, problem)) => Err(source.error(island.settings.line_of(&format!("`{key}`")), problem)),
        None => Ok(()),
    }
}

fn is_vcp(link: &LinkPlan) -> bool {
    matches!(link.router, AnyConfig::Vcp(_))
}

/// The setting in which a sender differs from a VCP router among `links`, and what to say of it.
fn disagreement<'l>(
    who: &str,
    sender: &vcp::Config,
    links: impl Iterator<Item = &'l LinkPlan>,
) -> Option<(&'static str, Problem)> {
    let quoted = |value: toml::Value| value.to_string();
    for link in links {
        let AnyConfig::Vcp(router) = &link.router else { continue };
        let codes =
            [sender.codes, router.codes].map(|codes| toml::Value::try_from(codes).map_or(String::new(), quoted));
        let intervals = [sender.load_interval, router.load_interval].map(|interval| format!("\"{interval}\""));
        for (key, [ours, theirs]) in [("codes", codes), ("load_interval", intervals)] {
            if ours != theirs {
                let what = format!("{who} has {key} = {ours}, and the VCP router of link `{}` {theirs}", link.name);
                return Some((
                    key,
                    Problem::impossible(what, "give both the same: nothing in a packet says which it is"),
                ));
            }
        }
    }
    None
}

impl Network {
    fn along<'n>(&'n self, way: &'n [LinkId]) -> impl Iterator<Item = &'n LinkPlan> {
        way.iter().map(|link| &self.links[link.0])
    }
}
