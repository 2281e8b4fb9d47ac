//! Readers, among them bad ones.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use super::listen::{MAX_READERS, READ_TIMEOUT};
use super::request::MAX_REQUEST;
use super::*;

fn path(peer: &str, rate_bps: u64, min_rtt_s: f64) -> PathStatus {
    PathStatus {
        peer: peer.parse().unwrap(),
        controller: "pcp".into(),
        state: "running".into(),
        degraded: None,
        rate_bps,
        window_bytes: None,
        in_flight_bytes: 1,
        rtt_s: min_rtt_s + 0.5,
        min_rtt_s,
        queue_delay_s: 0.5,
        flows: 1,
        sent_bytes: 10,
        delivered_bytes: 8,
        lost_bytes: 2,
        marked_packets: 3,
    }
}

fn monitor() -> Monitor {
    let monitor = Monitor::new("serve");
    let openers = Openers { accepted: 7, not_authorized: 2, ..Openers::default() };
    let degraded = Some("no router marks".into());
    let degraded = PathStatus { state: "drain".into(), degraded, ..path("192.0.2.9", 500, 0.25) };
    let paths = vec![path("192.0.2.1", 1000, 1.0), degraded, path("2001:db8:1:2::3", 1, 1.0)];
    monitor.publish_of(0, Status { sessions: 3, openers, paths, ..Status::default() });
    monitor
}

fn serve() -> SocketAddr {
    monitor().serve_metrics((Ipv4Addr::LOCALHOST, 0).into()).unwrap()
}

fn request(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = stream.write_all(request); // it may be refused before its end
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn paths_of_one_network_and_controller_are_one_series() {
    let text = prometheus::text(&monitor().snapshot());
    for line in [
        "rampmeter_info{role=\"serve\",version=\"0.1.0\"} 1",
        "rampmeter_sessions 3",
        "rampmeter_openers_total{result=\"not_authorized\"} 2",
        "rampmeter_path_rate_bits_per_second{network=\"192.0.2.0/24\",controller=\"pcp\"} 1500",
        "rampmeter_path_rate_bits_per_second{network=\"2001:db8:1::/48\",controller=\"pcp\"} 1",
        "rampmeter_path_min_rtt_seconds{network=\"192.0.2.0/24\",controller=\"pcp\"} 0.25",
        "rampmeter_path_rtt_seconds{network=\"192.0.2.0/24\",controller=\"pcp\"} 1.5",
        "rampmeter_path_degraded{network=\"192.0.2.0/24\",controller=\"pcp\"} 1",
        "rampmeter_path_degraded{network=\"2001:db8:1::/48\",controller=\"pcp\"} 0",
        "rampmeter_path_state{network=\"192.0.2.0/24\",controller=\"pcp\",state=\"drain\"} 1",
        "rampmeter_path_state{network=\"192.0.2.0/24\",controller=\"pcp\",state=\"running\"} 1",
        "rampmeter_path_window_bytes{network=\"192.0.2.0/24\",controller=\"pcp\"} +Inf",
        "rampmeter_path_marked_packets{network=\"192.0.2.0/24\",controller=\"pcp\"} 6",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\nis not in\n{text}");
    }
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    assert_eq!(names.clone().count(), names.collect::<std::collections::BTreeSet<_>>().len(), "a type for each once");
}

#[test]
fn the_state_is_that_of_all_loops() {
    let monitor = monitor();
    let openers = Openers { accepted: 1, busy: 2, ..Openers::default() };
    for _ in 0..2 {
        let paths = (0..MAX_PATHS as u64).map(|rate| path("10.0.0.1", 700 + rate, 1.0)).collect();
        monitor.publish_of(1, Status { sessions: 2, sent_bytes: 10, openers, paths, ..Status::default() });
    }
    let Snapshot { status, .. } = monitor.snapshot();
    assert_eq!((status.sessions, status.sent_bytes), (5, 10));
    assert_eq!((status.openers.accepted, status.openers.busy, status.openers.not_authorized), (8, 2, 2));
    assert_eq!((status.paths.len(), status.other_paths), (MAX_PATHS, 3));
    assert_eq!([0, 1, 31].map(|index| status.paths[index].rate_bps), [1000, 731, 701]);
}

#[test]
fn only_metrics_are_answered() {
    let address = serve();
    for (sent, expected) in [
        (&b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"[..], "HTTP/1.1 200 OK\r\n"),
        (b"GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 404 "),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 "),
        (b"\x00\xff\r\n\r\n", "HTTP/1.1 400 "),
        (&[b'a'; MAX_REQUEST][..], "HTTP/1.1 431 "),
    ] {
        let answer = request(address, sent);
        assert!(answer.starts_with(expected), "{answer}");
    }
    assert!(request(address, b"GET /metrics HTTP/1.1\r\n\r\n").contains("rampmeter_sessions 3\n"));
}

#[test]
fn slow_readers_delay_no_other_and_are_disconnected() {
    let address = serve();
    let slow: Vec<_> = (1..MAX_READERS).map(|_| TcpStream::connect(address).unwrap()).collect();
    let began = Instant::now();
    assert!(request(address, b"GET /metrics HTTP/1.1\r\n\r\n").contains("200 OK"));
    assert!(began.elapsed() < READ_TIMEOUT, "{:?}", began.elapsed());
    for mut stream in slow {
        stream.set_read_timeout(Some(READ_TIMEOUT * 4)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "ended by the listener");
    }
}

#[test]
fn readers_beyond_their_number_are_disconnected_at_once() {
    let address = serve();
    let readers: Vec<_> = (0..MAX_READERS).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(request(address, b"GET /metrics HTTP/1.1\r\n\r\n"), "");
    drop(readers);
    let until = Instant::now() + READ_TIMEOUT;
    while request(address, b"GET /metrics HTTP/1.1\r\n\r\n").is_empty() {
        assert!(Instant::now() < until, "places of readers that left are free");
    }
}

#[test]
fn a_state_is_read_by_its_owner_and_its_socket_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let monitor = monitor();
    monitor.set_address("127.0.0.1:7267".parse().unwrap());
    // Of a process that was killed: no process has so high a number.
    drop(UnixListener::bind(directory.path().join("serve-4294967295.sock")).unwrap());
    let socket = monitor.serve_status_in(directory.path()).unwrap();
    assert_eq!(sockets(directory.path()).unwrap(), [socket.path()]);
    assert_eq!(fs::metadata(socket.path()).unwrap().mode() & 0o777, 0o600);
    assert_eq!(read_all(directory.path()).unwrap(), [monitor.snapshot()]);
    drop(socket);
    assert_eq!(read_all(directory.path()).unwrap(), []);
    assert_eq!(read_all(&directory.path().join("missing")).unwrap(), []);
}

#[test]
fn a_directory_that_others_may_use_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(monitor().serve_status_in(directory.path()).unwrap_err().to_string().contains("chmod"));
}
