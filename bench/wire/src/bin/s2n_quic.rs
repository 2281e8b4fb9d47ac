//! s2n-quic, with its default TLS (s2n-tls), packet protection (AWS-LC) and controller (CUBIC).

use std::time::Instant;

use rampmeter_bench_wire::{AnyError, Arguments, NAME, arguments, files, pieces, report, requested};
use s2n_quic::client::Connect;
use s2n_quic::provider::io::tokio::{Builder, Provider};
use s2n_quic::{Client, Connection, Server};

/// The size of packets with the headers of IP and UDP.
const MTU: u16 = 1500;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), AnyError> {
    let arguments = arguments()?;
    match arguments.bytes {
        None => serve(&arguments).await,
        Some(bytes) => get(&arguments, bytes).await,
    }
}

/// A socket whose packets have one size from the start.
fn socket(builder: Builder) -> Result<Provider, AnyError> {
    Ok(builder.with_max_mtu(MTU)?.with_initial_mtu(MTU)?.build()?)
}

async fn serve(arguments: &Arguments) -> Result<(), AnyError> {
    let (certificate, key) = files(&arguments.directory);
    let io = socket(Builder::default().with_receive_address(arguments.address)?)?;
    let mut server = Server::builder().with_tls((certificate.as_path(), key.as_path()))?.with_io(io)?.start()?;
    while let Some(connection) = server.accept().await {
        tokio::spawn(send(connection));
    }
    Ok(())
}

async fn send(mut connection: Connection) -> Result<(), AnyError> {
    let Some(mut stream) = connection.accept_bidirectional_stream().await? else {
        return Ok(());
    };
    let mut request = Vec::new();
    while let Some(chunk) = stream.receive().await? {
        request.extend_from_slice(&chunk);
    }
    for piece in pieces(requested(&request)?) {
        stream.send(piece).await?;
    }
    stream.close().await?;
    Ok(())
}

async fn get(arguments: &Arguments, bytes: u64) -> Result<(), AnyError> {
    let io = socket(Builder::default().with_receive_address("0.0.0.0:0".parse()?)?)?;
    let client = Client::builder().with_tls(files(&arguments.directory).0.as_path())?.with_io(io)?.start()?;
    let begin = Instant::now();
    let mut connection = client.connect(Connect::new(arguments.address).with_server_name(NAME)).await?;
    let mut stream = connection.open_bidirectional_stream().await?;
    stream.send(bytes.to_be_bytes().to_vec().into()).await?;
    stream.finish()?;
    let mut received = 0;
    while let Some(chunk) = stream.receive().await? {
        received += chunk.len() as u64;
    }
    report("s2n-quic", bytes, received, begin)
}
