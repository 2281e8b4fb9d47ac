//! The metrics of the daemon, from the status that it gives to every program that asks.

use std::cmp::Reverse;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rampmeter_cm::daemon::{self, MacroflowStatus, Status, UserStatus};
use rampmeter_net::monitor::prometheus::{metric, paths, process};
use rampmeter_net::monitor::{MAX_PATHS, PathStatus, serve_metrics};

/// The daemon is asked at most once in this time, however many read its metrics.
const INTERVAL: Duration = Duration::from_secs(1);

/// Answers HTTP requests for `/metrics` at `address` with the state of the daemon at `socket`. Returns the address.
pub(super) fn serve(address: SocketAddr, socket: &Path) -> io::Result<SocketAddr> {
    let (socket, started) = (socket.to_owned(), Instant::now());
    serve_metrics(address, at_intervals(move || text(daemon::status(&socket).ok().as_ref(), started.elapsed())))
}

/// What `ask` returns, which is called once in an interval; while it takes its time, others get what it returned before.
fn at_intervals(ask: impl Fn() -> String) -> impl Fn() -> String {
    let last = Mutex::new(None::<(Instant, String)>);
    move || {
        let lock = || last.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *lock() {
            Some((at, text)) if at.elapsed() < INTERVAL => return text.clone(),
            Some((at, _)) => *at = Instant::now(),
            None => {}
        }
        let text = ask();
        *lock() = Some((Instant::now(), text.clone()));
        text
    }
}

/// The status as text; little of it if the daemon does not answer.
fn text(status: Option<&Status>, uptime: Duration) -> String {
    let mut out = String::new();
    process(&mut out, "cm-daemon", uptime.as_secs_f64());
    let Some(status) = status else { return out };
    let clients: usize = status.users.iter().map(|user| user.clients).sum();
    for (name, kind, help, number) in [
        ("clients", "gauge", "Connections of programs.", clients as f64),
        ("clients_refused_total", "counter", "Clients without a place or a right.", status.refused_clients as f64),
        ("datagrams_refused_total", "counter", "Datagrams that the kernel did not send.", status.refused as f64),
        ("garbage_total", "counter", "Invalid messages of other hosts.", status.garbage as f64),
        ("senders", "gauge", "Daemons that send to this host.", status.senders as f64),
    ] {
        metric(&mut out, name, kind, help, &[(String::new(), number)]);
    }
    users(&mut out, &status.users);
    let mut macroflows: Vec<_> = status.macroflows.iter().collect();
    macroflows.sort_by_key(|macroflow| Reverse(macroflow.rate_bps));
    let omitted = macroflows.len().saturating_sub(MAX_PATHS);
    macroflows.truncate(MAX_PATHS);
    let shown: Vec<_> = macroflows.into_iter().map(|macroflow| path(macroflow, &status.controller)).collect();
    paths(&mut out, &shown, omitted);
    out
}

/// A metric of users: its name, its help and its value.
type UserMetric = (&'static str, &'static str, fn(&UserStatus) -> f64);

/// The metrics of users: of as many as there are paths, those with the highest rates.
fn users(out: &mut String, users: &[UserStatus]) {
    let mut users: Vec<_> = users.iter().collect();
    users.sort_by_key(|user| Reverse(user.rate_bps));
    users.truncate(MAX_PATHS);
    let metrics: [UserMetric; 4] = [
        ("user_rate_bits_per_second", "Permitted rate of all flows of a user.", |user| user.rate_bps as f64),
        ("user_clients", "Connections of a user's programs.", |user| user.clients as f64),
        ("user_flows", "Flows of a user.", |user| user.flows as f64),
        ("user_queued_bytes", "Memory of a user's datagrams that wait.", |user| user.queued_bytes as f64),
    ];
    for (name, help, value) in metrics {
        let samples: Vec<_> = users.iter().map(|user| (format!("{{uid=\"{}\"}}", user.uid), value(user))).collect();
        metric(out, name, "gauge", help, &samples);
    }
}

