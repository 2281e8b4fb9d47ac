//! Clients, servers and packets that do what no honest ones do.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rampmeter_files::{GetOptions, NetError, Refusal, Report, SERVICE, get};
use rampmeter_streams::{Client, ClientOptions, Server, ServerOptions, Stream};
use rampmeter_testing::{Relay, RelayMode, noise};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use crate::common::{TestServer, at_fixed_rate, directories, fetch, identity, options};

const SECONDS: Duration = Duration::from_secs(20);

/// A message after its length.
fn message(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

fn request(name: &str, offset: u64) -> Vec<u8> {
    message(&format!(r#"{{"name":"{name}","offset":{offset},"blake3":"00","controller":null}}"#))
}

async fn client(server: &TestServer) -> Client {
    let url = format!("{}?key={}", server.address, server.key);
    Client::connect(&url, ClientOptions { service: SERVICE, ..ClientOptions::default() }).await.unwrap()
}

async fn send(client: &Client, bytes: &[u8]) -> Stream {
    let mut stream = client.open().await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

async fn read_message(stream: &mut Stream) -> String {
    let mut text = vec![0; timeout(SECONDS, stream.read_u16()).await.unwrap().unwrap().into()];
    stream.read_exact(&mut text).await.unwrap();
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn only_regular_files_below_the_directory_are_served() {
    let (around, to) = directories(9);
    let from = around.path().join("served");
    fs::create_dir_all(from.join("sub")).unwrap();
    symlink("../f", from.join("out")).unwrap();
    fs::write(from.join(".hidden"), "h").unwrap();
    let server = TestServer::start(&from, |_| {});
    let client = client(&server).await;
    let absolute = around.path().join("f");
    for (name, refusal) in [
        ("out", "bad_name"),
        ("../f", "bad_name"),
        ("sub/../../f", "bad_name"),
        (absolute.to_str().unwrap(), "bad_name"),
        (&"x".repeat(2000), "bad_name"),
        ("", "bad_name"),
        ("sub", "not_a_file"),
        ("sub/none", "no_such_file"),
        (".hidden", "no_such_file"),
    ] {
        let mut stream = send(&client, &request(name, 0)).await;
        assert_eq!(read_message(&mut stream).await, format!(r#"{{"refused":"{refusal}"}}"#), "{name}");
        stream.shutdown().await.unwrap();
    }
    for (bytes, answers) in [(message("{}"), true), (message("\u{0}"), true), (vec![0xff; 9], false)] {
        let mut stream = send(&client, &bytes).await;
        let answer = timeout(SECONDS, stream.read_u8()).await.unwrap();
        assert_eq!(answer.is_ok(), answers, "what is no message is reset: {answer:?}");
    }
    client.close().await;
    assert_eq!(server.next_served().refused, 11);
    let error = tokio::task::spawn_blocking(move || fetch(server.address, "out", to.path())).await.unwrap();
    assert!(matches!(error, Err(NetError::Refused { reason: Refusal::BadName, .. })));
}

#[tokio::test]
async fn a_client_that_takes_no_bytes_is_disconnected() {
    let (from, _) = directories(20_000_000);
    let server = TestServer::start(from.path(), |options| options.max_idle = Duration::from_secs(1));
    let client = client(&server).await;
    let slow = send(&client, &request("f", 0)).await;
    let mut idle = send(&client, &request("f", 0)[..9]).await; // never the rest of it
    sleep(Duration::from_secs(5)).await;
    assert!(timeout(SECONDS, idle.read_u8()).await.unwrap().is_err());
    drop(slow);
    let served = server.next_served();
    assert!(served.bytes < 2_000_000, "a window, buffers and a piece: {}", served.bytes);
    assert_eq!((served.ended, served.files), ("aborted", 0));
}

#[tokio::test]
async fn one_address_leaves_places_and_threads_for_others() {
    let (from, to) = directories(3_000_000);
    fs::File::create(from.path().join("large")).unwrap().set_len(64 << 30).unwrap();
    fs::write(from.path().join("small"), noise(1000, 1)).unwrap();
    fs::write(to.path().join("small.part"), noise(900, 1)).unwrap();
    let server = TestServer::start(from.path(), |options| {
        at_fixed_rate("1 Mb/s")(options);
        options.max_clients = 8;
    });
    let mut greedy = Vec::new();
    for n in 0..16 {
        let client = client(&server).await;
        // Half of them have half a minute of bytes hashed.
        let offset = if n % 2 == 0 { 0 } else { 64 << 30 };
        let stream = send(&client, &request(if offset == 0 { "f" } else { "large" }, offset)).await;
        greedy.push((client, stream));
    }
    sleep(Duration::from_millis(500)).await;
    let relay = Relay::start_at("127.0.1.1", server.address, RelayMode::Forward);
    let (address, to_small) = (relay.address, to.path().to_owned());
    let report = tokio::task::spawn_blocking(move || fetch(address, "small", &to_small)).await.unwrap().unwrap();
    assert_eq!((report.complete, report.resumed_from), (1, 900));
    assert!(report.seconds < 8.0, "{} s", report.seconds);
}

/// What a client gets that asks for `f`, from a server that answers with these bytes, one after the other. It may ask
/// again if there are several.
async fn get_from(answers: &[Vec<u8>], to: &Path) -> Result<Report, NetError> {
    let address = "127.0.0.1:0".parse().unwrap();
    let options_of_server = ServerOptions { address, identity: identity(), service: SERVICE, ..Default::default() };
    let mut server = Server::bind(options_of_server).unwrap();
    let (max_size, resume) = (Some(rampmeter_units::Bytes::new(99)), answers.len() as u32 - 1);
    let options = GetOptions { max_size, resume, ..options(server.address(), "f", to) };
    let getting = tokio::task::spawn_blocking(move || get(&options));
    for answer in answers {
        let mut stream = timeout(SECONDS, server.accept()).await.unwrap().unwrap();
        read_message(&mut stream).await;
        stream.write_all(answer).await.unwrap();
        stream.shutdown().await.unwrap();
    }
    let result = timeout(SECONDS, getting).await.unwrap().unwrap();
    server.close().await;
    result
}

/// Whether an error is the right one.
type IsRight = fn(&NetError) -> bool;

#[tokio::test]
async fn a_file_with_other_bytes_than_those_of_its_hash_is_deleted() {
    let to = tempfile::tempdir().unwrap();
    let start = |size: u64, offset: u64, controller: &str| {
        message(&format!(
            r#"{{"file":{{"size":{size},"modified":null,"offset":{offset},"controller":"{controller}"}}}}"#
        ))
    };
    let hash = |bytes: &[u8]| message(&format!(r#"{{"end":{{"blake3":"{}"}}}}"#, blake3::hash(bytes).to_hex()));
    let file = |bytes: &[u8], end: Vec<u8>| [start(3, 0, "pcp"), bytes.to_vec(), end].concat();
    let (whole, damaged) = (file(b"abc", hash(b"abc")), file(b"abd", hash(b"abc")));
    for answers in [&[whole.clone()][..], &[damaged.clone(), whole]] {
        assert_eq!(get_from(answers, to.path()).await.unwrap().complete, 1);
        assert_eq!(fs::read(to.path().join("f")).unwrap(), b"abc");
        fs::remove_file(to.path().join("f")).unwrap();
    }
    let again = get_from(&[damaged.clone(), damaged.clone()], to.path()).await.unwrap_err();
    assert!(again.to_string().contains("arrived damaged"), "it is asked for again once: {again}");
    let corrupt: IsRight = |error| matches!(error, NetError::Corrupt { deleted: true, .. });
    let bad: IsRight = |error| matches!(error, NetError::BadAnswer(_));
    let too_large: IsRight = |error| matches!(error, NetError::TooLarge { .. });
    for (what, answer, is_right) in [
        ("other bytes", damaged, corrupt),
        ("another hash", file(b"abc", hash(b"ab")), corrupt),
        ("more bytes", file(b"abcd", hash(b"abcd")), bad),
        ("no file", file(b"", hash(b"")), bad),
        ("from its middle", [start(3, 1, "pcp"), b"bc".to_vec(), hash(b"abc")].concat(), bad),
        ("a huge size", start(u64::MAX, 0, "pcp"), too_large),
        ("a huge message", vec![0xff; 9], bad),
        ("escape sequences", start(3, 0, "\\u001b[31m"), bad),
        ("no answer", hash(b"abc"), bad),
    ] {
        let error = get_from(&[answer], to.path()).await.unwrap_err();
        assert!(is_right(&error), "{what}: {error}");
        assert!(!to.path().join("f").exists(), "{what}: the file never has its name");
        let _ = fs::remove_file(to.path().join("f.part"));
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0, "{what}");
    }
}

#[test]
fn packets_of_others_and_damaged_ones_do_no_harm() {
    let (from, to) = directories(500_000);
    let server = TestServer::start(from.path(), at_fixed_rate("20 Mb/s"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            for seed in (0..u64::MAX).take_while(|_| !done.load(Ordering::Relaxed)) {
                let mut garbage = noise((seed % 1400) as usize, seed);
                if let Some(first) = garbage.first_mut().filter(|_| seed % 2 == 0) {
                    *first = 0x11 + (seed / 2 % 4) as u8; // a version and a kind that exist
                }
                let _ = socket.send_to(&garbage, server.address);
                if seed % 64 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        for mode in [RelayMode::Forward, RelayMode::SendDamagedCopy, RelayMode::Alter] {
            let relay = Relay::start(server.address, mode);
            let (since, out) = (Instant::now(), to.path().join("f"));
            let report = fetch(relay.address, "f", &out);
            let is_complete = report.is_ok() && fs::read(&out).unwrap() == noise(500_000, 1);
            done.store(!is_complete || matches!(mode, RelayMode::Alter), Ordering::Relaxed);
            let report = report.unwrap();
            assert!(is_complete && since.elapsed() < SECONDS);
            assert!(!matches!(mode, RelayMode::Alter) || report.loss > 0.02, "altered packets are lost: {report:?}");
        }
    });
}
