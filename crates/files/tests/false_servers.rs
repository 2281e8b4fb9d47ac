//! Servers that break the protocol of files.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rampmeter_files::{GetOptions, NetError, Report, SERVICE, get};
use rampmeter_streams::{Server, ServerOptions, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::common::{client, identity, options};

const SECONDS: Duration = Duration::from_secs(20);

fn server() -> Server {
    let address = "127.0.0.1:0".parse().unwrap();
    Server::bind(ServerOptions { address, identity: identity(), service: SERVICE, ..ServerOptions::default() }).unwrap()
}

/// The answer to a greeting.
const WELCOME: &[u8] = b"\x01\x03pcp";

/// A file of three bytes, of which these arrive, and its hash.
fn file(bytes: &[u8], hash: &[u8; 32]) -> Vec<u8> {
    let start = [b"\x02\0\0\0\0\0\0\0\x03", &[0; 12][..], &[0; 8]].concat();
    [&start[..], b"\x03\0\0\0", &[bytes.len() as u8], bytes, b"\x04", hash].concat()
}

/// Waits for a request, after heartbeats.
async fn request(stream: &mut Stream) {
    while stream.read_u8().await.unwrap() == 0 {}
    let mut name = vec![0; usize::from(stream.read_u16().await.unwrap())];
    stream.read_exact(&mut name).await.unwrap();
}

/// What a client gets that asks for `names`, from a server that answers its requests with these bytes.
async fn get_from(answers: Vec<Vec<u8>>, names: &[&str], to: &Path) -> Result<Report, NetError> {
    let mut server = server();
    let urls = names.iter().map(|name| format!("{}/{name}", server.address())).collect();
    let options = GetOptions { urls, ..options(server.address(), "", to) };
    let getting = tokio::task::spawn_blocking(move || get(&GetOptions { client: client(), ..options }));
    let mut stream = timeout(SECONDS, server.accept()).await.unwrap().unwrap();
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting).await.unwrap();
    assert_eq!(&greeting, b"RMF4\0");
    stream.write_all(WELCOME).await.unwrap();
    for answer in answers {
        request(&mut stream).await;
        stream.read_exact(&mut [0; 8]).await.unwrap(); // the offset
        stream.write_all(&answer).await.unwrap();
    }
    let result = timeout(SECONDS, getting).await.unwrap().unwrap();
    server.close().await;
    result
}

#[tokio::test]
async fn a_file_with_other_bytes_than_those_of_its_hash_is_deleted() {
    let to = tempfile::tempdir().unwrap();
    let (right, other) = (*blake3::hash(b"abc").as_bytes(), [7; 32]);
    assert_eq!(get_from(vec![file(b"abc", &right)], &["f"], to.path()).await.unwrap().complete, 1);
    assert_eq!(fs::read(to.path().join("f")).unwrap(), b"abc");
    fs::remove_file(to.path().join("f")).unwrap();

    let cut = *blake3::hash(b"ab").as_bytes();
    for answer in [file(b"abc", &other), file(b"abd", &right), file(b"ab", &cut)] {
        let error = get_from(vec![answer.clone()], &["f"], to.path()).await.unwrap_err();
        assert!(matches!(error, NetError::Corrupt { deleted: true, .. }), "{error}");
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0, "nothing is left");
        let report = get_from(vec![answer, file(b"abc", &right)], &["f", "g"], to.path()).await.unwrap();
        assert_eq!((report.failed, report.complete), (1, 1), "one of two");
        assert_eq!(fs::read(to.path().join("g")).unwrap(), b"abc");
        fs::remove_file(to.path().join("g")).unwrap();
    }
    // More bytes than it said: they are not written, and the file never has its name.
    let error = get_from(vec![file(b"abcd", &right)], &["f"], to.path()).await.unwrap_err();
    assert!(matches!(error, NetError::BadAnswer(_)), "{error}");
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
}
