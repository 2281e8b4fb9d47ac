//! Tests of all messages.

use proptest::prelude::*;
use rampmeter_net::check_name;
use rampmeter_testing::check_fuzz_seed;

use super::*;

fn any_modified() -> impl Strategy<Value = Modified> {
    (any::<i64>(), 0..1_000_000_000u32).prop_map(|(seconds, nanos)| Modified { seconds, nanos })
}

fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        Just(Answer::Busy),
        "[a-z0-9-]{0,20}".prop_map(|controller| Answer::Welcome { controller }),
        (any::<u64>(), any::<u64>(), any_modified()).prop_map(|(a, b, modified)| Answer::Start {
            size: a.max(b),
            modified,
            offset: a.min(b)
        }),
        (1..=MAX_PIECE as u32).prop_map(Answer::Bytes),
        any::<Hash>().prop_map(Answer::End),
        Just(Answer::Abort),
        prop::sample::select(&Refusal::ALL[..]).prop_map(Answer::Refused),
    ]
}

fn any_request() -> impl Strategy<Value = Request> {
    let name = || "[a-zéß/.]{0,40}";
    prop_oneof![
        Just(Request::Heartbeat),
        (name(), 1..u64::MAX, any::<Hash>()).prop_map(|(name, offset, prefix)| Request::Get { name, offset, prefix }),
        name().prop_map(|name| Request::Get { name, offset: 0, prefix: Hash::default() }),
    ]
}

proptest! {
    #[test]
    fn a_greeting_is_parsed_once_it_is_complete(controller in prop::option::of("[a-z0-9-]{1,64}"), extra: Vec<u8>) {
        let greeting = Greeting { controller };
        let mut bytes = greeting.encode();
        let whole = bytes.len();
        for len in 0..whole {
            prop_assert_eq!(Greeting::parse(&bytes[..len]), Ok(None));
        }
        bytes.extend(extra);
        prop_assert_eq!(Greeting::parse(&bytes), Ok(Some((greeting, whole))));
    }

    #[test]
    fn a_request_is_parsed_once_it_is_complete(request in any_request(), extra: Vec<u8>) {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let whole = bytes.len();
        prop_assert!(whole <= MAX_MESSAGE);
        for len in 0..whole {
            prop_assert_eq!(Request::parse(&bytes[..len]), Ok(None));
        }
        bytes.extend(extra);
        prop_assert_eq!(Request::parse(&bytes), Ok(Some((request, whole))));
    }

    #[test]
    fn an_answer_is_parsed_once_it_is_complete(answer in any_answer(), extra: Vec<u8>) {
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        let whole = bytes.len();
        prop_assert!(whole <= MAX_MESSAGE);
        for len in 0..whole {
            prop_assert_eq!(Answer::parse(&bytes[..len]), Ok(None));
        }
        bytes.extend(extra);
        prop_assert_eq!(Answer::parse(&bytes), Ok(Some((answer, whole))));
    }

    #[test]
    fn no_bytes_make_a_parser_panic_or_wait_forever(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        kind in 0..10u8,
    ) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        for is_incomplete in [Request::parse(&bytes) == Ok(None), Answer::parse(&bytes) == Ok(None)] {
            prop_assert!(!is_incomplete || bytes.len() < MAX_MESSAGE, "a message of full length is complete");
        }
        let _ = Greeting::parse(&bytes);
    }

    #[test]
    fn an_accepted_name_stays_below_the_directory(name in "[a-z./]{0,12}") {
        if check_name(&name).is_ok() {
            let path = std::path::Path::new(&name);
            prop_assert!(path.components().all(|c| matches!(c, std::path::Component::Normal(_))));
        }
    }
}

#[test]
fn a_controllers_name_is_short_and_safe_to_print() {
    for name in ["", "a b", "a\nb", "ä", "\x1b[31m", &"x".repeat(65)] {
        assert!(check_controller(name).is_err(), "{name:?}");
        let read = Greeting::parse(&Greeting { controller: Some(name.into()) }.encode());
        assert!(name.is_empty() || read == Err(InvalidMessage), "{name:?}: {read:?}");
    }
    for name in ["pcp", "fair-share", "my_own2", &"x".repeat(64)] {
        assert!(check_controller(name).is_ok(), "{name:?}");
    }
}

#[test]
fn paths_out_of_the_directory_are_refused() {
    for name in
        ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", "a\0b", "a\nb", "a\u{9b}b", &"x".repeat(1025)]
    {
        assert!(check_name(name).is_err(), "{name:?}");
    }
    for name in ["a", "a/b.txt", "..a", "a..", "ein Name"] {
        assert!(check_name(name).is_ok(), "{name:?}");
    }
}

/// Seeds for the fuzz target `files`: all messages, in their present encoding.
#[test]
fn the_fuzz_corpus_has_every_message() {
    let seed = |name: &str, bytes: &[u8]| check_fuzz_seed("files", name, bytes);
    let (modified, hash) = (Modified { seconds: 1_700_000_000, nanos: 5 }, [1; 32]);
    let requests = [
        Request::Heartbeat,
        Request::Get { name: "a/b".into(), offset: 7, prefix: hash },
        Request::Get { name: "a/b".into(), offset: 0, prefix: Hash::default() },
    ];
    let answers = [
        Answer::Busy,
        Answer::Welcome { controller: "pcp".into() },
        Answer::Start { size: 3, modified, offset: 1 },
        Answer::Bytes(3),
        Answer::End(hash),
        Answer::Abort,
        Answer::Refused(Refusal::NoSuchFile),
    ];
    for (name, controller) in [("greeting", None), ("greeting_with_controller", Some("pcp".to_owned()))] {
        let greeting = Greeting { controller };
        let bytes = greeting.encode();
        seed(name, &bytes);
        assert_eq!(Greeting::parse(&bytes), Ok(Some((greeting, bytes.len()))));
    }
    let mut bytes = Vec::new();
    for request in &requests {
        request.encode(&mut bytes);
    }
    seed("requests", &bytes);
    let mut rest = &bytes[..];
    for request in requests {
        let (parsed, len) = Request::parse(rest).unwrap().unwrap();
        assert_eq!(parsed, request);
        rest = &rest[len..];
    }
    assert_eq!(rest, b"");
    bytes.clear();
    for answer in &answers {
        answer.encode(&mut bytes);
    }
    seed("answers", &bytes);
    rest = &bytes[..];
    for answer in answers {
        let (parsed, len) = Answer::parse(rest).unwrap().unwrap();
        assert_eq!(parsed, answer);
        rest = &rest[len..];
    }
    assert_eq!(rest, b"");
}
