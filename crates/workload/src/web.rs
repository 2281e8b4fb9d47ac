//! Web pages: a browser loads a document, the objects that it names, and the objects that these name in turn.
//!
//! ```text
//!   document ─┬─► script ─┬─► image         an object is requested when the object that names it has arrived, so the
//!             ├─► style   └─► script ─► …   longest chain costs at least one round trip for each of its objects
//!             └─► image
//! ```
//!
//! A page is one flow: a connection that carries all requests and responses, as with HTTP/2. The browser writes
//! [`REQUEST`] bytes for each object. The server sends the responses in the order of the requests, one after the other, as
//! RFC 9218 (section 10) has it for objects of the same urgency that are of no use in parts. The flow completion time is
//! the page load time. The server opens the connection, as in [`video`](crate::video): the first request is half a round
//! trip later than after a handshake by the browser.
//!
//! *Sources.* Web Almanac 2024 (HTTP Archive), "Page Weight": the median page of desktop browsers has 71 requests, 2652 KB
//! and a document of 18 KB. Web Almanac 2019: 74 requests in the median page and 179 in the 90th percentile, the spread
//! of a lognormal distribution with `OBJECTS_SIGMA`. Pries, Magyari, Tran-Gia, "An HTTP web traffic model based on the
//! top one million visited web pages", NGI 2012: sizes of objects are lognormal with `SIZE_SIGMA`, 8 MB at most. The
//! median size of an object is such that the median page has 2652 KB.
//!
//! *A judgement*: the graph. Each object is named by any of those before it with equal probability, if that is at most
//! `depth - 1` levels below the document.
//!
//! *Not modelled*: several servers, several connections to a server, time to compute, caches.

use rampmeter_units::{Bytes, Random, Time};
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::video::REQUEST;
use crate::{Application, End, Event, Path, Reply, Settings, Workload, ensure};

/// The deviation of the logarithm of the number of objects: `ln(179/74)` at 1.2816 deviations above the median.
const OBJECTS_SIGMA: f64 = 0.689;

/// Mean over median of that distribution: `exp(sigma^2 / 2)`.
const OBJECTS_MEAN: f64 = 1.268;

/// The deviation of the logarithm of an object's size (Pries and others).
const SIZE_SIGMA: f64 = 1.24646;

/// Mean over median of that distribution.
const SIZE_MEAN: f64 = 2.175;

/// The smallest and the largest size of an object in bytes.
const SIZES: (f64, f64) = (100.0, 8e6);

/// The maximum number of objects beside the document.
const MAX_OBJECTS: f64 = 1000.0;

/// Pages.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The median number of objects beside the document.
    #[default(70)]
    pub objects: u64,
    /// The median size of an object.
    #[default(Bytes::new(17_750))]
    pub object: Bytes,
    /// The median size of the document.
    #[default(Bytes::new(18_432))]
    pub document: Bytes,
    /// The maximum number of objects in a chain below the document.
    #[default(4)]
    pub depth: u64,
}

impl Settings for Config {
    fn check(&self) -> Result<(), String> {
        let valid = |bytes: Bytes| (SIZES.0..=SIZES.1).contains(&bytes.as_f64());
        ensure(self.objects as f64 <= MAX_OBJECTS, format!("`objects` of {}; use 0 to 1000: 70", self.objects))?;
        ensure(
            valid(self.object) && valid(self.document),
            "`object` and `document` are median sizes from \"100 B\" to \"8 MB\"",
        )?;
        ensure(self.depth > 0, "`depth` of 0: write depth = 1 for objects that only the document names")
    }
}

/// An object of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Object {
    size: u32,
    /// The index of the object that names it; its own for the document.
    parent: u16,
}

/// The document and then the other objects of a page, each after the one that names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Page(Vec<Object>);

impl Page {
    fn draw(config: &Config, mut random: Random) -> Self {
        let size = |random: &mut Random, median: Bytes| {
            random.lognormal(median.as_f64(), SIZE_SIGMA).clamp(SIZES.0, SIZES.1).round() as u32
        };
        let count = random.lognormal(config.objects as f64, OBJECTS_SIGMA).round().min(MAX_OBJECTS) as u16;
        let mut objects = vec![Object { size: size(&mut random, config.document), parent: 0 }];
        // The levels of the objects, and those of them that may name others.
        let (mut levels, mut names) = (vec![0], vec![0]);
        for index in 1..=count {
            let parent = names[random.below(names.len() as u64) as usize];
            let level = levels[usize::from(parent)] + 1;
            levels.push(level);
            names.extend((level < config.depth).then_some(index));
            objects.push(Object { size: size(&mut random, config.object), parent });
        }
        Self(objects)
    }

