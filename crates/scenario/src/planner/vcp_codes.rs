//! Checks that VCP senders and the VCP routers on their paths use the same codes and the same load interval. Packets do
//! not carry these settings, so a sender with different ones would misread the load without any error in the run.

use rampmeter_control::vcp;
use rampmeter_router::AnyConfig;
use rampmeter_units::{Rate, settings};

use super::Network;
use crate::document::Source;
use crate::error::{Problem, ScenarioError};
use crate::file::{IslandSpec, SchemeSpec, SenderSpec};
use crate::{AggregatePlan, FlowPlan, LinkId, LinkPlan, Routes};

/// Refuses VCP schemes whose settings differ from those of a VCP router on their flows' paths.
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
        let mut checked: Vec<usize> = Vec::new();
        for flow in flows.iter().filter(|flow| flow.scheme == scheme) {
            // One pair of hosts is enough: all hosts of a group are at one router.
            if checked.contains(&flow.traffic) {
                continue;
            }
            checked.push(flow.traffic);
            let Ok(way) = routes.path(flow.from, flow.to) else { continue }; // refused elsewhere
            let name = format!("scheme `{}`", spec.name);
            if let Some((key, problem)) = mismatch(&name, &config, network.on_path(&way)) {
                return Err(source.error(settings.line_of(&format!("`{key}`")), problem));
            }
        }
    }
    Ok(())
}

/// Refuses an aggregate that crosses routers other than VCP, or VCP routers with different settings.
pub(super) fn check_aggregate(
    source: Source<'_>,
    island: &IslandSpec,
    network: &Network,
    aggregate: &AggregatePlan,
) -> Result<(), ScenarioError> {
    let way = || network.on_path(&aggregate.way);
    let slowest = way().filter(|link| is_vcp(link)).map(|link| link.config.rate).min().unwrap_or(Rate::ZERO);
    // A queue without limit before a link that is never the bottleneck needs no VCP router.
    let needs_no_router =
        |link: &LinkPlan| link.router.is_endless() && slowest > Rate::ZERO && link.config.rate > slowest;
    if let Some(link) = way().find(|link| !is_vcp(link) && !needs_no_router(link)) {
        let what = format!(
            "island `{}` has the link `{}` between its borders, whose router is not of kind `vcp`: its load \
             would not be reported",
            island.name, link.name
        );
        let advice = "give it router = { kind = \"vcp\", packets = 100 }, or name borders that have only VCP routers \
                      between them, or write active = false";
        return Err(source.error(island.lines.of("borders"), Problem::impossible(what, advice)));
    }
    let name = format!("island `{}`", island.name);
    match mismatch(&name, &aggregate.settings, way()) {
        Some((key, problem)) => Err(source.error(island.settings.line_of(&format!("`{key}`")), problem)),
        None => Ok(()),
    }
}

fn is_vcp(link: &LinkPlan) -> bool {
    matches!(link.router, AnyConfig::Vcp(_))
}

/// The setting in which a sender differs from a VCP router among `links`, with the error.
fn mismatch<'l>(
    name: &str,
    sender: &vcp::Config,
    links: impl Iterator<Item = &'l LinkPlan>,
) -> Option<(&'static str, Problem)> {
    let quoted = |value: toml::Value| value.to_string();
    for link in links {
        let AnyConfig::Vcp(router) = &link.router else { continue };
        let codes =
            [sender.codes, router.codes].map(|codes| toml::Value::try_from(codes).map_or(String::new(), quoted));
        let intervals = [sender.load_interval, router.load_interval].map(|interval| format!("\"{interval}\""));
        for (key, [sender_value, router_value]) in [("codes", codes), ("load_interval", intervals)] {
            if sender_value != router_value {
                let what = format!(
                    "{name} has {key} = {sender_value}, and the VCP router of link `{}` has {router_value}",
                    link.name
                );
                return Some((key, Problem::impossible(what, "give both the same: packets do not carry it")));
            }
        }
    }
    None
}

impl Network {
    fn on_path<'n>(&'n self, way: &'n [LinkId]) -> impl Iterator<Item = &'n LinkPlan> {
        way.iter().map(|link| &self.links[link.0])
    }
}
