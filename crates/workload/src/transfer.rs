//! A transfer: the response to one request, which the flow's handshake represents, of a size that is known at the
//! start. The sender writes all data and ends its stream; the receiver ends its own stream when it has all data.

use rampmeter_units::{Bytes, Random, Time};
use serde::{Deserialize, Serialize};

use crate::{Application, End, Event, Path, Reply, Settings, Workload};

/// It has no settings: each flow has its own size.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {}

impl Settings for Config {}

/// A transfer.
#[derive(Debug)]
pub struct Transfer {
    size: Bytes,
}

impl Workload for Transfer {
    type Config = Config;

    fn new(_: &Config, size: Option<Bytes>, _: Random) -> Self {
        Self { size: size.unwrap_or_default() }
    }
}

impl Application for Transfer {
    fn on_start(&mut self, _: Time, _: Path) -> Reply {
        send(self.size)
    }

    fn on_event(&mut self, _: Time, end: End, event: &Event) -> Reply {
        receive(end, event, self.size)
    }
}

/// The sender writes `size` and ends its stream.
pub(crate) fn send(size: Bytes) -> Reply {
    Reply { write: size.as_u64(), finish: true, ..Reply::NONE }
}

/// The receiver's reply to an event of a transfer of `size`.
pub(crate) fn receive(end: End, event: &Event, size: Bytes) -> Reply {
    match *event {
        Event::Read { total, ended } if end == End::Receiver => {
            Reply { finish: ended, complete: total == size, ..Reply::NONE }
        }
        _ => Reply::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_complete_with_its_last_byte() {
        let mut transfer = Transfer::new(&Config::default(), Some(Bytes::new(3000)), Random::from_seed(1));
        assert_eq!(transfer.on_start(Time::ZERO, Path::default()), Reply { finish: true, ..Reply::write(3000) });
        let read = |total, ended| Event::Read { total: Bytes::new(total), ended };
        for (total, ended, complete) in [(1000, false, false), (3000, false, true), (3000, true, true)] {
            let reply = transfer.on_event(Time::ZERO, End::Receiver, &read(total, ended));
            assert_eq!(reply, Reply { complete, finish: ended, ..Reply::NONE });
        }
        assert_eq!(transfer.on_event(Time::ZERO, End::Sender, &read(0, true)), Reply::NONE);
    }
}
