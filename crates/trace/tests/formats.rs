//! What is written is read by readers that are not ours.

use std::borrow::Cow;
use std::fs;
use std::io::Cursor;

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use qlog::events::EventData;
use qlog::events::quic::QuicFrame;
use qlog::reader::{Event, QlogSeqReader};
use rampmeter_trace::qlog::{About, Qlog};
use rampmeter_trace::{
    ApplicationEvent, Capture, Cause, Directory, End, FlowEvent, Grant, HostTrace, LinkEvent, Metrics, Pcapng,
    Selection, Sink, Timer,
};
use rampmeter_units::{Bytes, Duration, Ecn, Rate, Time};
use rampmeter_wire::{Kind, Packet, Receipt};

const AT: Time = Time::from_nanos(1_500_000);

fn packet() -> Packet {
    let mut packet = Packet { number: 7, payload: 1400, fin: true, ..Packet::default() };
    packet.receipts.push(Receipt { number: 3, ecn: Ecn::Ce, received_at: AT });
    packet
}

fn sent(packet: &Packet) -> FlowEvent<'_> {
    let (bytes, ecn, cause) = (Bytes::new(1500), Ecn::Ect0, Cause::Timer);
    FlowEvent::Sent { packet, bytes, ecn, offset: 9000, is_repeated: true, cause }
}

#[test]
fn another_reader_of_qlog_knows_every_event() {
    let about = About { title: "download 0".into(), description: "scheme mine".into() };
    let mut file = Vec::new();
    let mut qlog = Qlog::new(&mut file, &about, End::Client).unwrap();
    let (data, syn) = (packet(), Packet { kind: Kind::Syn, ..Packet::default() });
    let metrics = Metrics {
        window: Some(Bytes::new(30_000)),
        rate: Some(Some(Rate::from_bps(5_000_000))),
        smoothed_rtt: Some(Duration::from_millis(40)),
        ..Metrics::default()
    };
    let timer = |after, has_expired| FlowEvent::Timer(Timer { name: "loss_timeout", after, has_expired });
    for event in [
        sent(&data),
        sent(&syn),
        FlowEvent::Received { packet: &data, bytes: Bytes::new(1500), ecn: Ecn::Ce, offset: 70_000 },
        FlowEvent::Acknowledged(&[3, 4]),
        FlowEvent::Lost { number: 5, by_timeout: true },
        FlowEvent::Metrics(&metrics),
        FlowEvent::State(None, "slow_start"),
        FlowEvent::State(Some("slow_start"), "recovery"),
        timer(Some(Duration::from_millis(200)), false),
        timer(None, true),
        timer(None, false),
    ] {
        qlog.write(AT, &event).unwrap();
    }
    qlog.warn(AT, "the limit").unwrap();
    let reader = QlogSeqReader::new(Box::new(Cursor::new(file))).unwrap();
    assert_eq!(reader.qlog.serialization_format, "application/qlog+json-seq");
    assert_eq!(reader.qlog.title.as_deref(), Some("download 0"));
    let events: Vec<_> = reader
        .map(|event| match event {
            Event::Qlog(event) => event,
            Event::Json(event) => panic!("{event:?} is not an event of the drafts"),
        })
        .collect();
    assert_eq!(events.len(), 12);
    assert!(events.iter().all(|event| (event.time - 1.5).abs() < 1e-9), "milliseconds");
    let EventData::QuicPacketSent(first) = &events[0].data else { panic!("{:?}", events[0]) };
    assert_eq!((first.header.packet_number, first.raw.as_ref().unwrap().length), (Some(7), Some(1500)));
    assert_eq!(first.frames.as_ref().unwrap().len(), 2, "a stream and an acknowledgement");
    let EventData::QuicPacketReceived(got) = &events[2].data else { panic!("{:?}", events[2]) };
    let QuicFrame::Stream { offset, .. } = &got.frames.as_ref().unwrap()[0] else { panic!("{got:?}") };
    assert_eq!(*offset, Some(70_000));
    let EventData::QuicMetricsUpdated(recovery) = &events[5].data else { panic!("{:?}", events[5]) };
    assert_eq!((recovery.congestion_window, recovery.pacing_rate), (Some(30_000), Some(5_000_000)));
    assert_eq!(recovery.smoothed_rtt, Some(40.0));
}

