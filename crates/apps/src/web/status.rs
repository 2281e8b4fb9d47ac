//! The HTTP statuses of this server.

/// A status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Fine,
    BadRequest,
    Forbidden,
    NotFound,
    NoSuchMethod,
    BodyUnwanted,
    TooLarge,
}

impl Status {
    /// The number and the name.
    pub(crate) fn number_and_name(self) -> (u16, &'static str) {
        match self {
            Self::Fine => (200, "OK"),
            Self::BadRequest => (400, "Bad Request"),
            Self::Forbidden => (403, "Forbidden"),
            Self::NotFound => (404, "Not Found"),
            Self::NoSuchMethod => (405, "Method Not Allowed"),
            Self::BodyUnwanted => (413, "Content Too Large"),
            Self::TooLarge => (431, "Request Header Fields Too Large"),
        }
    }
}