    fn weight(&self) -> Bytes {
        self.0.iter().fold(Bytes::ZERO, |sum, object| sum + Bytes::new(object.size.into()))
    }
}

/// A browser that loads a page, and the page's server.
#[derive(Debug, Default)]
pub struct Web {
    page: Page,
    /// The objects in the order of their requests.
    requested: Vec<u16>,
    // The server.
    /// The number of requests answered.
    answered: usize,
    // The browser.
    /// The number of responses that have arrived, and their bytes.
    arrived: usize,
    arrived_bytes: Bytes,
}

impl Workload for Web {
    type Config = Config;

    fn mean_transfer(config: &Config) -> Option<Bytes> {
        let objects = config.objects as f64 * OBJECTS_MEAN;
        let bytes = (objects * config.object.as_f64() + config.document.as_f64()) * SIZE_MEAN;
        Some(Bytes::new(bytes as u64))
    }

    fn draw_transfer(config: &Config, random: Random) -> Option<Bytes> {
        Some(Page::draw(config, random).weight())
    }

    fn new(config: &Config, _: Option<Bytes>, random: Random) -> Self {
        Self { page: Page::draw(config, random), ..Self::default() }
    }
}

impl Application for Web {
    fn on_start(&mut self, _: Time, _: Path) -> Reply {
        Reply::NONE
    }

    fn on_event(&mut self, _: Time, end: End, event: &Event) -> Reply {
        match (end, *event) {
            (End::Receiver, Event::Opened(_)) => self.request([0]),
            (End::Receiver, Event::Read { total, ended }) => Reply { finish: ended, ..self.on_response(total) },
            (End::Sender, Event::Read { total, .. }) => self.on_request(total),
            _ => Reply::NONE,
        }
    }
}

impl Web {
    /// The browser requests `objects`.
    fn request(&mut self, objects: impl IntoIterator<Item = u16>) -> Reply {
        let before = self.requested.len();
        self.requested.extend(objects);
        Reply::write(REQUEST.as_u64() * (self.requested.len() - before) as u64)
    }

    /// The server has read `total` bytes of requests.
    fn on_request(&mut self, total: Bytes) -> Reply {
        let received = (total.as_u64() / REQUEST.as_u64()) as usize;
        let new = self.requested.get(self.answered..received).unwrap_or_default();
        let bytes = new.iter().map(|object| u64::from(self.page.0[usize::from(*object)].size)).sum();
        self.answered += new.len();
        Reply { finish: self.answered == self.page.0.len(), ..Reply::write(bytes) }
    }

