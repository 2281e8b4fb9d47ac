//! `[scheme.NAME]`: a sender and the routers that it needs.

use rampmeter_manager::{AgentConfig, Grouping, HalfLife, Scheduling, Sharing};
use rampmeter_units::Duration;

use super::{RouterSpec, TrafficSpec};
use crate::document::{Item, NAME, Place, Section, Settings, is_name};
use crate::error::{Result, ScenarioError};
use crate::errors::Errors;
use crate::keys;
use crate::stack::{join, split};

const GROUPINGS: [(&str, Grouping); 2] = [("flow", Grouping::PerFlow), ("destination", Grouping::PerDestination)];

const SCHEDULINGS: [(&str, Scheduling); 3] =
    [("in-turn", Scheduling::InTurn), ("round-robin", Scheduling::RoundRobin), ("h-fsc", Scheduling::ServiceCurves)];

const HALF_LIVES: [(&str, HalfLife); 2] = [("min-rtt", HalfLife::MinRtt), ("mean-rtt", HalfLife::MeanRtt)];

#[derive(Debug, Clone)]
pub(crate) struct SchemeSpec {
    pub(crate) name: String,
    pub(crate) sender: SenderSpec,
    /// The links where this scheme replaces the router, with the places that name them and the routers.
    pub(crate) routers: Vec<(String, Place, RouterSpec)>,
}

#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // one a scheme: its size costs nothing
pub(crate) enum SenderSpec {
    /// Rampmeter's transport; `place` is that of the controller's name.
    Ours {
        controller: String,
        place: Place,
        settings: Settings,
        transport: Settings,
        sharing: Sharing,
        agent: AgentConfig,
    },
    /// The kernel's TCP with this algorithm.
    Kernel(String),
    /// Another transport's stack with one of its controllers; `place` is that of the name of both.
    Stack { stack: String, controller: String, place: Place },
}

impl SenderSpec {
    /// The stack and the controller of `name`, which stands at `place`; `None` if it names no stack.
    fn of_stack(name: &str, place: &Place) -> Option<Self> {
        let (stack, controller) = split(name)?;
        Some(Self::Stack { stack: stack.to_owned(), controller: controller.to_owned(), place: place.clone() })
    }
}

impl SchemeSpec {
    /// Who sends, if not Rampmeter's transport.
    pub(crate) fn foreign_sender(&self) -> Option<&'static str> {
        match self.sender {
            SenderSpec::Ours { .. } => None,
            SenderSpec::Kernel(_) => Some("the kernel"),
            SenderSpec::Stack { .. } => Some("another transport's stack"),
        }
    }

    /// Whether its scheduler can give guarantees to flows.
    pub(crate) fn guarantees(&self) -> bool {
        matches!(&self.sender, SenderSpec::Ours { sharing, .. } if sharing.scheduling == Scheduling::ServiceCurves)
    }

    /// Adds the schemes that `traffic` uses by the name of a stack and its controller, which need no definition.
    pub(crate) fn add_stacks(schemes: &mut Vec<Self>, traffic: &[TrafficSpec]) {
        for TrafficSpec { scheme: name, lines, .. } in traffic {
            let sender = SenderSpec::of_stack(name, lines.of("scheme"));
            let is_known = schemes.iter().any(|known| known.name == *name);
            schemes.extend(sender.filter(|_| !is_known).map(|sender| Self {
                name: name.clone(),
                sender,
                routers: Vec::new(),
            }));
        }
    }

    pub(crate) fn read_all(file: &Section<'_>, errors: &mut Errors) -> Vec<Self> {
        let Some(schemes) = file.get("scheme") else { return Vec::new() };
        let Some(schemes) = errors.keep(schemes.section("[scheme]")) else {
            errors.lose(None);
            return Vec::new();
        };
        let read = |item: &Item<'_>| {
            if !is_name(item.key) {
                return Err(item.error(format!("`{}` cannot be a scheme's name; use {NAME}", item.key)));
            }
            Self::read(&item.section(&format!("scheme `{}`", item.key))?, item.key)
        };
        let keep = |item: Item<'_>| {
            let read = read(&item);
            if read.is_err() {
                errors.lose(Some(item.key));
            }
            errors.keep(read)
        };
        schemes.items().filter_map(keep).collect()
    }

    fn read(section: &Section<'_>, name: &str) -> Result<Self> {
        if let Some(stack) = section.get("stack") {
            return Err(no_stack_key(section, &stack));
        }
        section.keys(&[keys::SCHEME, keys::SCHEME_OF_OURS])?;
        // Keys that only our sender takes.
        let takes_no_settings = |sender: &str| {
            let item = keys::names(&[keys::SCHEME_OF_OURS]).into_iter().find_map(|key| section.get(key));
            item.map_or(Ok(()), |item| {
                let wrong = format!("`{}` in a scheme whose sender is {sender}", item.key);
                Err(item.error(format!("{wrong}; remove it: {sender} takes no settings here")))
            })
        };
        let sender = match (section.get("controller"), section.get("kernel")) {
            (Some(controller), None) => {
                let (controller, place) = (controller.text()?.to_owned(), controller.place());
                match SenderSpec::of_stack(&controller, &place) {
                    Some(sender) => {
                        takes_no_settings("the stack")?;
                        sender
                    }
                    None => ours(section, controller, place)?,
                }
            }
            (None, Some(kernel)) => {
                takes_no_settings("the kernel")?;
                SenderSpec::Kernel(kernel.name()?.to_owned())
            }
            (None, None) => return Err(section.missing("controller", "controller = \"newreno\"")),
            (Some(_), Some(kernel)) => {
                let wrong = format!("{} has a `controller` and a `kernel`; remove one of the two", section.what);
                return Err(kernel.error(wrong));
            }
        };
        let read = |item: Item<'_>| Ok((item.key.to_owned(), item.place(), RouterSpec::read(&item)?));
        let routers =
            section.or("routers", Vec::new(), |item| item.section("`routers`")?.items().map(read).collect())?;
        Ok(Self { name: name.to_owned(), sender, routers })
    }
}