#[test]
fn own_values_are_in_our_namespace() {
    let mut file = Vec::new();
    let mut qlog = Qlog::new(&mut file, &About::default(), End::Server).unwrap();
    let own = vec![("max_bandwidth_bps", 1e6)];
    qlog.write(AT, &FlowEvent::Metrics(&Metrics { own, ..Metrics::default() })).unwrap();
    let events: Vec<_> = QlogSeqReader::new(Box::new(Cursor::new(file))).unwrap().collect();
    let [Event::Json(event)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(
        (event.name.as_str(), &event.data),
        ("rampmeter:controller_updated", &serde_json::json!({"max_bandwidth_bps": 1e6}))
    );
}

#[test]
fn another_reader_of_qlog_reads_our_own_events() {
    let mut file = Vec::new();
    let mut qlog = Qlog::new(&mut file, &About::default(), End::Server).unwrap();
    let (window, in_flight) = (Bytes::MAX, Bytes::new(3000));
    let after = Duration::from_micros(2500);
    let applications = [
        ApplicationEvent::Opened,
        ApplicationEvent::Wrote { offset: 10, length: Some(20) },
        ApplicationEvent::Wrote { offset: 30, length: None },
        ApplicationEvent::Received { offset: 0, length: 300, after },
        ApplicationEvent::Finished,
        ApplicationEvent::Ended,
        ApplicationEvent::Completed { after },
    ];
    let grant = FlowEvent::Granted(Grant { macroflow: 3, flows: 4, waiting: 2, window, in_flight });
    for event in applications.map(FlowEvent::Application).into_iter().chain([grant]) {
        qlog.write(AT, &event).unwrap();
    }
    let events = QlogSeqReader::new(Box::new(Cursor::new(file))).unwrap().map(|event| match event {
        Event::Json(event) => (event.name, event.data),
        Event::Qlog(event) => panic!("{event:?} is none of ours"),
    });
    let names = ["stream_opened", "message_written", "message_written", "message_received", "stream_finished"];
    let names = names.into_iter().chain(["stream_ended", "transfer_completed", "flow_granted"]);
    let events: Vec<_> = events.collect();
    assert!(events.iter().map(|(name, _)| name.as_str()).eq(names.map(|name| format!("rampmeter:{name}"))));
    assert_eq!(events[1].1, serde_json::json!({ "offset": 10, "length": 20 }));
    assert_eq!(events[2].1, serde_json::json!({ "offset": 30 }));
    assert_eq!(events[3].1, serde_json::json!({ "offset": 0, "length": 300, "duration": 2.5 }));
    assert_eq!(
        events[7].1,
        serde_json::json!({
            "macroflow": 3, "flows": 4, "waiting_flows": 2,
            "macroflow_window_bytes": null, "macroflow_in_flight_bytes": 3000
        })
    );
}

struct Made;

impl Capture for Made {
    fn write(&self, out: &mut Vec<u8>) -> usize {
        out.extend([0x45; 300]);
        1500
    }
}

#[test]
fn another_reader_of_pcapng_knows_every_packet() {
    let mut file = Vec::new();
    let mut capture = Pcapng::new(&mut file, "bottleneck").unwrap();
    let at = Time::from_nanos(1_000_000_007);
    let marked = LinkEvent::Marked { from: Ecn::Ect0, to: Ecn::Ce, queued: 6 };
    for event in [LinkEvent::Offered { queued: 4 }, LinkEvent::Arrived, LinkEvent::Dropped, marked] {
        capture.write(at, event, &Made).unwrap();
    }
    let mut reader = PcapNgReader::new(Cursor::new(file)).unwrap();
    let (mut interfaces, mut packets) = (0, Vec::new());
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(_) => interfaces += 1,
            Block::EnhancedPacket(packet) => packets.push(packet.into_owned()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((interfaces, packets.len()), (4, 4));
    for (packet, interface) in packets.iter().zip(0..) {
        assert_eq!((packet.interface_id, packet.original_len, packet.data.len()), (interface, 1500, 256));
        assert_eq!(packet.timestamp.as_nanos(), 1_000_000_007);
    }
    for (packet, comment) in
        [(0, "behind 4 packets"), (2, "dropped"), (3, "with 6 packets in the queue: CE instead of ECT(0)")]
    {
        assert_eq!(packets[packet].options, [EnhancedPacketOption::Comment(Cow::Borrowed(comment))]);
    }
}

fn selection() -> Selection {
    Selection { flows: vec![Some(("0-download".into(), About::default())), None], links: vec![Some("wire".into())] }
}

#[test]
fn a_directory_has_a_file_for_each_end_and_link_chosen() {
    let path = tempfile::tempdir().unwrap();
    let mut directory = Directory::new(path.path(), selection(), Bytes::new(1_000_000)).unwrap();
    let data = packet();
    for flow in [0, 1, 2] {
        directory.on_flow(AT, flow, End::Client, &sent(&data));
        directory.on_flow(AT, flow, End::Server, &sent(&data));
    }
    directory.on_link(AT, 0, LinkEvent::Arrived, &Made);
    directory.on_link(AT, 1, LinkEvent::Arrived, &Made);
    assert_eq!(directory.finish().unwrap(), None);
    let mut names: Vec<_> =
        fs::read_dir(path.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["0-download.client.qlog", "0-download.server.qlog", "wire.pcapng"]);
}

#[test]
fn a_trace_that_reaches_its_limit_says_so_and_ends() {
    let path = tempfile::tempdir().unwrap();
    let mut directory = Directory::new(path.path(), selection(), Bytes::new(100_000)).unwrap();
    let data = packet();
    for _ in 0..10_000 {
        directory.on_flow(AT, 0, End::Client, &sent(&data));
    }
    assert_eq!(directory.finish().unwrap(), Some(AT));
    let text = fs::read_to_string(path.path().join("0-download.client.qlog")).unwrap();
    assert!((100_000..103_000).contains(&text.len()), "{}", text.len());
    assert!(text.lines().last().unwrap().contains("it has reached its limit"));
}

#[test]
fn an_error_ends_the_trace_and_is_kept() {
    let path = tempfile::tempdir().unwrap();
    let mut directory = Directory::new(path.path(), selection(), Bytes::new(100_000)).unwrap();
    fs::remove_dir(path.path()).unwrap();
    let data = packet();
    directory.on_flow(AT, 0, End::Client, &sent(&data));
    directory.on_flow(AT, 0, End::Client, &sent(&data));
    assert_eq!(directory.finish().unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_host_keeps_the_newest_part_of_its_trace() {
    let path = tempfile::tempdir().unwrap();
    let host = HostTrace::new(path.path(), Bytes::new(100_000)).unwrap();
    let (short, long) =
        (host.add("192.0.2.7:1", String::new()).unwrap(), host.add("192.0.2.7:2", String::new()).unwrap());
    let trace = host.trace();
    let metrics = Metrics { window: Some(Bytes::new(7777)), own: vec![("delta", 0.5)], ..Metrics::default() };
    trace.sink().on_flow(AT, long, End::Server, &FlowEvent::Metrics(&metrics));
    trace.sink().on_flow(AT, long, End::Server, &FlowEvent::State(None, "probing"));
    let names = || {
        let files = fs::read_dir(path.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        files.collect::<std::collections::BTreeSet<_>>()
    };
    let size = || names().iter().map(|name| fs::metadata(path.path().join(name)).unwrap().len()).sum::<u64>();
    let mut seen = std::collections::BTreeSet::new();
    let (newest, earlier) = ("1-192.0.2.7_2.server.qlog", "1-192.0.2.7_2.1.server.qlog");
    let mut number = 0;
    // The last packet of a part begins no new file.
    while number < 2000 || !names().contains(newest) {
        let data = Packet { number, ..packet() };
        if number < 10 {
            trace.sink().on_flow(AT, short, End::Server, &sent(&data));
        } else if number == 10 {
            trace.sink().on_flow_end(AT, short, End::Server);
        }
        trace.sink().on_flow(AT + Duration::from_millis(number.into()), long, End::Server, &sent(&data));
        seen.extend(names());
        assert!(size() < 110_000, "{} after {number}", size());
        number += 1;
    }
    let since = host.finish().unwrap().expect("the first part is gone");
    assert!(since > AT + Duration::from_millis(1000), "{since:?}");
    assert_eq!(names().into_iter().collect::<Vec<_>>(), [earlier, newest]);
    assert!(seen.contains("0-192.0.2.7_1.1.server.qlog"), "{seen:?}");
    // Both have complete headers, and together each packet since then.
    let numbers = |name: &str| {
        let reader = QlogSeqReader::new(Box::new(Cursor::new(fs::read(path.path().join(name)).unwrap()))).unwrap();
        let sent = reader.filter_map(|event| match event {
            Event::Qlog(event) => match event.data {
                EventData::QuicPacketSent(sent) => sent.header.packet_number,
                _ => None,
            },
            Event::Json(_) => None,
        });
        sent.collect::<Vec<_>>()
    };
    let kept = [numbers(earlier), numbers(newest)].concat();
    assert!(kept.iter().copied().eq(kept[0]..number.into()), "{:?} to {:?}", kept.first(), kept.last());
    let text = fs::read_to_string(path.path().join(newest)).unwrap();
    let begin: Vec<_> = text.lines().take(6).collect();
    assert!(begin[1].contains(&format!("what was before is in {earlier}; ")), "{}", begin[1]);
    assert!(begin[2].contains("7777") && begin[3].contains("delta") && begin[4].contains("probing"), "{begin:?}");
}

#[test]
fn a_host_whose_files_were_removed_says_so() {
    let path = tempfile::tempdir().unwrap();
    let host = HostTrace::new(path.path(), Bytes::new(50_000)).unwrap();
    let flow = host.add("192.0.2.7:1", String::new()).unwrap();
    let data = packet();
    host.trace().sink().on_flow(AT, flow, End::Client, &sent(&data));
    fs::remove_dir_all(path.path()).unwrap();
    for _ in 0..1000 {
        host.trace().sink().on_flow(AT, flow, End::Client, &sent(&data));
    }
    assert_eq!(host.add("192.0.2.7:2", String::new()), None);
    assert_eq!(host.finish().unwrap_err().kind(), std::io::ErrorKind::NotFound);
}
