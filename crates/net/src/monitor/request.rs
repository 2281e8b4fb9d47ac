//! Requests of readers of metrics: untrusted bytes, of which only the first line counts.

/// The maximum size of a request.
pub(super) const MAX_REQUEST: usize = 4096;

/// How a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// With the metrics.
    Metrics,
    /// With this status and this text.
    Refusal(&'static str, &'static str),
}

/// Parses the request at the start of `bytes`; `None` if more of it has to arrive. The answer does not depend on what
/// follows the request.
pub(super) fn parse(bytes: &[u8]) -> Option<Answer> {
    let request = &bytes[..bytes.len().min(MAX_REQUEST)];
    if !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let is_full = request.len() == MAX_REQUEST;
        return is_full.then_some(Answer::Refusal("431 Request Header Fields Too Large", "the request is too long\n"));
    }
    let line = request.split(|&byte| byte == b'\r').next().unwrap_or_default();
    Some(match line.split(|&byte| byte == b' ').collect::<Vec<_>>()[..] {
        [b"GET", b"/metrics", _] => Answer::Metrics,
        [b"GET", _, _] => Answer::Refusal("404 Not Found", "the metrics are at /metrics\n"),
        [_, _, _] => Answer::Refusal("405 Method Not Allowed", "write GET /metrics\n"),
        _ => Answer::Refusal("400 Bad Request", "write GET /metrics\n"),
    })
}

#[cfg(test)]
mod tests {
    use rampmeter_testing::check_fuzz_seed;

    use super::*;

    #[test]
    fn a_request_ends_within_the_maximum_size() {
        let mut request = b"GET /metrics HTTP/1.1\r\nA: ".to_vec();
        request.resize(MAX_REQUEST - 4, b'a');
        assert_eq!(parse(&request), None);
        assert_eq!(parse(&[&request, &b"\r\n\r\n"[..]].concat()), Some(Answer::Metrics));
        let refused = parse(&[&request, &b"a\r\n\r\n"[..]].concat());
        assert!(matches!(refused, Some(Answer::Refusal(status, _)) if status.starts_with("431 ")), "{refused:?}");
    }

    /// Seeds for the fuzz target `metrics`: a request with each answer.
    #[test]
    fn the_fuzz_corpus_has_a_request_with_each_answer() {
        for (name, request, status) in [
            ("metrics", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("other_path", "GET / HTTP/1.0\r\n\r\n", "404"),
            ("post", "POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("no_request", "hello\r\n\r\n", "400"),
            ("incomplete", "GET /metrics HTTP/1.1\r\nHost: x", ""),
        ] {
            check_fuzz_seed("metrics", name, request.as_bytes());
            let found = parse(request.as_bytes()).map_or("", |answer| match answer {
                Answer::Metrics => "200",
                Answer::Refusal(status, _) => &status[..3],
            });
            assert_eq!(found, status, "{request}");
        }
    }
}
