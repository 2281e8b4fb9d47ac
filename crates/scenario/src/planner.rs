//! Builds a plan from a file at one point of its sweep: it resolves names, creates the hosts of groups and draws the
//! flows of arrivals. Errors that only the registries or the whole network show are found here.

mod arrivals;
mod islands;
mod vcp_codes;

use std::collections::HashMap;
use std::str::FromStr;

use rampmeter_control::Registry as Controllers;
use rampmeter_router::{AnyConfig, EcnPassage, LinkConfig, Loss, Registry as Routers};
use rampmeter_transport::{Clock, Config as Transport};
use rampmeter_units::{BadQuantity, Bytes, Duration, Rate, RegistryError, Streams};
use toml::Value;

use crate::document::Source;
use crate::error::{Problem, ScenarioError};
use crate::file::{File, RouterSpec, SchemeSpec, SenderSpec};
use crate::{LinkPlan, Node, NodeId, Plan, Point, Registries, Routes, Scheme, SchemePlan, Sender, TrafficPlan};

pub(crate) fn plan(
    source: Source<'_>,
    file: &File,
    point: &Point,
    registries: &Registries,
) -> Result<Plan, ScenarioError> {
    // Schemes that this point does not use are checked, too.
    let all = file.schemes.iter().map(|spec| Ok((spec, scheme(source, spec, &registries.controllers, file.packet)?)));
    let all = all.collect::<Result<Vec<_>, ScenarioError>>()?;
    let is_used = |spec: &SchemeSpec| file.traffic.iter().any(|traffic| traffic.scheme == spec.name);
    let (used, schemes): (Vec<&SchemeSpec>, Vec<SchemePlan>) =
        all.into_iter().filter(|(spec, _)| is_used(spec)).unzip();
    let routers = &registries.routers;
    let network = Network::of(source, file, &used, routers)?;
    let routes = Routes::new(&network.nodes, &network.links);
    let seed = point.get("seed").and_then(Value::as_integer).unwrap_or(1).unsigned_abs();
    let flows = arrivals::flows(source, file, &used, &network, Streams::new(seed))?;
    for (index, traffic) in file.traffic.iter().enumerate() {
        // One pair of hosts is enough: all hosts of a group are at one router.
        let Some(flow) = flows.iter().find(|flow| flow.traffic == index) else { continue };
        for (from, to) in [(flow.from, flow.to), (flow.to, flow.from)] {
            routes.path(from, to).map_err(|no_path| source.error(traffic.lines.head(), no_path))?;
        }
    }
    vcp_codes::check_flows(source, &used, &network, &routes, &flows)?;
    let aggregates = islands::aggregates(source, file, routers, &network, &routes, &flows)?;
    Ok(Plan {
        point: point.clone(),
        seed,
        duration: file.duration,
        warmup: file.warmup,
        drain: file.drain,
        packet: file.packet,
        routes,
        aggregates,
        nodes: network.nodes,
        links: network.links,
        schemes,
        traffic: file
            .traffic
            .iter()
            .map(|t| TrafficPlan {
                name: t.name.clone(),
                weight: t.weight,
                curve: t.curve.map(|(curve, _)| curve),
                workload: t.workload.clone(),
                measured: t.measured,
            })
            .collect(),
        flows,
        meters: file.meters,
    })
}

fn scheme(
    source: Source<'_>,
    spec: &SchemeSpec,
    controllers: &Controllers,
    packet: Bytes,
) -> Result<SchemePlan, ScenarioError> {
    let sender = match &spec.sender {
        SenderSpec::Kernel { algorithm } => Sender::Kernel { algorithm: algorithm.clone() },
        SenderSpec::Ours { controller, line, settings, transport, sharing, agent } => {
            let controller = controllers.factory(controller, &settings.table).map_err(|error| match error {
                RegistryError::Unknown { .. } => source.error(*line, error),
                RegistryError::Settings { .. } => source.error(settings.line_of(&error.to_string()), error),
            })?;
            let config = Transport::read(&transport.table, packet)
                .map_err(|reason| source.error(transport.line_of(&reason), Problem::Transport(reason)))?;
            Sender::Ours(Box::new(Scheme { config, sharing: *sharing, agent: *agent, controller }))
        }
    };
    Ok(SchemePlan { name: spec.name.clone(), sender })
}

/// Nodes and links.
struct Network {
    nodes: Vec<Node>,
    links: Vec<LinkPlan>,
    /// The hosts of each group, by its name.
    groups: HashMap<String, Vec<NodeId>>,
}

