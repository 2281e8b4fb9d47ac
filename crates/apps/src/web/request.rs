//! Parses requests from untrusted bytes with `httparse`. Requests beyond its limits, or that this server does not
//! support, are refused with a status.

use super::priority::urgency;
use super::range::Range;
use super::status::Status;

/// The maximum size of a request's header.
pub(crate) const MAX_HEAD: usize = 8 * 1024;

const MAX_HEADERS: usize = 64;

/// A valid request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// Only the header of the answer is requested.
    pub(crate) is_head: bool,
    /// The target as it was written.
    pub(crate) target: String,
    /// The file of the target, below the directory.
    pub(crate) object: String,
    /// The connection stays open after the answer.
    pub(crate) keeps_alive: bool,
    /// The request is HTTP/1.0: the answer has to say that the connection stays open.
    pub(crate) is_old: bool,
    /// The range of the file that is requested, and the condition under which the rest is not (`If-Range`).
    pub(crate) range: Option<(Range, Option<String>)>,
    /// The urgency that the client hints at, 0 to 7 (`Priority`).
    pub(crate) urgency: u8,
}

/// The result of parsing a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// An incomplete header.
    Incomplete,
    /// A request, and its size.
    Complete(Request, usize),
    /// A refused request, with its target if known. The connection ends.
    Refused(Status, String),
}

/// Parses the first request in `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let length = match head.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD => length,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return Parsed::Incomplete,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Parsed::Refused(Status::TOO_LARGE, String::new()),
        Err(_) => return Parsed::Refused(Status::BAD_REQUEST, String::new()),
    };
    let target = head.path.unwrap_or_default().to_owned();
    match read(&head, &target) {
        Ok(request) => Parsed::Complete(request, length),
        Err(status) => Parsed::Refused(status, target),
    }
}

fn read(head: &httparse::Request<'_, '_>, target: &str) -> Result<Request, Status> {
    let values = |name: &str| {
        let matching = head.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        matching.map(|header| header.value.trim_ascii()).collect::<Vec<_>>()
    };
    let is_head = match head.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Status::NO_SUCH_METHOD),
    };
    let is_old = head.version == Some(0);
    if !is_old && values("host").len() != 1 {
        return Err(Status::BAD_REQUEST); // RFC 9112, section 3.2
    }
    // These methods have no body, and unread bytes would be parsed as the next request.
    if !values("transfer-encoding").is_empty() || values("content-length").iter().any(|length| *length != b"0") {
        return Err(Status::BODY_UNWANTED);
    }
    let connection = values("connection").join(&b","[..]);
    let has_option =
        |word: &[u8]| connection.split(|b| *b == b',').any(|option| option.trim_ascii().eq_ignore_ascii_case(word));
    let keeps_alive = if is_old { has_option(b"keep-alive") } else { !has_option(b"close") };
    let object = object(target).ok_or(Status::BAD_REQUEST)?;
    // Ranges are defined for GET only (RFC 9110, section 14.2).
    let range = match (&values("range")[..], &values("if-range")[..]) {
        ([range], []) if !is_head => Range::parse(range).map(|range| (range, None)),
        ([range], [condition]) if !is_head => {
            let condition = String::from_utf8_lossy(condition).into_owned();
            Range::parse(range).map(|range| (range, Some(condition)))
        }
        _ => None,
    };
    let urgency = urgency(&values("priority"));
    Ok(Request { is_head, target: target.to_owned(), object, keeps_alive, is_old, range, urgency })
}

/// The file of a target: `/a%20b/?x` is `a b/index.html`.
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

    fn complete(text: &str) -> Request {
        match parse(text.as_bytes()) {
            Parsed::Complete(request, length) if length == text.len() => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn targets_and_connection_headers_are_parsed() {
        let request = complete("GET /a%20b/photo.jpg?x=1 HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!((request.object.as_str(), request.keeps_alive, request.is_head), ("a b/photo.jpg", true, false));
        assert_eq!(complete("GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n").object, "index.html");
        assert!(!complete("HEAD / HTTP/1.1\r\nHost: x\r\nConnection: Foo, Close\r\n\r\n").keeps_alive);
        assert!(!complete("GET / HTTP/1.0\r\n\r\n").keeps_alive);
        assert!(complete("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keeps_alive);
    }

    #[test]
    fn one_range_with_its_condition_is_parsed() {
        let range =
            |method: &str, headers: &str| complete(&format!("{method} / HTTP/1.1\r\nHost: x\r\n{headers}\r\n")).range;
        assert_eq!(range("GET", "Range: bytes=2-3\r\n"), Some((Range::From(2, Some(3)), None)));
        let conditional = range("GET", "range: bytes=-1\r\nIf-Range: \"a\"\r\n");
        assert_eq!(conditional, Some((Range::Last(1), Some("\"a\"".into()))));
        assert_eq!(range("HEAD", "Range: bytes=2-3\r\n"), None);
        assert_eq!(range("GET", "Range: bytes=2-3\r\nRange: bytes=4-5\r\n"), None);
    }

    #[test]
    fn unsupported_requests_are_refused() {
        let status = |text: &str| match parse(text.as_bytes()) {
            Parsed::Refused(status, _) => Some(status),
            _ => None,
        };
        assert_eq!(status("POST / HTTP/1.1\r\nHost: x\r\n\r\n"), Some(Status::NO_SUCH_METHOD));
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), Some(Status::BAD_REQUEST));
        assert_eq!(status("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"), Some(Status::BODY_UNWANTED));
        assert_eq!(status("GET /%zz HTTP/1.0\r\n\r\n"), Some(Status::BAD_REQUEST));
        assert_eq!(status("GET /%ff HTTP/1.0\r\n\r\n"), Some(Status::BAD_REQUEST));
        assert_eq!(status("\x16\x03\x01\x02\0"), Some(Status::BAD_REQUEST));
        assert_eq!(status(&format!("GET /{} HTTP/1.0\r\n", "x".repeat(MAX_HEAD))), Some(Status::TOO_LARGE));
        assert_eq!(status(&format!("GET / HTTP/1.0\r\n{}\r\n", "a: b\r\n".repeat(99))), Some(Status::TOO_LARGE));
        assert_eq!(parse(b"GET / HT"), Parsed::Incomplete);
    }

    proptest! {
        #[test]
        fn parsing_any_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), target in ".{0,40}") {
            parse(&bytes);
            parse(format!("GET /{target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        }
    }
}
