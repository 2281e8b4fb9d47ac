//! Writes a self-signed certificate and its key into a directory: `certificate DIRECTORY`.

use std::path::PathBuf;

use rampmeter_bench_wire::{AnyError, NAME, files};

fn main() -> Result<(), AnyError> {
    let directory = PathBuf::from(std::env::args_os().nth(1).ok_or("write: certificate DIRECTORY")?);
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let (certificate, key) = files(&directory);
    std::fs::write(certificate, made.cert.pem())?;
    std::fs::write(key, made.signing_key.serialize_pem())?;
    Ok(())
}
