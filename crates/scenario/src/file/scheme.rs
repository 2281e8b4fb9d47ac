//! `[scheme.NAME]`: a sender and the routers that it needs.

use rampmeter_manager::{AgentConfig, Grouping, HalfLife, Scheduling, Sharing};

use super::RouterSpec;
use crate::document::{NAME, Section, Settings, is_name};
use crate::error::{Problem, ScenarioError};

/// A way to send.
#[derive(Debug, Clone)]
pub(crate) struct SchemeSpec {
    pub(crate) name: String,
    pub(crate) sender: SenderSpec,
    /// The links where this scheme replaces the router, with the lines that name them and the routers.
    pub(crate) routers: Vec<(String, usize, RouterSpec)>,
}

/// The sender of a scheme.
#[derive(Debug, Clone)]
pub(crate) enum SenderSpec {
    /// Rampmeter's transport; `line` is that of the controller's name.
    Ours {
        controller: String,
        line: usize,
        settings: Settings,
        transport: Settings,
        sharing: Sharing,
        agent: AgentConfig,
    },
    Kernel {
        algorithm: String,
    },
}

impl SchemeSpec {
    /// Whether Rampmeter's transport sends.
    pub(crate) fn is_rampmeter(&self) -> bool {
        matches!(self.sender, SenderSpec::Ours { .. })
    }

    /// Whether its scheduler can give guarantees to flows.
    pub(crate) fn guarantees(&self) -> bool {
        matches!(&self.sender, SenderSpec::Ours { sharing, .. } if sharing.scheduling == Scheduling::ServiceCurves)
    }

    pub(crate) fn read_all(file: &Section<'_>) -> Result<Vec<Self>, ScenarioError> {
        let Some(schemes) = file.get("scheme") else { return Ok(Vec::new()) };
        let read = |item: crate::document::Item<'_>| {
            if !is_name(item.key) {
                let what = format!("`{}` cannot be a scheme's name", item.key);
                return Err(item.error(Problem::impossible(what, format!("use {NAME}"))));
            }
            Self::read(&item.section(&format!("scheme `{}`", item.key))?, item.key)
        };
        schemes.section("[scheme]")?.items().map(read).collect()
    }

    fn read(section: &Section<'_>, name: &str) -> Result<Self, ScenarioError> {
        section.keys(&[
            "controller",
            "settings",
            "transport",
            "macroflow",
            "scheduler",
            "half_life",
            "sequenced",
            "segregation",
            "kernel",
            "routers",
        ])?;
        let sender = match (section.get("controller"), section.get("kernel")) {
            (Some(controller), None) => {
                let settings =
                    |key| section.get(key).map_or(Ok(Settings::omitted(section.line)), |item| Settings::read(&item));
                SenderSpec::Ours {
                    controller: controller.text()?.to_owned(),
                    line: controller.line(),
                    settings: settings("settings")?,
                    transport: settings("transport")?,
                    sharing: sharing(section)?,
                    agent: agent(section)?,
                }
            }
            (None, Some(kernel)) => {
                if let Some(item) =
                    ["settings", "transport", "macroflow", "scheduler", "half_life", "sequenced", "segregation"]
                        .into_iter()
                        .find_map(|key| section.get(key))
                {
                    let what = format!("`{}` in a scheme whose sender is the kernel", item.key);
                    return Err(item.error(Problem::impossible(what, "remove it: the kernel takes no settings here")));
                }
                SenderSpec::Kernel { algorithm: kernel.name()?.to_owned() }
            }
            (None, None) => {
                let (place, key) = (section.what.clone(), "controller");
                return Err(section.error(Problem::MissingKey { place, key, example: "controller = \"newreno\"" }));
            }
            (Some(_), Some(kernel)) => {
                let what = format!("{} has a `controller` and a `kernel`", section.what);
                return Err(kernel.error(Problem::impossible(what, "remove one of the two")));
            }
        };
        let mut routers = Vec::new();
        if let Some(item) = section.get("routers") {
            for router in item.section("`routers`")?.items() {
                routers.push((router.key.to_owned(), router.line(), RouterSpec::read(&router)?));
            }
        }
        Ok(Self { name: name.to_owned(), sender, routers })
    }
}

fn sharing(section: &Section<'_>) -> Result<Sharing, ScenarioError> {
    let groupings = [("flow", Grouping::PerFlow), ("destination", Grouping::PerDestination)];
    let advice = "use \"flow\" (one per flow) or \"destination\" (one for all flows to a host)";
    let grouping = section.get("macroflow").map_or(Ok(Grouping::PerFlow), |item| item.one_of(&groupings, advice))?;
    let default = match grouping {
        Grouping::PerFlow => Scheduling::InTurn,
        Grouping::PerDestination => Scheduling::RoundRobin,
    };
    let schedulings = [
        ("in-turn", Scheduling::InTurn),
        ("round-robin", Scheduling::RoundRobin),
        ("h-fsc", Scheduling::ServiceCurves),
    ];
    let advice = "use \"round-robin\" (by weight), \"h-fsc\" (by service curve, then by weight) or \"in-turn\"";
    let scheduling = section.get("scheduler").map_or(Ok(default), |item| item.one_of(&schedulings, advice))?;
    let half_lives = [("min-rtt", HalfLife::MinRtt), ("mean-rtt", HalfLife::MeanRtt)];
    let advice = "use \"min-rtt\" or \"mean-rtt\": the time in which a rate halves while no feedback arrives";
    let half_life = section.get("half_life").map_or(Ok(HalfLife::MinRtt), |item| item.one_of(&half_lives, advice))?;
    let segregation = section.get("segregation").map_or(Ok(false), |item| item.boolean())?;
    Ok(Sharing { grouping, scheduling, half_life, segregation })
}

fn agent(section: &Section<'_>) -> Result<AgentConfig, ScenarioError> {
    let sequenced = section.get("sequenced").map_or(Ok(true), |item| item.boolean())?;
    Ok(AgentConfig { sequenced })
}
