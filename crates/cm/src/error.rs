//! The errors of calls, each with advice. The numbers are those of `cm.h`.

use thiserror::Error;

/// The reason why a call was refused or a flow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[repr(i32)]
pub enum Error {
    /// An argument is invalid.
    #[error("an argument is invalid: a null pointer, a negative size, or a number out of range")]
    Invalid = -1,
    /// No flow has or had this id.
    #[error("no flow has this id; ids come from cm_open")]
    Unknown = -2,
    /// The flow was closed by this process.
    #[error("this flow is closed; open another")]
    Closed = -3,
    /// The daemon has ended, and all flows with it; or it does not answer, or there is no connection.
    #[error(
        "no connection to the congestion manager: it has ended or does not answer; connect and open the flows again"
    )]
    Disconnected = -4,
    /// No daemon listens.
    #[error(
        "no congestion manager listens on this socket; start `rampmeter cm daemon` with the same --socket or RAMPMETER_CM_SOCKET"
    )]
    NoDaemon = -5,
    /// Events were requested from within a callback.
    #[error("cm_dispatch and cm_disconnect cannot be called from a callback: return from it first")]
    Reentry = -6,
    /// The handle belongs to the parent process.
    #[error("this connection belongs to the parent process; connect again after fork")]
    Forked = -7,
    /// A queue is full.
    #[error("the queue is full; try again after the next event")]
    Full = -8,
    /// The process has the maximum number of flows.
    #[error("too many flows; close some")]
    TooManyFlows = -9,
    /// The datagram does not fit into a packet.
    #[error("the datagram is larger than cm_mtu, or than the maximum of UDP (65507 bytes)")]
    TooLarge = -10,
    /// The daemon closed the flow: it did not answer many grants in a row.
    #[error(
        "the flow was closed because it did not answer its grants; call cm_notify for each, with 0 if nothing was sent"
    )]
    Unanswered = -11,
    /// The daemon closed the flow: it made no call for a long time.
    #[error("the flow was closed because it made no call for a long time; open it again when it has data to send")]
    Silent = -12,
    /// The daemon belongs to another user.
    #[error("this congestion manager belongs to another user; start one of your own or set RAMPMETER_CM_SOCKET")]
    Denied = -13,
    /// The daemon has another version.
    #[error("the congestion manager has another version; restart it after the update")]
    Version = -14,
    /// No packet can go to this address.
    #[error("no packet can go to this address: use the address of a single host, and for cm_send and cm_header a port")]
    Destination = -15,
    /// The system refused memory, a file or a socket.
    #[error("the system refused memory, a file or a socket")]
    System = -16,
    /// The flow cannot change its macroflow yet.
    #[error(
        "the flow has bytes in flight in its macroflow and in the one before; report those sent before the last change \
         of its macroflow, then try again"
    )]
    StillInFlight = -17,
    /// The macroflow of choice has another destination.
    #[error("the two flows have different destinations; all flows of a macroflow have the same")]
    OtherDestination = -18,
}

impl Error {
    /// All errors.
    pub const ALL: [Self; 18] = [
        Self::Invalid,
        Self::Unknown,
        Self::Closed,
        Self::Disconnected,
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
        Self::StillInFlight,
        Self::OtherDestination,
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
    fn errors_and_numbers_convert_both_ways() {
        for (index, error) in Error::ALL.into_iter().enumerate() {
            assert_eq!(error.code(), -(index as i32) - 1);
            assert_eq!(Error::from_code(error.code()), Some(error));
        }
        assert_eq!(Error::from_code(0), None);
    }
}
