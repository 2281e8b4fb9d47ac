//! A request, out of bytes that a stranger sent. `httparse` reads them; what is beyond its limits or not for this server
//! is refused with a status.

use super::status::Status;

/// The most that a request's head may have.
pub(crate) const MAX_HEAD: usize = 8 * 1024;

/// The most headers.
const MAX_HEADERS: usize = 64;

/// A request that this server understands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// Only the head of the answer is wanted.
    pub(crate) is_head: bool,
    /// What is asked for, as it was written.
    pub(crate) target: String,
    /// The file that this names, below the directory.
    pub(crate) object: String,
    /// The connection goes on afterwards.
    pub(crate) keeps_alive: bool,
    /// And says so: HTTP/1.0 wants to be told.
    pub(crate) is_old: bool,
}

/// What there is in a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// Not all of a head.
    Part,
    /// A request, and how many bytes it took.
    Whole(Request, usize),
    /// What is refused, with what was asked for if that is known. The connection ends.
    Refused(Status, String),
}

/// Reads the first request in `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let length = match head.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD => length,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return Parsed::Part,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Parsed::Refused(Status::TooLarge, String::new()),
        Err(_) => return Parsed::Refused(Status::BadRequest, String::new()),
    };
    let target = head.path.unwrap_or_default().to_owned();
    match read(&head, &target) {
        Ok(request) => Parsed::Whole(request, length),
        Err(status) => Parsed::Refused(status, target),
    }
}

fn read(head: &httparse::Request<'_, '_>, target: &str) -> Result<Request, Status> {
    let values = |name: &str| {
        let named = head.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| header.value.trim_ascii()).collect::<Vec<_>>()
    };
    let is_head = match head.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Status::NoSuchMethod),
    };
    let is_old = head.version == Some(0);
    if !is_old && values("host").len() != 1 {
        return Err(Status::BadRequest); // RFC 9112, section 3.2
    }
    // Nobody sends a body with these, and what is not read would be taken for the next request.
    if !values("transfer-encoding").is_empty() || values("content-length").iter().any(|length| *length != b"0") {
        return Err(Status::BodyUnwanted);
    }
    let connection = values("connection").join(&b","[..]);
    let says = |word: &[u8]| connection.split(|b| *b == b',').any(|said| said.trim_ascii().eq_ignore_ascii_case(word));
    let keeps_alive = if is_old { says(b"keep-alive") } else { !says(b"close") };
    let object = object(target).ok_or(Status::BadRequest)?;
    Ok(Request { is_head, target: target.to_owned(), object, keeps_alive, is_old })
}

/// The file that a target names: `/a%20b/?x` is `a b/index.html`.
fn object(target: &str) -> Option<String> {
    let path = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => target,
    };
    let path = path.split(['?', '#']).next()?.strip_prefix('/')?;
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
            bytes.push((digit()? * 16 + digit()?) as u8);
        } else {
            bytes.push(byte);
        }
    }
    let mut name = String::from_utf8(bytes).ok()?;
    if name.is_empty() || name.ends_with('/') {
        name.push_str("index.html");
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> Request {
        match parse(text.as_bytes()) {
            Parsed::Whole(request, length) if length == text.len() => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_say_what_they_want() {
        let request = whole("GET /a%20b/photo.jpg?x=1 HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!((request.object.as_str(), request.keeps_alive, request.is_head), ("a b/photo.jpg", true, false));
        assert_eq!(whole("GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n").object, "index.html");
        assert!(!whole("HEAD / HTTP/1.1\r\nHost: x\r\nConnection: Foo, Close\r\n\r\n").keeps_alive);
        assert!(!whole("GET / HTTP/1.0\r\n\r\n").keeps_alive);
        assert!(whole("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keeps_alive);
    }

    #[test]
    fn what_is_not_for_us_is_refused() {
        let status = |text: &str| match parse(text.as_bytes()) {
            Parsed::Refused(status, _) => Some(status),
            _ => None,
        };
        assert_eq!(status("POST / HTTP/1.1\r\nHost: x\r\n\r\n"), Some(Status::NoSuchMethod));
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), Some(Status::BadRequest));
        assert_eq!(status("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"), Some(Status::BodyUnwanted));
        assert_eq!(status("GET /%zz HTTP/1.0\r\n\r\n"), Some(Status::BadRequest));
        assert_eq!(status("GET /%ff HTTP/1.0\r\n\r\n"), Some(Status::BadRequest));
        assert_eq!(status("\x16\x03\x01\x02\0"), Some(Status::BadRequest));
        assert_eq!(status(&format!("GET /{} HTTP/1.0\r\n", "x".repeat(MAX_HEAD))), Some(Status::TooLarge));
        assert_eq!(status(&format!("GET / HTTP/1.0\r\n{}\r\n", "a: b\r\n".repeat(99))), Some(Status::TooLarge));
        assert_eq!(parse(b"GET / HT"), Parsed::Part);
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_stranger_break_it(bytes in prop::collection::vec(any::<u8>(), 0..300), target in ".{0,40}") {
            parse(&bytes);
            parse(format!("GET /{target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        }
    }
}
