//! What a host proves without state: cookies for addresses (RFC 9000 section 8.1.2), tokens of resets (section 10.3.2).

use std::net::{IpAddr, SocketAddr};

use rampmeter_units::{Duration, Time};
use rand::RngCore;
use ring::hmac;

use crate::datagram::{TOKEN, Token};
use crate::key::KeyPair;

/// A cookie is valid for one to two of these.
const COOKIE_LIFETIME: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Stateless {
    reset_key: hmac::Key,
    /// The keys of cookies; the lowest bit of a cookie says which of them made it.
    cookie_keys: [hmac::Key; 2],
    /// The end of each key's cookies.
    valid_until: [Time; 2],
    current: u8,
    renew_at: Time,
}

impl Stateless {
    /// The token of a reset depends on the host's key only, so that it is the same after a restart.
    pub(crate) fn new(own: &KeyPair, random: &mut dyn RngCore) -> Self {
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, own.secret()), b"rampmeter reset");
        Self {
            reset_key: hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()),
            cookie_keys: [fresh_key(random), fresh_key(random)],
            valid_until: [Time::ZERO; 2],
            current: 0,
            renew_at: Time::ZERO,
        }
    }

    /// What only this host can say about session `id`.
    pub(crate) fn reset_token(&self, id: u64) -> Token {
        truncated(&self.reset_key, &id.to_be_bytes())
    }

    /// A cookie for `from` and its session `id`.
    pub(crate) fn cookie(&mut self, now: Time, from: SocketAddr, id: u64, random: &mut dyn RngCore) -> Token {
        if self.renew_at <= now {
            self.renew_at = now + COOKIE_LIFETIME;
            self.current ^= 1;
            self.cookie_keys[usize::from(self.current)] = fresh_key(random);
            self.valid_until[usize::from(self.current)] = self.renew_at + COOKIE_LIFETIME;
        }
        self.cookie_of(self.current, from, id)
    }

    /// Whether this host gave `cookie` to `from` for its session `id`, not long ago: one hash.
    pub(crate) fn is_valid(&self, now: Time, cookie: &Token, from: SocketAddr, id: u64) -> bool {
        let key = cookie[0] & 1;
        now < self.valid_until[usize::from(key)] && are_equal(cookie, &self.cookie_of(key, from, id))
    }

    fn cookie_of(&self, key: u8, from: SocketAddr, id: u64) -> Token {
        let ip = match from.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let message = [&ip.octets()[..], &from.port().to_be_bytes(), &id.to_be_bytes()].concat();
        let mut cookie = truncated(&self.cookie_keys[usize::from(key)], &message);
        cookie[0] = cookie[0] & !1 | key;
        cookie
    }
}

fn fresh_key(random: &mut dyn RngCore) -> hmac::Key {
    let mut bytes = [0; 32];
    random.fill_bytes(&mut bytes);
    hmac::Key::new(hmac::HMAC_SHA256, &bytes)
}

fn truncated(key: &hmac::Key, message: &[u8]) -> Token {
    let tag = hmac::sign(key, message);
    std::array::from_fn(|index| tag.as_ref()[index])
}

/// Compares in a time that does not depend on where the tokens differ.
pub(crate) fn are_equal(a: &Token, b: &Token) -> bool {
    (0..TOKEN).fold(0, |difference, index| difference | (a[index] ^ b[index])) == 0
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Stream;

    use super::*;

    #[test]
    fn a_cookie_is_valid_for_its_address_and_session_and_expires() {
        let mut random = Stream::from_seed(3);
        let mut stateless = Stateless::new(&KeyPair::generate(&mut random), &mut random);
        let (from, now) = ("10.0.0.1:5".parse().unwrap(), Time::ZERO);
        let cookie = stateless.cookie(now, from, 7, &mut random);
        assert!(stateless.is_valid(now, &cookie, from, 7));
        assert!(!stateless.is_valid(now, &cookie, from, 8));
        assert!(!stateless.is_valid(now, &cookie, "10.0.0.1:6".parse().unwrap(), 7));
        assert!(!stateless.is_valid(now, &cookie, "10.0.0.2:5".parse().unwrap(), 7));
        assert!(!stateless.is_valid(now + COOKIE_LIFETIME * 2, &cookie, from, 7), "old, without a renewal");
        stateless.cookie(now + COOKIE_LIFETIME, from, 7, &mut random);
        assert!(stateless.is_valid(now + COOKIE_LIFETIME, &cookie, from, 7), "one renewal");
        let late = stateless.cookie(now + COOKIE_LIFETIME * 2 - Duration::from_nanos(1), from, 7, &mut random);
        stateless.cookie(now + COOKIE_LIFETIME * 2, from, 7, &mut random);
        assert!(!stateless.is_valid(now, &cookie, from, 7), "two renewals");
        assert!(stateless.is_valid(now + COOKIE_LIFETIME * 3 - Duration::from_nanos(2), &late, from, 7));
    }

    #[test]
    fn a_restarted_host_has_the_same_reset_tokens() {
        let mut random = Stream::from_seed(3);
        let own = KeyPair::generate(&mut random);
        let token = Stateless::new(&own, &mut random).reset_token(7);
        let again = Stateless::new(&own, &mut random);
        assert!(are_equal(&token, &again.reset_token(7)));
        assert!(!are_equal(&token, &again.reset_token(8)));
        let other = Stateless::new(&KeyPair::generate(&mut random), &mut random);
        assert!(!are_equal(&token, &other.reset_token(7)));
    }
}
