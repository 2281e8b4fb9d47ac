//! A scenario with the files that it names, to run its points on another machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A scenario's file and the files that it names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Portable {
    /// The name of the scenario's file.
    pub file: String,
    /// Its text.
    pub text: String,
    /// The contents of the files that it names.
    pub beside: BTreeMap<String, String>,
}
