//! qlog: one file for an end of a flow, as JSON text sequences (draft-ietf-quic-qlog-main-schema-14 and
//! draft-ietf-quic-qlog-quic-events-14).
//!
//! Our packets are not QUIC's, so some of QUIC's names stand for ours: a `Syn` is `initial`, a `SynAck` `handshake`, a
//! reset `stateless_reset`, all others `1RTT`. The stream has the id 0, and the receipts of a packet are ranges of its
//! `ack` frame. What the drafts have no name for is in the namespace `rampmeter`: `rampmeter:controller_updated` has the
//! controller's own values, `rampmeter:flow_granted` what the Congestion Manager permitted, and others what applications
//! did.

use std::io::{self, Write};

use rampmeter_transport::EcnState;
use rampmeter_units::{Bytes, Duration, Ecn, Time};
use rampmeter_wire::{Kind, Packet};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::event::{ApplicationEvent, End, FlowEvent, Metrics};

/// The URI of the events of QUIC, as of the draft.
const QUIC_EVENTS: &str = "urn:ietf:params:qlog:events:quic-14";

/// The URI of our own events, which is not registered.
const OWN_EVENTS: &str = "urn:x-rampmeter:qlog:events:controller";

/// What a file is about.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// A short name: the flow.
    pub title: String,
    /// The scenario, its point and the scheme.
    pub description: String,
}

/// Writes a file.
#[derive(Debug)]
pub struct Qlog<W> {
    out: W,
    /// Memory for the text of an event.
    text: Vec<u8>,
}

#[derive(Serialize)]
struct Event<D> {
    time: f64,
    name: &'static str,
    data: D,
}

#[derive(Serialize)]
struct Header {
    packet_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    packet_number: Option<u32>,
}

#[derive(Serialize)]
struct Raw {
    length: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_length: Option<u64>,
}

#[derive(Serialize)]
#[serde(tag = "frame_type", rename_all = "snake_case")]
enum Frame {
    Stream {
        stream_id: u64,
        offset: u64,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        fin: bool,
        raw: Raw,
    },
    Ack {
        acked_ranges: Vec<Vec<u32>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ce: Option<u64>,
    },
    Ping,
}

#[derive(Serialize)]
struct Transferred {
    header: Header,
    frames: Vec<Frame>,
    raw: Raw,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ecn: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rampmeter_cause: Option<&'static str>,
}

#[derive(Serialize, Default)]
struct Recovery {
    #[serde(skip_serializing_if = "Option::is_none")]
    min_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    smoothed_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_in_flight: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pacing_rate: Option<u64>,
}

