//! HTTP `CONNECT` (RFC 9110 section 9.3.6): what a local program sends to the port that also understands SOCKS5, and the
//! answers. Without authentication: the port is for programs of this machine.

use super::protocol::Target;

/// The maximum length of a request: its line and its fields.
pub(crate) const MAX_REQUEST: usize = 8192;

/// The answer to a request after which bytes are carried.
pub(crate) const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

const BAD_REQUEST: &str = "400 Bad Request";
pub(crate) const FORBIDDEN: &str = "403 Forbidden";
pub(crate) const BAD_GATEWAY: &str = "502 Bad Gateway";

/// Whether a program that begins with this byte sends HTTP: the first letter of a method.
pub(crate) fn is_first(byte: u8) -> bool {
    byte.is_ascii_uppercase()
}

/// An answer with a `status` other than success, and its reason in words.
pub(crate) fn refusal(status: &str, reason: &str) -> Vec<u8> {
    let len = reason.len() + 1;
    let fields = format!("Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len}\r\nConnection: close");
    format!("HTTP/1.1 {status}\r\n{fields}\r\n\r\n{reason}\n").into_bytes()
}

/// Reads a request, and returns where the program wants to connect to and the request's length; `None` if it is
/// incomplete, and the answer if it cannot be served.
pub(crate) fn request(bytes: &[u8]) -> Result<Option<(Target, usize)>, Vec<u8>> {
    let bad = |reason: &str| Err(refusal(BAD_REQUEST, reason));
    let seen = &bytes[..bytes.len().min(MAX_REQUEST)];
    let Some(len) = seen.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4) else {
        return if bytes.len() < MAX_REQUEST { Ok(None) } else { bad("the request is longer than 8192 bytes") };
    };
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let words: Vec<&str> = std::str::from_utf8(line).unwrap_or_default().split(' ').collect();
    let ["CONNECT", authority, "HTTP/1.0" | "HTTP/1.1"] = words[..] else {
        return bad("only CONNECT is served: set this port as the proxy of https, or as one of SOCKS5");
    };
    match authority.parse() {
        Ok(to) => Ok(Some((to, len))),
        Err(form) => bad(form),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_host_and_a_port() {
        for (authority, host, port) in
            [("example.org:443", "example.org", 443), ("10.0.0.1:22", "10.0.0.1", 22), ("[::1]:80", "::1", 80)]
        {
            let text = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nX: y\r\n\r\n");
            let with_more = format!("{text}first bytes");
            let expected = Ok(Some((Target { host: host.into(), port }, text.len())));
            assert_eq!(request(with_more.as_bytes()), expected);
            for len in 0..text.len() {
                assert_eq!(request(&text.as_bytes()[..len]), Ok(None), "{len}");
            }
        }
    }

    #[test]
    fn what_cannot_be_served_gets_an_answer_with_the_reason() {
        let long = format!("CONNECT a:1 HTTP/1.1\r\nX: {}", "y".repeat(MAX_REQUEST));
        for (text, reason) in [
            ("GET http://a/ HTTP/1.1\r\n\r\n", "only CONNECT"),
            ("CONNECT a:1\r\n\r\n", "only CONNECT"),
            ("CONNECT a:1 HTTP/2\r\n\r\n", "only CONNECT"),
            ("CONNECT a HTTP/1.1\r\n\r\n", "HOST:PORT"),
            ("CONNECT a:0 HTTP/1.1\r\n\r\n", "HOST:PORT"),
            ("CONNECT :1 HTTP/1.1\r\n\r\n", "HOST:PORT"),
            ("CONNECT ::1:1 HTTP/1.1\r\n\r\n", "HOST:PORT"),
            ("CONNECT a\x1b:1 HTTP/1.1\r\n\r\n", "HOST:PORT"),
            (&long, "longer than 8192 bytes"),
        ] {
            let answer = String::from_utf8(request(text.as_bytes()).unwrap_err()).unwrap();
            assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n") && answer.contains(reason), "{text}: {answer}");
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        }
    }
}
