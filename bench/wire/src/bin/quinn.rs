//! quinn, with ring and its default controller (CUBIC).

use std::sync::Arc;
use std::time::Instant;

use quinn::{ClientConfig, Connecting, Endpoint, Incoming, ServerConfig, TransportConfig, VarInt};
use rampmeter_bench_wire::{AnyError, Arguments, NAME, PACKET, arguments, identity, pieces, report, requested, roots};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), AnyError> {
    let arguments = arguments()?;
    match arguments.bytes {
        None => serve(&arguments).await,
        Some(bytes) => get(&arguments, bytes).await,
    }
}

/// Packets of one size from the start.
fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.initial_mtu(PACKET).mtu_discovery_config(None);
    Arc::new(transport)
}

async fn serve(arguments: &Arguments) -> Result<(), AnyError> {
    let (certificate, key) = identity(&arguments.directory)?;
    let mut config = ServerConfig::with_single_cert(certificate, key)?;
    config.transport_config(transport());
    let endpoint = Endpoint::server(config, arguments.address)?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(send(incoming));
    }
    Ok(())
}

async fn send(incoming: Incoming) -> Result<(), AnyError> {
    let connection = incoming.await?;
    let (mut sender, mut receiver) = connection.accept_bi().await?;
    let bytes = requested(&receiver.read_to_end(8).await?)?;
    for piece in pieces(bytes) {
        sender.write_chunk(piece).await?;
    }
    sender.finish()?;
    connection.closed().await;
    Ok(())
}

async fn get(arguments: &Arguments, bytes: u64) -> Result<(), AnyError> {
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots(&arguments.directory)?))?;
    config.transport_config(transport());
    let endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    let begin = Instant::now();
    let connecting: Connecting = endpoint.connect_with(config, arguments.address, NAME)?;
    let connection = connecting.await?;
    let (mut sender, mut receiver) = connection.open_bi().await?;
    sender.write_all(&bytes.to_be_bytes()).await?;
    sender.finish()?;
    let mut received = 0;
    while let Some(chunk) = receiver.read_chunk(usize::MAX, true).await? {
        received += chunk.bytes.len() as u64;
    }
    report("quinn", bytes, received, begin)?;
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    Ok(())
}
