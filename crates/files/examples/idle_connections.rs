//! Opens connections to a server of files, each in a session of its own, and leaves them idle until standard input
//! ends. `scripts/memory.py` measures what they cost the server.
//!
//! ```text
//! cargo run --release -p rampmeter-files --example idle_connections -- 127.0.0.1:7267 KEY 1000
//! ```

use std::error::Error;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rampmeter_control::{AnyController, Registry};
use rampmeter_net::default_transport;
use rampmeter_net::{Event, EventLoop, Host, Limits, Socket};
use rampmeter_session::{Config as SessionConfig, KeyPair, Name, PublicKey, Purpose, Sessions};
use rampmeter_transport::{Config, Endpoint, EndpointConfig};
use rampmeter_units::{Duration, Random};

/// Sessions are opened this many at a time, so that all handshakes get answers.
const AT_ONCE: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, key, count] = &arguments[..] else { return Err("give HOST:PORT, KEY and a number".into()) };
    let (server, key, count): (_, PublicKey, usize) = (server.parse()?, key.parse()?, count.parse()?);

    // The server aborts connections that are silent for ten seconds.
    let transport = Config { keep_alive: Some(Duration::from_secs(3)), ..default_transport() };
    let factory = Registry::default().factory("newreno", &toml::Table::new())?;
    let settings = EndpointConfig { max_connections: count, ..EndpointConfig::default() };
    let endpoint = Endpoint::new(settings, move || factory(Random::from_seed(1)), Random::from_seed(2));
    let identity = KeyPair::generate(&mut Random::from_seed(3));
    let purpose = Purpose { service: rampmeter_files::SERVICE, name: Name::new(&arguments[0]) };
    let sessions = SessionConfig { max_sessions: count, ..SessionConfig::client(identity, purpose) };
    let sessions = Sessions::new(sessions, Random::from_seed(4));
    let mut net: EventLoop<AnyController> = EventLoop::new(65_535)?;
    let host = net.add(Host::new(endpoint, sessions, Socket::connect(server)?, Limits::default()))?;

    let has_ended = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&has_ended);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        ended.store(true, Ordering::Relaxed);
    });

    let (mut begun, mut open) = (0, 0);
    while !has_ended.load(Ordering::Relaxed) {
        let now = net.now();
        while let Some(host) = net.host_mut(host).filter(|_| begun < count.min(open + AT_ONCE)) {
            let session = host.connect(now, server, Some(key)).ok_or("too many sessions")?;
            host.open(now, session, &transport).ok_or("too many connections")?;
            begun += 1;
        }
        net.run_once(now + Duration::from_millis(100))?;
        while let Some((_, event)) = net.poll_event() {
            match event {
                Event::Opened(..) => open += 1,
                Event::Closed(_, reason, _) => return Err(format!("connection {open} ended: {reason:?}").into()),
                Event::SessionEnded(_, end) => return Err(format!("a session ended: {end:?}").into()),
                _ => continue,
            }
            if open == count {
                println!("{count} connections are open");
            }
        }
    }
    Ok(())
}
