//! What a host proves without state: cookies for addresses (RFC 9000 section 8.1.2), tokens of resets (section 10.3.2).

use std::net::{IpAddr, SocketAddr};

use rampmeter_units::{Duration, Time};
use rand::RngCore;
use ring::hmac;

use crate::datagram::{TOKEN, Token};
use crate::key::KeyPair;
use crate::purpose::{Name, Service};

/// A cookie is valid for one to two of these.
const COOKIE_LIFETIME: Duration = Duration::from_secs(30);

/// In a `Hello` of a host that was given none.
pub(crate) const NO_COOKIE: Token = [0; TOKEN];

/// What a cookie shows. Each takes one hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CookieCheck {
    /// This host gave it to this address for this session, not long ago.
    Valid,
    /// There is none, it is too old, or it is wrong. The right one.
    Retry(Token),
    /// It names the key before the present one, and that key did not make it for this address and session. The right
    /// one would cost a second hash, so there is no answer. An honest host has such a cookie only if its address
    /// changed, or this host was restarted, after the cookie was made.
    Forged,
}

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
    /// The token of a reset depends on the host's key, its service, its port and its `names`, so that it is the same after
    /// a restart, and no other server of the key makes it.
    pub(crate) fn new<'a>(
        own: &KeyPair,
        service: Service,
        port: u16,
        names: impl IntoIterator<Item = &'a Name>,
        random: &mut dyn RngCore,
    ) -> Self {
        let mut scope = [&b"rampmeter reset 3"[..], &[service.0], &port.to_be_bytes()].concat();
        scope.extend(names.into_iter().flat_map(|name| name.0));
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, own.secret()), &scope);
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

    /// Reads the cookie of a `Hello` from `from`, for its session `id`.
    pub(crate) fn check(
        &mut self,
        now: Time,
        cookie: &Token,
        from: SocketAddr,
        id: u64,
        random: &mut dyn RngCore,
    ) -> CookieCheck {
        self.renew(now, random);
        self.check_with(now, cookie, |key| self.cookie_of(key, from, id))
    }

    fn renew(&mut self, now: Time, random: &mut dyn RngCore) {
        if self.renew_at <= now {
            self.renew_at = now + COOKIE_LIFETIME;
            self.current ^= 1;
            self.cookie_keys[usize::from(self.current)] = fresh_key(random);
            self.valid_until[usize::from(self.current)] = self.renew_at + COOKIE_LIFETIME;
        }
    }

    /// `cookie_of` gives the right cookie of a key. It is called once, whatever `cookie` is.
    fn check_with(&self, now: Time, cookie: &Token, cookie_of: impl FnOnce(u8) -> Token) -> CookieCheck {
        let key = cookie[0] & 1;
        let is_of_the_other = key != self.current && now < self.valid_until[usize::from(key)];
        if is_of_the_other && *cookie != NO_COOKIE {
            return if are_equal(cookie, &cookie_of(key)) { CookieCheck::Valid } else { CookieCheck::Forged };
        }
        let right = cookie_of(self.current);
        if are_equal(cookie, &right) { CookieCheck::Valid } else { CookieCheck::Retry(right) }
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
    use rampmeter_units::Random;

    use super::*;

    const FROM: &str = "10.0.0.1:5";
    const NANOSECOND: Duration = Duration::from_nanos(1);

    /// A host that makes cookies, and its randomness.
    struct Checker(Stateless, Random);

    impl Checker {
        fn new() -> Self {
            let mut random = Random::from_seed(3);
            Self(Stateless::new(&KeyPair::generate(&mut random), Service(1), 7267, [], &mut random), random)
        }

        fn check(&mut self, after: Duration, cookie: &Token, from: &str, id: u64) -> CookieCheck {
            self.0.check(Time::ZERO + after, cookie, from.parse().unwrap(), id, &mut self.1)
        }

        /// The cookie that `FROM` is given for its session 7.
        fn cookie(&mut self, after: Duration) -> Token {
            let CookieCheck::Retry(cookie) = self.check(after, &NO_COOKIE, FROM, 7) else { panic!("no cookie") };
            cookie
        }

        fn is_valid(&mut self, after: Duration, cookie: &Token) -> bool {
            self.check(after, cookie, FROM, 7) == CookieCheck::Valid
        }
    }

    #[test]
    fn a_cookie_is_valid_for_its_address_and_session_and_expires() {
        let mut host = Checker::new();
        let cookie = host.cookie(Duration::ZERO);
        for after in [Duration::ZERO, COOKIE_LIFETIME] {
            assert!(host.is_valid(after, &cookie));
            for (from, id) in [(FROM, 8), ("10.0.0.1:6", 7), ("10.0.0.2:5", 7)] {
                assert_ne!(host.check(after, &cookie, from, id), CookieCheck::Valid, "{from} {id}");
            }
        }
        let late = host.cookie(COOKIE_LIFETIME * 2 - NANOSECOND);
        assert!(!host.is_valid(COOKIE_LIFETIME * 2, &cookie), "two renewals");
        assert!(host.is_valid(COOKIE_LIFETIME * 3 - NANOSECOND, &late));
        assert!(!host.is_valid(COOKIE_LIFETIME * 3, &late), "old, with one renewal");
    }

    #[test]
    fn each_cookie_costs_one_hash() {
        let mut host = Checker::new();
        let before = host.cookie(Duration::ZERO);
        let now = host.cookie(COOKIE_LIFETIME);
        assert_ne!(before[0] & 1, now[0] & 1, "two keys");
        let with_last_bit =
            |cookie: Token, bit| std::array::from_fn(|index| cookie[index] ^ if index == 15 { bit } else { 0 });
        let retry = CookieCheck::Retry(now);
        for (after, cookie, expected) in [
            (COOKIE_LIFETIME, now, CookieCheck::Valid),
            (COOKIE_LIFETIME, before, CookieCheck::Valid),
            (COOKIE_LIFETIME, NO_COOKIE, retry),
            (COOKIE_LIFETIME, with_last_bit(now, 1), retry),
            (COOKIE_LIFETIME, with_last_bit(before, 1), CookieCheck::Forged),
            (COOKIE_LIFETIME * 2 - NANOSECOND, before, CookieCheck::Valid),
        ] {
            let mut hashes = 0;
            let checked = host.0.check_with(Time::ZERO + after, &cookie, |key| {
                hashes += 1;
                host.0.cookie_of(key, FROM.parse().unwrap(), 7)
            });
            assert_eq!((checked, hashes), (expected, 1), "{cookie:?}");
        }
    }

    #[test]
    fn a_restarted_host_has_the_same_reset_tokens() {
        let mut random = Random::from_seed(3);
        let own = KeyPair::generate(&mut random);
        let other = KeyPair::generate(&mut random);
        let mut token = |own: &KeyPair, service, port, id| {
            Stateless::new(own, Service(service), port, [], &mut random).reset_token(id)
        };
        let first = token(&own, 1, 7267, 7);
        assert!(are_equal(&first, &token(&own, 1, 7267, 7)));
        assert!(!are_equal(&first, &token(&own, 1, 7267, 8)));
        assert!(!are_equal(&first, &token(&own, 2, 7267, 7)), "another service");
        assert!(!are_equal(&first, &token(&own, 1, 7268, 7)), "another port");
        assert!(!are_equal(&first, &token(&other, 1, 7267, 7)));
    }
}
