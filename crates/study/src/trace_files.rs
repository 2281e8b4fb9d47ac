//! The files of a run's trace: its qlogs and captures, and its series: a Parquet table for each end of a flow that sends,
//! with a row for each acknowledgement.
//!
//! Events have only the values that changed; a row has all of them. Rows are in memory until that end of the flow has
//! ended: only then are the names of all values known that its controller has.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rampmeter_scenario::{Kind, Value};
use rampmeter_trace::{Capture, Directory, End, FlowEvent, LinkEvent, Metrics, Selection, Sink};
use rampmeter_units::{Bytes, Duration, Rate, Time};

use crate::StudyError;
use crate::tables::Table;

/// The columns that every table has.
const COLUMNS: [(&str, Kind); 7] = [
    ("time_s", Kind::Number),
    ("latest_rtt_s", Kind::Number),
    ("smoothed_rtt_s", Kind::Number),
    ("min_rtt_s", Kind::Number),
    ("in_flight_bytes", Kind::Whole),
    ("window_bytes", Kind::Whole),
    ("rate_bps", Kind::Whole),
];

/// A column. NaN is null: whole numbers below 2^53 are exact.
#[derive(Debug)]
struct Column {
    name: &'static str,
    kind: Kind,
    latest: f64,
    values: Vec<f64>,
}

/// The table of one end of a flow.
#[derive(Debug)]
struct Rows {
    columns: Vec<Column>,
    count: usize,
    /// The number of the interval of the last row.
    interval: Option<u64>,
}

impl Default for Rows {
    fn default() -> Self {
        let column = |(name, kind)| Column { name, kind, latest: f64::NAN, values: Vec::new() };
        Self { columns: COLUMNS.map(column).into(), count: 0, interval: None }
    }
}

impl Rows {
    fn update(&mut self, at: Time, changed: &Metrics) {
        let seconds = |time: Option<Duration>| time.map(Duration::as_secs_f64);
        let whole = |known: Option<u64>| known.map_or(f64::NAN, |known| known as f64);
        let values = [
            Some(at.as_secs_f64()),
            seconds(changed.latest_rtt),
            seconds(changed.smoothed_rtt),
            seconds(changed.min_rtt),
            changed.in_flight.map(|bytes| bytes.as_u64() as f64),
            changed.window.map(|window| whole(Some(window).filter(|&it| it < Bytes::MAX).map(Bytes::as_u64))),
            changed.rate.map(|rate| whole(rate.map(Rate::as_bps))),
        ];
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.latest = value.unwrap_or(column.latest);
        }
        for &(name, value) in &changed.own {
            if let Some(column) = self.columns.iter_mut().find(|column| column.name == name) {
                column.latest = value;
            } else {
                let values = vec![f64::NAN; self.count];
                self.columns.push(Column { name, kind: Kind::Number, latest: value, values });
            }
        }
    }

    fn add(&mut self) {
        self.columns.iter_mut().for_each(|column| column.values.push(column.latest));
        self.count += 1;
    }

    fn write(&self, path: &Path) -> Result<(), StudyError> {
        let columns: Vec<_> = self.columns.iter().map(|column| (column.name.to_owned(), column.kind)).collect();
        let mut table = Table::create(path, &columns)?;
        for row in 0..self.count {
            table.row(self.columns.iter().map(|column| match (column.values[row], column.kind) {
                (value, _) if value.is_nan() => Value::Null,
                (value, Kind::Whole) => Value::Whole(value as i64),
                (value, _) => Value::Number(value),
            }))?;
        }
        table.close()
    }
}

/// The tables of a run.
#[derive(Debug)]
struct Series {
    directory: PathBuf,
    /// The names of the files of each flow; `None`: it is not traced.
    names: Vec<Option<String>>,
    /// At most one row in each of these intervals; zero: a row for each acknowledgement.
    every: Duration,
    ends: BTreeMap<(u32, End), Rows>,
    failure: Option<StudyError>,
}

impl Series {
    fn new(directory: PathBuf, names: Vec<Option<String>>, every: Duration) -> Self {
        Self { directory, names, every, ends: BTreeMap::new(), failure: None }
    }

    fn on_flow(&mut self, at: Time, flow: u32, end: End, event: &FlowEvent<'_>) {
        let FlowEvent::Metrics(metrics) = event else { return };
        if !matches!(self.names.get(flow as usize), Some(Some(_))) {
            return;
        }
        let rows = self.ends.entry((flow, end)).or_default();
        rows.update(at, metrics);
        // Each acknowledgement of packets measures a round trip.
        if metrics.latest_rtt.is_some() {
            let interval = at.as_nanos().checked_div(self.every.as_nanos());
            if interval.is_none() || rows.interval != interval {
                rows.add();
            }
            rows.interval = interval;
        }
    }

    fn on_flow_end(&mut self, flow: u32, end: End) {
        let Some(rows) = self.ends.remove(&(flow, end)).filter(|rows| rows.count > 0) else { return };
        let Some(Some(name)) = self.names.get(flow as usize) else { return };
        let path = self.directory.join(format!("{name}.{}.parquet", end.name()));
        self.failure = self.failure.take().or(rows.write(&path).err());
    }

