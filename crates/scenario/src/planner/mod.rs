//! Builds a plan from a file at one point of its sweep: it resolves names, creates the hosts of groups and draws the
//! flows of arrivals. Errors that only the registries or the whole network show are found here.

mod arrivals;
mod islands;
mod settings;
mod vcp_codes;

use std::collections::HashMap;
use std::str::FromStr;

use rampmeter_manager::Sharing;
use rampmeter_router::{AnyConfig, Capacity, Disorder, EcnPassage, LinkConfig, Loss, Registry as Routers};
use rampmeter_transport::{Clock, Config as Transport};
use rampmeter_units::{BadQuantity, Bytes, Duration, Rate, RegistryError, Streams};
use toml::Value;

use crate::document::Place;
use crate::error::Result;
use crate::errors::Errors;
use crate::file::{DirectionSpec, File, LinkSpec, RateSpec, RouterSpec, SchemeSpec, SenderSpec};
use crate::traces::Traces;
use crate::{LinkId, LinkPlan, Node, NodeId, Plan, Point, Registries, Routes, Scheme, SchemePlan, Sender};

pub(crate) use settings::settings;

pub(crate) fn plan(file: &File, point: &Point, registries: &Registries, traces: &Traces) -> Result<Plan> {
    // Schemes that this point does not use are checked, too.
    let all = file.schemes.iter().map(|spec| Ok((spec, scheme(spec, file, registries)?)));
    let all = all.collect::<Result<Vec<_>>>()?;
    let is_used = |spec: &SchemeSpec| file.traffic.iter().any(|traffic| traffic.scheme == spec.name);
    let (used, schemes): (Vec<&SchemeSpec>, Vec<SchemePlan>) =
        all.into_iter().filter(|(spec, _)| is_used(spec)).unzip();
    used.iter().zip(&schemes).try_for_each(|(spec, scheme)| check_packet(spec, &scheme.sender, file.packet))?;
    let seed = point.get("seed").and_then(Value::as_integer).unwrap_or(1).unsigned_abs();
    let streams = Streams::new(seed);
    let network = Network::of(file, &used, &registries.routers, traces, streams)?;
    let routes = Routes::new(&network.nodes, &network.links);
    let flows = arrivals::flows(file, &used, &network, streams)?;
    // One flow of a kind is enough for checks of paths: all hosts of a group are at one router.
    for kind in 0..file.traffic.len() {
        let Some(flow) = flows.iter().find(|flow| flow.traffic == kind) else { continue };
        let path = |from, to| path(&routes, from, to, file.traffic[kind].lines.head());
        path(flow.to, flow.from)?;
        vcp_codes::check_scheme(used[flow.scheme], &network, &path(flow.from, flow.to)?)?;
    }
    let aggregates = islands::aggregates(file, &registries.routers, &network, &routes, &flows)?;
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
        traffic: file.traffic.iter().map(|traffic| traffic.plan.clone()).collect(),
        flows,
        meters: file.meters,
    })
}

/// Checks what the registries know about a file, scheme by scheme and queue by queue.
pub(crate) fn check(file: &File, registries: &Registries, traces: &Traces, errors: &mut Errors) {
    for spec in &file.schemes {
        errors.keep(scheme(spec, file, registries));
    }
    let queue = |router: &RouterSpec, rate| read_router(&registries.routers, router, rate, file.packet);
    for (_, direction) in file.links.iter().flat_map(LinkSpec::directions) {
        errors.keep(read_rate(&direction.rate, traces).and_then(|(rate, _)| queue(&direction.router, rate)));
    }
    for hosts in &file.hosts {
        errors.keep(queue(&hosts.router, hosts.rate));
    }
}

/// The path from one node to another, which the part of the file at `place` needs.
fn path(routes: &Routes, from: NodeId, to: NodeId, place: &Place) -> Result<Vec<LinkId>> {
    let advice = "packets and their acknowledgements each need a path: add a link, or remove `one_way`";
    routes.path(from, to).map_err(|no_path| place.error(format!("{no_path}; {advice}")))
}

/// An error if packets of the plan are too small for the scheme's stack.
fn check_packet(spec: &SchemeSpec, sender: &Sender, packet: Bytes) -> Result<()> {
    let (SenderSpec::Stack { stack: name, place, .. }, Sender::Stack { stack, .. }) = (&spec.sender, sender) else {
        return Ok(());
    };
    let least = stack.min_packet();
    if packet >= least {
        return Ok(());
    }
    let why = format!("`packet` is {packet}, and stack `{name}` needs at least {least}");
    Err(place.cannot_send(why, "make it larger"))
}

