//! Checks that VCP senders and the VCP routers on their paths use the same codes, graded or not, and the same load
//! interval. Packets do not carry these settings, so a sender with different ones would misread the load without any
//! error in the run.

use rampmeter_control::vcp;
use rampmeter_router::AnyConfig;
use rampmeter_units::{Rate, settings};

use super::Network;
use crate::document::Settings;
use crate::error::Result;
use crate::file::{IslandSpec, SchemeSpec, SenderSpec};
use crate::{AggregatePlan, LinkId, LinkPlan};

/// Refuses a VCP scheme whose settings differ from those of a VCP router on the path of a flow.
pub(super) fn check_scheme(spec: &SchemeSpec, network: &Network, way: &[LinkId]) -> Result<()> {
    match &spec.sender {
        SenderSpec::Ours { controller, settings, .. } if matches!(controller.as_str(), "vcp" | "vcp-plus") => {
            let Ok(config) = settings::read(&settings.table) else { return Ok(()) }; // refused elsewhere
            check(&format!("scheme `{}`", spec.name), settings, controller, &config, network.on_path(way))
        }
        _ => Ok(()),
    }
}

/// Refuses an aggregate that crosses routers other than VCP, or VCP routers with different settings.
pub(super) fn check_aggregate(island: &IslandSpec, network: &Network, aggregate: &AggregatePlan) -> Result<()> {
    let way = || network.on_path(&aggregate.way);
    let slowest = way().filter(|link| is_vcp(link)).map(|link| link.config.rate).min().unwrap_or(Rate::ZERO);
    // A queue without limit before a link that is never the bottleneck needs no VCP router.
    let needs_no_router = |link: &LinkPlan| {
        let is_faster = link.capacity.is_none() && slowest > Rate::ZERO && link.config.rate > slowest;
        link.router.is_endless() && is_faster
    };
    if let Some(link) = way().find(|link| !is_vcp(link) && !needs_no_router(link)) {
        let wrong = format!("island `{}` has the link `{}` between its borders", island.name, link.name);
        let why = "whose router is not of kind `vcp`: its load would not be reported";
        let advice = "give it router = { kind = \"vcp\", packets = 100 }, or name borders that have only VCP routers \
                      between them, or write active = false";
        return Err(island.lines.of("borders").error(format!("{wrong}, {why}; {advice}")));
    }
    check(&format!("island `{}`", island.name), &island.settings, "vcp", &aggregate.settings, way())
}

fn is_vcp(link: &LinkPlan) -> bool {
    matches!(link.router, AnyConfig::Vcp(_))
}

/// Refuses a sender of which a setting differs from that of a VCP router among `links`.
fn check<'l>(
    name: &str,
    settings: &Settings,
    controller: &str,
    sender: &vcp::Config,
    links: impl Iterator<Item = &'l LinkPlan>,
) -> Result<()> {
    let quoted = |value: toml::Value| value.to_string();
    for link in links {
        let (kind, router) = match &link.router {
            AnyConfig::Vcp(router) => ("vcp", router),
            AnyConfig::VcpPlus(router) => ("vcp-plus", &router.0),
            _ => continue,
        };
        if controller != kind {
            let wrong = format!("{name} has controller = \"{controller}\", and the router of link `{}`", link.name);
            let why = format!("is of kind \"{kind}\", whose codes it would misread; use either for both");
            return Err(settings.place_of(&"`controller`").error(format!("{wrong} {why}")));
        }
        let codes =
            [sender.codes, router.codes].map(|codes| toml::Value::try_from(codes).map_or(String::new(), quoted));
        let intervals = [sender.load_interval, router.load_interval].map(|interval| format!("\"{interval}\""));
        for (key, [sender_value, router_value]) in [("codes", codes), ("load_interval", intervals)] {
            if sender_value != router_value {
                let router = format!("the VCP router of link `{}` has {router_value}", link.name);
                let advice = "give both the same: packets do not carry it";
                let wrong = format!("{name} has {key} = {sender_value}, and {router}; {advice}");
                return Err(settings.place_of(&format!("`{key}`")).error(wrong));
            }
        }
    }
    Ok(())
}

impl Network {
    fn on_path<'n>(&'n self, way: &'n [LinkId]) -> impl Iterator<Item = &'n LinkPlan> {
        way.iter().map(|link| &self.links[link.0])
    }
}