/// The error for a key `stack`, with the name of the stack's controller to write instead.
fn no_stack_key(section: &Section<'_>, stack: &Item<'_>) -> ScenarioError {
    let controller = section.get("controller").and_then(|item| item.as_text());
    let name = match controller.filter(|controller| split(controller).is_some()) {
        Some(whole) => whole.to_owned(),
        None => join(stack.as_text().unwrap_or("quinn"), controller.unwrap_or("cubic")),
    };
    let wrong = format!("{} has no key `stack`", section.what);
    stack.error(format!("{wrong}; remove it, and write controller = \"{}\"", name.escape_debug()))
}

/// The sender of a scheme with this controller of ours.
fn ours(section: &Section<'_>, controller: String, place: Place) -> Result<SenderSpec> {
    let settings = |key| section.or(key, Settings::omitted(section), Settings::read);
    Ok(SenderSpec::Ours {
        controller,
        place,
        settings: settings("settings")?,
        transport: settings("transport")?,
        sharing: sharing(section)?,
        agent: agent(section)?,
    })
}

/// The keys of a scheme besides `settings` and `transport`, with these values.
pub(crate) fn keys_of(sharing: &Sharing, agent: AgentConfig) -> toml::Table {
    fn name<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> toml::Value {
        names.iter().find(|(_, known)| known == value).map_or("", |(name, _)| name).into()
    }
    [
        ("macroflow", name(&GROUPINGS, &sharing.grouping)),
        ("scheduler", name(&SCHEDULINGS, &sharing.scheduling)),
        ("half_life", name(&HALF_LIVES, &sharing.half_life)),
        ("segregation", sharing.segregation.into()),
        ("careful_resume", sharing.careful_resume.unwrap_or_default().to_string().into()),
        ("sequenced", agent.sequenced.into()),
        ("probe_interval", (f64::from(agent.probe_interval) / 8.0).into()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into_iter()
    .collect()
}

fn agent(section: &Section<'_>) -> Result<AgentConfig> {
    let default = AgentConfig::default();
    let interval = |item: &Item<'_>| {
        let round_trips = item.number(0.125, 10.0, "a number of round trips from 0.125 to below 10: 0.5")?;
        Ok((round_trips * 8.0).round() as u32)
    };
    Ok(AgentConfig {
        sequenced: section.or("sequenced", default.sequenced, Item::boolean)?,
        probe_interval: section.or("probe_interval", default.probe_interval, interval)?,
    })
}

fn sharing(section: &Section<'_>) -> Result<Sharing> {
    let advice = "use \"flow\" (one per flow) or \"destination\" (one for all flows to a host)";
    let grouping = section.or("macroflow", Grouping::PerFlow, |item| item.one_of(&GROUPINGS, advice))?;
    let default = match grouping {
        Grouping::PerFlow => Scheduling::InTurn,
        Grouping::PerDestination | Grouping::PerSession => Scheduling::RoundRobin,
    };
    let advice = "use \"round-robin\" (by weight), \"h-fsc\" (by service curve, then by weight) or \"in-turn\"";
    let scheduling = section.or("scheduler", default, |item| item.one_of(&SCHEDULINGS, advice))?;
    let advice = "use \"min-rtt\" or \"mean-rtt\": the time in which a rate halves while no feedback arrives";
    let half_life = section.or("half_life", HalfLife::MinRtt, |item| item.one_of(&HALF_LIVES, advice))?;
    let segregation = section.or("segregation", false, Item::boolean)?;
    let lifetime = section.or("careful_resume", Duration::ZERO, Item::quantity)?;
    let careful_resume = (lifetime > Duration::ZERO).then_some(lifetime);
    Ok(Sharing { grouping, scheduling, half_life, segregation, careful_resume, ..Sharing::default() })
}
