//! Sealing and opening packets.
//!
//! The nonce is the packet's number, which is never used twice with a key. A key seals 2^22 packets (RFC 9001 section
//! 6.6 allows AES-GCM 2^23). The next key is the current one's `REKEY` (Noise section 11.3), so that the upper bits of
//! a packet's number say which key seals it, and a key that leaks opens no earlier packet. Every two minutes another
//! handshake gives the next key instead, so that it opens no later packet either: the sender then skips the other
//! numbers of its key.

use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey};

use zeroize::Zeroizing;

use crate::key::KEY;
use crate::replay::{ReplayWindow, WINDOW};

/// Bytes that authenticate a packet.
pub(crate) const TAG: usize = 16;

/// Packets that a key seals.
const PACKETS_A_KEY: u64 = 1 << 22;

/// Forged packets, of all keys of a session, after which it ends (RFC 9001 section 6.6; AES-GCM would allow 2^52).
pub(crate) const MAX_FORGED: u64 = 1 << 36;

/// The AEAD of a session. The initiator chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Suite {
    /// AES-256-GCM, where the processor has instructions for it.
    Aes256Gcm = 1,
    /// ChaCha20-Poly1305, where it has none.
    ChaCha20Poly1305 = 2,
}

impl Suite {
    /// The faster one on this machine.
    pub fn fastest() -> Self {
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        let has_aes = std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        let has_aes = std::arch::is_aarch64_feature_detected!("aes");
        #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
        let has_aes = false;
        if has_aes { Self::Aes256Gcm } else { Self::ChaCha20Poly1305 }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Aes256Gcm, Self::ChaCha20Poly1305].into_iter().find(|suite| *suite as u8 == byte)
    }

    /// Its name in Noise.
    pub(crate) fn noise_name(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "AESGCM",
            Self::ChaCha20Poly1305 => "ChaChaPoly",
        }
    }
}

/// A key of the chain.
#[derive(Debug)]
pub(crate) struct Key {
    suite: Suite,
    aead: LessSafeKey,
}

impl Key {
    pub(crate) fn new(suite: Suite, bytes: &[u8; KEY]) -> Self {
        let algorithm = match suite {
            Suite::Aes256Gcm => &AES_256_GCM,
            Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        #[allow(clippy::expect_used, reason = "both algorithms have keys of 32 bytes")]
        let unbound = UnboundKey::new(algorithm, bytes).expect("32 bytes");
        Self { suite, aead: LessSafeKey::new(unbound) }
    }

    /// The key that follows: `REKEY`, the encryption of 32 zeros with the last nonce, which no packet has.
    fn next(&self) -> Self {
        let mut bytes = Zeroizing::new([0; KEY]);
        let _tag = self.seal(u64::MAX, &[], &mut *bytes);
        Self::new(self.suite, &bytes)
    }

    fn seal(&self, number: u64, header: &[u8], bytes: &mut [u8]) -> Tag {
        #[allow(clippy::expect_used, reason = "fails for more than 2^36 bytes only")]
        self.aead.seal_in_place_separate_tag(self.nonce(number), Aad::from(header), bytes).expect("a packet is short")
    }

    fn open<'a>(&self, number: u64, header: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        self.aead.open_in_place(self.nonce(number), Aad::from(header), sealed).ok()
    }

    /// As in Noise: 32 zero bits and the number, big-endian with AES-GCM, little-endian with ChaCha20-Poly1305.
    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&match self.suite {
            Suite::Aes256Gcm => number.to_be_bytes(),
            Suite::ChaCha20Poly1305 => number.to_le_bytes(),
        });
        Nonce::assume_unique_for_key(nonce)
    }
}

/// One direction of a session: the sender.
#[derive(Debug)]
pub(crate) struct Sealer {
    key: Key,
    next: u64,
}

impl Sealer {
    pub(crate) fn new(suite: Suite, key: &[u8; KEY]) -> Self {
        Self { key: Key::new(suite, key), next: 0 }
    }

    /// The number of the next packet.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The AEAD.
    pub(crate) fn suite(&self) -> Suite {
        self.key.suite
    }

    /// Seals with a key of another handshake from the first number of the next key on.
    pub(crate) fn renew(&mut self, key: Key) {
        self.next = self.next.next_multiple_of(PACKETS_A_KEY);
        self.key = key;
    }

    /// Encrypts `bytes` as the packet of number [`Sealer::next`]; returns their tag.
    pub(crate) fn seal(&mut self, header: &[u8], bytes: &mut [u8]) -> Tag {
        let tag = self.key.seal(self.next, header, bytes);
        self.next += 1;
        if self.next.is_multiple_of(PACKETS_A_KEY) {
            self.key = self.key.next();
        }
        tag
    }
}

/// The other end of that direction.
#[derive(Debug)]
pub(crate) struct Opener {
    /// The number of the current key in the chain.
    epoch: u64,
    /// The key before, while its packets may still arrive; the current one; the one after.
    keys: [Option<Key>; 3],
    /// The key of another handshake, which may replace the one after.
    renewed: Option<Key>,
    window: ReplayWindow,
    /// Packets that were not authentic.
    pub(crate) forged: u64,
}

impl Opener {
    pub(crate) fn new(suite: Suite, key: &[u8; KEY]) -> Self {
        let current = Key::new(suite, key);
        let next = current.next();
        Self {
            epoch: 0,
            keys: [None, Some(current), Some(next)],
            renewed: None,
            window: ReplayWindow::default(),
            forged: 0,
        }
    }

    /// One more than the highest number that has arrived.
    pub(crate) fn next(&self) -> u64 {
        self.window.next()
    }