impl Network {
    fn of(source: Source<'_>, file: &File, schemes: &[&SchemeSpec], registry: &Routers) -> Result<Self, ScenarioError> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut routers: HashMap<&str, NodeId> = HashMap::new();
        for end in file.links.iter().flat_map(|link| &link.ends) {
            routers.entry(end).or_insert_with(|| {
                nodes.push(Node { name: end.clone(), is_host: false, clock: Clock::default(), stalls: None });
                NodeId(nodes.len() - 1)
            });
        }
        let mut links = Vec::new();
        for link in &file.links {
            let [a, b] = link.ends.each_ref().map(|end| routers[end.as_str()]);
            for ((name, direction), (from, to)) in link.directions().zip([(a, b), (b, a)]) {
                let router = scheme_router(source, &name, &link.name, schemes)?.unwrap_or(&direction.router);
                let (router, limit_packets) =
                    read_router(source, registry, router, direction.config.rate, file.packet)?;
                links.push(LinkPlan {
                    name,
                    from,
                    to,
                    config: direction.config,
                    ecn: direction.ecn,
                    router,
                    room: limit_packets,
                    changes: direction.changes.clone(),
                    measured: direction.measured,
                });
            }
        }
        let mut groups = HashMap::new();
        for hosts in &file.hosts {
            let at = routers[hosts.at.as_str()];
            let unlimited = RouterSpec::unlimited();
            let router = hosts.router.as_ref().unwrap_or(&unlimited);
            let (router, limit_packets) = read_router(source, registry, router, hosts.rate, file.packet)?;
            let mut group = Vec::new();
            for i in 0..hosts.count {
                let host = NodeId(nodes.len());
                let name = format!("{}.{i}", hosts.name);
                nodes.push(Node { name: name.clone(), is_host: true, clock: hosts.clock, stalls: hosts.stalls });
                group.push(host);
                for (name, from, to) in [(name.clone(), host, at), (format!("{name}.reverse"), at, host)] {
                    let config = LinkConfig { rate: hosts.rate, delay: hosts.delay_of(i), loss: Loss::default() };
                    let (router, changes, ecn) = (router.clone(), Vec::new(), EcnPassage::Kept);
                    links.push(LinkPlan {
                        name,
                        from,
                        to,
                        config,
                        ecn,
                        router,
                        room: limit_packets,
                        changes,
                        measured: false,
                    });
                }
            }
            groups.insert(hosts.name.clone(), group);
        }
        Ok(Self { nodes, links, groups })
    }
}

/// The router that the schemes of this run set for the link direction `name` of `link`.
fn scheme_router<'s>(
    source: Source<'_>,
    name: &str,
    link: &str,
    schemes: &[&'s SchemeSpec],
) -> Result<Option<&'s RouterSpec>, ScenarioError> {
    let mut chosen: Option<(&SchemeSpec, &RouterSpec)> = None;
    for scheme in schemes {
        let set = |wanted: &str| scheme.routers.iter().find(|(place, ..)| place == wanted);
        let Some((_, at, router)) = set(name).or_else(|| set(link)) else { continue };
        if let Some((other, _)) = chosen.filter(|(_, other)| !other.same(router)) {
            let what =
                format!("schemes `{}` and `{}` set different routers for link `{name}`", other.name, scheme.name);
            let problem = Problem::impossible(what, "run them one at a time, or give both the same router");
            return Err(source.error(*at, problem));
        }
        chosen = Some((scheme, router));
    }
    Ok(chosen.map(|(_, router)| router))
}

/// A router's settings and the maximum number of packets in its queue.
fn read_router(
    source: Source<'_>,
    registry: &Routers,
    spec: &RouterSpec,
    rate: Rate,
    packet: Bytes,
) -> Result<(AnyConfig, Option<u64>), ScenarioError> {
    let settings = &spec.settings;
    let fail = |error: String, problem: Problem| source.error(settings.line_of(&error), problem);
    let mut table = settings.table.clone();
    for (key, value) in &mut table {
        if let Value::Table(worth) = value {
            if worth.contains_key("worth") {
                *value = worth_of(key, worth, rate, packet).map_err(|problem| fail(format!("`{key}`"), problem))?;
            }
        }
    }
    let limit_packets =
        table.get("packets").and_then(Value::as_integer).and_then(|packets| u64::try_from(packets).ok());
    let config = registry.config(&spec.kind, &table).map_err(|error| match error {
        RegistryError::Unknown { .. } => fail("`kind`".into(), error.into()),
        RegistryError::Settings { .. } => fail(error.to_string(), error.into()),
    })?;
    Ok((config, limit_packets))
}

/// A buffer size given as the time the link takes to send it: `{ worth = "80 ms" }`, in packets of the largest size or
/// of the size `of`.
fn worth_of(key: &str, table: &toml::Table, rate: Rate, packet: Bytes) -> Result<Value, Problem> {
    const ADVICE: &str =
        "write packets = { worth = \"80 ms\" }, with `of` = \"1000 B\" for a packet size other than `packet`";
    let span: Duration = quantity(table, "worth")?.unwrap_or_default();
    let of = quantity(table, "of")?.unwrap_or(packet);
    let known = table.keys().all(|name| name == "worth" || (name == "of" && key == "packets"));
    if !known || of == Bytes::ZERO {
        return Err(Problem::impossible(format!("`{key}` cannot be {}", Value::Table(table.clone())), ADVICE));
    }
    if rate == Rate::MAX {
        let what = format!("`{key}` cannot be worth a time: the link's rate is unlimited");
        return Err(Problem::impossible(what, "give the link a rate, or write packets = 100"));
    }
    let bytes = rate.bytes_in(span);
    match key {
        "packets" => Ok(Value::Integer((bytes.as_u64() / of.as_u64()).max(1) as i64)),
        "bytes" => Ok(Value::String(bytes.to_string())),
        _ => Err(Problem::impossible(format!("`{key}` cannot be worth a time"), ADVICE)),
    }
}

fn quantity<T: FromStr<Err = BadQuantity>>(table: &toml::Table, key: &str) -> Result<Option<T>, Problem> {
    let Some(value) = table.get(key) else { return Ok(None) };
    // The error for a number without a unit is the same as for an invalid text.
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.parse().map(Some).map_err(|error| Problem::Quantity { key: key.to_owned(), error })
}
