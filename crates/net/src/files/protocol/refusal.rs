//! Why a server refuses a request: a number on the wire, a sentence with advice here.

use thiserror::Error;

/// Why a server refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[repr(u8)]
pub enum Refusal {
    /// The request is invalid, or of another version of the protocol.
    #[error("it does not understand the request: run the same version on both ends")]
    BadRequest = 1,
    /// The name leads out of the directory, or is not a valid name.
    #[error("the name leads out of its directory: write a path below it, without links out of it")]
    BadName = 2,
    /// The file does not exist.
    #[error("it has no such file: check the name, which is a path below the directory that it serves")]
    NoSuchFile = 3,
    /// The file is not a regular file.
    #[error("that is a directory or a device: write a `/` after its name to get a directory, delete it to replace it")]
    NotAFile = 4,
    /// The server cannot read the file.
    #[error("it cannot read that file: check the file's permissions on the server")]
    Unreadable = 5,
    /// The file changed while it was sent.
    #[error("the file changed while it was sent: run the same command again")]
    Changed = 6,
    /// The server has its maximum number of clients.
    #[error("it has its maximum number of clients: try again later, or with --retry")]
    Busy = 7,
    /// The server has no controller of that name.
    #[error("it has no controller of that name: `rampmeter controllers` there lists them")]
    NoSuchController = 8,
    /// Clients may not choose this controller.
    #[error("it lends clients only controllers that are safe on the Internet: write another, such as cubic")]
    ControllerNotAllowed = 9,
    /// The name, or what is before a `/` in it, is not a directory's.
    #[error("there is a file where this name needs a directory: write its name without a `/` after it, or another")]
    NotADirectory = 10,
    /// The directory has too many files, or is too deep.
    #[error("the directory has more than a million files, or is more than 64 levels deep: name directories in it")]
    TooMany = 11,
    /// This client may not change files.
    #[error("it takes no changes from this key: `serve --writers` there lists keys that may upload")]
    ReadOnly = 12,
    /// There is such a file, and the server or the client does not allow to replace it.
    #[error("the file exists: allow it with --overwrite at both ends, or choose another name")]
    Exists = 13,
    /// The server does not allow to delete files.
    #[error("it does not allow that: `serve --overwrite` there allows to replace and to delete files")]
    NoOverwrite = 14,
    /// The file is larger than the server allows.
    #[error("the file is larger than it accepts: `serve --max-size` there sets the limit")]
    TooLarge = 15,
    /// The directory would have more bytes than the server allows.
    #[error("its quota is used up: delete files there, or ask its operator for a larger one (`serve --quota`)")]
    QuotaExceeded = 16,
    /// Another client is writing the file.
    #[error("another upload is writing that file: try again later")]
    InUse = 17,
    /// The server cannot write the file.
    #[error("it cannot write that file: check the directory's permissions on the server")]
    Unwritable = 18,
    /// The server's disk is full.
    #[error("its disk is full: make room there, then run the same command to resume")]
    DiskFull = 19,
    /// The file's hash is wrong, or bytes are missing.
    #[error("the file arrived damaged there and was deleted: run the same command again")]
    Damaged = 20,
    /// The server does not list its files.
    #[error("it does not list its files: write the name of each file, or ask its operator for `serve --list`")]
    NotListed = 21,
    /// A part of the name of an upload begins with a dot.
    #[error(
        "it takes parts that begin with a dot only with `serve --hidden`, and `.NAME.part` never: write another name"
    )]
    Hidden = 22,
}

impl Refusal {
    pub(super) const ALL: [Self; 22] = [
        Self::BadRequest,
        Self::BadName,
        Self::NoSuchFile,
        Self::NotAFile,
        Self::Unreadable,
        Self::Changed,
        Self::Busy,
        Self::NoSuchController,
        Self::ControllerNotAllowed,
        Self::NotADirectory,
        Self::TooMany,
        Self::ReadOnly,
        Self::Exists,
        Self::NoOverwrite,
        Self::TooLarge,
        Self::QuotaExceeded,
        Self::InUse,
        Self::Unwritable,
        Self::DiskFull,
        Self::Damaged,
        Self::NotListed,
        Self::Hidden,
    ];

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| *refusal as u8 == code)
    }

    /// Whether the same request may succeed a little later.
    pub fn is_temporary(self) -> bool {
        matches!(self, Self::Changed | Self::Busy | Self::InUse | Self::Damaged)
    }
}
