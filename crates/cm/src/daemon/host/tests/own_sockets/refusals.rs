//! Receivers that refuse the headers of programs, and receivers that start again.

use super::*;

#[test]
fn a_restarted_receiver_gets_other_headers() {
    let mut pair = Pair::new();
    pair.request_for(1200);
    let (old, before) = (pair.socket, pair.delivered);
    pair.receiver = communicating();
    pair.receiver.listen(1, 5000, true).unwrap();
    pair.request_for(2000);
    assert!(pair.socket.is_some() && pair.socket != old);
    assert!(pair.delivered > before + 100, "{before}, {}", pair.delivered);
    pair.request_for(3000);
    pair.run(2000);
    assert_eq!(in_flight(&pair.sender), Bytes::ZERO, "those sent to the old one are not in flight forever");
}

#[test]
fn a_port_without_a_program_refuses_headers() {
    let mut pair = Pair::new();
    pair.receiver.listen(1, 5000, false).unwrap();
    pair.receiver.listen(1, 5001, true).unwrap();
    pair.request_for(100);
    assert_eq!((pair.socket, pair.delivered), (None, 0));
}
