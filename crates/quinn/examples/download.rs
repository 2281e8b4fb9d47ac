//! Downloads some megabytes on this machine, with a controller of Rampmeter at the server, and prints the goodput:
//!
//! ```text
//! cargo run --release --package rampmeter-quinn --example download -- copa 100
//! ```

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivateKeyDer;
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig};

type AnyError = Box<dyn Error + Send + Sync>;

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), AnyError> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "cubic".to_owned());
    let megabytes = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let mbps = download(&name, megabytes).await?;
    println!("{name}: {megabytes} MB at {mbps:.0} Mb/s");
    Ok(())
}

async fn download(name: &str, megabytes: usize) -> Result<f64, AnyError> {
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = identity.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(identity.signing_key.serialize_der().into());
    let mut server = ServerConfig::with_single_cert(vec![certificate.clone()], key)?;
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(rampmeter_quinn::controller(name)?); // all that it takes
    server.transport_config(Arc::new(transport));
    let server = Endpoint::server(server, ANY_PORT)?;
    let address = server.local_addr()?;
    let serving = tokio::spawn(serve(server, megabytes));

    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let client = Endpoint::client(ANY_PORT)?;
    let begin = Instant::now();
    let config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let connection = client.connect_with(config, address, "localhost")?.await?;
    let mut stream = connection.accept_uni().await?;
    let mut received = 0;
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
        received += chunk.bytes.len();
    }
    let seconds = begin.elapsed().as_secs_f64();
    connection.close(0u32.into(), b"");
    serving.await??;
    Ok(received as f64 * 8e-6 / seconds)
}

async fn serve(endpoint: Endpoint, megabytes: usize) -> Result<(), AnyError> {
    let connection = endpoint.accept().await.ok_or("the endpoint is closed")?.await?;
    let mut stream = connection.open_uni().await?;
    let piece = vec![0; 1_000_000];
    for _ in 0..megabytes {
        stream.write_all(&piece).await?;
    }
    stream.finish()?;
    connection.closed().await;
    Ok(())
}

#[tokio::test]
async fn a_window_and_a_rate_download_with_quinn() -> Result<(), AnyError> {
    for name in ["cubic", "bbr"] {
        assert!(download(name, 1).await? > 0.0, "{name}");
    }
    assert!(download("cubik", 1).await.unwrap_err().to_string().contains("did you mean `cubic`?"));
    Ok(())
}
