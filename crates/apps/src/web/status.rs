//! The HTTP statuses of this server.

/// A status: its number and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) u16, pub(crate) &'static str);

impl Status {
    pub(crate) const FINE: Self = Self(200, "OK");
    pub(crate) const PARTIAL: Self = Self(206, "Partial Content");
    pub(crate) const BAD_REQUEST: Self = Self(400, "Bad Request");
    pub(crate) const FORBIDDEN: Self = Self(403, "Forbidden");
    pub(crate) const NOT_FOUND: Self = Self(404, "Not Found");
    pub(crate) const NO_SUCH_METHOD: Self = Self(405, "Method Not Allowed");
    pub(crate) const BODY_UNWANTED: Self = Self(413, "Content Too Large");
    pub(crate) const NO_SUCH_RANGE: Self = Self(416, "Range Not Satisfiable");
    pub(crate) const TOO_LARGE: Self = Self(431, "Request Header Fields Too Large");
}