    /// Writes what has not been written.
    fn finish(&mut self) -> Result<(), StudyError> {
        while let Some(&(flow, end)) = self.ends.keys().next() {
            self.on_flow_end(flow, end);
        }
        self.failure.take().map_or(Ok(()), Err)
    }
}

/// All files of a run.
#[derive(Debug)]
pub(crate) struct TraceFiles {
    directory: Directory,
    series: Option<Series>,
}

impl TraceFiles {
    /// Files in the directory at `path`, which is created; those of `selection` have about `limit` at most, together.
    /// `every`: the interval of the series, if there is one.
    pub(crate) fn new(path: &Path, selection: Selection, limit: Bytes, every: Option<Duration>) -> io::Result<Self> {
        let names = selection.flows.iter().map(|flow| flow.as_ref().map(|(name, _)| name.clone())).collect();
        let series = every.map(|every| Series::new(path.to_owned(), names, every));
        Ok(Self { directory: Directory::new(path, selection, limit)?, series })
    }

    /// Ends all files. Returns when they were cut because the limit was reached.
    pub(crate) fn finish(&mut self) -> Result<Option<Time>, String> {
        let series = self.series.as_mut().map_or(Ok(()), Series::finish);
        let cut = self.directory.finish().map_err(|error| error.to_string())?;
        series.map(|()| cut).map_err(|error| error.to_string())
    }
}

impl Sink for TraceFiles {
    fn on_flow(&mut self, at: Time, flow: u32, end: End, event: &FlowEvent<'_>) {
        self.directory.on_flow(at, flow, end, event);
        // Tables end where the other files are cut.
        if let Some(series) = self.series.as_mut().filter(|_| self.directory.is_open()) {
            series.on_flow(at, flow, end, event);
        }
    }

    fn on_flow_end(&mut self, at: Time, flow: u32, end: End) {
        self.directory.on_flow_end(at, flow, end);
        if let Some(series) = &mut self.series {
            series.on_flow_end(flow, end);
        }
    }

    fn on_link(&mut self, at: Time, link: u32, event: LinkEvent, packet: &dyn Capture) {
        self.directory.on_link(at, link, event, packet);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// Events of which each acknowledges a packet, at these milliseconds; the controller has a value from the third on.
    fn write(every: Duration, times: &[u64]) -> (tempfile::TempDir, SerializedFileReader<File>) {
        let directory = tempfile::tempdir().unwrap();
        let mut series = Series::new(directory.path().to_owned(), vec![Some("0-it".into()), None], every);
        let first = Metrics { window: Some(Bytes::new(3000)), rate: Some(None), ..Metrics::default() };
        series.on_flow(at(0), 0, End::Client, &FlowEvent::Metrics(&first));
        for (n, &ms) in times.iter().enumerate() {
            let latest_rtt = Some(Duration::from_millis(ms));
            let own = if n == 2 { vec![("delta", 0.5)] } else { Vec::new() };
            let acknowledged = Metrics { latest_rtt, own, ..Metrics::default() };
            series.on_flow(at(ms), 0, End::Client, &FlowEvent::Metrics(&acknowledged));
            series.on_flow(at(ms), 1, End::Client, &FlowEvent::Metrics(&acknowledged));
        }
        series.finish().unwrap();
        let reader = SerializedFileReader::new(File::open(directory.path().join("0-it.client.parquet")).unwrap());
        (directory, reader.unwrap())
    }

    #[test]
    fn a_table_that_cannot_be_written_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let columns = [("time_s".to_owned(), Kind::Number)];
        let mut table = Table::create(&directory.path().join("x.parquet"), &columns).unwrap();
        table.row([Value::Number(1.0)].into_iter()).unwrap();
        drop(table);
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_row_has_all_values_of_its_acknowledgement() {
        let (directory, reader) = write(Duration::ZERO, &[10, 20, 30, 40]);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "one flow is traced");
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[3].get_column_iter().map(|(name, _)| name.as_str()).last(), Some("delta"));
        for (row, ms) in rows.iter().zip([0.01, 0.02, 0.03, 0.04]) {
            assert_eq!((row.get_double(0).unwrap(), row.get_double(1).unwrap()), (ms, ms));
            assert_eq!(row.get_long(5).unwrap(), 3000);
            assert!(row.get_long(6).is_err(), "no rate");
        }
        assert!(rows[1].get_double(7).is_err(), "before the controller had the value");
        assert_eq!((rows[2].get_double(7).unwrap(), rows[3].get_double(7).unwrap()), (0.5, 0.5));
    }

    #[test]
    fn an_interval_has_the_row_of_its_first_acknowledgement() {
        let (_directory, reader) = write(Duration::from_millis(10), &[10, 11, 19, 20, 45, 49]);
        let rows = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().get_double(0).unwrap());
        assert_eq!(rows.collect::<Vec<_>>(), [0.01, 0.02, 0.045]);
    }
}
