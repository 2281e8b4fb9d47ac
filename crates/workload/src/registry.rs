//! The workloads by name, and one type that holds any application without dynamic dispatch.

use delegate::delegate;
use rampmeter_units::{Bytes, Random, RegistryError, Time, settings};

use crate::{Application, Carrier, End, Event, Path, Reply, Report, Workload};

/// The kind of this registry, for messages.
const KIND: &str = "workload";

/// Generates the enums, the lists of names and the dispatch from one list with one line for each workload.
macro_rules! workloads {
    (
        keys { $($key_variant:ident($key_place:ty): $key_module:ident, $key_name:literal, $key_about:literal;)* }
        tables { $($table_variant:ident($table_place:ty): $table_module:ident, $table_name:literal, $table_about:literal;)* }
    ) => {
        /// The workloads that scenario files choose by a table of their name.
        pub const TABLES: &[&str] = &[$($table_name),*];

        workloads! { @all
            $($key_variant($key_place): $key_module, $key_name, $key_about;)*
            $($table_variant($table_place): $table_module, $table_name, $table_about;)*
        }
    };
    (@all $($variant:ident($place:ty): $module:ident, $name:literal, $about:literal;)*) => {
        /// Any application. Large ones are boxed: most flows have a small one, and there may be a million flows.
        #[derive(Debug)]
        pub enum AnyApplication {
            $(#[doc = $about] $variant($place),)*
        }

        /// The settings of any workload, read and checked; creates an application for each flow.
        #[derive(Debug, Clone, PartialEq)]
        pub enum AnyWorkload {
            $(#[doc = $about] $variant(crate::$module::Config),)*
        }

        /// The name of every workload with a one-line description.
        pub const NAMES: &[(&str, &str)] = &[$(($name, $about)),*];

        impl AnyWorkload {
            /// Reads and checks the settings of the workload called `name`.
            pub fn read(name: &str, table: &toml::Table) -> Result<Self, RegistryError> {
                let workload = match name {
                    $($name => settings::checked(table).map(Self::$variant),)*
                    _ => return Err(RegistryError::unknown(KIND, name, NAMES.iter().map(|(name, _)| *name))),
                };
                workload.map_err(|reason| RegistryError::settings(KIND, name, reason))
            }

            /// An application for a flow that transfers `size`, if that is known, with the flow's random stream.
            pub fn make(&self, size: Option<Bytes>, random: Random) -> AnyApplication {
                match self {
                    $(Self::$variant(config) => {
                        let application: crate::$module::$variant = Workload::new(config, size, random);
                        AnyApplication::$variant(application.into())
                    })*
                }
            }

            /// The mean size of its transfers, if it draws their sizes ([`Workload::mean_transfer`]).
            pub fn mean_transfer(&self) -> Option<Bytes> {
                match self {
                    $(Self::$variant(config) => <crate::$module::$variant as Workload>::mean_transfer(config),)*
                }
            }

            /// The size of the transfer of the flow with this random stream ([`Workload::draw_transfer`]).
            pub fn draw_transfer(&self, random: Random) -> Option<Bytes> {
                match self {
                    $(Self::$variant(config) => <crate::$module::$variant as Workload>::draw_transfer(config, random),)*
                }
            }

            /// How its flows carry their data.
            pub fn carrier(&self) -> Carrier {
                match self {
                    $(Self::$variant(config) => <crate::$module::$variant as Workload>::carrier(config),)*
                }
            }

            /// Whether it uses its share of the path ([`Workload::USES_SHARE`]).
            pub fn uses_share(&self) -> bool {
                match self {
                    $(Self::$variant(_) => <crate::$module::$variant as Workload>::USES_SHARE,)*
                }
            }

            /// Its use of the sender's Congestion Manager ([`Workload::NEEDS_MANAGER`]).
            pub fn needs_manager(&self) -> Option<&'static str> {
                match self {
                    $(Self::$variant(_) => <crate::$module::$variant as Workload>::NEEDS_MANAGER,)*
                }
            }
        }

        impl Application for AnyApplication {
            delegate! {
                to match self { $(Self::$variant(application) => application,)* } {
                    fn on_start(&mut self, now: Time, path: Path) -> Reply;
                    fn on_event(&mut self, now: Time, end: End, event: &Event) -> Reply;
                    fn deadline(&self, end: End) -> Time;
                    fn on_deadline(&mut self, now: Time, end: End) -> Reply;
                    fn on_stop(&mut self, now: Time);
                    fn report(&mut self, now: Time) -> Report;
                }
            }
        }
    };
}

workloads! {
    // Scenario files choose these by `size`, `datagrams` and `encodings`.
    keys {
        Bulk(crate::bulk::Bulk): bulk, "bulk", "Always has more to send";
        Transfer(crate::transfer::Transfer): transfer, "transfer", "Sends the response to one request";
        Representations(Box<crate::representations::Representations>): representations, "representations", "Sends the largest representation that arrives in time (SIGCOMM 1999, section 3.2.1)";
        Datagrams(crate::datagrams::Datagrams): datagrams, "datagrams", "Sends datagrams as fast as the controller permits";
        LayeredAudio(Box<crate::audio::LayeredAudio>): audio, "audio", "Sends the highest encoding that its share can carry (SIGCOMM 1999, section 3.2.2)";
    }
    // And these by a table of their name: video = { ladder = [...] }.
    tables {
        Video(Box<crate::video::Video>): video, "video", "Plays segments of a bitrate ladder, chosen by its buffer: BBA-0 (SIGCOMM 2014)";
        Media(Box<crate::media::Media>): media, "media", "Sends frames at a constant rate, each with a deadline";
        Web(Box<crate::web::Web>): web, "web", "Loads a page: a document, the objects that it names, and so on (Web Almanac 2024)";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused_with_the_remedy() {
        let table = |text: &str| text.parse::<toml::Table>().unwrap();
        for (name, text, words) in [
            ("transfr", "", "`transfer`"),
            ("datagrams", "datagrams = '9 MB'", "use 8 to 9000 bytes"),
            ("audio", "datagrams = '1 kB'\nencodings = ['20 kb/s', '10 kb/s']", "from the lowest to the highest"),
            ("representations", "representations = []\nwithin = '1 s'", "from the smallest to the largest"),
        ] {
            let error = AnyWorkload::read(name, &table(text)).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn the_usual_applications_are_small() {
        assert!(size_of::<AnyApplication>() <= 16);
    }
}
