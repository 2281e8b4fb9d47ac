//! From what applications write and read to the messages of a trace: what was written at once is a message, and it has
//! arrived when the application at the other end has read its last byte.

use std::collections::{HashMap, VecDeque};

use rampmeter_trace::{self as trace, ApplicationEvent, FlowEvent, Trace};
use rampmeter_units::Time;
use rampmeter_workload::End;
use rampmeter_workload::bulk::UNLIMITED;

use crate::flows::{StreamEvent, WatchFlows};

/// A message in transit.
#[derive(Debug, Clone, Copy)]
struct Message {
    offset: u64,
    length: u64,
    written_at: Time,
}

/// The stream that one end of a flow writes.
#[derive(Debug, Default)]
struct Written {
    bytes: u64,
    messages: VecDeque<Message>,
    /// The other end has read all of it.
    is_read: bool,
}

/// Reports what applications do to a trace.
#[derive(Debug)]
pub struct Applications {
    trace: Trace,
    /// By flow and end.
    streams: HashMap<(u32, End), Written>,
}

impl Applications {
    /// No flow has begun.
    pub fn new(trace: Trace) -> Self {
        Self { trace, streams: HashMap::new() }
    }

    fn report(&self, now: Time, flow: u32, end: End, event: ApplicationEvent) {
        let end = if end == End::Sender { trace::End::Client } else { trace::End::Server };
        self.trace.sink().on_flow(now, flow, end, &FlowEvent::Application(event));
    }
}

impl WatchFlows for Applications {
    fn on_stream_event(&mut self, now: Time, flow: u32, end: End, event: StreamEvent) {
        match event {
            StreamEvent::Opened => self.report(now, flow, end, ApplicationEvent::Opened),
            StreamEvent::Wrote(length) => {
                let stream = self.streams.entry((flow, end)).or_default();
                let offset = stream.bytes;
                stream.bytes = offset.saturating_add(length);
                stream.messages.push_back(Message { offset, length, written_at: now });
                self.report(
                    now,
                    flow,
                    end,
                    ApplicationEvent::Wrote { offset, length: Some(length).filter(|&it| it < UNLIMITED) },
                );
            }
            StreamEvent::Finished => self.report(now, flow, end, ApplicationEvent::Finished),
            StreamEvent::Read { total, ended } => {
                let stream = self.streams.entry((flow, end.other())).or_default();
                let is_read = |message: &Message| message.offset.saturating_add(message.length) <= total.as_u64();
                let read = stream.messages.iter().take_while(|message| is_read(message)).count();
                let messages: Vec<_> = stream.messages.drain(..read).collect();
                let has_ended = ended && !std::mem::replace(&mut stream.is_read, ended);
                for Message { offset, length, written_at } in messages {
                    let received = ApplicationEvent::Received { offset, length, after: now.since(written_at) };
                    self.report(now, flow, end, received);
                }
                if has_ended {
                    self.report(now, flow, end, ApplicationEvent::Ended);
                }
            }
            StreamEvent::Completed(after) => self.report(now, flow, end, ApplicationEvent::Completed { after }),
        }
    }
}