fn path(macroflow: &MacroflowStatus, controller: &str) -> PathStatus {
    PathStatus {
        peer: macroflow.destination,
        controller: controller.to_owned(),
        state: macroflow.state.clone(),
        degraded: macroflow.degraded.clone(),
        rate_bps: macroflow.rate_bps,
        window_bytes: macroflow.window_bytes,
        in_flight_bytes: macroflow.in_flight_bytes,
        rtt_s: macroflow.srtt_s,
        min_rtt_s: macroflow.min_rtt_s,
        queue_delay_s: macroflow.srtt_s - macroflow.min_rtt_s,
        flows: macroflow.flows,
        sent_bytes: macroflow.sent_bytes,
        delivered_bytes: macroflow.delivered_bytes,
        lost_bytes: macroflow.lost_bytes,
        marked_packets: macroflow.marked,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::sleep;

    use super::*;

    fn macroflow(destination: &str, rate_bps: u64) -> MacroflowStatus {
        MacroflowStatus {
            destination: destination.parse().unwrap(),
            state: "slow_start".into(),
            degraded: (rate_bps >= 1039).then(|| "no router marks".to_owned()),
            rate_bps,
            window_bytes: Some(10_000),
            in_flight_bytes: 1000,
            srtt_s: 0.75,
            min_rtt_s: 0.25,
            sent_bytes: 100,
            delivered_bytes: 80,
            lost_bytes: 5,
            marked: 2,
            flows: 3,
            processes: vec![7],
        }
    }

    #[test]
    fn a_daemon_that_does_not_answer_delays_one_reader() {
        let (sender, answers) = channel();
        let answers = Mutex::new(answers);
        let read = at_intervals(move || answers.lock().unwrap().recv().unwrap());
        sender.send("first".to_owned()).unwrap();
        assert_eq!(read(), "first");
        sleep(INTERVAL);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(&read);
            sleep(INTERVAL / 5);
            assert_eq!(read(), "first");
            sender.send("second".to_owned()).unwrap();
            assert_eq!(waiting.join().unwrap(), "second");
        });
    }

    #[test]
    fn paths_and_users_have_metrics() {
        let users = (0..40).map(|uid| UserStatus {
            uid,
            clients: 2,
            flows: 4,
            queued_bytes: 8,
            rate_bps: 100 + u64::from(uid),
        });
        let status = Status {
            controller: "cm".into(),
            processes: vec![7],
            users: users.collect(),
            macroflows: (0..40).map(|n| macroflow(&format!("192.0.{n}.1"), 1000 + n)).collect(),
            peers: vec![],
            senders: 1,
            garbage: 2,
            refused: 3,
            refused_clients: 4,
        };
        let text = text(Some(&status), Duration::from_secs(9));
        for line in [
            "rampmeter_info{role=\"cm-daemon\",version=\"0.1.0\"} 1",
            "rampmeter_uptime_seconds 9",
            "rampmeter_clients 80",
            "rampmeter_clients_refused_total 4",
            "rampmeter_user_rate_bits_per_second{uid=\"39\"} 139",
            "rampmeter_user_flows{uid=\"39\"} 4",
            "rampmeter_path_rate_bits_per_second{network=\"192.0.39.0/24\",controller=\"cm\"} 1039",
            "rampmeter_path_queue_delay_seconds{network=\"192.0.39.0/24\",controller=\"cm\"} 0.5",
            "rampmeter_path_degraded{network=\"192.0.39.0/24\",controller=\"cm\"} 1",
            "rampmeter_path_state{network=\"192.0.39.0/24\",controller=\"cm\",state=\"slow_start\"} 1",
            "rampmeter_path_degraded{network=\"192.0.38.0/24\",controller=\"cm\"} 0",
            "rampmeter_path_lost_bytes{network=\"192.0.39.0/24\",controller=\"cm\"} 5",
            "rampmeter_path_marked_packets{network=\"192.0.39.0/24\",controller=\"cm\"} 2",
            "rampmeter_paths_omitted 8",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\nis not in\n{text}");
        }
        assert!(!text.contains("192.0.7.0/24") && !text.contains("uid=\"7\""), "few paths and users are listed");
    }
}
