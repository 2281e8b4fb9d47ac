//! The answer to a request: a file, one of its representations or a refusal, with the header.

use std::fmt::Write;
use std::fs::{File, Metadata};
use std::time::SystemTime;

use rampmeter_cm::{Error, PathState};
use rampmeter_net::files::{Directory, Refusal};
use rampmeter_units::{Bytes, Duration};
use rampmeter_workload::representations::choose;

use super::representation::{LEVELS, name};
use super::request::Request;
use super::status::Status;

/// An answer that is not sent yet.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    /// The header, and the text of a refusal.
    pub(crate) head: Vec<u8>,
    pub(crate) file: Option<File>,
    /// The number of bytes of the file to send.
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
    /// The answer to `request`; `query` is called for the flow's path state if there are several representations.
    pub(crate) fn to(
        request: &Request,
        directory: &Directory,
        within: Duration,
        query: impl FnOnce() -> Result<PathState, Error>,
    ) -> Result<Self, Error> {
        let found = match find(&request.object, directory, within, query)? {
            Ok(found) => found,
            Err(Refusal::Unreadable) => return Ok(Self::refusal(Status::FORBIDDEN, Some(request))),
            Err(_) => return Ok(Self::refusal(Status::NOT_FOUND, Some(request))),
        };
        let length = found.metadata.len();
        let mut head = begin(Status::FINE);
        let _ = write!(head, "Content-Type: {}\r\nContent-Length: {length}\r\n", media_type(&found.name));
        if let Ok(modified) = found.metadata.modified() {
            let _ = write!(head, "Last-Modified: {}\r\n", httpdate::fmt_http_date(modified));
        }
        if found.path.is_some() {
            // The choice depends on the path, which is in no header of a request (RFC 9110, section 12.5.5).
            let _ =
                write!(head, "Content-Location: /{}\r\nVary: *\r\nCache-Control: no-cache\r\n", encoded(&found.name));
        }
        finish(&mut head, request.keeps_alive, request.is_old);
        let file = (!request.is_head).then_some(found.file);
        Ok(Self {
            status: Status::FINE,
            head: head.into_bytes(),
            length: if file.is_some() { length } else { 0 },
            file,
            name: Some(found.name),
            path: found.path,
            keeps_alive: request.keeps_alive,
        })
    }

    /// A refusal; without a valid request it also ends the connection.
    pub(crate) fn refusal(status: Status, request: Option<&Request>) -> Self {
        let Status(number, words) = status;
        let body = format!("{number} {words}\n");
        let keeps_alive = request.is_some_and(|request| request.keeps_alive);
        let mut head = begin(status);
        let _ = write!(head, "Content-Type: text/plain\r\nContent-Length: {}\r\n", body.len());
        if status == Status::NO_SUCH_METHOD {
            head.push_str("Allow: GET, HEAD\r\n");
        }
        finish(&mut head, keeps_alive, request.is_some_and(|request| request.is_old));
        if !request.is_some_and(|request| request.is_head) {
            head.push_str(&body);
        }
        Self { status, head: head.into_bytes(), file: None, length: 0, name: None, path: None, keeps_alive }
    }
}

/// One of the representations of `object`, if it has any; otherwise the file of that name.
fn find(
    object: &str,
    directory: &Directory,
    within: Duration,
    query: impl FnOnce() -> Result<PathState, Error>,
) -> Result<Result<Found, Refusal>, Error> {
    let open = |name: String| directory.file(&name).map(|(file, metadata)| Found { name, file, metadata, path: None });
    let mut found: Vec<Found> = LEVELS.iter().filter_map(|level| open(name(object, level)).ok()).collect();
    let sizes: Vec<Bytes> = found.iter().map(|found| Bytes::new(found.metadata.len())).collect();
    if sizes.is_empty() {
        return Ok(open(object.to_owned()));
    }
    let path = query()?;
    let index = choose(&sizes, path.rate, path.srtt, within).unwrap_or(0);
    Ok(Ok(Found { path: Some(path), ..found.swap_remove(index) }))
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
        let Parsed::Complete(request, _) = parse(format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()) else {
            panic!("{line}")
        };
        let path = PathState { rate: Rate::from_bps(kbps * 1000), srtt: Duration::from_millis(100) };
        let answer = Answer::to(&request, directory, Duration::from_secs(2), || Ok(path)).unwrap();
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
