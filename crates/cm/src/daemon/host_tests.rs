//! What flows get from the host's manager, in time that the tests make up.
