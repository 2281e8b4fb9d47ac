//! The answer to a request: a file, one of its representations or a refusal, with the header.

use std::fmt::Write;
use std::fs::{File, Metadata};
use std::sync::Arc;
use std::time::{Duration as Span, SystemTime};

use rampmeter_cm::PathState;
use rampmeter_net::{Directory, Unopened};
use rampmeter_units::{Bytes, Duration};
use rampmeter_workload::representations::choose;

use super::range::Range;
use super::representation::{LEVELS, name};
use super::request::Request;
use super::status::Status;

/// An answer that is not sent yet.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    /// The header, and the text of a refusal.
    pub(crate) head: Vec<u8>,
    pub(crate) file: Option<Arc<File>>,
    /// The first byte of the file to send, and the number of bytes.
    pub(crate) first: u64,
    pub(crate) length: u64,
    /// The file's name, if there is a file.
    pub(crate) name: Option<String>,
    /// The path state by which a representation was chosen.
    pub(crate) path: Option<PathState>,
    pub(crate) keeps_alive: bool,
}

/// The file for a request.
struct Found {
    name: String,
    file: File,
    metadata: Metadata,
    /// The path state by which it was chosen, if there were several.
    path: Option<PathState>,
}

impl Answer {
    /// The answer to `request` of a flow whose path has this state.
    pub(crate) fn to(request: &Request, directory: &Directory, within: Duration, path: PathState) -> Self {
        let found = match find(&request.object, directory, within, path) {
            Ok(found) => found,
            Err(Unopened::Unreadable) => return Self::refusal(Status::FORBIDDEN, Some(request)),
            Err(_) => return Self::refusal(Status::NOT_FOUND, Some(request)),
        };
        let whole = found.metadata.len();
        let (mut status, mut first, mut length, mut content_range) = (Status::FINE, 0, whole, String::new());
        if let Some(range) = requested_range(request, &found) {
            let Some(part) = range.of(whole) else { return Self::no_such_range(request, whole) };
            (status, (first, length)) = (Status::PARTIAL, part);
            content_range = format!("Content-Range: bytes {first}-{}/{whole}\r\n", first + length - 1);
        }
        let mut head = begin(status);
        let media_type = media_type(&found.name);
        let _ = write!(head, "Content-Type: {media_type}\r\nContent-Length: {length}\r\n{content_range}");
        if let Ok(modified) = found.metadata.modified() {
            let tag = entity_tag(whole, modified);
            let _ = write!(head, "Last-Modified: {}\r\nETag: {tag}\r\n", httpdate::fmt_http_date(modified));
        }
        head.push_str("Accept-Ranges: bytes\r\n");
        if found.path.is_some() {
            // The choice depends on the path, which is in no header of a request (RFC 9110, section 12.5.5).
            let _ =
                write!(head, "Content-Location: /{}\r\nVary: *\r\nCache-Control: no-cache\r\n", encoded(&found.name));
        }
        finish(&mut head, request.keeps_alive, request.is_old);
        let file = (!request.is_head).then(|| Arc::new(found.file));
        Self {
            status,
            head: head.into_bytes(),
            first,
            length: if file.is_some() { length } else { 0 },
            file,
            name: Some(found.name),
            path: found.path,
            keeps_alive: request.keeps_alive,
        }
    }

    /// The refusal of a range of which a file of `length` bytes has no byte.
    fn no_such_range(request: &Request, length: u64) -> Self {
        Self::refusal_with(Status::NO_SUCH_RANGE, Some(request), &format!("Content-Range: bytes */{length}\r\n"))
    }

    /// A refusal; without a valid request it also ends the connection.
    pub(crate) fn refusal(status: Status, request: Option<&Request>) -> Self {
        let allowed = if status == Status::NO_SUCH_METHOD { "Allow: GET, HEAD\r\n" } else { "" };
        Self::refusal_with(status, request, allowed)
    }

