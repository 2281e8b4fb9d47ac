//! The Noise handshake, by `snow`.
//!
//! `snow` undoes a message that fails, except for the key that a Diffie-Hellman in it has set. The messages that begin
//! with such a key are `Finish`es, so a responder repeats its handshake before it reads another one ([`Answered`]).

use rand::RngCore;
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{BoxedCryptoResolver, CryptoResolver, DefaultResolver, FallbackResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, Error, HandshakeState};
use zeroize::Zeroizing;

use crate::datagram::{MAX_NOISE, Pattern};
use crate::key::{KEY, KeyPair, PublicKey};
use crate::purpose::Purpose;
use crate::seal::{Opener, Sealer, Suite};

/// An ephemeral secret key.
pub(crate) type Secret = Zeroizing<[u8; KEY]>;

/// A new ephemeral key.
pub(crate) fn draw(random: &mut dyn RngCore) -> Secret {
    let mut ephemeral = Secret::default();
    random.fill_bytes(&mut *ephemeral);
    ephemeral
}

/// One host's side of a handshake.
#[derive(Debug)]
pub(crate) struct Handshake {
    noise: HandshakeState,
    suite: Suite,
}

impl Handshake {
    /// A handshake with the host that has the key `responder`, if it is known.
    pub(crate) fn initiator(
        suite: Suite,
        prologue: &[u8],
        own: &KeyPair,
        responder: Option<PublicKey>,
        random: &mut dyn RngCore,
    ) -> Option<Self> {
        let pattern = if responder.is_some() { Pattern::Ik } else { Pattern::Xx };
        let mut builder =
            builder(suite, pattern, draw(random))?.prologue(prologue).ok()?.local_private_key(own.secret()).ok()?;
        if let Some(key) = &responder {
            builder = builder.remote_public_key(&key.0).ok()?;
        }
        Some(Self { noise: builder.build_initiator().ok()?, suite })
    }

    /// The other side of it.
    pub(crate) fn responder(
        suite: Suite,
        pattern: Pattern,
        prologue: &[u8],
        own: &KeyPair,
        ephemeral: Secret,
    ) -> Option<Self> {
        let builder =
            builder(suite, pattern, ephemeral)?.prologue(prologue).ok()?.local_private_key(own.secret()).ok()?;
        Some(Self { noise: builder.build_responder().ok()?, suite })
    }

    /// The next message.
    pub(crate) fn write(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let mut message = [0; MAX_NOISE];
        let len = self.noise.write_message(payload, &mut message).ok()?;
        Some(message[..len].to_vec())
    }

    /// Reads the other host's message; returns its payload. After an error the genuine message can still be read.
    pub(crate) fn read(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let mut payload = [0; MAX_NOISE];
        let len = self.noise.read_message(message, &mut payload).ok()?;
        Some(payload[..len].to_vec())
    }

    /// The other host's key, once a message has shown it.
    pub(crate) fn peer_key(&self) -> Option<PublicKey> {
        self.noise.get_remote_static()?.try_into().ok().map(PublicKey)
    }

    /// The keys of both directions. Only when the handshake is finished.
    pub(crate) fn split(&mut self) -> (Sealer, Opener) {
        let (own, peers) = self.keys();
        (Sealer::new(self.suite, &own), Opener::new(self.suite, &peers))
    }

    /// The keys of what this host sends, and of what it receives.
    pub(crate) fn keys(&mut self) -> (Secret, Secret) {
        let (by_initiator, by_responder) = self.noise.dangerously_get_raw_split();
        let (by_initiator, by_responder) = (Zeroizing::new(by_initiator), Zeroizing::new(by_responder));
        if self.noise.is_initiator() { (by_initiator, by_responder) } else { (by_responder, by_initiator) }
    }
}

/// A responder that has answered a `Hello` without a key, and waits for the `Finish`.
pub(crate) struct Answered {
    pub(crate) handshake: Handshake,
    pub(crate) suite: Suite,
    pub(crate) prologue: Vec<u8>,
    pub(crate) ephemeral: Secret,
    /// The message of the `Hello`, and the payload of the answer.
    pub(crate) hello: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

impl std::fmt::Debug for Answered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answered").finish_non_exhaustive()
    }
}

impl Answered {
    /// Reads a `Finish`; `None` if it is not genuine. The genuine one can still be read then.
    pub(crate) fn read(&mut self, own: &KeyPair, finish: &[u8]) -> Option<()> {
        if self.handshake.read(finish).is_some() {
            return Some(());
        }
        let mut again = Handshake::responder(self.suite, Pattern::Xx, &self.prologue, own, self.ephemeral.clone())?;
        again.read(&self.hello)?;
        again.write(&self.payload)?; // the same bytes as before
        self.handshake = again;
        None
    }
}

/// What both hosts must agree on besides the messages that open the session `id` of the initiator.
pub(crate) fn prologue(suite: Suite, pattern: Pattern, purpose: Purpose, id: u64) -> Vec<u8> {
    let head = [suite as u8, pattern as u8, purpose.service.0];
    [&b"rampmeter session 2"[..], &head, &purpose.name.0, &id.to_be_bytes()].concat()
}

/// The same of messages that renew the keys of a session, by the ids of the initiator and the responder.
pub(crate) fn renewal_prologue(initiator: u64, responder: u64) -> Vec<u8> {
    [&b"rampmeter renewal 1"[..], &initiator.to_be_bytes(), &responder.to_be_bytes()].concat()
}

fn builder<'a>(suite: Suite, pattern: Pattern, ephemeral: Secret) -> Option<Builder<'a>> {
    let pattern = match pattern {
        Pattern::Ik => "IK",
        Pattern::Xx => "XX",
    };
    let params: NoiseParams = format!("Noise_{pattern}_25519_{}_SHA256", suite.noise_name()).parse().ok()?;
    Some(Builder::with_resolver(params, Box::new(Resolver { ephemeral })))
}

