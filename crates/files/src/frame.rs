//! Frames of messages on a stream.

use std::io;

use rampmeter_streams::Stream;
use tokio::io::AsyncReadExt;

use super::protocol::MAX_MESSAGE;

/// Reads a message.
pub(crate) async fn read(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let len = usize::from(stream.read_u16().await?);
    if len > MAX_MESSAGE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; len];
    stream.read_exact(&mut message).await?;
    Ok(message)
}
