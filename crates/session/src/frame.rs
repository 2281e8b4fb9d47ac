//! Messages between the sessions of two hosts, at the start of the sealed bytes. Packets of the transport follow.
//!
//! ```text
//! Padding     0x00
//! Challenge   0x01, random bytes (8): is this address yours?
//! Response    0x02, the same bytes
//! Goodbye     0x03, reason (1): the session has ended
//! Renewal     0x04, Noise message 1 (96): of a handshake for other keys
//! Renewed     0x05, Noise message 2 (48)
//! ```

/// Random bytes that prove an address.
pub(crate) type Challenge = [u8; 8];

/// Why the other host ended the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Goodbye {
    /// This host's key is not on its list.
    NotAuthorized = 1,
    /// It stops.
    Stopping = 2,
    /// It has sent and received all that it wanted.
    Finished = 3,
    /// It has no place for another session.
    Busy = 4,
}

/// The messages of Noise's IK pattern without payloads.
pub(crate) type Renewal = [u8; 96];
pub(crate) type Renewed = [u8; 48];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    Padding,
    Challenge(Challenge),
    Response(Challenge),
    Goodbye(Goodbye),
    Renewal(Renewal),
    Renewed(Renewed),
}

impl Frame {
    /// Takes the frame at the start of `bytes`; `None` where the transport's packets begin.
    pub(crate) fn take(bytes: &mut &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let (frame, rest) = match kind {
            0 => (Self::Padding, rest),
            1 | 2 => {
                let (data, rest) = rest.split_first_chunk()?;
                (if kind == 1 { Self::Challenge(*data) } else { Self::Response(*data) }, rest)
            }
            3 => {
                let (&reason, rest) = rest.split_first()?;
                let known = [Goodbye::NotAuthorized, Goodbye::Stopping, Goodbye::Finished, Goodbye::Busy];
                (Self::Goodbye(known.into_iter().find(|known| *known as u8 == reason)?), rest)
            }
            4 => {
                let (message, rest) = rest.split_first_chunk()?;
                (Self::Renewal(*message), rest)
            }
            5 => {
                let (message, rest) = rest.split_first_chunk()?;
                (Self::Renewed(*message), rest)
            }
            _ => return None,
        };
        *bytes = rest;
        Some(frame)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Padding => out.push(0),
            Self::Challenge(data) => out.extend([&[1], &data[..]].concat()),
            Self::Response(data) => out.extend([&[2], &data[..]].concat()),
            Self::Goodbye(reason) => out.extend([3, *reason as u8]),
            Self::Renewal(message) => out.extend([&[4], &message[..]].concat()),
            Self::Renewed(message) => out.extend([&[5], &message[..]].concat()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rampmeter_testing::check_fuzz_seed;

    use super::*;

    /// These frames are the seed of the fuzz target `frames`.
    #[test]
    fn frames_of_the_fuzz_corpus_are_taken_up_to_the_packets() {
        let frames = [
            Frame::Challenge([7; 8]),
            Frame::Padding,
            Frame::Response([8; 8]),
            Frame::Goodbye(Goodbye::NotAuthorized),
            Frame::Goodbye(Goodbye::Stopping),
            Frame::Goodbye(Goodbye::Busy),
            Frame::Renewal([9; 96]),
            Frame::Renewed([10; 48]),
        ];
        let mut bytes = Vec::new();
        for frame in frames {
            frame.encode(&mut bytes);
        }
        bytes.extend([0x13, 0, 1]);
        check_fuzz_seed("frames", "all", &bytes);
        let mut rest = &bytes[..];
        for frame in frames {
            assert_eq!(Frame::take(&mut rest), Some(frame));
        }
        assert_eq!(Frame::take(&mut rest), None);
        assert_eq!(rest, [0x13, 0, 1]);
    }

    #[test]
    fn an_incomplete_frame_is_left() {
        for bytes in [&[][..], &[1, 2, 3], &[3], &[3, 9], &[4; 96], &[5; 48]] {
            let mut rest = bytes;
            assert_eq!(Frame::take(&mut rest), None);
            assert_eq!(rest, bytes);
        }
    }
}
