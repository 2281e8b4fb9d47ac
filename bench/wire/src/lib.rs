//! What the peers have in common: their arguments, their certificate, and the line that a client prints.
//!
//!     PEER serve ADDRESS DIRECTORY          the server, until it is killed
//!     PEER get ADDRESS DIRECTORY BYTES      a client, which opens one connection
//!
//! The client writes the number of bytes that it wants on a stream, and the server sends as many. The directory has the
//! server's certificate and key (`certificate` writes them). Time runs from before the connection until the last byte.

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bytes::Bytes;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Any error: it ends the program.
pub type AnyError = Box<dyn Error + Send + Sync>;

/// The name in the certificate.
pub const NAME: &str = "wire.test";

/// The largest QUIC packet in an Ethernet frame: 1500 bytes without the headers of IPv6 and UDP.
pub const PACKET: u16 = 1452;

/// The arguments of a peer.
pub struct Arguments {
    pub address: SocketAddr,
    /// The directory of the certificate and its key.
    pub directory: PathBuf,
    /// For a client: how many bytes it wants.
    pub bytes: Option<u64>,
}

/// Reads the command line.
pub fn arguments() -> Result<Arguments, AnyError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match *words {
        ["serve", address, directory] => {
            Ok(Arguments { address: address.parse()?, directory: directory.into(), bytes: None })
        }
        ["get", address, directory, bytes] => {
            Ok(Arguments { address: address.parse()?, directory: directory.into(), bytes: Some(bytes.parse()?) })
        }
        _ => Err("write: serve ADDRESS DIRECTORY, or get ADDRESS DIRECTORY BYTES".into()),
    }
}

/// The paths of the certificate and its key.
pub fn files(directory: &Path) -> (PathBuf, PathBuf) {
    (directory.join("certificate.pem"), directory.join("key.pem"))
}

/// The server's certificate and its key.
pub fn identity(directory: &Path) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), AnyError> {
    let (certificate, key) = files(directory);
    Ok((vec![CertificateDer::from_pem_file(certificate)?], PrivateKeyDer::from_pem_file(key)?))
}

/// The certificates that a client trusts.
pub fn roots(directory: &Path) -> Result<RootCertStore, AnyError> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(files(directory).0)?)?;
    Ok(roots)
}

/// What a server sends, in pieces that share one buffer.
pub fn pieces(bytes: u64) -> impl Iterator<Item = Bytes> {
    const PIECE: usize = 64 * 1024;
    let zeros = Bytes::from(vec![0; PIECE]);
    let mut left = bytes;
    std::iter::from_fn(move || {
        let piece = zeros.slice(..PIECE.min(usize::try_from(left).unwrap_or(PIECE)));
        left -= piece.len() as u64;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Reads a client's request.
pub fn requested(message: &[u8]) -> Result<u64, AnyError> {
    Ok(u64::from_be_bytes(message.try_into()?))
}

/// Prints a client's result; fails if bytes are missing.
pub fn report(peer: &str, wanted: u64, bytes: u64, begin: Instant) -> Result<(), AnyError> {
    let seconds = begin.elapsed().as_secs_f64();
    if bytes != wanted {
        return Err(format!("{bytes} bytes arrived of {wanted}").into());
    }
    println!("{}", serde_json::json!({ "peer": peer, "bytes": bytes, "seconds": seconds }));
    Ok(())
}
