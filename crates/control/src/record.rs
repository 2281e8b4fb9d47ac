//! A controller's own values, for traces.

/// The values that a controller calculates with, by name: `max_bandwidth_bps`. A name ends with its unit, as those of
/// columns do: `_bps`, `_bytes`, `_s`, or none.
#[derive(Debug, Clone, Default)]
pub struct Record(Vec<(&'static str, f64)>);

impl Record {
    /// Adds a value.
    pub fn add(&mut self, name: &'static str, value: f64) {
        self.0.push((name, value));
    }

    /// Adds a value, if there is one.
    pub fn add_known(&mut self, name: &'static str, value: Option<f64>) {
        self.0.extend(value.map(|value| (name, value)));
    }

    /// The values, in the order in which they were added.
    pub fn values(&self) -> &[(&'static str, f64)] {
        &self.0
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