/// What an event has of a state that has changed.
fn transition(old: Option<&str>, new: &str) -> Value {
    old.map_or_else(|| json!({ "new": new }), |old| json!({ "old": old, "new": new }))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

impl<W: Write> Qlog<W> {
    /// Starts a file.
    pub fn new(mut out: W, about: &About, end: End) -> io::Result<Self> {
        // These two come first, so that tools know the file by its first bytes.
        write!(
            out,
            "\u{1e}{{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\
             \"serialization_format\":\"application/qlog+json-seq\","
        )?;
        let rest = json!({
            "title": about.title,
            "description": about.description,
            // Readers of earlier drafts look for these two.
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "trace": {
                "title": about.title,
                "description": about.description,
                "common_fields": {
                    "time_format": "relative_to_epoch",
                    "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
                },
                "vantage_point": { "name": about.title, "type": end.name() },
                "event_schemas": [QUIC_EVENTS, OWN_EVENTS],
            },
        });
        writeln!(out, "{}", &rest.to_string()[1..])?;
        Ok(Self { out, text: Vec::new() })
    }

    fn put(&mut self, at: Time, name: &'static str, data: impl Serialize) -> io::Result<u64> {
        self.text.clear();
        self.text.push(0x1e);
        let time = at.as_nanos() as f64 / 1e6;
        serde_json::to_writer(&mut self.text, &Event { time, name, data })?;
        self.text.push(b'\n');
        self.out.write_all(&self.text)?;
        Ok(self.text.len() as u64)
    }

    /// Writes an event. Returns its size in bytes.
    pub fn write(&mut self, at: Time, event: &FlowEvent<'_>) -> io::Result<u64> {
        match event {
            FlowEvent::Sent { packet, bytes, ecn, offset, is_repeated, cause } => {
                let mut sent = transferred(packet, *bytes, *ecn, *offset);
                sent.trigger = is_repeated.then_some("retransmit_reordered");
                sent.rampmeter_cause = Some(cause.name());
                self.put(at, "quic:packet_sent", sent)
            }
            FlowEvent::Received { packet, bytes, ecn, offset } => {
                self.put(at, "quic:packet_received", transferred(packet, *bytes, *ecn, *offset))
            }
            FlowEvent::Acknowledged(numbers) => {
                self.put(at, "quic:packets_acked", json!({ "packet_numbers": numbers }))
            }
            FlowEvent::Lost { number, by_timeout } => {
                let trigger = if *by_timeout { "pto_expired" } else { "reordering_threshold" };
                let header = Header { packet_type: "1RTT", packet_number: Some(*number) };
                self.put(at, "quic:packet_lost", json!({ "header": header, "trigger": trigger }))
            }
            FlowEvent::Metrics(metrics) => self.write_metrics(at, metrics),
            FlowEvent::State(old, new) => self.put(at, "quic:congestion_state_updated", transition(*old, new)),
            FlowEvent::EcnState(old, new) => {
                self.put(at, "quic:ecn_state_updated", transition(old.map(EcnState::name), new.name()))
            }
            FlowEvent::Timer(timer) => {
                let mut bytes = 0;
                if timer.has_expired {
                    let expired = json!({ "timer_type": timer.name, "event_type": "expired" });
                    bytes = self.put(at, "quic:timer_updated", expired)?;
                }
                let data = match timer.after {
                    Some(after) => json!({
                        "timer_type": timer.name,
                        "event_type": "set",
                        "delta": milliseconds(after),
                    }),
                    None if timer.has_expired => return Ok(bytes),
                    None => json!({ "timer_type": timer.name, "event_type": "cancelled" }),
                };
                Ok(bytes + self.put(at, "quic:timer_updated", data)?)
            }
            FlowEvent::Granted(grant) => {
                let data = json!({
                    "macroflow": grant.macroflow,
                    "flows": grant.flows,
                    "waiting_flows": grant.waiting,
                    "macroflow_window_bytes": Some(grant.window).filter(|&it| it < Bytes::MAX).map(Bytes::as_u64),
                    "macroflow_in_flight_bytes": grant.in_flight.as_u64(),
                });
                self.put(at, "rampmeter:flow_granted", data)
            }
            FlowEvent::Application(event) => self.write_application(at, *event),
        }
    }

    fn write_application(&mut self, at: Time, event: ApplicationEvent) -> io::Result<u64> {
        let (name, data) = match event {
            ApplicationEvent::Opened => ("rampmeter:stream_opened", json!({})),
            ApplicationEvent::Wrote { offset, length: Some(length) } => {
                ("rampmeter:message_written", json!({ "offset": offset, "length": length }))
            }
            ApplicationEvent::Wrote { offset, length: None } => {
                ("rampmeter:message_written", json!({ "offset": offset }))
            }
            ApplicationEvent::Received { offset, length, after } => {
                let data = json!({ "offset": offset, "length": length, "duration": milliseconds(after) });
                ("rampmeter:message_received", data)
            }
            ApplicationEvent::Finished => ("rampmeter:stream_finished", json!({})),
            ApplicationEvent::Ended => ("rampmeter:stream_ended", json!({})),
            ApplicationEvent::Completed { after } => {
                ("rampmeter:transfer_completed", json!({ "duration": milliseconds(after) }))
            }
        };
        self.put(at, name, data)
    }

    fn write_metrics(&mut self, at: Time, metrics: &Metrics) -> io::Result<u64> {
        let recovery = Recovery {
            min_rtt: metrics.min_rtt.map(milliseconds),
            smoothed_rtt: metrics.smoothed_rtt.map(milliseconds),
            latest_rtt: metrics.latest_rtt.map(milliseconds),
            congestion_window: metrics.window.filter(|&window| window < Bytes::MAX).map(Bytes::as_u64),
            bytes_in_flight: metrics.in_flight.map(Bytes::as_u64),
            pacing_rate: metrics.rate.flatten().map(rampmeter_units::Rate::as_bps),
        };
        let mut bytes = 0;
        if !(Metrics { own: Vec::new(), ..metrics.clone() }).is_empty() {
            bytes = self.put(at, "quic:recovery_metrics_updated", recovery)?;
        }
        if metrics.own.is_empty() {
            return Ok(bytes);
        }
        let own: Map<String, Value> = metrics.own.iter().map(|(name, value)| ((*name).into(), json!(value))).collect();
        Ok(bytes + self.put(at, "rampmeter:controller_updated", own)?)
    }

    /// Writes a message: why the file ends early, or what it continues. Returns its size in bytes.
    pub fn warn(&mut self, at: Time, why: &str) -> io::Result<u64> {
        self.put(at, "loglevel:warning", json!({ "message": why }))
    }

    /// Writes what is in memory.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn transferred(packet: &Packet, bytes: Bytes, ecn: Ecn, offset: u64) -> Transferred {
    let packet_type = match packet.kind {
        Kind::Syn => "initial",
        Kind::SynAck => "handshake",
        Kind::Data => "1RTT",
        Kind::Reset => "stateless_reset",
    };
    let mut frames = Vec::new();
    if packet.payload > 0 || packet.fin {
        let raw = Raw { length: packet.payload.into(), payload_length: None };
        frames.push(Frame::Stream { stream_id: 0, offset, fin: packet.fin, raw });
    }
    if !packet.receipts.is_empty() {
        let marked = packet.receipts.iter().filter(|receipt| receipt.ecn == Ecn::Ce).count() as u64;
        let acked_ranges = packet.receipts.iter().map(|receipt| vec![receipt.number]).collect();
        frames.push(Frame::Ack { acked_ranges, ce: Some(marked).filter(|&marked| marked > 0) });
    }
    if packet.ping {
        frames.push(Frame::Ping);
    }
    let payload = Some(u64::from(packet.payload)).filter(|&payload| payload > 0);
    Transferred {
        header: Header { packet_type, packet_number: (packet.kind != Kind::Reset).then_some(packet.number) },
        frames,
        raw: Raw { length: bytes.as_u64(), payload_length: payload },
        trigger: None,
        ecn: (ecn != Ecn::NotEct).then(|| ecn.name()),
        rampmeter_cause: None,
    }
}