/// ring's primitives where it has them, and randomness from the caller's generator: a handshake draws one key.
struct Resolver {
    ephemeral: Secret,
}

fn primitives() -> FallbackResolver {
    let (ring, other): (BoxedCryptoResolver, BoxedCryptoResolver) = (Box::new(RingResolver), Box::new(DefaultResolver));
    FallbackResolver::new(ring, other)
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(OneDraw(Some(self.ephemeral.clone()))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        primitives().resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        primitives().resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        primitives().resolve_cipher(choice)
    }
}

/// Fails if a key is drawn twice, which would use it twice.
struct OneDraw(Option<Secret>);

impl Random for OneDraw {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Error> {
        let drawn = self.0.take().filter(|drawn| drawn.len() == out.len()).ok_or(Error::Rng)?;
        out.copy_from_slice(&*drawn);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Random;

    use super::*;
    use crate::purpose::{Name, Service};

    fn pairs() -> (KeyPair, KeyPair, Random) {
        let mut random = Random::from_seed(5);
        (KeyPair::generate(&mut random), KeyPair::generate(&mut random), random)
    }

    #[test]
    fn both_patterns_end_with_the_same_keys() {
        let (client, server, mut random) = pairs();
        for suite in [Suite::Aes256Gcm, Suite::ChaCha20Poly1305] {
            for known in [Some(server.public()), None] {
                let pattern = if known.is_some() { Pattern::Ik } else { Pattern::Xx };
                let mut initiator = Handshake::initiator(suite, b"9", &client, known, &mut random).unwrap();
                let mut responder = Handshake::responder(suite, pattern, b"9", &server, draw(&mut random)).unwrap();
                let hello = initiator.write(b"").unwrap();
                responder.read(&hello).unwrap();
                let answer = responder.write(b"token").unwrap();
                assert_eq!(initiator.read(&answer[..answer.len() - 1]), None);
                let mut damaged = answer.clone();
                damaged[0] ^= 1;
                assert_eq!(initiator.read(&damaged), None, "a forged answer");
                assert_eq!(initiator.read(&answer).unwrap(), b"token", "after a forged answer");
                if known.is_none() {
                    let finish = initiator.write(b"").unwrap();
                    responder.read(&finish).unwrap();
                }
                assert!(initiator.noise.is_handshake_finished() && responder.noise.is_handshake_finished());
                assert_eq!(initiator.peer_key(), Some(server.public()));
                assert_eq!(responder.peer_key(), Some(client.public()));
                let ((mut sealer, _), (_, mut opener)) = (initiator.split(), responder.split());
                let mut bytes = b"data".to_vec();
                let tag = sealer.seal(b"h", &mut bytes);
                bytes.extend(tag.as_ref());
                assert_eq!(opener.open(0, b"h", &mut bytes).unwrap(), b"data");
            }
        }
    }

    #[test]
    fn a_stolen_key_reads_the_first_message_and_no_packets() {
        let (client, server, mut random) = pairs();
        let known = Some(server.public());
        let mut initiator = Handshake::initiator(Suite::Aes256Gcm, b"9", &client, known, &mut random).unwrap();
        let mut respond = |hello: &[u8]| {
            let ephemeral = draw(&mut random);
            let mut responder = Handshake::responder(Suite::Aes256Gcm, Pattern::Ik, b"9", &server, ephemeral).unwrap();
            (responder.read(hello).unwrap(), responder.write(b"token").unwrap(), responder)
        };
        let hello = initiator.write(b"a Syn").unwrap();
        let (_, answer, mut genuine) = respond(&hello);
        initiator.read(&answer).unwrap();
        let mut sealed = b"data".to_vec();
        let tag = initiator.split().0.seal(b"h", &mut sealed);
        sealed.extend(tag.as_ref());
        // Somebody has recorded all of it, and steals the key later.
        let (early, _, mut thief) = respond(&hello);
        assert_eq!((early, thief.peer_key()), (b"a Syn".to_vec(), Some(client.public())));
        assert_eq!(thief.split().1.open(0, b"h", &mut sealed.clone()), None);
        assert_eq!(genuine.split().1.open(0, b"h", &mut sealed).unwrap(), b"data");
    }

    #[test]
    fn a_hello_for_another_key_or_purpose_is_not_read() {
        let (client, server, mut random) = pairs();
        let purpose = |service, name| Purpose { service: Service(service), name: Name::new(name) };
        let prologue = |purpose, id| prologue(Suite::Aes256Gcm, Pattern::Ik, purpose, id);
        let right = prologue(purpose(1, "host:7267"), 9);
        let known = Some(client.public());
        let mut initiator = Handshake::initiator(Suite::Aes256Gcm, &right, &client, known, &mut random).unwrap();
        let hello = initiator.write(b"").unwrap();
        let mut read = |own: &KeyPair, prologue: &[u8]| {
            let ephemeral = draw(&mut random);
            let mut responder = Handshake::responder(Suite::Aes256Gcm, Pattern::Ik, prologue, own, ephemeral).unwrap();
            responder.read(&hello).is_some()
        };
        assert!(!read(&server, &right), "another key");
        assert!(!read(&client, &prologue(purpose(1, "host:7267"), 8)), "another session");
        assert!(!read(&client, &prologue(purpose(2, "host:7267"), 9)), "another service");
        assert!(!read(&client, &prologue(purpose(1, "host:7268"), 9)), "another server");
        assert!(read(&client, &prologue(purpose(1, "HOST:7267"), 9)));
    }
}