fn scheme(spec: &SchemeSpec, file: &File, registries: &Registries) -> Result<SchemePlan> {
    let Registries { controllers, stacks, .. } = registries;
    let sender = match &spec.sender {
        SenderSpec::Kernel(algorithm) => Sender::Kernel { algorithm: algorithm.clone() },
        SenderSpec::Stack { stack, controller, place } => {
            let found = stacks.check((stack, controller)).map_err(|wrong| place.error(wrong))?;
            Sender::Stack { stack: found.clone(), controller: controller.clone() }
        }
        SenderSpec::Ours { controller, place, settings, transport, sharing, agent } => {
            let needs_receipts = controllers.needs_receipts(controller);
            let controller = controllers.factory(controller, &settings.table).map_err(|error| match error {
                RegistryError::Unknown { .. } => place.error(error),
                RegistryError::Settings { .. } => settings.place_of(&error).error(error),
            })?;
            let config = Transport::read(&transport.table, file.packet)
                .map_err(|reason| transport.place_of(&reason).error(format!("transport: {reason}")))?;
            if config.packet > file.max_packet {
                let condition = file.condition.as_deref().unwrap_or_default();
                let wrong = format!("transport: `packet` is {}, and condition `{condition}` carries", config.packet);
                let advice = "make it smaller, or omit it for packets that fit";
                let wrong = format!("{wrong} at most {}; {advice}", file.max_packet);
                return Err(transport.place_of(&wrong).error(wrong));
            }
            let sharing = Sharing { min_rto: config.min_rto, ..*sharing };
            Sender::Ours(Box::new(Scheme { config, sharing, agent: *agent, controller, needs_receipts }))
        }
    };
    Ok(SchemePlan { name: spec.name.clone(), sender })
}

struct Network {
    nodes: Vec<Node>,
    links: Vec<LinkPlan>,
    /// The hosts of each group, by its name.
    groups: HashMap<String, Vec<NodeId>>,
}

impl Network {
    fn of(file: &File, schemes: &[&SchemeSpec], registry: &Routers, traces: &Traces, streams: Streams) -> Result<Self> {
        let (mut nodes, mut links, mut groups) = (Vec::new(), Vec::new(), HashMap::new());
        let mut routers: HashMap<&str, NodeId> = HashMap::new();
        for end in file.links.iter().flat_map(|link| &link.ends) {
            routers.entry(end).or_insert_with(|| {
                nodes.push(Node { name: end.clone(), is_host: false, clock: Clock::default(), stalls: None });
                NodeId(nodes.len() - 1)
            });
        }
        for link in &file.links {
            let [a, b] = link.ends.each_ref().map(|end| routers[end.as_str()]);
            let ends = [(a, b, None), (b, a, Some(LinkId(links.len())))];
            for ((name, direction), (from, to, reverse_of)) in link.directions().zip(ends) {
                let DirectionSpec { ref rate, delay, loss, ecn, disorder, ref router, ref changes, measured } =
                    *direction;
                let (rate, capacity) = read_rate(rate, traces)?;
                let spec = scheme_router(&name, &link.name, schemes)?.unwrap_or(router);
                let (router, room) = read_router(registry, spec, rate, file.packet)?;
                if capacity.is_some() && router.needs_constant_rate() {
                    let wrong = format!("a `{}` router cannot follow the capacity of link `{name}`", spec.kind);
                    let advice = "give the link a constant rate, perhaps with `changes`, or another router";
                    return Err(spec.settings.place_of(&"`kind`").error(format!("{wrong}; {advice}")));
                }
                let (config, changes) = (LinkConfig { rate, delay, loss }, changes.clone());
                links.push(LinkPlan {
                    name,
                    from,
                    to,
                    reverse_of,
                    config,
                    capacity,
                    ecn,
                    disorder,
                    router,
                    room,
                    changes,
                    measured,
                });
            }
        }
        for hosts in &file.hosts {
            let at = routers[hosts.at.as_str()];
            let (router, room) = read_router(registry, &hosts.router, hosts.rate, file.packet)?;
            let mut group = Vec::new();
            for i in 0..hosts.count {
                let host = NodeId(nodes.len());
                let name = format!("{}.{i}", hosts.name);
                let clock = hosts.clock.of_host(streams.stream("clock", host.0 as u64));
                nodes.push(Node { name: name.clone(), is_host: true, clock, stalls: hosts.stalls });
                group.push(host);
                let config = LinkConfig { rate: hosts.rate, delay: hosts.delay_of(i), loss: Loss::default() };
                let forward = (name.clone(), host, at, None);
                let reverse = (format!("{name}.reverse"), at, host, Some(LinkId(links.len())));
                for (name, from, to, reverse_of) in [forward, reverse] {
                    let (ecn, disorder, router) = (EcnPassage::Kept, Disorder::default(), router.clone());
                    let (capacity, changes, measured) = (None, Vec::new(), false);
                    links.push(LinkPlan {
                        name,
                        from,
                        to,
                        reverse_of,
                        config,
                        capacity,
                        ecn,
                        disorder,
                        router,
                        room,
                        changes,
                        measured,
                    });
                }
            }
            groups.insert(hosts.name.clone(), group);
        }
        Ok(Self { nodes, links, groups })
    }
}