    /// A refusal with these headers.
    fn refusal_with(status: Status, request: Option<&Request>, headers: &str) -> Self {
        let Status(number, words) = status;
        let body = format!("{number} {words}\n");
        let keeps_alive = request.is_some_and(|request| request.keeps_alive);
        let mut head = begin(status);
        let _ = write!(head, "Content-Type: text/plain\r\nContent-Length: {}\r\n{headers}", body.len());
        finish(&mut head, keeps_alive, request.is_some_and(|request| request.is_old));
        if !request.is_some_and(|request| request.is_head) {
            head.push_str(&body);
        }
        let (file, name, path) = (None, None, None);
        Self { status, head: head.into_bytes(), file, first: 0, length: 0, name, path, keeps_alive }
    }
}

/// The range of the file that a request asks for. A later request may get another representation, so parts of them do
/// not fit together unless the request names the one that it means.
fn requested_range(request: &Request, found: &Found) -> Option<Range> {
    let (range, condition) = request.range.as_ref()?;
    let is_met = match condition {
        None => found.path.is_none(),
        Some(condition) => found.metadata.modified().is_ok_and(|modified| {
            // A file can change twice in the second of a date (RFC 9110, section 8.8.2.2).
            let is_old = modified.elapsed().is_ok_and(|age| age >= Span::from_secs(2));
            *condition == entity_tag(found.metadata.len(), modified)
                || is_old && found.path.is_none() && *condition == httpdate::fmt_http_date(modified)
        }),
    };
    // There is no range of no bytes.
    (is_met && found.metadata.len() > 0).then_some(*range)
}

/// The entity tag of a file of `length` bytes.
fn entity_tag(length: u64, modified: SystemTime) -> String {
    let nanos = modified.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("\"{length:x}-{nanos:x}\"")
}

/// One of the representations of `object`, if it has any; otherwise the file of that name.
fn find(object: &str, directory: &Directory, within: Duration, path: PathState) -> Result<Found, Unopened> {
    let open = |name: String| directory.file(&name).map(|(file, metadata)| Found { name, file, metadata, path: None });
    let mut found: Vec<Found> = LEVELS.iter().filter_map(|level| open(name(object, level)).ok()).collect();
    let sizes: Vec<Bytes> = found.iter().map(|found| Bytes::new(found.metadata.len())).collect();
    if sizes.is_empty() {
        return open(object.to_owned());
    }
    let index = choose(&sizes, path.rate, path.srtt, within).unwrap_or(0);
    Ok(Found { path: Some(path), ..found.swap_remove(index) })
}

fn begin(status: Status) -> String {
    let Status(number, words) = status;
    let date = httpdate::fmt_http_date(SystemTime::now());
    format!("HTTP/1.1 {number} {words}\r\nDate: {date}\r\nServer: rampmeter\r\n")
}

fn finish(head: &mut String, keeps_alive: bool, is_old: bool) {
    head.push_str(match (keeps_alive, is_old) {
        (true, false) => "\r\n",
        (true, true) => "Connection: keep-alive\r\n\r\n",
        (false, _) => "Connection: close\r\n\r\n",
    });
}

