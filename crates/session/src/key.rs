//! X25519 keys of hosts, and their text: 43 letters and digits of base64 for URLs (RFC 4648 section 5).

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::RngCore;
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use thiserror::Error;
use zeroize::Zeroizing;

/// Bytes of a key.
pub(crate) const KEY: usize = 32;

/// Why a text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a key has 43 characters: letters, digits, `-` and `_`")]
pub struct BadKey;

/// The public key of a host, which is its identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub(crate) [u8; KEY]);

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = BadKey;
    fn from_str(text: &str) -> Result<Self, BadKey> {
        decode(text).map(Self)
    }
}

fn decode(text: &str) -> Result<[u8; KEY], BadKey> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadKey)?;
    bytes.try_into().map_err(|_| BadKey)
}

/// The secret key of a host and its public key. Its memory is overwritten at its end.
#[derive(Clone)]
pub struct KeyPair {
    secret: Zeroizing<[u8; KEY]>,
    public: PublicKey,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").field("public", &self.public).finish_non_exhaustive()
    }
}

impl KeyPair {
    /// A new key pair; `random` must be unpredictable.
    pub fn generate(random: &mut impl RngCore) -> Self {
        let mut secret = Zeroizing::new([0; KEY]);
        random.fill_bytes(&mut *secret);
        Self::from_secret(secret)
    }

    fn from_secret(secret: Zeroizing<[u8; KEY]>) -> Self {
        let mut public = [0; KEY];
        // The resolver always has the only curve that it was compiled with.
        if let Some(mut curve) = DefaultResolver.resolve_dh(&DHChoice::Curve25519) {
            curve.set(&*secret);
            public.copy_from_slice(curve.pubkey());
        }
        Self { secret, public: PublicKey(public) }
    }

    /// Reads the text of a secret key.
    pub fn from_secret_text(text: &str) -> Result<Self, BadKey> {
        decode(text).map(Zeroizing::new).map(Self::from_secret)
    }

    /// The text of the secret key, for a file that only its owner can read.
    pub fn secret_text(&self) -> Zeroizing<String> {
        Zeroizing::new(URL_SAFE_NO_PAD.encode(*self.secret))
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    pub(crate) fn secret(&self) -> &[u8; KEY] {
        &self.secret
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Random;

    use super::*;

    #[test]
    fn the_text_of_a_key_reads_as_the_key() {
        let pair = KeyPair::generate(&mut Random::from_seed(1));
        assert_eq!(pair.public().to_string().len(), 43);
        assert_eq!(pair.public().to_string().parse(), Ok(pair.public()));
        let again = KeyPair::from_secret_text(&pair.secret_text()).unwrap();
        assert_eq!(again.public(), pair.public());
        for bad in ["", "x", &"a".repeat(42), &"a".repeat(44), &"!".repeat(43)] {
            assert_eq!(bad.parse::<PublicKey>(), Err(BadKey), "{bad:?}");
        }
    }

    #[test]
    fn public_keys_are_those_of_rfc_7748_section_6_1() {
        let alice = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a";
        let expected = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
        let bytes = |hex: &str| std::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap());
        assert_eq!(KeyPair::from_secret(Zeroizing::new(bytes(alice))).public(), PublicKey(bytes(expected)));
    }

    #[test]
    fn the_memory_of_a_secret_key_is_overwritten() {
        let pair = KeyPair::generate(&mut Random::from_seed(1));
        let mut place = Box::new(std::mem::ManuallyDrop::new(pair));
        assert_ne!(*place.secret, [0; KEY]);
        // The box keeps the memory of what ends here.
        #[allow(unsafe_code, reason = "what is left of a value after its end")]
        let left = unsafe {
            std::mem::ManuallyDrop::drop(&mut place);
            std::ptr::read(&raw const *place.secret)
        };
        assert_eq!(left, [0; KEY]);
    }

    #[test]
    fn a_secret_key_is_not_printed() {
        let pair = KeyPair::generate(&mut Random::from_seed(1));
        assert!(!format!("{pair:?}").contains(&*pair.secret_text()));
    }
}