/// The router that the schemes of this run set for the link direction `name` of `link`.
fn scheme_router<'f>(name: &str, link: &str, schemes: &[&'f SchemeSpec]) -> Result<Option<&'f RouterSpec>> {
    let mut chosen: Option<(&SchemeSpec, &RouterSpec)> = None;
    for scheme in schemes {
        let set = |wanted: &str| scheme.routers.iter().find(|(place, ..)| place == wanted);
        let Some((_, at, router)) = set(name).or_else(|| set(link)) else { continue };
        if let Some((other, _)) = chosen.filter(|(_, other)| !other.same(router)) {
            let both = format!("schemes `{}` and `{}`", other.name, scheme.name);
            let advice = "run them one at a time, or give both the same router";
            return Err(at.error(format!("{both} set different routers for link `{name}`; {advice}")));
        }
        chosen = Some((scheme, router));
    }
    Ok(chosen.map(|(_, router)| router))
}

/// A link's rate, the mean one if its capacity varies.
fn read_rate(rate: &RateSpec, traces: &Traces) -> Result<(Rate, Option<Capacity>)> {
    let capacity = match rate {
        RateSpec::Constant(rate) => return Ok((*rate, None)),
        RateSpec::Trace { name, place } => Capacity::Trace(traces.get(name).map_err(|wrong| place.error(wrong))?),
        RateSpec::Model(capacity) => capacity.clone(),
    };
    Ok((capacity.mean(), Some(capacity)))
}

/// A router's settings and the maximum number of packets in its queue.
fn read_router(registry: &Routers, spec: &RouterSpec, rate: Rate, packet: Bytes) -> Result<(AnyConfig, Option<u64>)> {
    let fail = |place: String, wrong: String| spec.settings.place_of(&place).error(wrong);
    let table = router_settings(spec, rate, packet)?;
    let room = table.get("packets").and_then(Value::as_integer).and_then(|packets| u64::try_from(packets).ok());
    let config = registry.config(&spec.kind, &table).map_err(|error| match error {
        RegistryError::Unknown { .. } => fail("`kind`".into(), error.to_string()),
        RegistryError::Settings { .. } => fail(error.to_string(), error.to_string()),
    })?;
    Ok((config, room))
}

/// The settings of a router at a link of this rate.
fn router_settings(spec: &RouterSpec, rate: Rate, packet: Bytes) -> Result<toml::Table> {
    let mut table = spec.settings.table.clone();
    for (key, value) in &mut table {
        if let Some(table) = value.as_table() {
            *value = buffer(key, table, rate, packet)
                .map_err(|wrong| spec.settings.place_of(&format!("`{key}`")).error(wrong))?;
        }
    }
    Ok(table)
}

/// A buffer size given as the time that the link takes to send it: `{ time = "80 ms" }`, in packets of the largest size
/// or of the size `packet`.
fn buffer(key: &str, table: &toml::Table, rate: Rate, packet: Bytes) -> Result<Value, String> {
    const ADVICE: &str =
        "write packets = { time = \"80 ms\" }, with packet = \"1000 B\" for another packet size than the scenario's";
    let span: Duration = quantity(table, "time")?.unwrap_or_default();
    let packet = quantity(table, "packet")?.unwrap_or(packet);
    let known = table.keys().all(|name| name == "time" || (name == "packet" && key == "packets"));
    if !known || packet == Bytes::ZERO {
        return Err(format!("`{key}` cannot be {}; {ADVICE}", Value::Table(table.clone())));
    }
    if span == Duration::ZERO {
        return Err(format!("`{key}`: `time` is 0 or missing, and no packet would fit; {ADVICE}"));
    }
    if rate == Rate::MAX {
        let advice = "give the link a rate, or write packets = 100";
        return Err(format!("`{key}` cannot be given as a time: the link's rate is unlimited; {advice}"));
    }
    let bytes = rate.bytes_in(span);
    match key {
        "packets" => Ok(Value::Integer((bytes.as_u64() / packet.as_u64()).max(1) as i64)),
        "bytes" => Ok(Value::String(bytes.to_string())),
        _ => Err(format!("`{key}` cannot be given as a time; {ADVICE}")),
    }
}

fn quantity<T: FromStr<Err = BadQuantity>>(table: &toml::Table, key: &str) -> Result<Option<T>, String> {
    let Some(value) = table.get(key) else { return Ok(None) };
    // The error for a number without a unit is the same as for an invalid text.
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.parse().map(Some).map_err(|error| format!("`{key}`: {error}"))
}
