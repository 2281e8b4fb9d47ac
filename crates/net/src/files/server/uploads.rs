//! Who uploads which file: a name has one upload at a time.
//!
//! A client that was killed in the middle of an upload, and begins it again, finds its own upload there, because the
//! server has not noticed yet. It is refused, and asks again for some seconds. Meanwhile the first one ends if it has been
//! silent for a second (`Worker::abort_idle_clients`). Uploads do not wait here: one whose client has been killed, too,
//! could complete after a newer one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rampmeter_session::PublicKey;

/// The uploads of all threads, by name.
#[derive(Debug, Default)]
pub(super) struct Uploads(Mutex<BTreeMap<String, Upload>>);

#[derive(Debug)]
struct Upload {
    key: Option<PublicKey>,
    is_awaited: Arc<AtomicBool>,
}

/// The right to upload to a name, until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    uploads: Arc<Uploads>,
    name: String,
    is_awaited: Arc<AtomicBool>,
}

impl Uploads {
    /// Claims `name` for a client; `None` if another upload has it. One with the same key learns that it is awaited.
    pub(super) fn claim(self: &Arc<Self>, name: &str, key: Option<PublicKey>) -> Option<Claim> {
        let mut uploads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(upload) = uploads.get(name) {
            if key.is_some() && upload.key == key {
                upload.is_awaited.store(true, Ordering::Relaxed);
            }
            return None;
        }
        let (name, is_awaited) = (name.to_owned(), Arc::<AtomicBool>::default());
        uploads.insert(name.clone(), Upload { key, is_awaited: Arc::clone(&is_awaited) });
        Some(Claim { uploads: Arc::clone(self), name, is_awaited })
    }
}

impl Claim {
    /// Whether a client with the same key has asked for the name since the last call.
    pub(super) fn take_awaited(&self) -> bool {
        self.is_awaited.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.uploads.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_session::KeyPair;
    use rampmeter_units::Stream;

    use super::*;

    #[test]
    fn a_name_has_one_upload_and_only_its_own_key_asks_for_it() {
        let uploads = Arc::<Uploads>::default();
        let [own, other] = [1, 2].map(|secret| Some(KeyPair::generate(&mut Stream::from_seed(secret)).public()));
        let claim = uploads.claim("f", own).unwrap();
        assert!(uploads.claim("f", other).is_none() && !claim.take_awaited());
        assert!(uploads.claim("f", own).is_none());
        assert!(claim.take_awaited() && !claim.take_awaited());
        let unknown = uploads.claim("g", None).unwrap();
        assert!(uploads.claim("g", None).is_none() && !unknown.take_awaited(), "two clients without a key are two");
        drop((claim, unknown));
        assert!(uploads.claim("f", other).is_some() && uploads.0.lock().unwrap().is_empty());
    }
}