/// A percent-encoded name for a header.
fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            text.push(byte.into());
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn media_type(name: &str) -> &'static str {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension.to_ascii_lowercase().as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "txt" | "md" => "text/plain; charset=utf-8",
        "css" => "text/css",
        "js" => "text/javascript",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        "pdf" => "application/pdf",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_units::Rate;

    use super::super::request::{Parsed, parse};
    use super::*;

    fn answer(directory: &Directory, line: &str, kbps: u64) -> (Answer, String) {
        answer_with(directory, line, "", kbps)
    }

    fn answer_with(directory: &Directory, line: &str, headers: &str, kbps: u64) -> (Answer, String) {
        let text = format!("{line} HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
        let Parsed::Complete(request, _) = parse(text.as_bytes()) else { panic!("{text}") };
        let path = PathState { rate: Rate::from_bps(kbps * 1000), srtt: Duration::from_millis(100) };
        let answer = Answer::to(&request, directory, Duration::from_secs(2), path);
        let head = String::from_utf8(answer.head.clone()).unwrap();
        (answer, head)
    }

    #[test]
    fn the_path_decides_which_representation_is_sent() {
        let directory = tempfile::tempdir().unwrap();
        for (level, size) in [("low", 10_000), ("medium", 100_000), ("high", 1_000_000)] {
            std::fs::write(directory.path().join(format!("a photo.{level}.jpg")), vec![0; size]).unwrap();
        }
        let directory = Directory::open(directory.path(), false).unwrap();
        for (kbps, level, length) in [(50, "low", 10_000), (1000, "medium", 100_000), (9000, "high", 1_000_000)] {
            let (answer, head) = answer(&directory, "GET /a%20photo.jpg", kbps);
            assert_eq!((answer.status, answer.length), (Status::FINE, length));
            assert!(head.contains(&format!("\r\nContent-Location: /a%20photo.{level}.jpg\r\nVary: *\r\n")), "{head}");
            assert!(head.contains("image/jpeg") && head.ends_with("\r\n\r\n"), "{head}");
        }
        let (answer, head) = answer(&directory, "HEAD /a%20photo.low.jpg", 9000);
        assert!(answer.file.is_none() && answer.length == 0 && head.contains("Content-Length: 10000"), "{head}");
        assert!(!head.contains("Vary"), "requested by its own name: {head}");
    }

    #[test]
    fn a_range_is_sent_if_its_condition_is_met() {
        let directory = tempfile::tempdir().unwrap();
        for (name, length) in [("file", 1000), ("empty", 0), ("photo.low.jpg", 500)] {
            let file = File::create(directory.path().join(name)).unwrap();
            file.set_len(length).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Span::from_secs(784_111_777)).unwrap();
        }
        let directory = Directory::open(directory.path(), false).unwrap();
        let get = |target: &str, headers: &str| answer_with(&directory, &format!("GET {target}"), headers, 9000);
        let (partial, head) = get("/file", "Range: bytes=990-2000\r\n");
        assert_eq!((partial.status, partial.first, partial.length), (Status::PARTIAL, 990, 10));
        assert!(head.contains("\r\nContent-Length: 10\r\nContent-Range: bytes 990-999/1000\r\n"), "{head}");
        let (none, head) = get("/file", "Range: bytes=1000-\r\n");
        assert!(none.status == Status::NO_SUCH_RANGE && head.contains("Content-Range: bytes */1000\r\n"), "{head}");
        let whole = |(answer, _): (Answer, String)| answer.status == Status::FINE && answer.first == 0;
        assert!(whole(get("/empty", "Range: bytes=0-\r\n")) && whole(get("/empty", "Range: bytes=-5\r\n")));
        assert!(whole(get("/file", "Range: bytes=0-1,5-6\r\n")));

        let (_, head) = get("/photo.jpg", "");
        let tag = |head: &str| head.split("ETag: ").nth(1).unwrap().split("\r\n").next().unwrap().to_owned();
        let if_range = |condition: &str| format!("Range: bytes=7-8\r\nIf-Range: {condition}\r\n");
        assert!(whole(get("/photo.jpg", "Range: bytes=7-8\r\n")), "the next one may be another representation");
        assert_eq!(get("/photo.jpg", &if_range(&tag(&head))).0.status, Status::PARTIAL);
        assert_eq!(get("/file", &if_range("Sun, 06 Nov 1994 08:49:37 GMT")).0.status, Status::PARTIAL);
        assert!(
            whole(get("/file", &if_range("Sun, 06 Nov 1994 08:49:38 GMT")))
                && whole(get("/file", &if_range(&tag(&head))))
        );
        assert!(whole(get("/file", &if_range(&format!("W/{}", tag(&get("/file", "").1))))), "no weak tags");
    }

    #[test]
    fn files_outside_the_directory_are_not_sent() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("served")).unwrap();
        std::fs::write(directory.path().join("secret"), "s").unwrap();
        let directory = Directory::open(&directory.path().join("served"), false).unwrap();
        for target in ["/../secret", "/%2e%2e/secret", "/..%2fsecret", "//etc/passwd", "/none", "/"] {
            assert_eq!(answer(&directory, &format!("GET {target}"), 1).0.status, Status::NOT_FOUND, "{target}");
        }
    }
}
