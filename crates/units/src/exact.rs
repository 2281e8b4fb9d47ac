//! Quantities as whole numbers, for files that programs read back: `#[serde(with = "rampmeter_units::exact")]` on a
//! field writes nanoseconds, bytes or bits per second, and not a text with a unit.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Bytes, Duration, Rate, Time};

/// A quantity that can be written as a whole number.
pub trait Exact: Copy {
    /// The number: `u64`, or an option of it.
    type Number: Serialize + DeserializeOwned;
    /// The number of this quantity.
    fn number(self) -> Self::Number;
    /// The quantity of this number.
    fn of(number: Self::Number) -> Self;
}

macro_rules! exact {
    ($($type:ty: $of:path, $number:path;)*) => {
        $(impl Exact for $type {
            type Number = u64;
            fn number(self) -> u64 {
                $number(self)
            }
            fn of(number: u64) -> Self {
                $of(number)
            }
        })*
    };
}

exact! {
    Time: Time::from_nanos, Time::as_nanos;
    Duration: Duration::from_nanos, Duration::as_nanos;
    Bytes: Bytes::new, Bytes::as_u64;
    Rate: Rate::from_bps, Rate::as_bps;
}

impl<T: Exact> Exact for Option<T> {
    type Number = Option<T::Number>;

    fn number(self) -> Self::Number {
        self.map(T::number)
    }

    fn of(number: Self::Number) -> Self {
        number.map(T::of)
    }
}

/// Writes the number of `quantity`.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
pub fn serialize<T: Exact, S: Serializer>(quantity: &T, serializer: S) -> Result<S::Ok, S::Error> {
    quantity.number().serialize(serializer)
}

/// Reads the number of a quantity.
pub fn deserialize<'de, T: Exact, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::Number::deserialize(deserializer).map(T::of)
}
