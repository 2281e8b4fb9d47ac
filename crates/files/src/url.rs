//! Addresses of files, `rampmeter://HOST:PORT/NAME?key=KEY`. The scheme and the key may be omitted, and with the scheme
//! the port.

use rampmeter_net::{ContactError, ServerAddress, check_name};

use super::DEFAULT_PORT;

/// How the address of a file is written.
const FORM: &str = "HOST:PORT/NAME or HOST:PORT/NAME?key=KEY, for example 127.0.0.1:7267/data.bin";

/// The address of a file.
#[derive(Debug)]
pub(crate) struct Url {
    pub(crate) server: ServerAddress,
    pub(crate) name: String,
}

impl Url {
    /// Reads the text.
    pub(crate) fn read(url: &str) -> Result<Self, ContactError> {
        let (server, name) = ServerAddress::read_with_rest(url, FORM, DEFAULT_PORT)?;
        let name = name.ok_or_else(|| Self::bad(url, "it has no `/` before the file's name"))?;
        if name.is_empty() || name.ends_with('/') {
            return Err(Self::bad(
                url,
                "it is a directory's: write a file's; rsync through a tunnel copies directories",
            ));
        }
        check_name(name).map_err(|reason| Self::bad(url, &format!("the name is wrong: {reason}")))?;
        Ok(Self { server, name: name.to_owned() })
    }

    /// The error of an address that has this problem.
    pub(crate) fn bad(url: &str, problem: &str) -> ContactError {
        ContactError::BadAddress { text: url.to_owned(), problem: problem.to_owned(), form: FORM }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_url_is_refused_with_the_right_form() {
        for url in [
            "",
            "host",
            "host/name",
            "127.0.0.1:1/",
            "127.0.0.1:1/a/",
            ":1/x",
            "127.0.0.1:/x",
            "127.0.0.1:0/x",
            "127.0.0.1:70000/x",
            "h:1/../x",
            "h:1/..",
            "h:1/a//",
            "h:1///",
            "h:1//etc/passwd",
            "127.0.0.1:1/x?key=short",
        ] {
            let error = Url::read(url).unwrap_err();
            assert!(matches!(error, ContactError::BadAddress { .. }), "{url}: {error}");
            assert!(error.to_string().contains("HOST:PORT/NAME") && error.is_usage());
        }
        let url = Url::read("[::1]:7/a/b").unwrap();
        assert_eq!((url.server.text.as_str(), url.name.as_str(), url.server.key), ("[::1]:7", "a/b", None));
        let url = Url::read("rampmeter://[::1]/a").unwrap();
        assert_eq!((url.server.text.as_str(), url.name.as_str()), ("[::1]:7267", "a"));
        let key = "A".repeat(43);
        let url = Url::read(&format!("rampmeter://[::1]:7/a?b?key={key}")).unwrap();
        assert_eq!((url.name.as_str(), url.server.key.map(|key| key.to_string())), ("a?b", Some(key)));
    }
}
