//! Seeds of the fuzz targets: committed files with the present encoding of each message, so that fuzzing starts from
//! real ones.

use std::path::Path;

/// Compares `bytes` with the seed `name` of the fuzz target `target`; with `UPDATE_CORPUS` set, writes it first.
///
/// # Panics
///
/// If the committed file is missing or holds other bytes.
pub fn check_fuzz_seed(target: &str, name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target).join(name);
    if std::env::var_os("UPDATE_CORPUS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
    }
    assert!(std::fs::read(&path).unwrap_or_default() == bytes, "{target}/{name}: UPDATE_CORPUS=1 writes it");
}
