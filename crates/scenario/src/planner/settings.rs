//! The complete settings of a scheme.

use rampmeter_manager::{AgentConfig, Sharing};
use rampmeter_transport::Config as Transport;
use rampmeter_units::Rate;
use toml::{Table, Value};

use super::{read_rate, router_settings};
use crate::document::Place;
use crate::error::Result;
use crate::file::{File, LinkSpec, RouterSpec, SchemeSpec, SenderSpec, keys_of};
use crate::stack::join;
use crate::traces::Traces;
use crate::{Registries, SchemeSettings};

/// All settings of a scheme, and the defaults.
pub(crate) fn settings(
    spec: &SchemeSpec,
    file: &File,
    registries: &Registries,
    traces: &Traces,
) -> Result<SchemeSettings> {
    let (mut all, defaults) = match &spec.sender {
        SenderSpec::Kernel(algorithm) => {
            let all = Table::from_iter([("kernel".to_owned(), algorithm.as_str().into())]);
            (all.clone(), all)
        }
        SenderSpec::Stack { stack, controller, .. } => {
            let all = Table::from_iter([("controller".to_owned(), join(stack, controller).into())]);
            (all.clone(), all)
        }
        SenderSpec::Ours { controller, place, settings, transport, sharing, agent } => {
            let complete = |settings: &Table, transport: &Table, sharing: &Sharing, agent: AgentConfig| {
                let mut all = Table::from_iter([("controller".to_owned(), controller.as_str().into())]);
                let settings = registries.controllers.complete(controller, settings).map_err(|it| it.to_string())?;
                let transport = Table::try_from(Transport::read(transport, file.packet)?);
                all.insert("settings".into(), Value::Table(settings));
                all.insert("transport".into(), Value::Table(transport.map_err(|it| it.to_string())?));
                all.extend(keys_of(sharing, agent));
                Ok(all)
            };
            let all = complete(&settings.table, &transport.table, sharing, *agent);
            let none = Table::new();
            let defaults = complete(&none, &none, &Sharing::default(), AgentConfig::default());
            (all.map_err(|error: String| place.error(error))?, defaults.unwrap_or_default())
        }
    };
    if !spec.routers.is_empty() {
        let router = |(link, _, router): &(String, Place, RouterSpec)| {
            let mut directions = file.links.iter().flat_map(LinkSpec::directions);
            let of_link = directions.find(|(name, _)| name == link);
            let rate = of_link.map_or(Ok(Rate::MAX), |(_, direction)| Ok(read_rate(&direction.rate, traces)?.0))?;
            let settings = router_settings(router, rate, file.packet)?;
            let all = registries.routers.complete(&router.kind, &settings);
            let mut all = all.map_err(|error| router.settings.place_of(&error).error(error))?;
            all.insert("kind".into(), router.kind.as_str().into());
            Ok((link.clone(), Value::Table(all)))
        };
        let routers = spec.routers.iter().map(router).collect::<Result<Table>>()?;
        all.insert("routers".into(), Value::Table(routers));
    }
    Ok(SchemeSettings { name: spec.name.clone(), all, defaults })
}
