//! `condition`: the network of another file, with its links and perhaps with other traffic on them.

use std::path::Path;

use rampmeter_units::{Bytes, Duration};

use super::{HostsSpec, LinkSpec, RateSpec, RunEnd, SchemeSpec, TrafficSpec, packet};
use crate::conditions::Conditions;
use crate::document::{Item, Section, Source};
use crate::error::Result;
use crate::errors::Errors;
use crate::keys;
use crate::sets::Set;

/// What precedes the names of a condition's hosts, schemes and traffic, so that they differ from the scenario's.
const PREFIX: &str = "condition.";

/// What a condition adds to a scenario.
#[derive(Debug, Clone)]
pub(crate) struct ConditionSpec {
    pub(crate) name: String,
    /// The largest packet that its links carry, if it has a limit.
    pub(crate) packet: Option<Bytes>,
    pub(crate) links: Vec<LinkSpec>,
    pub(crate) hosts: Vec<HostsSpec>,
    pub(crate) schemes: Vec<SchemeSpec>,
    pub(crate) traffic: Vec<TrafficSpec>,
}

impl ConditionSpec {
    /// Reads the condition that `item` names, with the values of `sets`, for a run in which flows start up to `duration`,
    /// and which ends at `end`.
    pub(crate) fn read(
        item: &Item<'_>,
        conditions: &Conditions,
        sets: &[Set],
        duration: Duration,
        end: Duration,
        errors: &mut Errors,
    ) -> Result<Self> {
        let name = item.text()?;
        let (file, edited) = conditions.edited(name, sets).map_err(|wrong| item.error(wrong))?;
        let source = Source { sets: &edited.places, ..Source::new(&file, &edited.text) };
        let document = source.parse()?;
        let section = Section::root(source, document.get_ref()).called("a condition".into());
        errors.keep(section.keys(&[keys::CONDITION]));
        for key in ["title", "source", "group"] {
            errors.keep(section.optional(key, Item::text));
        }
        let end = RunEnd { at: end, refuses_later: false };
        let mut schemes = SchemeSpec::read_all(&section, errors);
        let traffic = section.tables("traffic", errors, |section| TrafficSpec::read(&section, duration));
        SchemeSpec::add_stacks(&mut schemes, &traffic);
        let mut condition = Self {
            name: name.to_owned(),
            packet: errors.keep(section.optional("packet", packet)).flatten(),
            links: section.tables("link", errors, |section| LinkSpec::read(&section, end)),
            hosts: section.tables("hosts", errors, |section| HostsSpec::read(&section)),
            schemes,
            traffic,
        };
        if !errors.has_lost() {
            condition.check(&section)?;
        }
        condition.rename();
        Ok(condition)
    }

    /// Every condition can replace every other one: they have these names in common.
    fn check(&self, section: &Section<'_>) -> Result<()> {
        let ends = |name: &str| self.links.iter().any(|link| link.ends.iter().any(|end| end == name));
        if !ends("left") || !ends("right") {
            let advice = "senders of scenarios are at `left` and receivers at `right`";
            return Err(section.error(format!("a condition needs links from `left` to `right`; {advice}")));
        }
        let Some(bottleneck) = self.links.iter().find(|link| link.name == "bottleneck" && link.forward.measured) else {
            let example = "[[link]] name = \"bottleneck\", measure = true";
            return Err(
                section.error(format!("a condition needs a measured link called `bottleneck`; write {example}"))
            );
        };
        let [near, far] = bottleneck.ends.each_ref().map(String::as_str);
        if self.leads("left", near) && self.leads(far, "right") {
            return Ok(());
        }
        let advice = if [near, far] == ["right", "left"] {
            "write between = [\"left\", \"right\"]".to_owned()
        } else {
            format!("write its ends in the order of a path from `left` to `right`, perhaps [\"{far}\", \"{near}\"]")
        };
        let wrong = format!("the link `bottleneck` from `{near}` to `{far}` carries no data from `left` to `right`");
        Err(bottleneck.lines.of("between").error(format!("{wrong}; {advice}")))
    }

    /// Whether links other than the bottleneck lead from one router to another.
    fn leads(&self, from: &str, to: &str) -> bool {
        let others = self.links.iter().filter(|link| link.name != "bottleneck");
        let hops: Vec<(&str, &str)> = others
            .flat_map(|link| {
                let [a, b] = link.ends.each_ref().map(String::as_str);
                std::iter::once((a, b)).chain(link.reverse.is_some().then_some((b, a)))
            })
            .collect();
        let mut reached = vec![from];
        let mut next = 0;
        while let Some(at) = reached.get(next).copied() {
            let more = hops.iter().filter(|hop| hop.0 == at).map(|hop| hop.1);
            let new: Vec<&str> = more.filter(|router| !reached.contains(router)).collect();
            reached.extend(new);
            next += 1;
        }
        reached.contains(&to)
    }

    /// Gives names the prefix, and finds traces beside the condition. Its own traffic is never part of the results.
    fn rename(&mut self) {
        let prefixed = |name: &mut String| name.insert_str(0, PREFIX);
        self.hosts.iter_mut().for_each(|hosts| prefixed(&mut hosts.name));
        self.schemes.iter_mut().for_each(|scheme| prefixed(&mut scheme.name));
        for traffic in &mut self.traffic {
            [&mut traffic.plan.name, &mut traffic.scheme, &mut traffic.from, &mut traffic.to]
                .into_iter()
                .for_each(prefixed);
            traffic.plan.measured = false;
        }
        let directory = Path::new(&self.name).parent().unwrap_or(Path::new("")).to_owned();
        for direction in self.links.iter_mut().flat_map(LinkSpec::directions_mut) {
            if let RateSpec::Trace { name, .. } = &mut direction.rate {
                *name = directory.join(&*name).to_string_lossy().into_owned();
            }
        }
    }
}
