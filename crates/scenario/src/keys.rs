//! The keys of scenarios and conditions, with what their values are. The reader refuses all others, and
//! [`json_schema`](crate::json_schema()) tells editors.

use crate::sizes;

/// A key and its value.
pub(crate) type Key = (&'static str, Kind);

/// What a value may be. A text that begins with `$` may stand for any.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// A text; quantities are texts, too.
    Text,
    Number,
    Whole,
    Truth,
    /// One of these texts.
    Words(&'static [&'static str]),
    /// A table with the keys of these lists.
    Table(&'static [&'static [Key]]),
    List(&'static Kind),
    /// A table whose keys are names of the file's own.
    Named(&'static Kind),
    /// One of these.
    Either(&'static [Kind]),
    /// A controller's name.
    Controller,
    /// The settings of a controller, of any.
    Controllers,
    /// A router with its settings.
    Router,
    /// The settings of the transport.
    Transport,
    /// A table with the keys of traffic, and with those of workloads.
    Traffic,
    /// Anything: workloads and models of capacity read their own settings.
    Any,
}

use Kind::{
    Any, Controller, Controllers, Either, List, Named, Number, Router, Table, Text, Traffic, Transport, Truth, Whole,
    Words,
};

/// The names of the keys in these lists.
pub(crate) fn names(lists: &[&'static [Key]]) -> Vec<&'static str> {
    lists.iter().copied().flatten().map(|(name, _)| *name).collect()
}

pub(crate) const SCENARIO: &[Key] = &[
    ("title", Text),
    ("source", Text),
    ("duration", Text),
    ("warmup", Text),
    ("drain", Text),
    ("packet", Text),
    ("axes", Named(&Either(&[List(&Any), Text]))),
    ("condition", Text),
    ("link", List(&Table(&[LINK, DIRECTION]))),
    ("hosts", List(&Table(&[HOSTS]))),
    ("island", List(&Table(&[ISLAND]))),
    ("schemes", Text),
    ("scheme", Named(&Table(&[SCHEME, SCHEME_OF_OURS]))),
    ("traffic", List(&Traffic)),
    ("meters", Table(&[METERS])),
    ("metrics", Named(&Text)),
];

pub(crate) const CONDITION: &[Key] = &[
    ("title", Text),
    ("source", Text),
    ("group", Text),
    ("packet", Text),
    ("link", List(&Table(&[LINK, DIRECTION]))),
    ("hosts", List(&Table(&[HOSTS]))),
    ("scheme", Named(&Table(&[SCHEME, SCHEME_OF_OURS]))),
    ("traffic", List(&Traffic)),
];

pub(crate) const METERS: &[Key] = &[("series", Text)];

pub(crate) const LINK: &[Key] =
    &[("name", Text), ("between", List(&Text)), ("one_way", Truth), ("reverse", Table(&[DIRECTION]))];

pub(crate) const DIRECTION: &[Key] = &[
    ("rate", Either(&[Text, Any])),
    ("delay", Text),
    ("router", Router),
    ("loss", Table(&[LOSS])),
    ("jitter", Table(&[JITTER])),
    ("reordering", Table(&[REORDERING])),
    ("duplication", Number),
    ("ecn", ECN),
    ("changes", List(&Table(&[CHANGE]))),
    ("measure", Truth),
];

const ECN: Kind = Words(&["kept", "not-ect", "ect0", "ect1", "ce", "marks-lost"]);

pub(crate) const TRACE: &[Key] = &[("trace", Text)];

pub(crate) const LOSS: &[Key] =
    &[("every", Whole), ("per_packet", Number), ("per_bit", Number), ("burst", Table(&[BURST]))];

pub(crate) const BURST: &[Key] =
    &[("share", Number), ("length", Either(&[Number, Text])), ("bad", Number), ("good", Number)];

pub(crate) const JITTER: &[Key] = &[("max", Text), ("in_order", Truth)];

pub(crate) const REORDERING: &[Key] = &[("share", Number), ("delay", Text)];

pub(crate) const CHANGE: &[Key] = &[("at", Text), ("every", Text), ("rate", Text), ("delay", Text), ("ecn", ECN)];

pub(crate) const HOSTS: &[Key] = &[
    ("name", Text),
    ("count", Whole),
    ("at", Text),
    ("rate", Text),
    ("delay", Either(&[Text, Table(&[DELAYS])])),
    ("router", Router),
    ("clock", Table(&[CLOCK])),
    ("stalls", Table(&[STALLS])),
];

pub(crate) const DELAYS: &[Key] = &[("from", Text), ("to", Text)];

pub(crate) const CLOCK: &[Key] =
    &[("offset", Either(&[Text, Table(&[OFFSET])])), ("drift_ppm", Number), ("jitter", Text)];

pub(crate) const OFFSET: &[Key] = &[("max", Text)];

pub(crate) const STALLS: &[Key] = &[("every", Text), ("duration", Text)];

pub(crate) const ISLAND: &[Key] = &[
    ("name", Text),
    ("borders", List(&Text)),
    ("router", Router),
    ("settings", Any),
    ("propagate_overload", Truth),
    ("measure", Truth),
    ("active", Truth),
];

pub(crate) const SCHEME: &[Key] = &[("controller", Controller), ("kernel", Text), ("routers", Named(&Router))];

/// The keys of schemes whose sender is Rampmeter's.
pub(crate) const SCHEME_OF_OURS: &[Key] = &[
    ("settings", Controllers),
    ("transport", Transport),
    ("macroflow", Words(&["flow", "destination"])),
    ("scheduler", Words(&["in-turn", "round-robin", "h-fsc"])),
    ("half_life", Words(&["min-rtt", "mean-rtt"])),
    ("sequenced", Truth),
    ("probe_interval", Number),
    ("segregation", Truth),
    ("careful_resume", Text),
];

pub(crate) const TRAFFIC: &[Key] = &[
    ("name", Text),
    ("scheme", Text),
    ("from", Text),
    ("to", Text),
    ("pairs", Words(&["same", "any"])),
    ("arrivals", Table(&[ARRIVALS])),
    ("duration", Text),
    ("weight", Number),
    ("curve", Table(&[CURVE])),
    ("measure", Truth),
    ("size", Either(&[Text, Table(&[SIZE, REPRESENTATIONS])])),
    ("datagrams", Text),
    ("encodings", List(&Text)),
];

pub(crate) const CURVE: &[Key] = &[("m1", Text), ("d", Text), ("m2", Text)];

pub(crate) const SIZE: &[Key] =
    &[("packets", Whole), ("distribution", Words(sizes::NAMES)), ("mean", Text), ("pareto", Number)];

/// The keys of a size that is a workload.
const REPRESENTATIONS: &[Key] = &[("representations", List(&Text)), ("within", Text)];

pub(crate) const ARRIVALS: &[Key] = &[
    ("per_second", Number),
    ("load", Number),
    ("of", Text),
    ("gaps", Either(&[Words(&["poisson"]), Table(&[GAPS])])),
    ("at", Text),
    ("until", Text),
    ("count", Whole),
    ("spread", Text),
    ("every", Text),
];

pub(crate) const GAPS: &[Key] = &[("pareto", Number)];