    /// The browser has read `total` bytes of responses. It requests what the objects name that are now complete.
    fn on_response(&mut self, total: Bytes) -> Reply {
        let mut reply = Reply::NONE;
        while let Some(&object) = self.requested.get(self.arrived) {
            let size = Bytes::new(self.page.0[usize::from(object)].size.into());
            if total < self.arrived_bytes + size {
                break;
            }
            self.arrived += 1;
            self.arrived_bytes += size;
            let is_named = |(index, named): &(usize, &Object)| named.parent == object && *index > 0;
            let named: Vec<u16> =
                self.page.0.iter().enumerate().filter(is_named).map(|(index, _)| index as u16).collect();
            reply.write += self.request(named).write;
        }
        Reply { complete: self.arrived == self.page.0.len(), ..reply }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: fn(u64) -> Event = |total| Event::Read { total: Bytes::new(total), ended: false };

    /// The document (1000 B) names objects 1 (2000 B) and 2 (500 B), object 1 names 3 (100 B), and 3 names 4 (50 B).
    fn web() -> Web {
        let objects = [(1000, 0), (2000, 0), (500, 0), (100, 1), (50, 3)];
        let page = Page(objects.map(|(size, parent)| Object { size, parent }).to_vec());
        Web { page, ..Web::default() }
    }

    #[test]
    fn an_object_is_requested_when_the_one_that_names_it_is_here() {
        let mut web = web();
        assert_eq!(web.on_start(Time::ZERO, Path::default()), Reply::NONE);
        let browser = |web: &mut Web, event: &Event| web.on_event(Time::ZERO, End::Receiver, event);
        assert_eq!(browser(&mut web, &Event::Opened(Path::default())), Reply::write(400));
        // The bytes of responses that have arrived, and the requests that follow.
        for (arrived, requests) in [(999, 0), (1000, 2), (2999, 0), (3000, 1), (3500, 0), (3599, 0), (3600, 1)] {
            assert_eq!(browser(&mut web, &READ(arrived)), Reply::write(400 * requests), "{arrived}");
        }
        assert_eq!(browser(&mut web, &READ(3650)), Reply { complete: true, ..Reply::NONE });
    }

    #[test]
    fn the_server_answers_only_requests_that_have_arrived() {
        let mut web = web();
        let _ = web.request([0]);
        let _ = web.request([1, 2]);
        let server = |web: &mut Web, total: u64| web.on_event(Time::ZERO, End::Sender, &READ(total));
        for (total, answer) in [(399, 0), (400, 1000), (799, 0), (1200, 2500), (1200, 0)] {
            assert_eq!(server(&mut web, total), Reply::write(answer), "{total}");
        }
        let _ = web.request([3, 4]);
        assert_eq!(server(&mut web, 2000), Reply { finish: true, ..Reply::write(150) });
    }

    #[test]
    fn objects_come_after_those_that_name_them_within_the_depth() {
        for (depth, seed) in [(1, 1), (2, 2), (4, 3)] {
            let config = Config { depth, objects: 300, ..Config::default() };
            let Page(objects) = Page::draw(&config, Random::from_seed(seed));
            let mut levels = vec![0];
            for (index, object) in objects.iter().enumerate().skip(1) {
                assert!(usize::from(object.parent) < index);
                levels.push(levels[usize::from(object.parent)] + 1);
            }
            assert_eq!(levels.iter().max(), Some(&depth));
        }
    }

    /// The weight of many pages against the sources: 71 requests and 2652 KB in the median, 179/74 times as many requests
    /// in the 90th percentile.
    #[test]
    fn the_median_page_has_the_weight_of_the_almanac() {
        let config = Config::default();
        let pages: Vec<_> = (0..20_000).map(|seed| Page::draw(&config, Random::from_seed(seed))).collect();
        let quantile = |share: f64, value: &dyn Fn(&Page) -> f64| {
            let mut values: Vec<_> = pages.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values[(share * values.len() as f64) as usize]
        };
        let requests = |page: &Page| page.0.len() as f64;
        let weight = |page: &Page| page.weight().as_f64();
        assert!((quantile(0.5, &requests) / 71.0 - 1.0).abs() < 0.03, "{}", quantile(0.5, &requests));
        assert!((quantile(0.9, &requests) / 71.0 / (179.0 / 74.0) - 1.0).abs() < 0.03);
        assert!((quantile(0.5, &weight) / (2652.0 * 1024.0) - 1.0).abs() < 0.03, "{}", quantile(0.5, &weight));
        let mean = pages.iter().map(weight).sum::<f64>() / pages.len() as f64;
        let expected = Web::mean_transfer(&config).unwrap().as_f64();
        assert!((mean / expected - 1.0).abs() < 0.03, "{mean} {expected}");
    }

    #[test]
    fn the_weight_is_that_of_the_page_that_is_loaded() {
        let config = Config::default();
        let web = Web::new(&config, None, Random::from_seed(9));
        assert_eq!(Web::draw_transfer(&config, Random::from_seed(9)), Some(web.page.weight()));
    }

    #[test]
    fn invalid_pages_are_refused() {
        for (config, advice) in [
            (Config { objects: 1001, ..Config::default() }, "use 0 to 1000"),
            (Config { object: Bytes::new(9_000_000), ..Config::default() }, "8 MB"),
            (Config { depth: 0, ..Config::default() }, "depth = 1"),
        ] {
            assert!(config.check().unwrap_err().contains(advice));
        }
    }
}