    /// A key of another handshake, which seals from the next key on.
    pub(crate) fn renew(&mut self, key: Key) {
        self.renewed = Some(key);
    }

    /// Whether the key of another handshake has not opened a packet yet.
    pub(crate) fn is_renewing(&self) -> bool {
        self.renewed.is_some()
    }

    /// Opens no more packets of the key before the current one.
    pub(crate) fn discard_previous(&mut self) {
        self.keys[0] = None;
    }

    /// Decrypts a packet that has not arrived before; `None` if it is not authentic, or not new.
    pub(crate) fn open<'a>(&mut self, number: u64, header: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        if !self.window.is_new(number) {
            return None;
        }
        let epoch = number / PACKETS_A_KEY;
        // A key that does not fit destroys the bytes.
        let opens = |key: &mut Key| epoch > self.epoch && key.open(number, header, &mut sealed.to_vec()).is_some();
        if let Some(key) = self.renewed.take_if(opens) {
            self.keys[2] = Some(key);
            self.epoch = epoch - 1;
        }
        let index = (epoch + 1).checked_sub(self.epoch)?;
        let key = self.keys.get(usize::try_from(index).ok()?)?.as_ref()?;
        let Some(opened) = key.open(number, header, sealed) else {
            self.forged += 1;
            return None;
        };
        self.window.insert(number);
        if epoch > self.epoch {
            self.epoch = epoch;
            self.keys.rotate_left(1);
            self.keys[2] = self.keys[1].as_ref().map(Key::next);
        } else if self.window.next() > self.epoch * PACKETS_A_KEY + WINDOW {
            self.keys[0] = None;
        }
        Some(opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUITES: [Suite; 2] = [Suite::Aes256Gcm, Suite::ChaCha20Poly1305];

    fn pair(suite: Suite) -> (Sealer, Opener) {
        (Sealer::new(suite, &[7; KEY]), Opener::new(suite, &[7; KEY]))
    }

    fn seal(sealer: &mut Sealer, header: &[u8]) -> (u64, Vec<u8>) {
        let (number, mut bytes) = (sealer.next(), b"a packet".to_vec());
        let tag = sealer.seal(header, &mut bytes);
        bytes.extend(tag.as_ref());
        (number, bytes)
    }

    #[test]
    fn a_packet_opens_once_with_its_header_and_number() {
        for suite in SUITES {
            let (mut sealer, mut opener) = pair(suite);
            let (number, sealed) = seal(&mut sealer, b"header");
            assert_eq!(opener.open(number, b"other", &mut sealed.clone()), None);
            assert_eq!(opener.open(number + 1, b"header", &mut sealed.clone()), None);
            for bit in 0..sealed.len() * 8 {
                let mut damaged = sealed.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(opener.open(number, b"header", &mut damaged), None, "bit {bit}");
            }
            assert_eq!(opener.open(number, b"header", &mut sealed.clone()).unwrap(), b"a packet");
            assert_eq!(opener.open(number, b"header", &mut sealed.clone()), None, "a replay");
        }
    }

    #[test]
    fn packets_open_across_a_renewal_of_keys() {
        for suite in SUITES {
            let (mut sealer, mut opener) = pair(suite);
            sealer.next = PACKETS_A_KEY - 2;
            let packets: Vec<_> = (0..4).map(|_| seal(&mut sealer, b"")).collect();
            for index in [0, 2, 3, 1] {
                let (number, sealed) = &packets[index];
                assert!(opener.open(*number, b"", &mut sealed.clone()).is_some(), "{suite:?}: packet {index}");
            }
            assert_eq!(opener.epoch, 1);
            sealer.next += WINDOW;
            let (number, sealed) = seal(&mut sealer, b"");
            assert!(opener.open(number, b"", &mut sealed.clone()).is_some());
            assert!(opener.keys[0].is_none(), "the old key is discarded");
        }
    }

    #[test]
    fn a_key_of_another_handshake_replaces_the_next_one() {
        for suite in SUITES {
            let (mut sealer, mut opener) = pair(suite);
            sealer.next = PACKETS_A_KEY - 3;
            let [early, late, held] = [(); 3].map(|()| seal(&mut sealer, b""));
            assert!(opener.open(early.0, b"", &mut early.1.clone()).is_some());
            opener.renew(Key::new(suite, &[9; KEY]));
            assert!(opener.open(late.0, b"", &mut late.1.clone()).is_some(), "a packet of the key before");
            sealer.renew(Key::new(suite, &[9; KEY]));
            let (number, sealed) = seal(&mut sealer, b"");
            assert_eq!(number, PACKETS_A_KEY);
            assert!(opener.open(number, b"", &mut sealed.clone()).is_some() && !opener.is_renewing());
            opener.discard_previous();
            assert!(opener.open(held.0, b"", &mut held.1.clone()).is_none());
            sealer.next = 2 * PACKETS_A_KEY - 1;
            for _ in 0..2 {
                let (number, sealed) = seal(&mut sealer, b"");
                assert!(opener.open(number, b"", &mut sealed.clone()).is_some(), "its chain goes on");
            }
        }
    }

    #[test]
    fn a_forged_number_of_a_later_key_changes_nothing() {
        let (mut sealer, mut opener) = pair(Suite::Aes256Gcm);
        let (_, sealed) = seal(&mut sealer, b"");
        for number in [PACKETS_A_KEY, 2 * PACKETS_A_KEY, u64::MAX - 1] {
            assert_eq!(opener.open(number, b"", &mut sealed.clone()), None);
        }
        assert_eq!((opener.epoch, opener.next()), (0, 0));
    }
}
