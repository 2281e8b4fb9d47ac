//! Tests of sockets over loopback.

use super::*;

const CODES: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];

fn pair(ip: &str) -> (Socket, Socket) {
    let bind = || Socket::bind(format!("{ip}:0").parse().unwrap()).unwrap();
    (bind(), bind())
}

fn has_ipv6() -> bool {
    UdpSocket::bind("[::1]:0").is_ok()
}

/// All packets that have arrived, with the number of packets in their buffer.
fn receive_all(receiver: &Socket) -> Vec<(Vec<u8>, Datagram, usize)> {
    let mut batch = ReceiveBatch::new(1500);
    let mut all = Vec::new();
    loop {
        let more = receiver.receive(&mut batch).unwrap();
        for (datagram, packets) in batch.iter_mut() {
            let packets: Vec<_> = packets.map(|packet| packet.to_vec()).collect();
            let together = packets.len();
            all.extend(packets.into_iter().map(|packet| (packet, datagram, together)));
        }
        if !more {
            return all;
        }
    }
}

/// Sends a packet of each size with each code, in this order, and checks that each arrives as it was sent.
/// Returns the numbers of packets that arrived together.
fn exchange((sender, receiver): &mut (Socket, Socket), packets: &[(usize, Ecn)]) -> Vec<usize> {
    let mut out = SendBatch::default();
    for (number, (size, ecn)) in packets.iter().enumerate() {
        out.push(*ecn, |bytes| {
            bytes.extend(std::iter::repeat_n(number as u8, *size));
            receiver.local_address().ok().map(Route::from)
        });
    }
    out.push(Ecn::Ce, |_| None);
    assert!(matches!(sender.send(&mut out), SendResult::Done));
    assert!(out.is_empty());
    let got = receive_all(receiver);
    assert_eq!(got.len(), packets.len());
    for (number, ((size, ecn), (bytes, datagram, _))) in packets.iter().zip(&got).enumerate() {
        assert_eq!(*bytes, vec![number as u8; *size]);
        assert_eq!(datagram.ecn, *ecn, "packet {number}");
        assert_eq!(datagram.from.remote, sender.local_address().unwrap());
        // Timestamps may be out of order: for a moment after the first socket of a machine enables them, the kernel
        // timestamps some packets as they arrive and others only as they are read.
        assert!(datagram.stamp.is_some(), "a receive timestamp");
    }
    got.iter().map(|(_, _, together)| *together).collect()
}

fn check_codes(ip: &str) {
    let singles: Vec<_> = CODES.iter().cycle().take(20).map(|ecn| (3, *ecn)).collect();
    exchange(&mut pair(ip), &singles);
    // In runs, each with its own code.
    let runs: Vec<_> = CODES.iter().flat_map(|ecn| [(1200, *ecn); 12]).collect();
    let mut sockets = pair(ip);
    let together = exchange(&mut sockets, &runs);
    if sockets.0.segments {
        assert_eq!(together, [12; 48], "one code in each buffer");
    } else {
        eprintln!("skipped: the kernel does not separate packets");
    }
}

#[test]
fn each_packet_arrives_with_its_ecn_code_and_a_timestamp() {
    check_codes("127.0.0.1");
}

#[test]
fn ecn_codes_and_timestamps_arrive_over_ipv6() {
    if has_ipv6() {
        check_codes("[::1]");
    } else {
        eprintln!("skipped: no IPv6");
    }
}

#[test]
fn packets_of_all_sizes_arrive_as_they_were_sent() {
    let sizes = [1200, 1200, 700, 1200, 1, 1, 1, 1400, 1200, 1200, 1200, 900, 900, 1300];
    exchange(&mut pair("127.0.0.1"), &sizes.map(|size| (size, Ecn::Ect0)));
    let full: Vec<_> = (0..BATCH).map(|_| (1000, Ecn::Ect1)).collect();
    exchange(&mut pair("127.0.0.1"), &full);
}

#[test]
fn packets_to_several_receivers_reach_theirs() {
    let (mut sender, first) = pair("127.0.0.1");
    let (second, _) = pair("127.0.0.1");
    let mut out = SendBatch::default();
    for number in 0..12u8 {
        let to = if number % 4 == 3 { &second } else { &first };
        out.push(Ecn::Ect0, |bytes| {
            bytes.extend([number; 100]);
            to.local_address().ok().map(Route::from)
        });
    }
    assert!(matches!(sender.send(&mut out), SendResult::Done));
    let numbers = |socket| receive_all(socket).iter().map(|(bytes, ..)| bytes[0]).collect::<Vec<_>>();
    assert_eq!(numbers(&first), [0, 1, 2, 4, 5, 6, 8, 9, 10]);
    assert_eq!(numbers(&second), [3, 7, 11]);
}

