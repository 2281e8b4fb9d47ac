//! Everything that can be wrong with a call, as a value with advice. The numbers are those of `cm.h`.

use thiserror::Error;

/// Why a call was refused, or a flow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[repr(i32)]
pub enum Error {
    /// An argument makes no sense.
    #[error("an argument makes no sense: a null pointer, a negative size or a number that is not one")]
    Invalid = -1,
    /// No flow has or had this id.
    #[error("no flow has this id; ids come from cm_open")]
    Unknown = -2,
    /// The flow was closed by this process.
    #[error("this flow is closed; open another")]
    Closed = -3,
    /// The daemon has gone, and all flows with it; or it does not answer, or there is no connection.
    #[error(
        "the congestion manager has gone, or does not answer, or is not connected to; connect and open the flows anew"
    )]
    Gone = -4,
    /// No daemon listens.
    #[error("no congestion manager listens; start one with `rampmeter cm daemon`")]
    NoDaemon = -5,
    /// Events were asked for from within a callback.
    #[error(
        "cm_dispatch and cm_disconnect may not be called from a callback: return from it first, and the next event comes"
    )]
    Reentry = -6,
    /// The handle belongs to the parent process.
    #[error("this connection is the parent process's; connect anew after fork")]
    Forked = -7,
    /// There is no room.
    #[error("as much is waiting as may wait; try again after the next event")]
    Full = -8,
    /// The process has as many flows as it may.
    #[error("too many flows; close some")]
    TooManyFlows = -9,
    /// The datagram does not fit into a packet.
    #[error("the datagram is larger than cm_mtu allows, or than any can be (65507 bytes)")]
    TooLarge = -10,
    /// The daemon closed the flow: grant after grant was neither used nor answered.
    #[error(
        "the flow was closed because it never answered its grants; call cm_notify for each, with 0 if nothing was sent"
    )]
    Unanswered = -11,
    /// The daemon closed the flow: nothing was heard of it for long.
    #[error("the flow was closed because it had been silent for long; open it again when it has something to send")]
    Silent = -12,
    /// The daemon serves others.
    #[error("this congestion manager belongs to another user; start one of your own or set RAMPMETER_CM_SOCKET")]
    Denied = -13,
    /// The daemon speaks another version.
    #[error("the congestion manager is of another version; restart it after the update")]
    Version = -14,
    /// Nothing can be sent there.
    #[error("nothing can be sent to this address: one host's own address is wanted, and for cm_send a port")]
    Destination = -15,
    /// The system refused something.
    #[error("the system refused memory, a file or a socket")]
    System = -16,
}

impl Error {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Invalid,
        Self::Unknown,
        Self::Closed,
        Self::Gone,
        Self::NoDaemon,
        Self::Reentry,
        Self::Forked,
        Self::Full,
        Self::TooManyFlows,
        Self::TooLarge,
        Self::Unanswered,
        Self::Silent,
        Self::Denied,
        Self::Version,
        Self::Destination,
        Self::System,
    ];

    /// Its number in C.
    pub fn code(self) -> i32 {
        self as i32
    }

    /// The error with this number in C.
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|error| error.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_errors_and_back() {
        for (index, error) in Error::ALL.into_iter().enumerate() {
            assert_eq!(error.code(), -(index as i32) - 1);
            assert_eq!(Error::from_code(error.code()), Some(error));
        }
        assert_eq!(Error::from_code(0), None);
    }
}