#[test]
fn packets_of_a_refused_run_are_sent_one_by_one() {
    let mut sockets = pair("127.0.0.1");
    // The kernel does not separate packets without checksums.
    sockets.0.set(libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    let packets: Vec<_> = CODES.iter().flat_map(|ecn| [(1000, *ecn); 5]).collect();
    assert_eq!(exchange(&mut sockets, &packets), [1; 20]);
    assert_eq!(exchange(&mut sockets, &packets), [1; 20]);
}

#[test]
fn only_an_interface_without_segmentation_ends_it_for_good() {
    let (mut socket, _) = pair("127.0.0.1");
    socket.segments = true;
    let mut batch = SendBatch::default();
    socket.on_refused_run(&io::Error::from_raw_os_error(libc::EINVAL), 3, &mut batch);
    assert!(socket.segments && batch.singly_before == 3);
    socket.on_refused_run(&io::Error::from_raw_os_error(libc::EIO), 3, &mut batch);
    assert!(!socket.segments);
}

#[test]
fn a_packet_larger_than_the_interface_takes_is_lost_alone() {
    let mut sockets = pair("127.0.0.1");
    let too_large = max_payload(sockets.1.local_address().unwrap()).unwrap() + 1;
    let to = sockets.1.local_address().unwrap();
    let mut out = SendBatch::default();
    for size in [1000, 1000, too_large, 1000] {
        out.push(Ecn::NotEct, |bytes| {
            bytes.extend(std::iter::repeat_n(7, size));
            Some(to.into())
        });
    }
    assert!(matches!(sockets.0.send(&mut out), SendResult::Done));
    assert_eq!(receive_all(&sockets.1).iter().map(|(bytes, ..)| bytes.len()).collect::<Vec<_>>(), [1000; 3]);
}

#[test]
fn packets_are_not_fragmented() {
    let check = |ip: &str, options: &[(c_int, c_int, c_int)]| {
        let (socket, _) = pair(ip);
        for &(level, name, value) in options {
            assert_eq!(socket.get(level, name).unwrap(), value, "{ip}");
        }
    };
    let v4 = (libc::SOL_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
    check("127.0.0.1", &[v4]);
    if has_ipv6() {
        let probe = (libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE);
        check("[::1]", &[probe, (libc::SOL_IPV6, libc::IPV6_DONTFRAG, 1), v4]);
    } else {
        eprintln!("skipped: no IPv6");
    }
}

#[test]
fn a_packet_larger_than_any_connections_is_dropped() {
    let receiver = Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.send_to(&[1; 101], receiver.local_address().unwrap()).unwrap();
    sender.send_to(&[2; 100], receiver.local_address().unwrap()).unwrap();
    let mut batch = ReceiveBatch::new(100);
    receiver.receive(&mut batch).unwrap();
    let got: Vec<_> = batch.iter_mut().flat_map(|(_, packets)| packets.map(|packet| packet.to_vec())).collect();
    assert_eq!(got, [vec![2; 100]]);
}

#[test]
fn answers_come_from_the_address_that_was_asked() {
    for (bound, asked) in [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "::ffff:127.0.0.2"), ("[::]:0", "127.0.0.3")] {
        if bound.starts_with('[') && !has_ipv6() {
            continue;
        }
        let mut server = Socket::bind(bound.parse().unwrap()).unwrap();
        let asked: std::net::IpAddr = asked.parse().unwrap();
        let to = SocketAddr::new(asked.to_canonical(), server.local_address().unwrap().port());
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        client.send_to(b"question", to).unwrap();
        let question = loop {
            if let Some(question) = receive_all(&server).pop() {
                break question;
            }
        };
        let mut out = SendBatch::default();
        for answer in [b"first", b"other"] {
            out.push(Ecn::Ect0, |bytes| {
                bytes.extend(answer);
                Some(question.1.from)
            });
        }
        assert!(matches!(server.send(&mut out), SendResult::Done));
        for _ in 0..2 {
            assert_eq!(client.recv_from(&mut [0; 100]).unwrap().1, to, "{bound}");
        }
    }
}
